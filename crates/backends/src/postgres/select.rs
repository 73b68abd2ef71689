//! Conversion of a filter to a statement. Values are literals in the text, so that a statement can be an argument of
//! `cachalot_erase`, and part of another one.
//!
//! Records are found by one index, whatever the planner knows about a space: the keys that have a label are selected
//! first, from the index of labels, and each key is then looked up.

use cachalot_store::implementation::leading_label;
use cachalot_store::{LabelMatch, Order, PageRequest, RecordFilter, ValuePart};

use super::name::{self, BEGINNING, LONGEST_INDEXED};

/// The space of a record in the indexes other than the primary key, see `layout_2.sql`.
const INDEXED_SPACE: &str = "space || ''::bytea";

/// The whole key of a record.
const WHOLE_KEY: &str = "coalesce(r.long_key, r.key)";

/// Returns a text as a literal of type `bytea`.
fn literal(text: impl AsRef<[u8]>) -> String {
    format!("decode('{}','hex')", hex::encode(text))
}

/// Returns the condition that `column`, which has indexed forms of names, comes after that of `after`, and is the one
/// of a name that begins with `prefix`; if the prefix is long, also of others, see [`begins_with`].
fn is_in_range(column: &str, prefix: &str, after: Option<&str>) -> String {
    let mut condition = String::new();
    let prefix = name::indexed_prefix(prefix);
    if let Some((last, others)) = prefix.split_last() {
        // No byte of a text is the last one.
        let end = [others, &[last + 1]].concat();
        condition = format!(
            " AND {column} >= {} AND {column} < {}",
            literal(prefix),
            literal(end)
        );
    }
    if let Some(after) = after {
        condition += &format!(" AND {column} > {}", literal(name::indexed(after)));
    }
    condition
}

/// Returns the condition that a whole name begins with a prefix, if [`is_in_range`] is not enough.
fn begins_with(whole: &str, prefix: &str) -> String {
    if prefix.len() > BEGINNING {
        format!(" AND {}", is_beginning(whole, prefix))
    } else {
        String::new()
    }
}

fn is_beginning(whole: &str, prefix: &str) -> String {
    let length = prefix.len();
    format!("substring({whole} FOR {length}) = {}", literal(prefix))
}

/// Returns the condition that the columns `name` and `value` of a table, which have whole texts, are a label that
/// matches.
fn is_label(table: &str, label: &LabelMatch<'_>) -> String {
    let (name, _) = label.range();
    let value = match *label {
        LabelMatch::Is { value, .. } => format!("{table}.value = {}", literal(value)),
        LabelMatch::Starts { prefix, .. } => is_beginning(&format!("{table}.value"), prefix),
        LabelMatch::Glob { pattern, .. } => {
            format!("{table}.value LIKE {}", literal(like(pattern)))
        }
    };
    format!("{table}.name = {} AND {value}", literal(name))
}

/// Returns the condition that a row of `cachalot_labels` is a label that matches. The label of the record decides where
/// indexed forms are not enough.
fn is_indexed_label(table: &str, space: &str, label: &LabelMatch<'_>) -> String {
    let (name, prefix) = label.range();
    let column = format!("{table}.value");
    // Looked up for each row: a subquery with an offset is never joined.
    let of_record = format!(
        "EXISTS (SELECT 1 FROM cachalot_records w, unnest(w.label_names, w.label_values) u(name, value) \
         WHERE w.space = {space} AND w.key = {table}.key AND {} OFFSET 0)",
        is_label("u", label)
    );
    let range = match *label {
        LabelMatch::Is { value, .. } => {
            format!(" AND {column} = {}", literal(name::indexed(value)))
        }
        LabelMatch::Starts { .. } | LabelMatch::Glob { .. } => is_in_range(&column, prefix, None),
    };
    let is_short = |text: &str| text.len() <= LONGEST_INDEXED;
    let remainder = match *label {
        _ if !is_short(name) => format!(" AND {of_record}"),
        LabelMatch::Is { value, .. } if is_short(value) => String::new(),
        LabelMatch::Starts { .. } if prefix.len() <= BEGINNING => String::new(),
        LabelMatch::Is { .. } | LabelMatch::Starts { .. } => format!(" AND {of_record}"),
        LabelMatch::Glob { pattern, .. } => format!(
            " AND CASE WHEN substring({column} FROM {} FOR 1) = {} THEN {of_record} ELSE {column} LIKE {} END",
            BEGINNING + 1,
            literal([name::SEPARATOR]),
            literal(like(pattern))
        ),
    };
    let name = literal(name::indexed(name));
    format!("{table}.name = {name}{range}{remainder}")
}

/// Converts a glob pattern to one of `LIKE`.
fn like(pattern: &str) -> String {
    let mut like = String::with_capacity(pattern.len() + 8);
    for character in pattern.chars() {
        match character {
            '*' => like.push('%'),
            '\\' | '%' | '_' => like.extend(['\\', character]),
            other => like.push(other),
        }
    }
    like
}

/// Returns the columns of records, with the requested part of their values.
fn columns(values: ValuePart) -> String {
    let value = match values {
        ValuePart::None => "''::bytea".to_owned(),
        ValuePart::First(_) | ValuePart::All => {
            format!("substring(r.value FOR {})", value_bytes(values))
        }
    };
    format!(
        "{WHOLE_KEY} AS key, {value} AS value, r.label_names, r.label_values, r.expires, r.revision, r.updated, \
         length(r.value)::bigint AS size"
    )
}

/// Returns the number of bytes to read of each value.
pub(super) fn value_bytes(values: ValuePart) -> i32 {
    match values {
        ValuePart::None => 0,
        ValuePart::First(bytes) => i32::try_from(bytes).unwrap_or(i32::MAX),
        ValuePart::All => i32::MAX,
    }
}

/// Returns the statement that selects the keys of the records with all labels; `rest` are its last clauses. A key may be
/// repeated if `is_repeated`.
fn labelled_keys(
    space: &str,
    labels: &[LabelMatch<'_>],
    range: impl Fn(&str) -> String,
    is_repeated: bool,
    rest: &str,
) -> String {
    let space = literal(name::indexed(space));
    let is_exact = |label: &LabelMatch<'_>| matches!(label, LabelMatch::Is { .. });
    let first = leading_label(labels).unwrap_or(0);
    let mut keys = format!(
        "SELECT l.key FROM cachalot_labels l WHERE l.space = {space} AND {}{}",
        is_indexed_label("l", &space, &labels[first]),
        range("l.key")
    );
    for (_, label) in labels.iter().enumerate().filter(|(at, _)| *at != first) {
        let space_column = if is_exact(label) {
            "m.space"
        } else {
            "m.space || ''::bytea"
        };
        keys += &format!(
            " AND EXISTS (SELECT 1 FROM cachalot_labels m WHERE {space_column} = {space} AND m.key = l.key AND {})",
            is_indexed_label("m", &space, label)
        );
    }
    if !is_exact(&labels[first]) && !is_repeated {
        keys += " GROUP BY l.key";
    }
    keys + rest
}

/// Returns the statement that selects columns of the records that match.
fn statement(
    columns: &str,
    space: &str,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> String {
    let range = |column: &str| is_in_range(column, filter.prefix, page.after);
    let limit = format!(" LIMIT {}", page.limit);
    let space_literal = literal(name::indexed(space));
    // Any order is that of an index: without one, the planner may read tables from their beginnings, where the rows are
    // that were erased before.
    let order = match (filter.order, filter.expired_before) {
        (Order::Any, None) if filter.labels.is_empty() => Order::Key,
        (Order::Any, Some(_)) if filter.labels.is_empty() => Order::Expiry,
        (order, _) => order,
    };
    let in_key_order = order == Order::Key;
    let key_remainder = begins_with(WHOLE_KEY, filter.prefix);
    let mut text = if filter.labels.is_empty() {
        let space_column = if in_key_order {
            "r.space".to_owned()
        } else {
            format!("r.{INDEXED_SPACE}")
        };
        format!(
            "SELECT {columns} FROM cachalot_records r WHERE {space_column} = {space_literal}{}",
            range("r.key")
        )
    } else {
        let is_complete = filter.expired_before.is_none() && key_remainder.is_empty();
        let rest = match filter.order {
            Order::Key if is_complete => format!(" ORDER BY l.key{limit}"),
            Order::Any if is_complete => format!(" ORDER BY l.value, l.key{limit}"),
            _ => String::new(),
        };
        format!(
            "WITH k AS MATERIALIZED ({}) SELECT {columns} FROM k CROSS JOIN LATERAL (SELECT * FROM cachalot_records r \
             WHERE r.space = {space_literal} AND r.key = k.key LIMIT 1) r WHERE true",
            labelled_keys(
                space,
                filter.labels,
                range,
                filter.order == Order::Any,
                &rest
            )
        )
    };
    text += &key_remainder;
    if let Some(moment) = filter.expired_before {
        text += &format!(" AND r.expires < {moment}");
    }
    text += match order {
        Order::Key => " ORDER BY r.key",
        Order::Newest => " ORDER BY r.id DESC",
        Order::LeastRecentlyUsed => " ORDER BY r.used, r.id",
        // Nulls, which never expire, come last.
        Order::Expiry => " ORDER BY r.expires, r.id",
        Order::Any => "",
    };
    text + &limit
}

/// Returns the statement that selects the records that match.
pub(super) fn records(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> String {
    let order = match filter.order {
        // Keys are not repeated in this order.
        Order::Any => Order::Key,
        order => order,
    };
    let filter = RecordFilter { order, ..*filter };
    statement(&columns(page.values), space, &filter, page)
}

/// Returns the statement that selects the indexed forms of the keys of the records that match, and the numbers of the
/// writes that stored them. A key may be repeated in [`Order::Any`].
pub(super) fn keys(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> String {
    statement("r.key, r.id", space, filter, page)
}

/// Returns the statement that selects the indexed forms of the keys of the current leases that match. Leases have no
/// whole keys: if the prefix is long, they are also those with the same beginning.
pub(super) fn leases(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> String {
    let mut text = format!(
        "SELECT key FROM cachalot_leases WHERE is_current AND space = {}{}",
        literal(name::indexed(space)),
        is_in_range("key", filter.prefix, page.after)
    );
    for label in filter.labels {
        text += &format!(
            " AND EXISTS (SELECT 1 FROM unnest(label_names, label_values) l(name, value) WHERE {})",
            is_label("l", label)
        );
    }
    text
}

pub(super) fn counters(space: &str, prefix: &str, after: Option<&str>, limit: u32) -> String {
    const WHOLE: &str = "coalesce(c.long_name, c.name)";
    format!(
        "SELECT {WHOLE} AS name, c.value FROM cachalot_counters c WHERE c.space = {} AND c.value > 0{}{} ORDER BY c.name LIMIT {limit}",
        literal(name::indexed(space)),
        is_in_range("c.name", prefix, after),
        begins_with(WHOLE, prefix)
    )
}

/// Returns the statement that selects the records whose words match `query`, a `tsquery`.
pub(super) fn search(space: &str, query: &str, labels: &[LabelMatch<'_>], limit: u32) -> String {
    let query = format!("convert_from({},'UTF8')::tsquery", literal(query));
    let mut text = format!(
        "SELECT {}, ts_rank(r.words, {query}, 2) AS score FROM cachalot_records r \
         WHERE r.space = {} AND r.words @@ {query}",
        columns(ValuePart::All),
        literal(name::indexed(space))
    );
    if !labels.is_empty() {
        let keys = labelled_keys(space, labels, |_| String::new(), false, "");
        text += &format!(" AND r.key IN ({keys})");
    }
    text + &format!(" ORDER BY score DESC, r.key LIMIT {limit}")
}

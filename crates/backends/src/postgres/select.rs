//! Conversion of a filter to a statement. Values are literals in the text, so that a statement can be an argument of
//! `cachalot_erase`, and part of another one.
//!
//! Records are found by one index, whatever the planner knows about a space: the keys that have a label are selected
//! first, from the index of labels, and each key is then looked up.

use cachalot_store::implementation::after_prefix;
use cachalot_store::{LabelMatch, Order, PageRequest, RecordFilter, ValuePart};

/// The space of a record in the indexes other than the primary key, see `layout_2.sql`.
const INDEXED_SPACE: &str = "space || ''::bytea";

/// Returns a text as a literal of type `bytea`.
fn literal(text: &str) -> String {
    format!("decode('{}','hex')", hex::encode(text))
}

/// Returns the condition that `column` begins with `prefix` and comes after `after`.
fn is_in_range(column: &str, prefix: &str, after: Option<&str>) -> String {
    let mut condition = String::new();
    if !prefix.is_empty() {
        condition = format!(" AND {column} >= {}", literal(prefix));
        if let Some(end) = after_prefix(prefix) {
            condition += &format!(" AND {column} < {}", literal(&end));
        }
    }
    if let Some(after) = after {
        condition += &format!(" AND {column} > {}", literal(after));
    }
    condition
}

/// Returns the condition that the columns `name` and `value` of a table are a label that matches.
fn is_label(table: &str, label: &LabelMatch<'_>) -> String {
    let (name, prefix) = label.range();
    let column = format!("{table}.value");
    let name = format!("{table}.name = {}", literal(name));
    match *label {
        LabelMatch::Is { value, .. } => format!("{name} AND {column} = {}", literal(value)),
        LabelMatch::Starts { .. } => name + &is_in_range(&column, prefix, None),
        LabelMatch::Glob { pattern, .. } => {
            let range = is_in_range(&column, prefix, None);
            format!(
                "{name}{range} AND {column} LIKE {}",
                literal(&like(pattern))
            )
        }
    }
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
        "r.key, {value} AS value, r.label_names, r.label_values, r.expires, r.revision, r.updated, \
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

/// Returns the statement that selects the keys of the records with all labels; `rest` are its last clauses.
fn labelled_keys(
    space: &str,
    labels: &[LabelMatch<'_>],
    range: impl Fn(&str) -> String,
    rest: &str,
) -> String {
    let space = literal(space);
    let is_exact = |label: &LabelMatch<'_>| matches!(label, LabelMatch::Is { .. });
    let first = labels.iter().position(is_exact).unwrap_or(0);
    let mut keys = format!(
        "SELECT l.key FROM cachalot_labels l WHERE l.space = {space} AND {}{}",
        is_label("l", &labels[first]),
        range("l.key")
    );
    for (_, label) in labels.iter().enumerate().filter(|(at, _)| *at != first) {
        let space_column = match is_exact(label) {
            true => "m.space",
            false => "m.space || ''::bytea",
        };
        keys += &format!(
            " AND EXISTS (SELECT 1 FROM cachalot_labels m WHERE {space_column} = {space} AND m.key = l.key AND {})",
            is_label("m", label)
        );
    }
    if !is_exact(&labels[first]) {
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
    let space_literal = literal(space);
    let in_key_order = filter.order == Order::Key;
    let mut text = if filter.labels.is_empty() {
        let space_column = match in_key_order {
            true => "r.space".to_owned(),
            false => format!("r.{INDEXED_SPACE}"),
        };
        format!(
            "SELECT {columns} FROM cachalot_records r WHERE {space_column} = {space_literal}{}",
            range("r.key")
        )
    } else {
        let rest = match in_key_order && filter.expired_before.is_none() {
            true => format!(" ORDER BY l.key{limit}"),
            false => String::new(),
        };
        format!(
            "WITH k AS MATERIALIZED ({}) SELECT {columns} FROM k CROSS JOIN LATERAL (SELECT * FROM cachalot_records r \
             WHERE r.space = {space_literal} AND r.key = k.key LIMIT 1) r WHERE true",
            labelled_keys(space, filter.labels, range, &rest)
        )
    };
    if let Some(moment) = filter.expired_before {
        text += &format!(" AND r.expires < {moment}");
    }
    text += match filter.order {
        Order::Key => " ORDER BY r.key",
        Order::Newest => " ORDER BY r.id DESC",
        Order::LeastRecentlyUsed => " ORDER BY r.used, r.id",
        // Nulls, which never expire, come last.
        Order::Expiry => " ORDER BY r.expires, r.id",
    };
    text + &limit
}

/// Returns the statement that selects the records that match.
pub(super) fn records(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> String {
    statement(&columns(page.values), space, filter, page)
}

/// Returns the statement that selects the keys of the records that match.
pub(super) fn keys(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> String {
    statement("r.key", space, filter, page)
}

/// Returns the statement that selects the keys of the current leases that match.
pub(super) fn leases(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> String {
    let mut text = format!(
        "SELECT key FROM cachalot_leases WHERE is_current AND space = {}{}",
        literal(space),
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
    format!(
        "SELECT name, value FROM cachalot_counters WHERE space = {}{} ORDER BY name LIMIT {limit}",
        literal(space),
        is_in_range("name", prefix, after)
    )
}

/// Returns the statement that selects the records whose words match `query`, a `tsquery`.
pub(super) fn search(space: &str, query: &str, labels: &[LabelMatch<'_>], limit: u32) -> String {
    let query = format!("convert_from({},'UTF8')::tsquery", literal(query));
    let mut text = format!(
        "SELECT {}, ts_rank(r.words, {query}, 2) AS score FROM cachalot_records r \
         WHERE r.space = {} AND r.words @@ {query}",
        columns(ValuePart::All),
        literal(space)
    );
    if !labels.is_empty() {
        let keys = labelled_keys(space, labels, |_| String::new(), "");
        text += &format!(" AND r.key IN ({keys})");
    }
    text + &format!(" ORDER BY score DESC, r.key LIMIT {limit}")
}

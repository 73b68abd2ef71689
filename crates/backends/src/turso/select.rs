//! Conversion of a filter to a statement.

use cachalot_store::implementation::after_prefix;
use cachalot_store::{LabelMatch, Order, PageRequest, RecordFilter, ValuePart};

use super::statement::Statement;

/// Maximum size of the values of one result, in bytes, unless it has one record. A server returns 10 MB at most by default.
const LARGEST_PAGE: u64 = 6 << 20;

/// Appends the condition that `column` begins with `prefix` and comes after `after`.
pub(super) fn and_in_range(
    mut statement: Statement,
    column: &str,
    prefix: &str,
    after: Option<&str>,
) -> Statement {
    if !prefix.is_empty() {
        statement = statement.and(&format!(" AND {column} >= ?"), &[prefix]);
        if let Some(end) = after_prefix(prefix) {
            statement = statement.and(&format!(" AND {column} < ?"), &[&end]);
        }
    }
    match after {
        Some(after) => statement.and(&format!(" AND {column} > ?"), &[after]),
        None => statement,
    }
}

/// Appends the condition that the expressions `name` and `value` are a label that matches.
fn and_label(statement: Statement, name: &str, value: &str, label: &LabelMatch<'_>) -> Statement {
    let (label_name, prefix) = label.range();
    let statement = statement.and(&format!(" AND {name} = ?"), &[label_name]);
    match *label {
        LabelMatch::Is { value: text, .. } => statement.and(&format!(" AND {value} = ?"), &[text]),
        LabelMatch::Starts { .. } => and_in_range(statement, value, prefix, None),
        LabelMatch::Glob { pattern, .. } => {
            let statement = and_in_range(statement, value, prefix, None);
            statement.and(&format!(" AND {value} GLOB ?"), &[&glob(pattern)])
        }
    }
}

/// Converts a pattern, in which only `*` has a meaning, to one of `GLOB`.
fn glob(pattern: &str) -> String {
    pattern.replace('[', "[[]").replace('?', "[?]")
}

/// Appends the conditions that a record, whose key is the expression `key`, has labels.
pub(super) fn and_labels(
    mut statement: Statement,
    space: &str,
    key: &str,
    labels: &[LabelMatch<'_>],
) -> Statement {
    for label in labels {
        let exists = format!(
            " AND EXISTS (SELECT 1 FROM cachalot_labels m WHERE m.space = ? AND m.key = {key}"
        );
        statement = statement.and(&exists, &[space]);
        statement = and_label(statement, "m.name", "m.value", label).and(")", &[]);
    }
    statement
}

/// Appends the conditions that a lease has labels.
pub(super) fn and_lease_labels(mut statement: Statement, labels: &[LabelMatch<'_>]) -> Statement {
    for label in labels {
        statement = statement.and(
            " AND EXISTS (SELECT 1 FROM json_each(labels) j WHERE 1",
            &[],
        );
        let (name, value) = (
            "CAST(unhex(j.value->>0) AS TEXT)",
            "CAST(unhex(j.value->>1) AS TEXT)",
        );
        statement = and_label(statement, name, value, label).and(")", &[]);
    }
    statement
}

/// Returns the expression of the requested part of a value.
fn value(part: ValuePart) -> String {
    match part {
        ValuePart::None => "x''".to_owned(),
        ValuePart::First(bytes) => format!("ifnull(substr(r.value, 1, {bytes}), x'')"),
        ValuePart::All => "r.value".to_owned(),
    }
}

/// True if a page with this size of its values may have ended before its limit.
pub(super) fn is_cut(size: u64, largest_value: u64) -> bool {
    size + largest_value > LARGEST_PAGE
}

/// The treatment of records with which a result has more than [`LARGEST_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    /// They are left out.
    Omitted,
    /// Their values are null.
    WithoutValue,
    /// The server refuses to return them.
    Refused,
}

/// The columns of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    Ids,
    /// Those that [`super::record::record_page`] reads.
    Records,
}

/// Returns the columns `id` and `part`, the size of the requested part of the value.
fn sizes(values: ValuePart) -> String {
    let part = match values {
        ValuePart::None => "0".to_owned(),
        ValuePart::First(bytes) => format!("min(length(r.value), {bytes})"),
        ValuePart::All => "length(r.value)".to_owned(),
    };
    format!("r.id AS id, {part} AS part")
}

/// Limits the result of a statement, which has the columns [`sizes`].
fn limited(statement: Statement, columns: Columns, values: ValuePart, excess: Excess) -> Statement {
    let fits = format!("(p.place = 1 OR p.total <= {LARGEST_PAGE})");
    let mut value = value(values);
    if excess == Excess::WithoutValue {
        value = format!("CASE WHEN {fits} THEN {value} END");
    }
    let columns = match columns {
        Columns::Ids => "r.id".to_owned(),
        Columns::Records => {
            format!("r.key, r.revision, r.updated, r.expires, r.labels, {value}, length(r.value)")
        }
    };
    let condition = match excess {
        Excess::Omitted => &fits,
        Excess::WithoutValue | Excess::Refused => "1",
    };
    statement.inside(
        &format!(
            "SELECT {columns} FROM (SELECT id, row_number() OVER () AS place, \
             sum(part) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total FROM ("
        ),
        &format!(")) p JOIN cachalot_records r ON r.id = p.id WHERE {condition} ORDER BY p.place"),
    )
}

/// Returns the statement that selects the first of the records under some keys, in their order.
pub(super) fn first_of(space: &str, keys: &[String], values: ValuePart) -> Statement {
    let keys: Vec<_> = keys.iter().map(hex::encode).collect();
    let select = Statement::new(format!(
        "SELECT {} FROM json_each(?) j CROSS JOIN cachalot_records r \
         ON r.space = ? AND r.key = CAST(unhex(j.value) AS TEXT) ORDER BY j.key",
        sizes(values)
    ));
    let select = select
        .text(&format!("[\"{}\"]", keys.join("\",\"")))
        .text(space);
    limited(select, Columns::Records, values, Excess::Omitted)
}

/// Returns the statement that selects a page.
pub(super) fn page(
    space: &str,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
    columns: Columns,
    excess: Excess,
) -> Statement {
    let sizes = sizes(page.values);
    let is_exact = |label: &LabelMatch<'_>| matches!(label, LabelMatch::Is { .. });
    let first = filter.labels.iter().position(is_exact);
    let first = first.or((!filter.labels.is_empty()).then_some(0));
    let mut statement = match first {
        None => {
            let index = match filter.order {
                _ if filter.expired_before.is_some() => "INDEXED BY cachalot_records_expires",
                Order::Key | Order::Any => "INDEXED BY cachalot_records_key",
                Order::LeastRecentlyUsed => "INDEXED BY cachalot_records_used",
                Order::Expiry | Order::Newest => "",
            };
            let select =
                format!("SELECT {sizes} FROM cachalot_records r {index} WHERE r.space = ?");
            Statement::new(select).text(space)
        }
        Some(first) => {
            let labels = Statement::new(format!(
                "SELECT {sizes} FROM (SELECT DISTINCT key FROM cachalot_labels WHERE space = ?"
            ));
            let labels = and_label(labels.text(space), "name", "value", &filter.labels[first]);
            and_in_range(labels, "key", filter.prefix, page.after).and(
                ") l CROSS JOIN cachalot_records r ON r.space = ? AND r.key = l.key WHERE 1",
                &[space],
            )
        }
    };
    statement = and_in_range(statement, "r.key", filter.prefix, page.after);
    let others = filter.labels.iter().enumerate();
    let others = others.filter(|(at, _)| Some(*at) != first);
    let others: Vec<_> = others.map(|(_, label)| *label).collect();
    statement = and_labels(statement, space, "r.key", &others);
    if let Some(moment) = filter.expired_before {
        statement = statement.and(&format!(" AND r.expires < {moment}"), &[]);
    }
    let order = match filter.order {
        // The two statements of an erase select the same records.
        Order::Key | Order::Any => "r.key",
        Order::Newest => "r.id DESC",
        Order::LeastRecentlyUsed => "r.used, r.id",
        Order::Expiry => "r.expires IS NULL, r.expires, r.id",
    };
    statement = statement.and(&format!(" ORDER BY {order} LIMIT {}", page.limit), &[]);
    limited(statement, columns, page.values, excess)
}

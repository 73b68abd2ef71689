//! Conversion of a filter to a statement.

use cachalot_store::implementation::{Conditions as _, leading_label};
use cachalot_store::{LabelMatch, Order, PageRequest, RecordFilter, ValuePart};

use super::statement::Statement;

/// Maximum size of the values of one result, in bytes, unless it has one record. A server returns 10 MB at most by default.
const LARGEST_PAGE: u64 = 6 << 20;

/// Appends the condition that the expressions `name` and `value` are a label that matches.
fn and_label<'a>(statement: &mut Statement, name: &str, value: &str, label: &LabelMatch<'a>) {
    statement.and_label(name, value, label);
    if let LabelMatch::Glob { pattern, .. } = label {
        statement.and(value, "GLOB", glob(pattern));
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
        statement.push(" AND EXISTS (SELECT 1 FROM cachalot_labels m WHERE m.space = ");
        statement.push_value(space.into());
        statement.push(&format!(" AND m.key = {key}"));
        and_label(&mut statement, "m.name", "m.value", label);
        statement.push(")");
    }
    statement
}

/// Appends the conditions that a lease has labels.
pub(super) fn and_lease_labels(mut statement: Statement, labels: &[LabelMatch<'_>]) -> Statement {
    for label in labels {
        statement.push(" AND EXISTS (SELECT 1 FROM json_each(labels) j WHERE 1");
        let (name, value) = (
            "CAST(unhex(j.value->>0) AS TEXT)",
            "CAST(unhex(j.value->>1) AS TEXT)",
        );
        and_label(&mut statement, name, value, label);
        statement.push(")");
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
    let first = leading_label(filter.labels);
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
            let mut labels = labels.text(space);
            and_label(&mut labels, "name", "value", &filter.labels[first]);
            labels.and_in_range("key", filter.prefix, page.after);
            labels.push(") l CROSS JOIN cachalot_records r ON r.space = ");
            labels.push_value(space.into());
            labels.push(" AND r.key = l.key WHERE 1");
            labels
        }
    };
    statement.and_in_range("r.key", filter.prefix, page.after);
    let others = filter.labels.iter().enumerate();
    let others = others.filter(|(at, _)| Some(*at) != first);
    let others: Vec<_> = others.map(|(_, label)| *label).collect();
    statement = and_labels(statement, space, "r.key", &others);
    if let Some(moment) = filter.expired_before {
        statement.push(&format!(" AND r.expires < {moment}"));
    }
    let order = match filter.order {
        // The two statements of an erase select the same records.
        Order::Key | Order::Any => "r.key",
        Order::Newest => "r.id DESC",
        Order::LeastRecentlyUsed => "r.used, r.id",
        Order::Expiry => "r.expires IS NULL, r.expires, r.id",
    };
    statement.push(&format!(" ORDER BY {order} LIMIT {}", page.limit));
    limited(statement, columns, page.values, excess)
}

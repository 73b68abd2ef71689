//! Conversion of a filter to a statement.

use cachalot_store::implementation::after_prefix;
use cachalot_store::{LabelMatch, Order, PageRequest, RecordFilter, ValuePart};
use tokio_postgres::types::{ToSql, Type};

/// A statement under construction: text, and its parameters.
pub(super) struct Statement {
    pub(super) text: String,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Statement {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            values: Vec::new(),
        }
    }

    pub(super) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let values = self.values.iter();
        values
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect()
    }

    /// Appends text, with the number of a parameter in place of each `?`.
    fn push(&mut self, text: &str, value: impl ToSql + Sync + Send + 'static, kind: Type) {
        self.values.push((Box::new(value), kind));
        let number = format!("${}", self.values.len());
        self.text.push_str(&text.replace('?', &number));
    }

    fn push_bytes(&mut self, text: &str, value: &str) {
        self.push(text, value.as_bytes().to_vec(), Type::BYTEA);
    }

    /// Appends the condition that `column` begins with `prefix`.
    fn push_prefix(&mut self, column: &str, prefix: &str) {
        if prefix.is_empty() {
            return;
        }
        self.push_bytes(&format!(" AND {column} >= ?"), prefix);
        if let Some(end) = after_prefix(prefix) {
            self.push_bytes(&format!(" AND {column} < ?"), &end);
        }
    }

    fn push_keys(&mut self, column: &str, prefix: &str, after: Option<&str>) {
        self.push_prefix(column, prefix);
        if let Some(after) = after {
            self.push_bytes(&format!(" AND {column} > ?"), after);
        }
    }

    fn push_limit(&mut self, limit: u32) {
        self.push(" LIMIT ?", i64::from(limit), Type::INT8);
    }

    /// Appends the condition that a record has a label.
    fn push_label(&mut self, label: &LabelMatch<'_>) {
        let (name, prefix) = label.range();
        self.push_bytes(
            " AND EXISTS (SELECT 1 FROM cachalot_labels l WHERE l.space = r.space AND l.key = r.key AND l.name = ?",
            name,
        );
        match *label {
            LabelMatch::Is { value, .. } => self.push_bytes(" AND l.value = ?", value),
            LabelMatch::Starts { .. } => self.push_prefix("l.value", prefix),
            LabelMatch::Glob { pattern, .. } => {
                self.push_prefix("l.value", prefix);
                self.push_bytes(" AND l.value LIKE ?", &like(pattern));
            }
        }
        self.text.push(')');
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
        ValuePart::First(bytes) => format!("substring(r.value FOR {})", bytes.min(i32::MAX as u32)),
        ValuePart::All => "r.value".to_owned(),
    };
    format!(
        "SELECT r.id, r.key, {value} AS value, r.label_names, r.label_values, r.expires, r.revision, r.updated, \
         length(r.value)::bigint AS size"
    )
}

pub(super) fn statement(
    space: &str,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> Statement {
    let mut statement = Statement::new(&columns(page.values));
    statement.push_bytes(" FROM cachalot_records r WHERE r.space = ?", space);
    statement.push_keys("r.key", filter.prefix, page.after);
    if let Some(moment) = filter.expired_before {
        statement.push(" AND r.expires < ?", moment, Type::INT8);
    }
    for label in filter.labels {
        statement.push_label(label);
    }
    statement.text.push_str(match filter.order {
        Order::Key => " ORDER BY r.key",
        Order::Newest => " ORDER BY r.id DESC",
        Order::LeastRecentlyUsed => " ORDER BY r.used, r.id",
        // Nulls, which never expire, come last.
        Order::Expiry => " ORDER BY r.expires, r.id",
    });
    statement.push_limit(page.limit);
    statement
}

/// Selects and locks the current leases in the filter's range of keys.
pub(super) fn leases(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> Statement {
    let mut statement =
        Statement::new("SELECT key, label_names, label_values FROM cachalot_leases");
    statement.push_bytes(" WHERE is_current AND space = ?", space);
    statement.push_keys("key", filter.prefix, page.after);
    statement.text.push_str(" ORDER BY key FOR UPDATE");
    statement
}

pub(super) fn counters(space: &str, prefix: &str, after: Option<&str>, limit: u32) -> Statement {
    let mut statement = Statement::new("SELECT name, value FROM cachalot_counters");
    // A put that checks a counter creates its row.
    statement.push_bytes(" WHERE value > 0 AND space = ?", space);
    statement.push_keys("name", prefix, after);
    statement.text.push_str(" ORDER BY name");
    statement.push_limit(limit);
    statement
}

/// Selects the records whose words match `query`, a `tsquery`.
pub(super) fn search(space: &str, query: &str, labels: &[LabelMatch<'_>], limit: u32) -> Statement {
    let mut statement = Statement::new(&columns(ValuePart::All));
    statement.push(
        ", ts_rank(r.words, ?::text::tsquery, 2) AS score",
        query.to_owned(),
        Type::TEXT,
    );
    statement.push_bytes(" FROM cachalot_records r WHERE r.space = ?", space);
    statement.text.push_str(" AND r.words @@ $1::text::tsquery");
    for label in labels {
        statement.push_label(label);
    }
    statement.text.push_str(" ORDER BY score DESC, r.key");
    statement.push_limit(limit);
    statement
}

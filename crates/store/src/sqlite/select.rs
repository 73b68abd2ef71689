//! Conversion of a filter to a statement: chooses the leading index, and decides if it has the requested
//! order.
//!
//! The order of the tables and the indexes are fixed in the text (`CROSS JOIN`, `INDEXED BY`), so that
//! statistics cannot mislead the planner. Criteria that the leading index does not serve are checked row by
//! row, on the labels in the row itself.

use std::borrow::Cow;
use std::collections::HashSet;

use rusqlite::Connection;
use rusqlite::types::ToSqlOutput;
use rusqlite::{ToSql, params_from_iter};

use crate::sql::{Conditions, leading_label};
use crate::{LabelMatch, Millis, Order, PageRequest, RecordFilter, ValuePart, request};

use super::labels;

/// A row that matches.
#[derive(Debug)]
pub(super) struct MatchedRow {
    pub(super) id: i64,
    pub(super) key: String,
}

/// The index that leads to the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeadingIndex<'a> {
    Expired(Millis),
    Label { name: &'a str, value: &'a str },
    Labels { name: &'a str, prefix: &'a str },
    Key,
    Age,
    Use,
    Expiry,
}

fn leading_index<'a>(filter: &RecordFilter<'a>) -> LeadingIndex<'a> {
    if let Some(moment) = filter.expired_before {
        return LeadingIndex::Expired(moment);
    }
    let label = leading_label(filter.labels).map(|leading| match filter.labels[leading] {
        LabelMatch::Is { name, value } => LeadingIndex::Label { name, value },
        label => {
            let (name, prefix) = label.range();
            LeadingIndex::Labels { name, prefix }
        }
    });
    label.unwrap_or(match filter.order {
        Order::Key | Order::Any => LeadingIndex::Key,
        _ if !filter.prefix.is_empty() => LeadingIndex::Key,
        Order::Newest => LeadingIndex::Age,
        Order::LeastRecentlyUsed => LeadingIndex::Use,
        Order::Expiry => LeadingIndex::Expiry,
    })
}

/// True if reading ends when the page is full, because the leading index has the requested order.
pub(super) fn stops_early(filter: &RecordFilter<'_>) -> bool {
    match (leading_index(filter), filter.order) {
        (LeadingIndex::Key | LeadingIndex::Label { .. }, Order::Key | Order::Any)
        | (LeadingIndex::Expired(_), Order::Any)
        | (LeadingIndex::Age | LeadingIndex::Use, _)
        | (LeadingIndex::Expired(_), Order::Expiry) => filter.labels.len() <= 1,
        _ => false,
    }
}

/// A statement under construction: text, and the values of its parameters.
pub(super) struct Statement<'a> {
    pub(super) text: String,
    pub(super) values: Vec<ToSqlOutput<'a>>,
}

impl<'a> Conditions<'a> for Statement<'a> {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn push_value(&mut self, value: Cow<'a, str>) {
        self.text.push('?');
        self.values.push(match value {
            Cow::Borrowed(value) => value.into(),
            Cow::Owned(value) => value.into(),
        });
    }
}

pub(super) fn statement<'a>(
    space: &'a str,
    filter: &RecordFilter<'a>,
    page: &PageRequest<'a>,
    never_expiring: bool,
) -> Statement<'a> {
    let leading_index = leading_index(filter);
    let mut statement = Statement {
        text: String::with_capacity(320),
        values: Vec::with_capacity(8),
    };
    statement.text.push_str(match leading_index {
        LeadingIndex::Label { .. } => "SELECT r.id, r.key, r.labels FROM labels l CROSS JOIN records r INDEXED BY records_key ON r.space = l.space AND r.key = l.key WHERE ",
        LeadingIndex::Labels { .. } if filter.order == Order::Any => "SELECT r.id, r.key, r.labels FROM (SELECT space, key FROM labels WHERE ",
        LeadingIndex::Labels { .. } => "SELECT r.id, r.key, r.labels FROM (SELECT DISTINCT space, key FROM labels WHERE ",
        LeadingIndex::Expired(_) | LeadingIndex::Expiry if !never_expiring => "SELECT id, key, labels FROM records r INDEXED BY records_expires WHERE ",
        LeadingIndex::Use => "SELECT id, key, labels FROM records r INDEXED BY records_used WHERE ",
        LeadingIndex::Age | LeadingIndex::Expired(_) | LeadingIndex::Expiry => "SELECT id, key, labels FROM records r INDEXED BY records_newest WHERE ",
        LeadingIndex::Key => "SELECT id, key, labels FROM records r INDEXED BY records_key WHERE ",
    });
    let (space_column, key_column) = match leading_index {
        LeadingIndex::Label { .. } => ("l.space = ", "l.key"),
        // With the `+`, SQLite cannot choose the index of keys for this condition: that of expiries leads.
        LeadingIndex::Expired(_) => ("space = ", "+key"),
        _ => ("space = ", "key"),
    };
    statement.push(space_column);
    statement.push_value(space.into());
    match leading_index {
        LeadingIndex::Label { name, value } => {
            statement.and("l.name", "=", name);
            statement.and("l.value", "=", value);
        }
        LeadingIndex::Labels { name, prefix } => {
            statement.and("name", "=", name);
            statement.and_in_range("value", prefix, None);
        }
        LeadingIndex::Expired(moment) => {
            statement.push(" AND expires IS NOT NULL AND expires < ?");
            statement.values.push(moment.into());
        }
        LeadingIndex::Expiry if never_expiring => statement.push(" AND expires IS NULL"),
        LeadingIndex::Expiry => statement.push(" AND expires IS NOT NULL"),
        LeadingIndex::Key | LeadingIndex::Age | LeadingIndex::Use => {}
    }
    match leading_index {
        LeadingIndex::Age | LeadingIndex::Use | LeadingIndex::Expiry => {}
        _ => statement.and_in_range(key_column, filter.prefix, page.after),
    }
    if let LeadingIndex::Labels { .. } = leading_index {
        statement.push(") l CROSS JOIN records r INDEXED BY records_key ON r.space = l.space AND r.key = l.key");
    }
    statement
        .text
        .push_str(match (filter.order, leading_index) {
            (Order::Any, _) => "",
            (Order::Key, LeadingIndex::Label { .. }) => " ORDER BY l.key",
            (Order::Key, _) => " ORDER BY r.key",
            (Order::Newest, _) => " ORDER BY r.id DESC",
            (Order::LeastRecentlyUsed, _) => " ORDER BY r.used, r.id",
            (Order::Expiry, LeadingIndex::Expiry) if never_expiring => " ORDER BY r.id",
            (Order::Expiry, LeadingIndex::Expiry | LeadingIndex::Expired(_)) => {
                " ORDER BY r.expires, r.id"
            }
            (Order::Expiry, _) => " ORDER BY r.expires IS NULL, r.expires, r.id",
        });
    statement
}

/// Returns one page of rows, in order.
pub(super) fn find_rows(
    connection: &Connection,
    space: &str,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> rusqlite::Result<Vec<MatchedRow>> {
    let limit = page.limit as usize;
    let mut matched = Vec::with_capacity(limit.min(1024));
    run(
        connection,
        &statement(space, filter, page, false),
        filter,
        limit,
        &mut matched,
    )?;
    // Records that never expire are not in the index of expiries: they come last.
    if matched.len() < limit && leading_index(filter) == LeadingIndex::Expiry {
        run(
            connection,
            &statement(space, filter, page, true),
            filter,
            limit,
            &mut matched,
        )?;
    }
    Ok(matched)
}

fn run(
    connection: &Connection,
    statement: &Statement<'_>,
    filter: &RecordFilter<'_>,
    limit: usize,
    matched: &mut Vec<MatchedRow>,
) -> rusqlite::Result<()> {
    let mut prepared = connection.prepare_cached(&statement.text)?;
    let mut rows = prepared.query(params_from_iter(
        statement.values.iter().map(|value| value as &dyn ToSql),
    ))?;
    // A record may have several labels in the range of the index.
    let mut seen = HashSet::new();
    while matched.len() < limit {
        let Some(row) = rows.next()? else { break };
        if filter.order == Order::Any && !seen.insert(row.get::<_, i64>(0)?) {
            continue;
        }
        let matches = filter.labels.is_empty() || {
            let labels = labels::decode(row.get_ref(2)?.as_blob()?)?;
            request::matches_all(filter.labels, &labels)
        };
        if matches {
            matched.push(MatchedRow {
                id: row.get(0)?,
                key: row.get(1)?,
            });
        }
    }
    Ok(())
}

/// A query that owns its parameters, so that another thread can run it.
#[derive(Debug)]
pub(super) struct OwnedQuery {
    space: String,
    prefix: String,
    labels: Vec<OwnedMatch>,
    expired_before: Option<Millis>,
    order: Order,
    after: Option<String>,
    limit: u32,
    with_labels: bool,
    values: ValuePart,
}

#[derive(Debug)]
enum OwnedMatch {
    Is(String, String),
    Starts(String, String),
    Glob(String, String),
}

impl OwnedMatch {
    fn as_match(&self) -> LabelMatch<'_> {
        match self {
            Self::Is(name, value) => LabelMatch::Is { name, value },
            Self::Starts(name, prefix) => LabelMatch::Starts { name, prefix },
            Self::Glob(name, pattern) => LabelMatch::Glob { name, pattern },
        }
    }
}

impl OwnedQuery {
    pub(super) fn new(space: &str, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> Self {
        let own = |label: &LabelMatch<'_>| match *label {
            LabelMatch::Is { name, value } => OwnedMatch::Is(name.to_owned(), value.to_owned()),
            LabelMatch::Starts { name, prefix } => {
                OwnedMatch::Starts(name.to_owned(), prefix.to_owned())
            }
            LabelMatch::Glob { name, pattern } => {
                OwnedMatch::Glob(name.to_owned(), pattern.to_owned())
            }
        };
        Self {
            space: space.to_owned(),
            prefix: filter.prefix.to_owned(),
            labels: filter.labels.iter().map(own).collect(),
            expired_before: filter.expired_before,
            order: filter.order,
            after: page.after.map(str::to_owned),
            limit: page.limit,
            with_labels: page.labels,
            values: page.values,
        }
    }

    pub(super) fn with_borrowed<T>(
        &self,
        answer: impl FnOnce(&str, &RecordFilter<'_>, &PageRequest<'_>) -> T,
    ) -> T {
        let labels: Vec<LabelMatch<'_>> = self.labels.iter().map(OwnedMatch::as_match).collect();
        let filter = RecordFilter {
            prefix: &self.prefix,
            labels: &labels,
            expired_before: self.expired_before,
            order: self.order,
        };
        let page = PageRequest {
            after: self.after.as_deref(),
            limit: self.limit,
            labels: self.with_labels,
            values: self.values,
        };
        answer(&self.space, &filter, &page)
    }
}

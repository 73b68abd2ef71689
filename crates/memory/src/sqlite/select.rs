//! Conversion of a filter to a statement: chooses the leading index, and decides if it has the requested
//! order.
//!
//! The order of the tables and the indexes are fixed in the text (`CROSS JOIN`, `INDEXED BY`), so that
//! statistics cannot mislead the planner. Criteria that the leading index does not serve are checked row by
//! row, on the labels in the row itself.

use rusqlite::Connection;
use rusqlite::types::ToSqlOutput;
use rusqlite::{ToSql, params_from_iter};

use crate::text::after_prefix;
use crate::{Filter, Match, Millis, Order, Page, Values, request};

use super::labels;

/// A row that matches.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) id: i64,
    pub(super) key: String,
}

/// The index that leads to the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead<'a> {
    Expired(Millis),
    Label { name: &'a str, value: &'a str },
    Labels { name: &'a str, prefix: &'a str },
    Key,
    Age,
    Use,
    Expiry,
}

fn lead<'a>(filter: &Filter<'a>) -> Lead<'a> {
    if let Some(moment) = filter.expired_before {
        return Lead::Expired(moment);
    }
    let exact = filter.labels.iter().find_map(|label| match *label {
        Match::Is { name, value } => Some(Lead::Label { name, value }),
        Match::Starts { .. } | Match::Glob { .. } => None,
    });
    let begins = filter.labels.first().map(|label| {
        let (name, prefix) = label.range();
        Lead::Labels { name, prefix }
    });
    exact.or(begins).unwrap_or(match filter.order {
        Order::Key => Lead::Key,
        _ if !filter.prefix.is_empty() => Lead::Key,
        Order::Newest => Lead::Age,
        Order::Coldest => Lead::Use,
        Order::Expiry => Lead::Expiry,
    })
}

/// True if reading ends when the page is full, because the leading index has the requested order.
pub(super) fn stops_early(filter: &Filter<'_>) -> bool {
    match (lead(filter), filter.order) {
        (Lead::Key | Lead::Label { .. }, Order::Key)
        | (Lead::Age | Lead::Use, _)
        | (Lead::Expired(_), Order::Expiry) => filter.labels.len() <= 1,
        _ => false,
    }
}

/// A statement under construction: text, and the values of its parameters.
pub(super) struct Statement<'a> {
    pub(super) text: String,
    pub(super) values: Vec<ToSqlOutput<'a>>,
}

impl<'a> Statement<'a> {
    fn and(&mut self, condition: &str, value: impl Into<ToSqlOutput<'a>>) {
        if !self.values.is_empty() {
            self.text.push_str(" AND ");
        }
        self.text.push_str(condition);
        self.values.push(value.into());
    }

    /// Adds the condition that `column` begins with `prefix`.
    fn begins(&mut self, column: &str, prefix: &'a str) {
        if prefix.is_empty() {
            return;
        }
        self.and(&format!("{column} >= ?"), prefix);
        if let Some(end) = after_prefix(prefix) {
            self.and(&format!("{column} < ?"), end);
        }
    }
}

pub(super) fn statement<'a>(
    space: &'a str,
    filter: &Filter<'a>,
    page: &Page<'a>,
    never_expiring: bool,
) -> Statement<'a> {
    let lead = lead(filter);
    let mut statement = Statement {
        text: String::with_capacity(320),
        values: Vec::with_capacity(8),
    };
    let keys = |statement: &mut Statement<'a>, column: &str| {
        statement.begins(column, filter.prefix);
        if let Some(after) = page.after {
            statement.and(&format!("{column} > ?"), after);
        }
    };
    statement.text.push_str(match lead {
        Lead::Label { .. } => "SELECT r.id, r.key, r.labels FROM labels l CROSS JOIN records r INDEXED BY records_key ON r.space = l.space AND r.key = l.key WHERE ",
        Lead::Labels { .. } => "SELECT r.id, r.key, r.labels FROM (SELECT DISTINCT space, key FROM labels WHERE ",
        Lead::Expired(_) | Lead::Expiry if !never_expiring => "SELECT id, key, labels FROM records r INDEXED BY records_expires WHERE ",
        Lead::Use => "SELECT id, key, labels FROM records r INDEXED BY records_used WHERE ",
        Lead::Age | Lead::Expired(_) | Lead::Expiry => "SELECT id, key, labels FROM records r INDEXED BY records_newest WHERE ",
        Lead::Key => "SELECT id, key, labels FROM records r INDEXED BY records_key WHERE ",
    });
    match lead {
        Lead::Label { name, value } => {
            statement.and("l.space = ?", space);
            statement.and("l.name = ?", name);
            statement.and("l.value = ?", value);
            keys(&mut statement, "l.key");
        }
        Lead::Labels { name, prefix } => {
            statement.and("space = ?", space);
            statement.and("name = ?", name);
            statement.begins("value", prefix);
            keys(&mut statement, "key");
            statement.text.push_str(") l CROSS JOIN records r INDEXED BY records_key ON r.space = l.space AND r.key = l.key");
        }
        Lead::Expired(moment) => {
            statement.and("space = ?", space);
            statement.and("expires IS NOT NULL AND expires < ?", moment);
            keys(&mut statement, "+key");
        }
        Lead::Expiry => {
            statement.and("space = ?", space);
            statement.text.push_str(if never_expiring {
                " AND expires IS NULL"
            } else {
                " AND expires IS NOT NULL"
            });
        }
        Lead::Key => {
            statement.and("space = ?", space);
            keys(&mut statement, "key");
        }
        Lead::Age | Lead::Use => statement.and("space = ?", space),
    }
    statement.text.push_str(match (filter.order, lead) {
        (Order::Key, Lead::Label { .. }) => " ORDER BY l.key",
        (Order::Key, _) => " ORDER BY r.key",
        (Order::Newest, _) => " ORDER BY r.id DESC",
        (Order::Coldest, _) => " ORDER BY r.used, r.id",
        (Order::Expiry, Lead::Expiry) if never_expiring => " ORDER BY r.id",
        (Order::Expiry, Lead::Expiry | Lead::Expired(_)) => " ORDER BY r.expires, r.id",
        (Order::Expiry, _) => " ORDER BY r.expires IS NULL, r.expires, r.id",
    });
    statement
}

/// Returns one page of rows, in order.
pub(super) fn pick(
    connection: &Connection,
    space: &str,
    filter: &Filter<'_>,
    page: &Page<'_>,
) -> rusqlite::Result<Vec<Picked>> {
    let limit = page.limit as usize;
    let mut picked = Vec::with_capacity(limit.min(1024));
    run(
        connection,
        &statement(space, filter, page, false),
        filter,
        limit,
        &mut picked,
    )?;
    // Records that never expire are not in the index of expiries: they come last.
    if picked.len() < limit && lead(filter) == Lead::Expiry {
        run(
            connection,
            &statement(space, filter, page, true),
            filter,
            limit,
            &mut picked,
        )?;
    }
    Ok(picked)
}

fn run(
    connection: &Connection,
    statement: &Statement<'_>,
    filter: &Filter<'_>,
    limit: usize,
    picked: &mut Vec<Picked>,
) -> rusqlite::Result<()> {
    let mut prepared = connection.prepare_cached(&statement.text)?;
    let mut rows = prepared.query(params_from_iter(
        statement.values.iter().map(|value| value as &dyn ToSql),
    ))?;
    while picked.len() < limit {
        let Some(row) = rows.next()? else { break };
        let matches = filter.labels.is_empty() || {
            let labels = labels::decode(row.get_ref(2)?.as_blob()?)?;
            request::meets_all(filter.labels, &labels)
        };
        if matches {
            picked.push(Picked {
                id: row.get(0)?,
                key: row.get(1)?,
            });
        }
    }
    Ok(())
}

/// A query that owns its parameters, so that another thread can run it.
#[derive(Debug)]
pub(super) struct Question {
    space: String,
    prefix: String,
    labels: Vec<OwnedMatch>,
    expired_before: Option<Millis>,
    order: Order,
    after: Option<String>,
    limit: u32,
    with_labels: bool,
    values: Values,
}

#[derive(Debug)]
enum OwnedMatch {
    Is(String, String),
    Starts(String, String),
    Glob(String, String),
}

impl OwnedMatch {
    fn lend(&self) -> Match<'_> {
        match self {
            Self::Is(name, value) => Match::Is { name, value },
            Self::Starts(name, prefix) => Match::Starts { name, prefix },
            Self::Glob(name, pattern) => Match::Glob { name, pattern },
        }
    }
}

impl Question {
    pub(super) fn new(space: &str, filter: &Filter<'_>, page: &Page<'_>) -> Self {
        let own = |label: &Match<'_>| match *label {
            Match::Is { name, value } => OwnedMatch::Is(name.to_owned(), value.to_owned()),
            Match::Starts { name, prefix } => {
                OwnedMatch::Starts(name.to_owned(), prefix.to_owned())
            }
            Match::Glob { name, pattern } => OwnedMatch::Glob(name.to_owned(), pattern.to_owned()),
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

    pub(super) fn ask<T>(&self, answer: impl FnOnce(&str, &Filter<'_>, &Page<'_>) -> T) -> T {
        let labels: Vec<Match<'_>> = self.labels.iter().map(OwnedMatch::lend).collect();
        let filter = Filter {
            prefix: &self.prefix,
            labels: &labels,
            expired_before: self.expired_before,
            order: self.order,
        };
        let page = Page {
            after: self.after.as_deref(),
            limit: self.limit,
            labels: self.with_labels,
            values: self.values,
        };
        answer(&self.space, &filter, &page)
    }
}

//! The sums of `cachalot spend`, as text, JSON and CSV.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::{Cost, Millis};
use cachalot_model::Catalog;
use cachalot_prefix::spend::{Client, PaidAnswer, SpendTotals, Spending};
use cachalot_prefix::what_if::{Comparison, WhatIf};
use serde_json::{Map, Value, json};

use super::own::GATEWAY;
use super::period::Period;
use crate::arguments::{Spend, SpendGroup};
use crate::command_error::{CommandError, Result};
use crate::remedies::Remedy;
use crate::render;
use crate::render::local_time::{day_of, days, month_of, week_of};
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;

/// Maximum number of rows of a table without times.
const MAX_ROWS: usize = 30;

/// Maximum number of reasons for answers without a price that are listed.
const MAX_REASONS: usize = 10;

/// The name of requests that are in no line of a transcript, but in the sum that Claude Code writes of its costs.
const SIDE_REQUESTS: &str = "side requests (session titles, summaries, hooks)";

/// The cell of an amount that is not known.
const UNKNOWN: &str = "–";

/// The columns of CSV after those of the groups.
const CSV_COLUMNS: [&str; 16] = [
    "answers",
    "unpriced",
    "usd",
    "input",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "cache_write_12h",
    "output",
    "web_searches",
    "usd_input",
    "usd_cache_read",
    "usd_cache_write",
    "usd_output",
    "usd_tools",
    "usd_unsplit",
];

/// The sums that are shown.
pub(super) struct Report<'a> {
    arguments: &'a Spend,
    /// What was read, without the answers.
    spending: Spending,
    total: SpendTotals,
    rows: Vec<Row>,
    /// The first and the last time of an answer.
    range: Option<(Millis, Millis)>,
    /// The cost of requests through the gateway, if there are answers of other programs, too.
    through_gateway: Cost,
    /// The same answers under other settings.
    comparison: Comparison,
    remedies: Vec<Remedy>,
}

/// The sum of a group.
#[derive(Default)]
struct Row {
    /// The names of the group, one for each criterion.
    names: Vec<String>,
    totals: SpendTotals,
    /// The session, if the group is one.
    session: Option<SessionNames>,
}

/// What tells one session from another.
struct SessionNames {
    title: String,
    project: String,
    /// The time of its first answer in the group.
    first: Option<Millis>,
}

impl SessionNames {
    /// The columns of tables.
    const COLUMNS: [&str; 3] = ["title", "project", "day"];

    fn new(answer: &PaidAnswer, spending: &Spending) -> Self {
        let session = (answer.client, Arc::clone(&answer.session));
        let title = spending.titles.get(&session);
        Self {
            title: title.map_or_else(String::new, |title| on_one_line(title)),
            project: on_one_line(&answer.project),
            first: answer.at,
        }
    }

    fn day(&self) -> String {
        self.first.map_or_else(String::new, day_of)
    }

    /// Returns the fields of [`COLUMNS`](Self::COLUMNS).
    fn fields(&self) -> [String; 3] {
        [self.title.clone(), self.project.clone(), self.day()]
    }
}

impl<'a> Report<'a> {
    /// `complete_until` is the end of the time of which all requests are known, if it is later than the last one.
    pub(super) fn new(
        mut spending: Spending,
        arguments: &'a Spend,
        period: &Period,
        complete_until: Option<Millis>,
        catalog: &Catalog,
    ) -> Self {
        let mut total = SpendTotals::default();
        let mut rows: BTreeMap<Vec<String>, Row> = BTreeMap::new();
        let mut range: Option<(Millis, Millis)> = None;
        let (mut through_gateway, mut has_others) = (Cost::default(), false);
        let project = arguments.project.as_deref();
        let is_project = |name: &str| project.is_none_or(|project| name.contains(project));
        let answers = spending.answers.iter().map(|answer| (answer, false));
        let side_requests = spending.side_requests.iter();
        let side_requests = side_requests.map(|requests| (requests, true));
        let shown = answers
            .chain(side_requests)
            .filter(|(answer, _)| period.contains(answer.at) && is_project(&answer.project));
        for (answer, is_side_requests) in shown {
            match answer.client {
                Client::Cachalot if &*answer.project == GATEWAY => {
                    through_gateway += answer.cost.unwrap_or_default();
                }
                client => has_others |= client != Client::Cachalot,
            }
            if let Some(at) = answer.at {
                let (first, last) = range.unwrap_or((at, at));
                range = Some((first.min(at), last.max(at)));
            }
            let names: Vec<_> = arguments.by.iter().map(|by| group(answer, *by)).collect();
            let row = rows.entry(names.clone()).or_insert_with(|| Row {
                names,
                ..Row::default()
            });
            if arguments.by.contains(&SpendGroup::Session) {
                let session = row
                    .session
                    .get_or_insert_with(|| SessionNames::new(answer, &spending));
                session.first = [session.first, answer.at].into_iter().flatten().min();
            }
            for totals in [&mut total, &mut row.totals] {
                if is_side_requests {
                    totals.add_side_requests(answer, catalog)
                } else {
                    totals.add(answer, catalog)
                }
            }
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort_by(|one, other| {
            let pairs = one.names.iter().zip(&other.names).zip(&arguments.by);
            pairs
                .filter(|(_, by)| by.is_time())
                .fold(Ordering::Equal, |order, ((name, other), _)| {
                    order.then_with(|| name.cmp(other))
                })
                .then_with(|| {
                    let (one, other) = (&one.totals, &other.totals);
                    let by_cost = other.cost.picodollars.cmp(&one.cost.picodollars);
                    by_cost.then_with(|| tokens(other).cmp(&tokens(one)))
                })
        });
        let mut what_if = WhatIf::default();
        std::mem::take(&mut spending.answers)
            .into_iter()
            .for_each(|answer| what_if.add_answer(answer));
        if let Some(end) = complete_until {
            what_if.is_complete_until(end);
        }
        let comparison = what_if.finish(catalog, &|name, at| {
            period.contains(Some(at)) && is_project(name)
        });
        let remedies = Remedy::all(&comparison, total.side_requests);
        Self {
            arguments,
            spending,
            total,
            rows,
            range,
            comparison,
            remedies,
            through_gateway: if has_others {
                through_gateway
            } else {
                Cost::default()
            },
        }
    }

    /// One sentence: the cost, the time, the cache, and the best setting.
    fn headline(&self) -> String {
        let Self { total, range, .. } = self;
        let mut text = match total.cost.unpriced {
            0 => total.cost.amount(),
            unpriced => {
                let answers = render::count(unpriced, "answer", "answers");
                match total.cost.picodollars {
                    0 => format!("{answers} without a known price"),
                    _ => format!(
                        "{} and {answers} without a known price",
                        total.cost.amount()
                    ),
                }
            }
        };
        if let Some((first, last)) = range {
            let days = days(*first, *last);
            text += &format!(" in {}", render::count(days, "day", "days"));
        }
        if let Some(ratio) = total.cache_read_ratio() {
            text += &format!(", {:.0} % of input read from cache", ratio * 100.0);
        }
        if let Some(remedy) = Remedy::headline(&self.remedies) {
            text += &format!("; {remedy}");
        }
        text
    }

    pub(super) fn text(&self) -> String {
        let mut text = headline(&self.headline()) + "\n";
        let by = &self.arguments.by;
        let mut columns: Vec<Column> = by.iter().map(|by| Column::text(by.title())).collect();
        if by.contains(&SpendGroup::Session) {
            columns.extend([
                Column::wrapped("title"),
                Column::text("project").optional(),
                Column::whole("day").optional(),
            ]);
        }
        columns.push(Column::number("cost"));
        let kinds = self.kinds();
        columns.extend(
            kinds
                .iter()
                .map(|(title, _)| Column::number(*title).optional()),
        );
        // Dollars are more important than tokens if they were asked for.
        let tokens = |title: &'static str| {
            if kinds.is_empty() {
                Column::number(title)
            } else {
                Column::number(title).optional()
            }
        };
        columns.extend([
            tokens("input"),
            tokens("cache read"),
            Column::number("write 5 min").optional(),
            Column::number("write 1 h").optional(),
            tokens("output"),
            tokens("from cache"),
            Column::number("answers").optional(),
        ]);
        let shown = if by.iter().any(|by| by.is_time()) {
            self.rows.len()
        } else {
            self.rows.len().min(MAX_ROWS)
        };
        let shown_rows = &self.rows[..shown];
        let rows = shown_rows.iter();
        let mut rows: Vec<_> = rows
            .map(|row| {
                let session = row.session.iter().flat_map(SessionNames::fields);
                let names = row.names.iter().cloned().chain(session).collect();
                cells(names, &kinds, &row.totals)
            })
            .collect();
        if let [first, _, ..] = shown_rows {
            let session = first.session.iter().flat_map(SessionNames::fields);
            let mut names = vec![String::new(); by.len() + session.count()];
            names[0] = "total".to_owned();
            rows.push(cells(names, &kinds, &self.total));
        }
        text += &table(&columns, &rows);
        if shown < self.rows.len() {
            let others = (self.rows.len() - shown) as u64;
            text += &format!("{others} more, counted in the total; --json lists all\n");
        }
        text += &self.side_requests(shown_rows);
        text += &self.remedies();
        if self.arguments.verbose {
            text += &self.written_again();
        }
        text += &self.notes();
        text
    }

    /// The part of each row that is of requests in no line.
    fn side_requests(&self, shown: &[Row]) -> String {
        let rows = shown.iter();
        let rows: Vec<_> = rows
            .filter(|row| !row.totals.side_requests.is_zero())
            .map(|row| {
                let mut cells = row.names.clone();
                cells.push(amount(row.totals.side_requests));
                cells
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let by = self.arguments.by.iter();
        let mut columns: Vec<Column> = by.map(|by| Column::text(by.title())).collect();
        columns.push(Column::number("cost"));
        format!("\nOf it, {SIDE_REQUESTS}\n{}", table(&columns, &rows))
    }

    /// The columns with dollars by kind, without those that are empty.
    fn kinds(&self) -> Vec<(&'static str, Kind)> {
        if !self.arguments.verbose {
            return Vec::new();
        }
        let all: [(&'static str, Kind); 6] = [
            ("$ input", |totals| totals.by_kind.input),
            ("$ read", |totals| totals.by_kind.cache_read),
            ("$ write", |totals| totals.by_kind.cache_write),
            ("$ output", |totals| totals.by_kind.output),
            ("$ tools", |totals| totals.by_kind.tools),
            ("$ unsplit", |totals| totals.unsplit),
        ];
        let kinds = all.into_iter().enumerate();
        kinds
            .filter(|(place, (_, kind))| *place < 4 || !kind(&self.total).is_zero())
            .map(|(_, kind)| kind)
            .collect()
    }

    /// The remedies, or the reason why there is none.
    fn remedies(&self) -> String {
        if self.remedies.is_empty() {
            return format!("\n{}", headline(&self.without_remedy()));
        }
        let lines = self.remedies.iter();
        let lines: String = lines.map(|remedy| headline(&remedy.to_string())).collect();
        format!("\nWhat would have saved, each alone\n{lines}")
    }

    fn without_remedy(&self) -> String {
        let groups = self.comparison.groups.iter();
        let (pauses, tokens) = groups.fold((0, 0), |(pauses, tokens), group| {
            (
                pauses + group.lossy_pauses,
                group.lost.saturating_add(tokens),
            )
        });
        let reason = match pauses {
            0 => "no pause was followed by tokens that were written to a cache again".to_owned(),
            _ => format!(
                "{} written again after {}, at less than each setting costs",
                render::count(tokens, "token was", "tokens were"),
                render::count(pauses, "pause", "pauses"),
            ),
        };
        format!("No setting would have saved money: {reason}.")
    }

    /// The tokens that Claude Code wrote to the cache again, by cause.
    fn written_again(&self) -> String {
        if self.total.written_again.is_empty() {
            return String::new();
        }
        let columns = [
            Column::text("cause"),
            Column::number("requests"),
            Column::number("tokens"),
            Column::number("cost"),
        ];
        let causes = self.total.written_again.iter();
        let rows: Vec<_> = causes
            .map(|(name, cause)| {
                vec![
                    (*name).to_owned(),
                    render::grouped(cause.requests),
                    render::grouped(cause.tokens),
                    cause.cost.amount(),
                ]
            })
            .collect();
        format!(
            "\nWritten to Anthropic's cache again\n{}",
            table(&columns, &rows)
        )
    }

    fn notes(&self) -> String {
        let total = &self.total;
        let mut notes =
            vec!["API-equivalent cost; a subscription is billed differently.".to_owned()];
        if total.partial > 0 {
            notes.push(format!(
                "At least: the final output of {} is not recorded.",
                render::count(total.partial, "answer", "answers")
            ));
        }
        let (written, more) = total.written_for_unknown_time;
        if written > 0 {
            notes.push(format!(
                "At least: the lifetime of {} written to caches is not recorded. It counts as 5 minutes; an hour costs {} more.",
                render::count(written, "token", "tokens"),
                more.amount()
            ));
        }
        if !self.through_gateway.is_zero() {
            notes.push(format!(
                "Twice: {} went through the gateway, and counts again where the program that sent it is in the table.",
                amount(self.through_gateway)
            ));
        }
        for (client, requests) in &self.spending.untraced {
            let count = self.spending.untraced_counts.get(client);
            let count = count.map_or_else(String::new, |count| render::grouped(*count) + " ");
            notes.push(format!(
                "Not counted: {count}{requests} ({client}), which are in no file."
            ));
        }
        if total.cost.unpriced > 0 {
            notes.push(format!(
                "{} without a known price:",
                render::count(total.cost.unpriced, "answer", "answers")
            ));
            let mut reasons: Vec<_> = total.unpriced.iter().collect();
            reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (reason, count) in reasons.iter().take(MAX_REASONS) {
                notes.push(format!(
                    "  {} ({})",
                    on_one_line(reason),
                    render::grouped(**count)
                ));
            }
            if reasons.len() > MAX_REASONS {
                let others = (reasons.len() - MAX_REASONS) as u64;
                notes.push(format!("  {others} more reasons; --json lists all"));
            }
        }
        let notes: String = notes.iter().map(|note| headline(note)).collect();
        format!("\n{notes}")
    }

    pub(super) fn document(&self) -> Value {
        let groups = self.rows.iter().map(|row| {
            let by = self.arguments.by.iter().zip(&row.names);
            let by = by.map(|(by, name)| (by.title().to_owned(), json!(name)));
            let group = render::with_members(
                document(&row.totals),
                json!({
                    "name": row.names.join(" "),
                    "by": by.collect::<serde_json::Map<_, _>>(),
                }),
            );
            match &row.session {
                Some(session) => {
                    let names = SessionNames::COLUMNS.into_iter().zip(session.fields());
                    let names: Map<_, _> = names
                        .map(|(name, field)| (name.to_owned(), json!(field)))
                        .collect();
                    render::with_members(group, Value::Object(names))
                }
                None => group,
            }
        });
        let untraced = self.spending.untraced.iter();
        let untraced: BTreeMap<_, _> = untraced
            .map(|(client, requests)| (client.to_string(), *requests))
            .collect();
        let counts = self.spending.untraced_counts.iter();
        let counts: BTreeMap<_, _> = counts
            .map(|(client, count)| (client.to_string(), *count))
            .collect();
        json!({
            "headline": self.headline(),
            "total": document(&self.total),
            "groups": groups.collect::<Vec<_>>(),
            "remedies": self.remedies.iter().map(Remedy::document).collect::<Vec<_>>(),
            "usd_through_gateway": self.through_gateway.dollars(),
            "untraced": untraced,
            "untraced_counts": counts,
            "unknown_lines": self.spending.unknown,
        })
    }

    /// Returns a line of names, and a line per row.
    pub(super) fn csv(&self) -> Result<String> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        let titles = self.arguments.by.iter().map(|by| by.title());
        let of_sessions: &[&str] = if self.arguments.by.contains(&SpendGroup::Session) {
            &SessionNames::COLUMNS
        } else {
            &[]
        };
        let titles = titles.chain(CSV_COLUMNS).chain(of_sessions.iter().copied());
        let written = csv.write_record(titles).and_then(|()| {
            self.rows.iter().try_for_each(|row| {
                let names = row.names.iter().cloned();
                let session = row.session.iter().flat_map(SessionNames::fields);
                csv.write_record(names.chain(csv_fields(&row.totals)).chain(session))
            })
        });
        let written = written
            .map_err(|error| error.to_string())
            .and_then(|()| csv.into_inner().map_err(|error| error.to_string()))
            .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
        written.map_err(|error| CommandError::failed(format!("cannot write CSV: {error}")))
    }
}

/// A kind of cost.
type Kind = fn(&SpendTotals) -> Cost;

fn tokens(totals: &SpendTotals) -> u64 {
    let usage = &totals.usage;
    usage.total_input().saturating_add(usage.output)
}

/// The name of the group of an answer.
fn group(answer: &PaidAnswer, by: SpendGroup) -> String {
    let or = |name: &str, absent: &str| {
        if name.is_empty() {
            absent.to_owned()
        } else {
            on_one_line(name)
        }
    };
    let time = |name: fn(Millis) -> String| answer.at.map_or_else(|| "no time".to_owned(), name);
    match by {
        SpendGroup::Day => time(day_of),
        SpendGroup::Week => time(week_of),
        SpendGroup::Month => time(month_of),
        SpendGroup::Project => or(&answer.project, "no project"),
        SpendGroup::Session => format!("{} {}", answer.client, or(&answer.session, "?")),
        SpendGroup::Model => or(&answer.model, "unknown model"),
        SpendGroup::Agent => answer.client.to_string(),
    }
}

/// Formats an amount; `+` says that answers without a known price are missing in it.
pub(super) fn amount(cost: Cost) -> String {
    match (cost.picodollars, cost.unpriced) {
        (_, 0) => cost.amount(),
        (0, _) => UNKNOWN.to_owned(),
        _ => cost.amount() + "+",
    }
}

/// Returns the cells of a row.
fn cells(names: Vec<String>, kinds: &[(&str, Kind)], totals: &SpendTotals) -> Vec<String> {
    let usage = &totals.usage;
    let ratio = totals.cache_read_ratio();
    let mut row = names;
    row.push(amount(totals.cost));
    row.extend(kinds.iter().map(|(_, kind)| {
        if is_unknown(totals) {
            UNKNOWN.to_owned()
        } else {
            kind(totals).amount()
        }
    }));
    row.extend([
        render::grouped(usage.uncached_input),
        render::grouped(usage.cache_read),
        render::grouped(usage.cache_write_5m.saturating_add(usage.cache_write_other)),
        render::grouped(usage.cache_write_1h.saturating_add(usage.cache_write_12h)),
        render::grouped(usage.output),
        ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0)),
        render::grouped(totals.answers),
    ]);
    row
}

fn document(totals: &SpendTotals) -> Value {
    let usage = &totals.usage;
    let written_again = totals.written_again.iter().map(|(name, cause)| {
        json!({
            "cause": name,
            "requests": cause.requests,
            "tokens": cause.tokens,
            "usd": cause.cost.dollars(),
        })
    });
    let by_kind = totals.by_kind.parts().into_iter();
    let by_kind = by_kind.chain([("unsplit", totals.unsplit)]);
    let by_kind: Map<_, _> = by_kind
        .map(|(name, cost)| (name.to_owned(), json!(cost.dollars())))
        .collect();
    let (written, more) = totals.written_for_unknown_time;
    json!({
        "answers": totals.answers,
        "usd": (!is_unknown(totals)).then(|| totals.cost.dollars()),
        "usd_by_kind": by_kind,
        "unpriced": totals.cost.unpriced,
        "unpriced_reasons": totals.unpriced,
        "side_requests_usd": totals.side_requests.dollars(),
        "partial": totals.partial,
        "tokens": {
            "input": usage.uncached_input,
            "cache_read": usage.cache_read,
            "cache_write_5m": usage.cache_write_5m.saturating_add(usage.cache_write_other),
            "cache_write_1h": usage.cache_write_1h,
            "cache_write_12h": usage.cache_write_12h,
            "output": usage.output,
        },
        "web_searches": usage.web_searches,
        "cache_write_of_unknown_lifetime": {
            "tokens": written,
            "more_usd_with_one_hour": more.dollars(),
        },
        "cache_read_ratio": totals.cache_read_ratio(),
        "written_again": written_again.collect::<Vec<_>>(),
    })
}

/// True if no answer has a known price.
fn is_unknown(totals: &SpendTotals) -> bool {
    totals.cost.picodollars == 0 && totals.cost.unpriced > 0
}

/// Returns the fields of [`CSV_COLUMNS`]. Dollars are exact, and empty if they are not known.
fn csv_fields(totals: &SpendTotals) -> Vec<String> {
    let usage = &totals.usage;
    let dollars = |cost: Cost| {
        if is_unknown(totals) {
            String::new()
        } else {
            format!(
                "{}.{:012}",
                cost.picodollars / 1_000_000_000_000,
                cost.picodollars % 1_000_000_000_000
            )
        }
    };
    let mut fields = vec![
        totals.answers.to_string(),
        totals.cost.unpriced.to_string(),
        dollars(totals.cost),
    ];
    let counts = [
        usage.uncached_input,
        usage.cache_read,
        usage.cache_write_5m.saturating_add(usage.cache_write_other),
        usage.cache_write_1h,
        usage.cache_write_12h,
        usage.output,
        usage.web_searches,
    ];
    fields.extend(counts.map(|count| count.to_string()));
    let parts = totals.by_kind.parts().map(|(_, cost)| dollars(cost));
    fields.extend(parts);
    fields.push(dollars(totals.unsplit));
    fields
}

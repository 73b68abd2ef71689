//! The sums of `cachalot spend`, as text, JSON and CSV.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cachalot_core::{Cost, Millis};
use cachalot_model::Catalog;
use cachalot_prefix::spend::{Avoidable, Client, PaidAnswer, SpendTotals, Spending};
use serde_json::{Map, Value, json};

use super::own::GATEWAY;
use super::period::Period;
use crate::arguments::{Spend, SpendGroup};
use crate::command_error::{CommandError, Result};
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
    spending: &'a Spending,
    total: SpendTotals,
    /// The rows, with the names of their groups.
    rows: Vec<(Vec<String>, SpendTotals)>,
    /// The first and the last time of an answer.
    range: Option<(Millis, Millis)>,
    /// The cost of requests through the gateway, if there are answers of other programs, too.
    through_gateway: Cost,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        spending: &'a Spending,
        arguments: &'a Spend,
        period: &Period,
        catalog: &Catalog,
    ) -> Self {
        let mut total = SpendTotals::default();
        let mut rows: BTreeMap<Vec<String>, SpendTotals> = BTreeMap::new();
        let mut range: Option<(Millis, Millis)> = None;
        let (mut through_gateway, mut has_others) = (Cost::default(), false);
        let project = arguments.project.as_deref();
        let answers = spending.answers.iter().map(|answer| (answer, false));
        let side_requests = spending.side_requests.iter();
        let side_requests = side_requests.map(|requests| (requests, true));
        let shown = answers.chain(side_requests).filter(|(answer, _)| {
            period.contains(answer.at)
                && project.is_none_or(|project| answer.project.contains(project))
        });
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
            let names = arguments.by.iter().map(|by| group(answer, *by)).collect();
            for totals in [&mut total, rows.entry(names).or_default()] {
                if is_side_requests {
                    totals.add_side_requests(answer, catalog)
                } else {
                    totals.add(answer, catalog)
                }
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by(|(names, one), (other_names, other)| {
            let pairs = names.iter().zip(other_names).zip(&arguments.by);
            pairs
                .filter(|(_, by)| by.is_time())
                .fold(Ordering::Equal, |order, ((name, other), _)| {
                    order.then_with(|| name.cmp(other))
                })
                .then_with(|| other.cost.picodollars.cmp(&one.cost.picodollars))
                .then_with(|| tokens(other).cmp(&tokens(one)))
        });
        Self {
            arguments,
            spending,
            total,
            rows,
            range,
            through_gateway: if has_others {
                through_gateway
            } else {
                Cost::default()
            },
        }
    }

    /// One sentence: the cost, the time, the cache, and the avoidable part.
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
        let causes = total.avoidable.iter();
        if let Some((name, cause)) = causes.max_by_key(|(_, cause)| cause.cost.picodollars) {
            text += &format!(
                "; {} avoidable: {}",
                total.avoidable_cost().amount(),
                describe(name, cause)
            );
        }
        text
    }

    pub(super) fn text(&self) -> String {
        let mut text = headline(&self.headline()) + "\n";
        let by = &self.arguments.by;
        let mut columns: Vec<Column> = by.iter().map(|by| Column::text(by.title())).collect();
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
            .map(|(names, totals)| row(names.clone(), &kinds, totals))
            .collect();
        if self.rows.len() > 1 {
            let mut names = vec![String::new(); by.len()];
            names[0] = "total".to_owned();
            rows.push(row(names, &kinds, &self.total));
        }
        text += &table(&columns, &rows);
        if shown < self.rows.len() {
            let others = (self.rows.len() - shown) as u64;
            text += &format!("{others} more, counted in the total; --json lists all\n");
        }
        text += &self.side_requests(shown_rows);
        text += &self.avoidable();
        text += &self.notes();
        text
    }

    /// The part of each row that is of requests in no line.
    fn side_requests(&self, shown: &[(Vec<String>, SpendTotals)]) -> String {
        let rows = shown.iter();
        let rows: Vec<_> = rows
            .filter(|(_, totals)| !totals.side_requests.is_zero())
            .map(|(names, totals)| {
                let mut row = names.clone();
                row.push(amount(totals.side_requests));
                row
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

    fn avoidable(&self) -> String {
        let mut text = String::new();
        if !self.total.avoidable.is_empty() {
            text += "\nAvoidable: written to Anthropic's cache again\n";
            let columns = [
                Column::text("cause"),
                Column::number("requests"),
                Column::number("tokens"),
                Column::number("cost"),
            ];
            let causes = self.total.avoidable.iter();
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
            text += &table(&columns, &rows);
        }
        if let Some((paid, with)) = self.total.with_one_hour {
            let (paid, with) = (paid.picodollars, with.picodollars);
            let difference = Cost::from_picodollars(paid.abs_diff(with)).amount();
            text += &match with.cmp(&paid) {
                Ordering::Less => {
                    format!("With 1-hour caching, Claude Code would have cost {difference} less.\n")
                }
                Ordering::Greater => {
                    format!("With 1-hour caching, Claude Code would have cost {difference} more.\n")
                }
                Ordering::Equal => String::new(),
            };
        }
        text
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
        let groups = self.rows.iter().map(|(names, totals)| {
            let by = self.arguments.by.iter().zip(names);
            let by = by.map(|(by, name)| (by.title().to_owned(), json!(name)));
            render::with_members(
                document(totals),
                json!({
                    "name": names.join(" "),
                    "by": by.collect::<serde_json::Map<_, _>>(),
                }),
            )
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
        let written = csv
            .write_record(titles.chain(CSV_COLUMNS))
            .and_then(|()| {
                self.rows.iter().try_for_each(|(names, totals)| {
                    csv.write_record(names.iter().cloned().chain(csv_fields(totals)))
                })
            })
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
fn amount(cost: Cost) -> String {
    match (cost.picodollars, cost.unpriced) {
        (_, 0) => cost.amount(),
        (0, _) => UNKNOWN.to_owned(),
        _ => cost.amount() + "+",
    }
}

fn row(names: Vec<String>, kinds: &[(&str, Kind)], totals: &SpendTotals) -> Vec<String> {
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

/// Describes a cause with its number: `31 pauses longer than the cache lives`.
fn describe(name: &str, cause: &Avoidable) -> String {
    match name {
        "pause longer than the cache lives" => format!(
            "{} longer than the cache lives",
            render::count(cause.requests, "pause", "pauses")
        ),
        name => format!(
            "{}, {name}",
            render::count(cause.requests, "request", "requests")
        ),
    }
}

fn document(totals: &SpendTotals) -> Value {
    let usage = &totals.usage;
    let avoidable = totals.avoidable.iter().map(|(name, cause)| {
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
        "avoidable": avoidable.collect::<Vec<_>>(),
        "avoidable_usd": totals.avoidable_cost().dollars(),
        "usd_with_one_hour": totals.with_one_hour.map(|(paid, with)| {
            totals.cost.dollars() - paid.dollars() + with.dollars()
        }),
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

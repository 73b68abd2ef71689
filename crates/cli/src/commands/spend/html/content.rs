//! The content of the page.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_core::Cost;
use cachalot_prefix::spend::SpendTotals;
use cachalot_prefix::walk::{Session, SessionWalk};
use serde::Serialize;

use super::Input;
use super::days::chart;
use super::remedies::{Remedy, remedies};
use super::sums::{Sum, Sums, by_cost};
use super::turns::data;
use crate::command_error::Result;
use crate::commands::spend::report::amount;
use crate::render;
use crate::render::html::chart::{COLORS, Chart};
use crate::render::html::{Card, Data, share};
use crate::render::local_time::{day_of, days};
use crate::render::visible::on_one_line;

/// The maximum number of projects that are listed.
const MAX_PROJECTS: usize = 20;

/// What the template shows.
#[derive(Serialize)]
pub(super) struct Content {
    title: &'static str,
    lead: String,
    cards: Vec<Card>,
    chart: Option<Chart>,
    models: Vec<Model>,
    remedies: Vec<Remedy>,
    no_remedy: &'static str,
    projects: Vec<Project>,
    more_projects: Option<String>,
    notes: Vec<String>,
    names: Data,
    index: Data,
    turns: Vec<Data>,
}

#[derive(Serialize)]
struct Model {
    name: String,
    series: usize,
    cost: String,
    part: String,
    answers: String,
    from_cache: String,
}

#[derive(Serialize)]
struct Project {
    name: String,
    cost: String,
    share: u64,
    sessions: String,
    answers: String,
    from_cache: String,
}

impl Content {
    /// `sessions` have the highest costs first.
    pub(super) fn new(
        input: &Input<'_>,
        sessions: &[(Session<'_>, SessionWalk<'_>)],
    ) -> Result<Self> {
        let sums = Sums::new(sessions, input.catalog);
        let models = by_cost(&sums.models);
        // The last color is for all models that have none of their own.
        let is_crowded = models.len() > COLORS;
        let own = if is_crowded { COLORS - 1 } else { models.len() };
        let series: HashMap<&str, usize> = models
            .iter()
            .enumerate()
            .map(|(place, (name, _))| (&***name, place.min(own)))
            .collect();
        let mut series_names: Vec<String> = models
            .iter()
            .take(own)
            .map(|(name, _)| model_name(name))
            .collect();
        if is_crowded {
            series_names.push("other models".to_owned());
        }
        let chart = sums
            .range
            .map(|range| chart(sessions, input.catalog, range, &series, &series_names));
        let total = sums.total.cost.picodollars;
        let models = models.iter().map(|(name, sum)| Model {
            name: model_name(name),
            series: series.get(&***name).copied().unwrap_or(0),
            cost: amount(sum.cost),
            part: format!("{} %", share(sum.cost.picodollars, total)),
            answers: render::grouped(sum.answers),
            from_cache: sum.cache_read_ratio(),
        });
        let models = models.collect();
        let remedies = remedies(input);
        let projects = by_cost(&sums.projects);
        let highest = projects.first().map_or(0, |(_, sum)| sum.cost.picodollars);
        let more_projects = projects
            .len()
            .checked_sub(MAX_PROJECTS)
            .filter(|more| *more > 0);
        let more_projects = more_projects.map(|more| {
            let more = render::count(more as u64, "more project", "more projects");
            format!("{more}, with lower costs: `cachalot spend --by project --json` lists all.")
        });
        let shown = projects.iter().take(MAX_PROJECTS);
        let shown = shown.map(|(name, sum)| project(name, sum, highest));
        let (names, index, turns) = data(sessions, input.spending)?;
        Ok(Self {
            title: "What coding agents have cost",
            lead: lead(&sums, sessions),
            cards: cards(&sums, &remedies),
            chart,
            models,
            remedies,
            no_remedy: "Nothing: no other lifetime of the cache, no renewal and no summary would have made these requests cheaper.",
            projects: shown.collect(),
            more_projects,
            notes: notes(input, sessions),
            names: Data::new(&names)?,
            index: Data::new(&index)?,
            turns,
        })
    }

    pub(super) fn title(&self) -> &'static str {
        self.title
    }
}

fn model_name(name: &str) -> String {
    match name {
        "" => "unknown model".to_owned(),
        name => on_one_line(name),
    }
}

fn project(name: &Arc<str>, sum: &Sum, highest: u64) -> Project {
    Project {
        name: match &**name {
            "" => "no project".to_owned(),
            name => on_one_line(name),
        },
        cost: amount(sum.cost),
        share: share(sum.cost.picodollars, highest),
        sessions: render::grouped(sum.sessions),
        answers: render::grouped(sum.answers),
        from_cache: sum.cache_read_ratio(),
    }
}

/// The days, the programs and the numbers of sessions and projects.
fn lead(sums: &Sums, sessions: &[(Session<'_>, SessionWalk<'_>)]) -> String {
    let mut clients: Vec<String> = Vec::new();
    for (session, _) in sessions {
        let client = session.client.to_string();
        if !clients.contains(&client) {
            clients.push(client);
        }
    }
    let mut parts = Vec::new();
    if let Some((first, last)) = sums.range {
        let (first, last) = (day_of(first), day_of(last));
        parts.push(if first == last {
            first
        } else {
            format!("{first} to {last}")
        });
    }
    parts.push(clients.join(", "));
    parts.push(format!(
        "{} in {}",
        render::count(sessions.len() as u64, "session", "sessions"),
        render::count(sums.projects.len() as u64, "project", "projects")
    ));
    parts.join(" · ")
}

fn cards(sums: &Sums, remedies: &[Remedy]) -> Vec<Card> {
    let answers = render::count(sums.total.answers, "answer", "answers");
    let remark = match sums.range {
        Some((first, last)) => format!(
            "{answers} in {}",
            render::count(days(first, last), "day", "days")
        ),
        None => answers,
    };
    let mut cards = vec![
        Card {
            name: "Cost",
            value: amount(sums.total.cost),
            remark,
            class: "",
        },
        Card {
            name: "Read from the cache",
            value: sums.total.cache_read_ratio(),
            remark: format!(
                "of {} input tokens",
                render::grouped(sums.total.usage.total_input())
            ),
            class: "",
        },
    ];
    let (times, tokens, cost) = sums.lost;
    cards.push(Card {
        name: "Sent again",
        value: if cost.is_zero() {
            Cost::default().amount()
        } else {
            amount(cost)
        },
        remark: match times {
            0 => "no prefix was lost".to_owned(),
            times => format!(
                "{} after {}",
                render::count(tokens, "token", "tokens"),
                render::count(times, "break or pause", "breaks and pauses")
            ),
        },
        class: if cost.is_zero() { "" } else { "bad" },
    });
    cards.push(match remedies.iter().find(|remedy| !remedy.is_estimate) {
        Some(best) => Card {
            name: "Could have been saved",
            value: best.saved.clone(),
            remark: best.title.clone(),
            class: "good",
        },
        None => Card {
            name: "Could have been saved",
            value: Cost::default().amount(),
            remark: "no setting is better".to_owned(),
            class: "",
        },
    });
    cards
}

/// What the amounts mean, and what is missing in them.
fn notes(input: &Input<'_>, sessions: &[(Session<'_>, SessionWalk<'_>)]) -> Vec<String> {
    let mut notes =
        vec!["API-equivalent cost; a subscription is billed differently. “Sent again” is the cost of tokens beyond that of reading them from the provider's cache.".to_owned()];
    let sum = |count: fn(&SpendTotals) -> u64| -> u64 {
        sessions.iter().map(|(_, walk)| count(&walk.totals)).sum()
    };
    let partial = sum(|totals| totals.partial);
    if partial > 0 {
        notes.push(format!(
            "At least: the final output of {} is not recorded.",
            render::count(partial, "answer", "answers")
        ));
    }
    let unpriced = sum(|totals| totals.cost.unpriced);
    if unpriced > 0 {
        notes.push(format!(
            "{} without a known price: a + follows amounts in which they are missing.",
            render::count(unpriced, "answer", "answers")
        ));
    }
    for (client, requests) in &input.spending.untraced {
        notes.push(format!(
            "Not counted: {requests} ({client}), which are in no file."
        ));
    }
    notes
}

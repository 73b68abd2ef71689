//! `cachalot run --html`.

use std::path::Path;
use std::time::Duration;

use cachalot_core::digest::abbreviate;
use cachalot_core::{Millis, Spend};
use cachalot_workflow::report::FAILED;
use serde::Serialize;

use crate::command_error::Result;
use crate::render;
use crate::render::html::{Card, Kind, share};
use crate::render::local_time::to_second;
use crate::render::progress::{Step, StepResult, Sum};
use crate::render::visible::on_one_line;

const KIND: Kind = Kind {
    name: "run.html",
    template: include_str!("run.html"),
    script: "",
};

/// The maximum number of steps in a report.
const MAX_STEPS: usize = 5_000;

/// A run that has ended.
pub(super) struct Run<'a> {
    pub(super) file: &'a Path,
    pub(super) begun: Millis,
    pub(super) ended: Millis,
    pub(super) sum: &'a Sum,
    /// The reason why it failed.
    pub(super) error: Option<String>,
}

#[derive(Serialize)]
struct Content {
    name: String,
    class: &'static str,
    ended: &'static str,
    lead: String,
    error: Option<String>,
    cards: Vec<Card>,
    steps: Vec<Row>,
    /// Steps that are not in the report.
    more: Option<String>,
}

#[derive(Serialize, Default)]
struct Row {
    name: String,
    outcome: &'static str,
    class: &'static str,
    /// The reason why it was not answered from the cache, or failed.
    reason: Option<String>,
    key: Option<String>,
    time: String,
    /// The part of the time of the longest step.
    share: u64,
    paid: String,
    saved: String,
}

/// Returns the report as one page.
///
/// # Errors
/// The template is wrong.
pub(super) fn page(run: &Run<'_>) -> Result<String> {
    let steps = &run.sum.steps;
    let times = steps.iter().filter_map(|step| step.took);
    let longest = times.max().unwrap_or_default();
    let more = steps.len().saturating_sub(MAX_STEPS) as u64;
    let name = on_one_line(&run.file.to_string_lossy());
    let time = run.ended.saturating_sub(run.begun);
    let time = Duration::from_millis(u64::try_from(time).unwrap_or(0));
    let (class, ended) = match run.error {
        Some(_) => ("bad", "failed"),
        None => ("good", "completed"),
    };
    let content = Content {
        class,
        ended,
        lead: format!("{}, in {}", to_second(run.begun), render::time(time)),
        error: run.error.clone(),
        cards: cards(run.sum),
        steps: steps
            .iter()
            .take(MAX_STEPS)
            .map(|step| row(step, longest))
            .collect(),
        more: (more > 0).then(|| render::count(more, "more step", "more steps")),
        name,
    };
    KIND.render(&content.name, run.ended, &content)
}

fn cards(sum: &Sum) -> Vec<Card> {
    let steps = sum.steps.iter();
    let outcomes = steps.filter_map(|step| match &step.result {
        StepResult::Memoized(memoized) => Some(is_hit(memoized.outcome)),
        StepResult::Ran | StepResult::Failed(_) => None,
    });
    let outcomes: Vec<bool> = outcomes.collect();
    let hits = outcomes.iter().filter(|is_hit| **is_hit).count();
    let mut cards = vec![
        Card {
            name: "Paid",
            value: money(&sum.paid),
            remark: remark(&sum.paid),
            class: "",
        },
        Card {
            name: "Saved",
            value: money(&sum.saved),
            remark: remark(&sum.saved),
            class: if sum.saved.cost.is_zero() { "" } else { "good" },
        },
        Card {
            name: "From the cache",
            value: render::grouped(hits as u64),
            remark: format!(
                "of {}",
                render::count(outcomes.len() as u64, "memoized step", "memoized steps")
            ),
            class: "",
        },
        Card {
            name: "Steps",
            value: render::grouped(sum.steps.len() as u64),
            remark: String::new(),
            class: "",
        },
    ];
    if sum.failed.calls > 0 {
        cards.push(Card {
            name: "Failed calls",
            value: render::grouped(sum.failed.calls),
            remark: render::time(sum.failed.time),
            class: "bad",
        });
    }
    cards
}

fn is_hit(outcome: &str) -> bool {
    matches!(outcome, "hit" | "stale" | "coalesced")
}

fn money(spend: &Spend) -> String {
    match (spend.cost.picodollars, spend.cost.unpriced) {
        (0, 1..) => "–".to_owned(),
        (_, 1..) => spend.cost.amount() + "+",
        _ => spend.cost.amount(),
    }
}

/// The calls, the time and the tokens.
fn remark(spend: &Spend) -> String {
    let mut text = format!(
        "{}, {}",
        render::count(spend.calls, "call", "calls"),
        render::time(spend.time)
    );
    let tokens = spend.input_tokens.saturating_add(spend.output_tokens);
    if tokens > 0 {
        text += &format!(", {}", render::count(tokens, "token", "tokens"));
    }
    text
}

fn row(step: &Step, longest: Duration) -> Row {
    let took = step.took;
    let row = Row {
        name: on_one_line(&step.node),
        time: took.map_or_else(String::new, render::time),
        share: share(
            u64::try_from(took.unwrap_or_default().as_micros()).unwrap_or(u64::MAX),
            u64::try_from(longest.as_micros()).unwrap_or(u64::MAX),
        ),
        ..Row::default()
    };
    match &step.result {
        StepResult::Ran => Row {
            outcome: "ran",
            ..row
        },
        StepResult::Failed(message) => Row {
            outcome: "failed",
            class: "bad",
            reason: Some(on_one_line(message)),
            ..row
        },
        StepResult::Memoized(memoized) => {
            let amount = |spend: &Spend| {
                if spend.cost.is_zero() {
                    String::new()
                } else {
                    money(spend)
                }
            };
            Row {
                outcome: memoized.outcome,
                class: match memoized.outcome {
                    outcome if is_hit(outcome) => "good",
                    FAILED => "bad",
                    _ => "warn",
                },
                reason: memoized.reason.as_deref().map(on_one_line),
                key: memoized
                    .handle
                    .as_deref()
                    .map(|handle| on_one_line(abbreviate(handle))),
                paid: amount(&memoized.paid),
                saved: amount(&memoized.saved),
                ..row
            }
        }
    }
}

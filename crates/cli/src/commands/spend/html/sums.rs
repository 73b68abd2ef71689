//! Sums of the report, by model and by project.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::{Cost, Millis};
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::spend::{PaidAnswer, SpendTotals};
use cachalot_prefix::walk::{Session, SessionWalk};

use crate::render::html::share;

/// The sum of some answers.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) answers: u64,
    pub(super) cost: Cost,
    pub(super) usage: Usage,
    /// The number of sessions, for a project.
    pub(super) sessions: u64,
}

impl Sum {
    fn add(&mut self, payment: &Payment<'_>) {
        self.answers += u64::from(!payment.is_side_request);
        self.cost += payment.cost;
        self.usage += payment.answer.usage;
    }

    /// The part of the input that was read from the provider's cache: `47 %`.
    pub(super) fn cache_read_ratio(&self) -> String {
        let percent = share(self.usage.cache_read, self.usage.total_input());
        format!("{percent} %")
    }
}

/// An answer, or a request that is in no line, with its cost.
pub(super) struct Payment<'a> {
    pub(super) answer: &'a PaidAnswer,
    pub(super) cost: Cost,
    pub(super) is_side_request: bool,
}

/// Returns the payments of a session.
pub(super) fn payments<'s>(
    (session, walk): &'s (Session<'_>, SessionWalk<'_>),
    catalog: &'s Catalog,
) -> impl Iterator<Item = Payment<'s>> {
    let turns = walk.turns.iter().map(|turn| Payment {
        answer: turn.answer,
        cost: turn.cost,
        is_side_request: false,
    });
    let side_requests = session.side_requests.iter().map(move |requests| {
        let mut totals = SpendTotals::default();
        totals.add_side_requests(requests, catalog);
        Payment {
            answer: requests,
            cost: totals.cost,
            is_side_request: true,
        }
    });
    turns.chain(side_requests)
}

/// The sums of all sessions.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) total: Sum,
    pub(super) models: BTreeMap<Arc<str>, Sum>,
    pub(super) projects: BTreeMap<Arc<str>, Sum>,
    /// The first and the last time of an answer.
    pub(super) range: Option<(Millis, Millis)>,
    /// What was sent again: the number of times, the tokens, and their cost.
    pub(super) lost: (u64, u64, Cost),
}

impl Sums {
    pub(super) fn new(sessions: &[(Session<'_>, SessionWalk<'_>)], catalog: &Catalog) -> Self {
        let mut sums = Self::default();
        for session in sessions {
            let (_, walk) = session;
            for payment in payments(session, catalog) {
                let PaidAnswer {
                    project, model, at, ..
                } = payment.answer;
                sums.total.add(&payment);
                sums.projects
                    .entry(Arc::clone(project))
                    .or_default()
                    .add(&payment);
                sums.models
                    .entry(Arc::clone(model))
                    .or_default()
                    .add(&payment);
                if let Some(at) = *at {
                    let (first, last) = sums.range.unwrap_or((at, at));
                    sums.range = Some((first.min(at), last.max(at)));
                }
            }
            let project = sums.projects.entry(Arc::clone(&walk.project));
            project.or_default().sessions += 1;
            let (tokens, cost) = walk.lost();
            let losses = walk.turns.iter().filter(|turn| turn.loss.is_some());
            sums.lost.0 += losses.count() as u64;
            sums.lost.1 = sums.lost.1.saturating_add(tokens);
            sums.lost.2 += cost;
        }
        sums
    }
}

/// Returns the sums with the highest cost first.
pub(super) fn by_cost(sums: &BTreeMap<Arc<str>, Sum>) -> Vec<(&Arc<str>, &Sum)> {
    let mut sorted: Vec<_> = sums.iter().collect();
    sorted.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.cost.picodollars));
    sorted
}

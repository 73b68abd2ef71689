//! What would have saved money.

use cachalot_core::Cost;
use cachalot_prefix::spend::SpendTotals;
use cachalot_prefix::what_if::WhatIf;
use serde::Serialize;

use super::Input;
use crate::remedies;
use crate::render::html::share;

/// A change that would have made the requests of the report cheaper.
#[derive(Serialize)]
pub(super) struct Remedy {
    pub(super) title: String,
    how: Vec<Span>,
    pub(super) saved: String,
    of: String,
    share: u64,
    /// True if other requests or answers would have followed from it.
    pub(super) is_estimate: bool,
}

/// A part of a sentence.
#[derive(Serialize)]
struct Span {
    text: String,
    is_code: bool,
}

/// Returns the parts of a sentence, in which backticks enclose code.
fn spans(sentence: &str) -> Vec<Span> {
    let parts = sentence.split('`').enumerate();
    let spans = parts.map(|(place, text)| Span {
        text: text.to_owned(),
        is_code: place % 2 == 1,
    });
    spans.collect()
}

/// Returns the remedies that would have saved something, the best first.
pub(super) fn remedies(input: &Input<'_>) -> Vec<Remedy> {
    let mut what_if = WhatIf::default();
    let spending = input.spending;
    for answer in &spending.answers {
        what_if.add_answer(answer.clone());
    }
    if let Some(end) = input.complete_until {
        what_if.is_complete_until(end);
    }
    let comparison = what_if.finish(input.catalog, &|project, at| {
        (input.is_shown)(project, Some(at))
    });
    let found = remedies::Remedy::all(&comparison, side_requests(input));
    let found = found.into_iter().map(|remedy| Remedy {
        title: remedy.title(),
        how: spans(&remedy.how()),
        saved: remedy.amount(),
        of: remedy.paid.amount(),
        share: share(remedy.saved.picodollars, remedy.paid.picodollars),
        is_estimate: !remedy.is_computed(),
    });
    found.collect()
}

/// Returns the cost of the requests that are in no line.
fn side_requests(input: &Input<'_>) -> Cost {
    let mut totals = SpendTotals::default();
    let requests = input.spending.side_requests.iter();
    requests
        .filter(|requests| (input.is_shown)(&requests.project, requests.at))
        .for_each(|requests| totals.add_side_requests(requests, input.catalog));
    totals.side_requests
}

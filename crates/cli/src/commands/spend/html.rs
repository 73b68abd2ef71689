//! `cachalot spend --html`.

mod content;
mod days;
mod remedies;
mod sums;
mod turns;

use cachalot_core::Millis;
use cachalot_model::Catalog;
use cachalot_prefix::spend::{PaidAnswer, Spending};
use cachalot_prefix::walk::{Breaks, Walker, sessions};

use self::content::Content;
use crate::command_error::Result;
use crate::render::html::Kind;

const KIND: Kind = Kind {
    name: "spend.html",
    template: include_str!("html/spend.html"),
    script: include_str!("html/spend.js"),
};

/// What the report is made of.
pub(super) struct Input<'a> {
    pub(super) spending: &'a Spending,
    pub(super) breaks: &'a Breaks,
    pub(super) catalog: &'a Catalog,
    /// True for the project and the time of answers in the report; the others may still precede them.
    pub(super) is_shown: &'a dyn Fn(&str, Option<Millis>) -> bool,
    /// The time of the report.
    pub(super) now: Millis,
    /// The end of the time of which all requests are known, if it is later than the last one.
    pub(super) complete_until: Option<Millis>,
}

/// Returns the report as one page.
///
/// # Errors
/// A template is wrong.
pub(super) fn page(input: &Input<'_>) -> Result<String> {
    let is_shown = |answer: &PaidAnswer| (input.is_shown)(&answer.project, answer.at);
    let spending = input.spending;
    let walker = Walker::new(input.catalog, input.breaks);
    let sessions = sessions(&spending.answers, &spending.side_requests);
    let sessions = sessions.into_iter().filter_map(|mut session| {
        let walk = walker.walk_shown(&session, &is_shown);
        session.answers.retain(|answer| is_shown(answer));
        session.side_requests.retain(|requests| is_shown(requests));
        let is_empty = session.answers.is_empty() && session.side_requests.is_empty();
        (!is_empty).then_some((session, walk))
    });
    let mut sessions: Vec<_> = sessions.collect();
    sessions.sort_by_key(|(_, walk)| std::cmp::Reverse(walk.totals.cost.picodollars));
    let content = Content::new(input, &sessions)?;
    KIND.render(content.title(), input.now, &content)
}

//! `cachalot prefix analyze --html`.

use cachalot_core::Millis;
use cachalot_prefix::log::{Analysis, BreakGroup, LoggedBreak};
use serde::Serialize;

use super::lost;
use crate::command_error::Result;
use crate::render;
use crate::render::html::{Kind, share};
use crate::render::visible::on_one_line;

const KIND: Kind = Kind {
    name: "analyze.html",
    template: include_str!("analyze.html"),
    script: "",
};

/// The number of breaks of a group that are shown at once; the others are folded.
const OPEN_BREAKS: usize = 5;

#[derive(Serialize)]
struct Content {
    logs: Vec<Log>,
}

#[derive(Serialize)]
struct Log {
    name: String,
    requests: String,
    conversations: String,
    breaks: String,
    /// The tokens that were paid for again, and their cost; `None` without a break.
    lost: Option<String>,
    /// The part of the reported input that was read from the provider's cache, and that input.
    read: Option<(String, String)>,
    /// Requests that are known from their answers only.
    answers_only: Option<String>,
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct Group {
    reason: String,
    cause: &'static str,
    remedy: &'static str,
    times: String,
    lost: String,
    open: Vec<Break>,
    folded: Vec<Break>,
    /// Breaks that are not in the report.
    more: Option<String>,
}

#[derive(Serialize)]
struct Break {
    line: String,
    previous: String,
    session: String,
    model: String,
    place: Option<String>,
    by_provider: bool,
    lost: String,
    /// The texts before and after.
    texts: Option<(String, String)>,
}

/// Returns the report as one page. The analyses have their breaks one by one.
///
/// # Errors
/// The template is wrong.
pub(super) fn page(analyses: &[(String, Analysis)], now: Millis) -> Result<String> {
    let logs = analyses.iter().map(|(name, analysis)| log(name, analysis));
    let content = Content {
        logs: logs.collect(),
    };
    KIND.render("Prefix breaks", now, &content)
}

fn log(name: &str, analysis: &Analysis) -> Log {
    let broken: u64 = analysis.breaks.iter().map(|group| group.count).sum();
    let (tokens, cost) = analysis.lost();
    let (reported, usage) = &analysis.reported;
    Log {
        name: name.to_owned(),
        requests: render::grouped(analysis.requests),
        conversations: render::count(analysis.conversations, "conversation", "conversations"),
        breaks: render::grouped(broken),
        lost: (broken > 0).then(|| lost(tokens, cost)),
        read: (*reported > 0).then(|| {
            let input = usage.total_input();
            let of = format!("of {} input tokens", render::grouped(input));
            (format!("{} %", share(usage.cache_read, input)), of)
        }),
        answers_only: (analysis.answers_only > 0).then(|| {
            let requests = render::count(analysis.answers_only, "request is", "requests are");
            format!("{requests} known from the answers only: their usage shows what was lost, not where.")
        }),
        groups: analysis.breaks.iter().map(|breaks| group(breaks, analysis)).collect(),
    }
}

fn group(breaks: &BreakGroup, analysis: &Analysis) -> Group {
    let is_of_group = |broken: &&LoggedBreak| {
        let diagnosis = &broken.diagnosis;
        (diagnosis.reason, diagnosis.cause) == (breaks.reason, breaks.cause)
    };
    let mut listed: Vec<_> = analysis.all_breaks.iter().filter(is_of_group).collect();
    listed.sort_by_key(|broken| std::cmp::Reverse(broken.diagnosis.lost_tokens));
    let more = breaks.count.saturating_sub(listed.len() as u64);
    let mut open: Vec<Break> = listed.into_iter().map(shown).collect();
    let folded = open.split_off(open.len().min(OPEN_BREAKS));
    Group {
        reason: breaks.reason.to_string().replace('_', " "),
        cause: breaks
            .cause
            .map_or("the cause is not known", |cause| cause.what()),
        remedy: breaks.cause.map_or("", |cause| cause.remedy()),
        times: render::count(breaks.count, "time", "times"),
        lost: lost(breaks.lost_tokens, breaks.lost_cost),
        open,
        folded,
        more: (more > 0).then(|| render::count(more, "more break", "more breaks")),
    }
}

fn shown(broken: &LoggedBreak) -> Break {
    let diagnosis = &broken.diagnosis;
    let change = diagnosis.change.as_ref();
    Break {
        line: render::grouped(broken.line),
        previous: render::grouped(broken.previous_line),
        session: on_one_line(&broken.session),
        model: on_one_line(&broken.model),
        place: diagnosis.at.as_ref().map(|at| on_one_line(&at.to_string())),
        by_provider: diagnosis.by_provider,
        lost: lost(
            diagnosis.lost_tokens,
            diagnosis.lost_cost.unwrap_or_default(),
        ),
        texts: change.map(|change| (on_one_line(&change.before), on_one_line(&change.after))),
    }
}

//! Results of reviews, as text and as JSON.

use cachalot_agent::ReviewReport;
use serde_json::{Value, json};

use super::sum;
use crate::render;
use crate::render::cut;
use crate::render::visible::on_one_line;

/// The maximum number of characters of a tool's name: a model may call anything.
const MAX_NAME_CHARS: usize = 40;

/// Formats a review on one line: `stored 1 memory · 2400 of the chat's 2400 tokens read from the provider's
/// cache · <$0.01 · denied: shell`.
pub(super) fn line(report: &ReviewReport) -> String {
    let denied = match report.denied.as_slice() {
        [] => None,
        denied => {
            let names = denied
                .iter()
                .map(|name| cut(&on_one_line(name), MAX_NAME_CHARS));
            Some(format!("denied: {}", names.collect::<Vec<_>>().join(", ")))
        }
    };
    let cost = (report.sum.model_calls > 0).then(|| report.sum.paid.cost.to_string());
    let parts = [Some(outcome(report)), read(report), cost, denied];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Returns usage, duration and session id.
pub(super) fn details(report: &ReviewReport) -> String {
    let sum = &report.sum;
    let calls = render::count(sum.model_calls.into(), "model call", "model calls");
    let tools = render::count(sum.tool_calls.into(), "tool call", "tool calls");
    let written = match sum.usage.cache_write() {
        0 => String::new(),
        written => format!(", {written} written to the provider's cache"),
    };
    format!(
        "{calls}, {tools}, {} tokens in ({} of them cached by the provider){written}, {} out · {} · session {}",
        sum.usage.total_input(),
        sum.usage.cache_read,
        sum.usage.output,
        render::time(report.elapsed),
        report.session,
    )
}

/// Returns the report as JSON.
pub(super) fn json(report: &ReviewReport, cut_off: u32) -> Value {
    json!({
        "result": report.result(),
        "failure": report.failure,
        "memories": report.memories,
        "skills": report.skills,
        "denied": report.denied,
        "session": report.session,
        "report": sum::json(&report.sum, cut_off),
    })
}

fn outcome(report: &ReviewReport) -> String {
    if let Some(failure) = &report.failure {
        return format!("failed: {}", on_one_line(failure));
    }
    let memories =
        (report.memories > 0).then(|| render::count(report.memories.into(), "memory", "memories"));
    let skills =
        (report.skills > 0).then(|| render::count(report.skills.into(), "skill", "skills"));
    match memories.into_iter().chain(skills).collect::<Vec<_>>() {
        kept if kept.is_empty() => "nothing to keep".to_owned(),
        kept => format!("stored {}", kept.join(" and ")),
    }
}

/// Returns the share of the chat's prompt that the first request read from the provider's cache.
fn read(report: &ReviewReport) -> Option<String> {
    let first = report.first?;
    Some(match (first.cache_read, report.parent) {
        (0, _) => format!("{} tokens read anew", first.total_input()),
        (read, None) => format!("{read} tokens read from the provider's cache"),
        (read, Some(parent)) => format!(
            "{} of the chat's {} tokens read from the provider's cache",
            // The provider may have cached messages of an earlier review after the chat's.
            read.min(parent.total_input()),
            parent.total_input()
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cachalot_agent::UsageTotals;
    use cachalot_agent::definition::ReviewKind;
    use cachalot_core::{Cost, Spend};
    use cachalot_model::Usage;

    use super::*;

    fn report() -> ReviewReport {
        let usage = |read, input| Usage {
            uncached_input: input,
            cache_read: read,
            ..Usage::default()
        };
        ReviewReport {
            kind: ReviewKind::Combined,
            memories: 1,
            skills: 0,
            text: "I kept one thing.".to_owned(),
            failure: None,
            sum: UsageTotals {
                model_calls: 2,
                tool_calls: 2,
                paid: Spend {
                    cost: Cost {
                        picodollars: 1_200_000_000,
                        ..Cost::default()
                    },
                    ..Spend::default()
                },
                ..UsageTotals::default()
            },
            first: Some(usage(2_400, 100)),
            parent: Some(usage(0, 2_400)),
            denied: vec!["shell".to_owned()],
            session: "review-1".to_owned(),
            elapsed: Duration::from_millis(1_500),
        }
    }

    #[test]
    fn a_review_is_summarized_in_a_line() {
        let mut report = report();
        assert_eq!(
            line(&report),
            "stored 1 memory · 2400 of the chat's 2400 tokens read from the provider's cache · <$0.01 · denied: shell"
        );
        report.skills = 2;
        report.denied.clear();
        report.first = report.parent;
        assert_eq!(
            line(&report),
            "stored 1 memory and 2 skills · 2400 tokens read anew · <$0.01"
        );
        // The provider also cached an earlier review's message.
        report.first = Some(Usage {
            cache_read: 2_600,
            ..Usage::default()
        });
        assert!(line(&report).contains(" · 2400 of the chat's 2400 tokens read "));
        report.parent = None;
        assert!(line(&report).contains(" · 2600 tokens read from the provider's cache · "));
        report.failure = Some("the model\nis away".to_owned());
        report.first = None;
        report.sum = UsageTotals::default();
        assert_eq!(line(&report), "failed: the model is away");
    }

    #[test]
    fn long_tool_names_are_truncated() {
        let report = ReviewReport {
            denied: vec!["x".repeat(3_000), "shell".to_owned()],
            ..report()
        };
        let denied = format!(" · denied: {}…, shell", "x".repeat(40));
        assert!(line(&report).ends_with(&denied), "{}", line(&report));
    }

    #[test]
    fn nothing_to_keep_is_reported_as_success() {
        let report = ReviewReport {
            memories: 0,
            first: None,
            denied: Vec::new(),
            ..report()
        };
        assert_eq!(line(&report), "nothing to keep · <$0.01");
        assert!(details(&report).starts_with("2 model calls, 2 tool calls, "));
    }
}

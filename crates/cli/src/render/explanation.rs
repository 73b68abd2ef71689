//! `why`, in words.

use cachalot_cache::{Answered, Difference, Explanation, Row};
use cachalot_core::clock::iso8601;
use serde_json::Value;

use super::time;

/// Values longer than this are cut when shown.
const LONGEST: usize = 160;

/// The explanation as text.
pub(crate) fn render(explanation: &Explanation) -> String {
    let mut lines = vec![headline(&explanation.call)];
    lines.extend(details(&explanation.call));
    match (&explanation.same, &explanation.nearest) {
        (Some(same), _) => lines.push(format!(
            "the same call was answered before: {} at {}",
            same.answered.as_str(),
            iso8601(same.at)
        )),
        (None, Some(nearest)) => {
            lines.push(format!(
                "nearest earlier call: {} at {}",
                shown_key(nearest),
                iso8601(nearest.at)
            ));
            lines.extend(explanation.differences.iter().map(difference));
            if explanation.hidden_difference {
                lines.push("  they differ in something that is not shown: a secret, or a part that was too long".to_owned());
            } else if explanation.differences.is_empty() {
                lines.push("  their inputs do not differ".to_owned());
            }
        }
        (None, None) if explanation.call.answered != Answered::Hit => {
            lines.push("there was no earlier call like it".to_owned());
        }
        (None, None) => {}
    }
    lines.join("\n") + "\n"
}

fn shown_key(row: &Row) -> &str {
    row.handle.as_deref().unwrap_or(&row.key)
}

fn headline(call: &Row) -> String {
    let how = match call.answered {
        Answered::Hit => format!("answered from the cache, saved {}", time(call.saved)),
        Answered::Coalesced => "answered by a run that was already under way".to_owned(),
        Answered::Miss => format!("paid, {}", time(call.paid)),
        Answered::Refused => "refused: the run was frozen, and no entry answers the call".to_owned(),
        Answered::Bypass => format!("paid, {}, the cache was not asked", time(call.paid)),
    };
    format!("{} ({}): {how}", call.name, call.kind)
}

fn details(call: &Row) -> Vec<String> {
    let mut lines = vec![
        format!("  key     {}", shown_key(call)),
        format!("  scope   {}", call.scope),
        format!("  at      {}", iso8601(call.at)),
    ];
    let optional = [
        ("why     ", &call.reason),
        ("not kept", &call.not_stored),
        ("failed  ", &call.failure),
    ];
    for (what, text) in optional {
        lines.extend(
            text.as_ref()
                .map(|text| format!("  {what} {text}").trim_end().to_owned()),
        );
    }
    lines
}

fn difference(difference: &Difference) -> String {
    let pointer = if difference.pointer.is_empty() {
        "(the whole)"
    } else {
        &difference.pointer
    };
    match (&difference.old, &difference.new) {
        (Some(old), Some(new)) => format!("  {pointer}: {} became {}", value(old), value(new)),
        (None, Some(new)) => format!("  {pointer}: {} is new", value(new)),
        (Some(old), None) => format!("  {pointer}: {} is gone", value(old)),
        (None, None) => format!("  {pointer}"),
    }
}

fn value(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    let cut: String = text.chars().take(LONGEST).collect();
    format!("{cut}…")
}

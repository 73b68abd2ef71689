//! Explanations of `cachalot why`, as text.

use cachalot_cache::{CallKind, CallStatus, Difference, Explanation, LedgerRow};
use cachalot_core::digest::abbreviate;
use cachalot_core::text::{truncate, window};
use cachalot_mcp::caching;
use serde_json::Value;

use super::local_time::to_second;
use super::reason::readable;
use super::table::{self, Column, table};
use super::visible::on_one_line;
use super::{grouped, spend};

/// The maximum length of a value; longer values are cut.
const MAX_VALUE_CHARS: usize = 160;

/// The number of common characters that are shown before two long values differ.
const CHARS_BEFORE_DIFFERENCE: usize = 30;

/// Fields of a broken prefix that its reason already contains.
const FIELDS_IN_REASON: [&str; 4] = ["lost_tokens", "lost_cost", "place", "cause"];

/// Renders the explanation as text: a sentence, the details of the call, and the differences. `writes` are calls that may
/// have invalidated its answer, oldest first. Digests are whole if `verbose` is set.
pub(crate) fn render(explanation: &Explanation, writes: &[LedgerRow], verbose: bool) -> String {
    let call = &explanation.call;
    let mut text = table::headline(&on_one_line(&headline(call)));
    let mut rows = details(call, verbose);
    if call.erased {
        rows.push((
            "erased",
            "its key, input and reasons: nothing else is known".to_owned(),
        ));
        return text + &details_table(rows);
    }
    rows.extend(written_by(writes));
    rows.extend(explanation.payment.as_ref().map(paid));
    text += &details_table(rows);
    if is_payment(call) {
        return text + &known_fields(call);
    }
    let mut lines = Vec::new();
    match (&explanation.same, &explanation.nearest) {
        (Some(same), _) => lines.push(format!(
            "the same call was answered before: {} at {}",
            same.answered.as_str(),
            to_second(same.at)
        )),
        (None, Some(nearest)) => {
            lines.push(format!(
                "nearest earlier call: {} at {}",
                shown_key(nearest, verbose),
                to_second(nearest.at)
            ));
            let (plain, others) = plain(call, &explanation.differences);
            lines.extend(plain.iter().map(|line| format!("  {line}")));
            lines.extend(others.into_iter().map(difference));
            if explanation.hidden_difference {
                lines.push("  they differ in something that is not shown: a secret, or a part that was too long".to_owned());
            } else if explanation.differences.is_empty() {
                lines.push("  their inputs do not differ".to_owned());
            }
        }
        (None, None) if !matches!(call.answered, CallStatus::Hit | CallStatus::Stale) => {
            lines.push("there was no earlier call like it".to_owned());
            if caching::is_of_one_session(call) {
                lines.push("answers of the server are stored for one session: the policy does not say `stateless: true`".to_owned());
            }
        }
        (None, None) => {}
    }
    lines
        .iter()
        .for_each(|line| text += &(on_one_line(line) + "\n"));
    text
}

fn details_table(rows: Vec<(&str, String)>) -> String {
    let columns = [Column::text(""), Column::wrapped("")];
    let rows = rows.into_iter();
    let rows: Vec<Vec<String>> = rows
        .map(|(name, value)| vec![format!("  {name}"), on_one_line(value.trim_end())])
        .collect();
    table(&columns, &rows)
}

/// Returns true for a model's answer in a conversation, which no entry could have saved.
fn is_payment(row: &LedgerRow) -> bool {
    row.kind == CallKind::Prefix.as_str()
}

/// Returns the details of a payment.
fn known_fields(call: &LedgerRow) -> String {
    let fields = call.input.as_ref().and_then(Value::as_object);
    let tokens = |name| {
        let tokens = call.input.as_ref().and_then(|input| input.get(name));
        tokens.and_then(Value::as_u64)
    };
    // `could_have_read` is an estimate, and irrelevant if at least as much was read.
    let read_it_all = tokens("read_from_its_cache") >= tokens("could_have_read");
    let fields = fields.into_iter().flatten();
    let rows: Vec<Vec<String>> = fields
        .filter(|(name, _)| !FIELDS_IN_REASON.contains(&name.as_str()))
        .filter(|(name, _)| !(read_it_all && *name == "could_have_read"))
        .map(|(name, value)| {
            let value = match (value, value.as_u64()) {
                (_, Some(number)) => grouped(number),
                (Value::String(text), _) => on_one_line(text),
                (other, _) => on_one_line(&other.to_string()),
            };
            vec![format!("  {}", name.replace('_', " ")), value]
        })
        .collect();
    table(&[Column::text(""), Column::wrapped("")], &rows)
}

fn shown_key(row: &LedgerRow, verbose: bool) -> &str {
    let key = row.handle.as_deref().unwrap_or(&row.key);
    if verbose { key } else { abbreviate(key) }
}

/// Describes the payment behind an answer from the cache.
fn paid(payment: &LedgerRow) -> (&'static str, String) {
    let (paid, at) = (spend(&payment.paid), to_second(payment.at));
    let reason = payment.reason.iter();
    let reason: String = reason
        .map(|reason| format!(": {}", readable(reason, None)))
        .collect();
    ("paid", format!("{paid} at {at}{reason}"))
}

/// Describes the last of the calls that may have invalidated an answer.
fn written_by(writes: &[LedgerRow]) -> Option<(&'static str, String)> {
    let (last, others) = writes.split_last()?;
    let (_, tool) = caching::proxy_call(last)?;
    let mut text = format!("`{tool}` at {}", to_second(last.at));
    if let Some(reason) = &last.reason {
        text += &format!(", which may change something: {reason}");
    }
    match others.len() {
        0 => {}
        1 => text += "; and 1 more call",
        more => text += &format!("; and {more} more calls"),
    }
    Some(("written by", text))
}

/// Returns the differences that have plain words, and the others.
fn plain<'a>(
    call: &LedgerRow,
    differences: &'a [Difference],
) -> (Vec<String>, Vec<&'a Difference>) {
    match caching::proxy_call(call) {
        Some(_) => caching::plain_differences(differences),
        None => (Vec::new(), differences.iter().collect()),
    }
}

fn headline(call: &LedgerRow) -> String {
    if is_payment(call) {
        return format!("{}: paid, {}", call.name, spend(&call.paid));
    }
    let how = match call.answered {
        CallStatus::Hit => format!("answered from the cache, saved {}", spend(&call.saved)),
        CallStatus::Stale => format!(
            "answered from the cache by an entry that had expired, saved {}",
            spend(&call.saved)
        ),
        CallStatus::Coalesced => "answered by a run that was already under way".to_owned(),
        CallStatus::Miss | CallStatus::Bypass if call.failed => {
            format!("failed, {}", spend(&call.paid))
        }
        CallStatus::Miss => format!("paid, {}", spend(&call.paid)),
        CallStatus::Refused => {
            "refused: the run was frozen, and no entry answers the call".to_owned()
        }
        CallStatus::Bypass => format!("paid, {}, the cache was not asked", spend(&call.paid)),
    };
    format!("{} ({}): {how}", call.name, call.kind)
}

fn details(call: &LedgerRow, verbose: bool) -> Vec<(&'static str, String)> {
    let at = ("at", to_second(call.at));
    if call.erased {
        return vec![at];
    }
    let mut rows = vec![
        ("key", shown_key(call, verbose).to_owned()),
        ("scope", call.scope.clone()),
        at,
    ];
    let optional = [
        ("why", &call.reason),
        ("not kept", &call.not_stored),
        ("failed", &call.failure),
        ("not priced", &call.unpriced),
    ];
    for (name, text) in optional {
        rows.extend(
            text.as_ref()
                .map(|text| (name, readable(text, None).into_owned())),
        );
    }
    rows
}

fn difference(difference: &Difference) -> String {
    let pointer = if difference.pointer.is_empty() {
        "(the whole)"
    } else {
        &difference.pointer
    };
    match (&difference.old, &difference.new) {
        (Some(old), Some(new)) => {
            let (old, new) = (old.to_string(), new.to_string());
            // The common beginning is not shown: it would take the space of the difference.
            let from = match differ_at(&old, &new).checked_sub(CHARS_BEFORE_DIFFERENCE) {
                Some(from) if [&old, &new].iter().any(|text| is_long(text)) => from,
                _ => 0,
            };
            format!(
                "  {pointer}: {} became {}",
                window(&old, from, MAX_VALUE_CHARS),
                window(&new, from, MAX_VALUE_CHARS)
            )
        }
        (None, Some(new)) => format!("  {pointer}: {} is new", value(new)),
        (Some(old), None) => format!("  {pointer}: {} is gone", value(old)),
        (None, None) => format!("  {pointer}"),
    }
}

fn value(value: &Value) -> String {
    truncate(&value.to_string(), MAX_VALUE_CHARS).into_owned()
}

fn is_long(text: &str) -> bool {
    text.chars().nth(MAX_VALUE_CHARS).is_some()
}

/// Returns the number of characters that two texts have in common at the beginning.
fn differ_at(old: &str, new: &str) -> usize {
    let both = old.chars().zip(new.chars());
    both.take_while(|(old, new)| old == new).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        difference(&Difference {
            pointer: "/text".to_owned(),
            old: Some(old.into()),
            new: Some(new.into()),
        })
    }

    #[test]
    fn long_texts_are_shown_where_they_differ() {
        let (same, rest) = ("é".repeat(1_000), "z".repeat(1_000));
        let text = shown(&format!("{same}old{rest}"), &format!("{same}new{rest}"));
        let (old, new) = text.split_once(" became ").unwrap_or_default();
        for (shown, word) in [(old, "old"), (new, "new")] {
            let expected = format!(
                "…{}{word}{}…",
                "é".repeat(CHARS_BEFORE_DIFFERENCE),
                "z".repeat(MAX_VALUE_CHARS - CHARS_BEFORE_DIFFERENCE - 3)
            );
            assert!(shown.ends_with(&expected), "{shown}");
        }
        let text = shown(&same, &format!("{same}, and more"));
        assert!(
            text.contains("é\" became …é") && text.ends_with("é, and more\""),
            "{text}"
        );
    }

    #[test]
    fn short_texts_and_early_differences_are_shown_from_their_beginning() {
        assert_eq!(shown("a b", "a c"), "  /text: \"a b\" became \"a c\"");
        let text = shown("a", &"b".repeat(1_000));
        assert!(
            text.starts_with("  /text: \"a\" became \"bbb") && text.ends_with("b…"),
            "{text}"
        );
    }
}

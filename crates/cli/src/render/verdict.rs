//! What hooks say, each and together.

use std::fmt::Write as _;

use cachalot_hooks::{Decision, Event, Output, Report, Verdict};
use serde_json::{Map, Value, json};

use super::table::columns;
use super::visible::{on_one_line, visible};

/// For people: a row for each handler, and what comes of it.
pub(crate) fn as_text(event: Event, verdict: &Verdict) -> String {
    let mut text = String::new();
    if verdict.reports.is_empty() {
        let _ = writeln!(text, "{event}: no hook is told of this");
        return text;
    }
    let rows: Vec<Vec<String>> = verdict.reports.iter().map(row).collect();
    text += &columns(&rows);
    let _ = writeln!(text, "{event}: {}", together(verdict));
    for message in &verdict.messages {
        let _ = writeln!(text, "  message: {}", visible(message));
    }
    for (key, value) in said(verdict) {
        let _ = writeln!(text, "  {key}: {}", visible(&plain(&value)));
    }
    text
}

fn row(report: &Report) -> Vec<String> {
    let verdict = match &report.said {
        Ok(output) => on_one_line(&alone(output)),
        Err(fault) => on_one_line(&format!("failed: {fault}")),
    };
    vec![
        on_one_line(&report.handler),
        super::time(report.elapsed),
        verdict,
    ]
}

/// What one handler wants.
fn alone(output: &Output) -> String {
    if let Some(reason) = &output.block {
        return format!("deny: {reason}");
    }
    match &output.permission {
        Some((decision, Some(reason))) => format!("{}: {reason}", decision.name()),
        Some((decision, None)) => decision.name().to_owned(),
        None if *output == Output::default() => "nothing to say".to_owned(),
        None => "has something to say".to_owned(),
    }
}

/// What all of them want.
fn together(verdict: &Verdict) -> String {
    match (&verdict.decision, &verdict.synthetic, &verdict.goes_on) {
        (Some((decision, reason)), _, _) if reason.is_empty() => decision.name().to_owned(),
        (Some((decision, reason)), _, _) => format!("{}: {}", decision.name(), visible(reason)),
        (None, Some(_), _) => "answered without a model".to_owned(),
        (None, None, Some(reason)) => format!("goes on: {}", visible(reason)),
        (None, None, None) => "goes ahead".to_owned(),
    }
}

/// What is said beside the decision, by the keys that handlers use.
fn said(verdict: &Verdict) -> Map<String, Value> {
    let Verdict {
        decision: _,
        goes_on: _,
        messages: _,
        context,
        updated_input,
        updated_messages,
        updated_tool_response,
        summary,
        synthetic,
        metadata,
        spent: _,
        reports: _,
    } = verdict;
    let said = [
        (
            "additional_context",
            (!context.is_empty()).then(|| json!(context.join("\n"))),
        ),
        (
            "updated_input",
            updated_input.as_ref().map(|input| json!(input)),
        ),
        (
            "updated_messages",
            updated_messages.as_ref().map(|messages| json!(messages)),
        ),
        (
            "updated_tool_response",
            updated_tool_response.as_ref().map(|text| json!(text)),
        ),
        ("summary", summary.as_ref().map(|text| json!(text))),
        (
            "synthetic_response",
            synthetic.as_ref().map(|synthetic| json!(synthetic.content)),
        ),
        ("metadata", (!metadata.is_empty()).then(|| json!(metadata))),
    ];
    said.into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// For programs.
pub(crate) fn as_json(event: Event, verdict: &Verdict) -> Value {
    let handlers: Vec<Value> = verdict
        .reports
        .iter()
        .map(|report| {
            let (said, fault) = match &report.said {
                Ok(output) => (json!(alone(output)), Value::Null),
                Err(fault) => (Value::Null, json!(fault.message)),
            };
            json!({
                "handler": report.handler,
                "ms": report.elapsed.as_secs_f64() * 1_000.0,
                "said": said,
                "fault": fault,
            })
        })
        .collect();
    let decision = verdict.decision.as_ref();
    json!({
        "event": event.name(),
        "handlers": handlers,
        "decision": decision.map(|(decision, _)| Decision::name(*decision)),
        "reason": decision.map(|(_, reason)| reason),
        "goes_on": verdict.goes_on,
        "messages": verdict.messages,
        "said": said(verdict),
    })
}

//! Verdicts of hooks, of each handler and combined.

use std::fmt::Write as _;

use cachalot_hooks::contract::{BlockEffect, SpecificOutput};
use cachalot_hooks::{Decision, Event, HandlerReport, Output, Verdict};
use cachalot_model::{Block, Message, Role};
use serde_json::{Map, Value, json};

use super::table::{self, Column, table};
use super::visible::{on_one_line, visible};

/// The key with which handlers rewrite messages.
const UPDATED_MESSAGES: &str = "updated_messages";

/// Formats the combined verdict and a row for each handler.
pub(crate) fn as_text(event: Event, verdict: &Verdict) -> String {
    let mut text = String::new();
    if verdict.reports.is_empty() {
        let _ = writeln!(text, "{event}: no hook is configured");
        return text;
    }
    let rows = verdict.reports.iter().map(|report| {
        vec![
            on_one_line(&report.handler),
            super::time(report.elapsed),
            on_one_line(&format_handler_verdict(event, report, verdict)),
        ]
    });
    let sentence = format!("{event}: {}", visible(&format_verdict(verdict)));
    text += &table::headline(&sentence);
    let columns = [Column::whole(""), Column::number(""), Column::wrapped("")];
    text += &table(&columns, &rows.collect::<Vec<_>>());
    let is_news = |message: &&String| !faults(verdict).any(|fault| message.ends_with(fault));
    for message in verdict.messages.iter().filter(is_news) {
        let _ = writeln!(text, "  message: {}", visible(message));
    }
    if let Some(reason) = verdict
        .ends_turn
        .as_ref()
        .filter(|_| verdict.denial().is_none())
    {
        let _ = writeln!(text, "  ends the turn: {}", visible(reason));
    }
    for (key, value) in verdict_fields(verdict) {
        match &verdict.updated_messages {
            Some(messages) if key == UPDATED_MESSAGES => {
                let _ = write!(text, "  {key}:\n{}", dialogue(messages));
            }
            _ => {
                let _ = writeln!(text, "  {key}: {}", visible(&plain(&value)));
            }
        }
    }
    text
}

/// Describes the result of one handler, as far as it counts at this event.
fn format_handler_verdict(event: Event, report: &HandlerReport, verdict: &Verdict) -> String {
    let output = match &report.result {
        Ok(output) => output,
        Err(fault) => return format!("failed: {fault}"),
    };
    let contract = event.contract();
    if let Some(reason) = &output.block {
        let continue_reason = verdict.continue_reason.as_ref();
        let did = match contract.blocks {
            BlockEffect::Refusal => "deny",
            BlockEffect::Continue if continue_reason.is_some_and(|all| all.contains(reason)) => {
                "continues"
            }
            BlockEffect::Continue | BlockEffect::Nothing => "wanted to block",
        };
        return with_reason(did, reason);
    }
    match &output.permission {
        Some((decision, reason)) => {
            let reason = reason.as_deref().unwrap_or_default();
            if contract.honours(SpecificOutput::PermissionDecision) {
                with_reason(decision.name(), reason)
            } else {
                with_reason(&format!("returned `{}`", decision.name()), reason)
            }
        }
        None if *output == Output::default() => "no output".to_owned(),
        None => "has output".to_owned(),
    }
}

/// Describes the combined verdict. The error of a failed handler is only in its row.
fn format_verdict(verdict: &Verdict) -> String {
    match (
        &verdict.decision,
        &verdict.synthetic,
        &verdict.continue_reason,
    ) {
        (Some((decision, reason)), _, _) => {
            let told = faults(verdict).find_map(|fault| reason.strip_suffix(fault));
            let reason = told.map_or(reason.as_str(), |before| before.trim_end_matches(": "));
            with_reason(decision.name(), reason)
        }
        (None, Some(_), _) => "answered without a model".to_owned(),
        (None, None, Some(reason)) => with_reason("continues", reason),
        (None, None, None) => "goes ahead".to_owned(),
    }
}

fn with_reason(what: &str, why: &str) -> String {
    match why {
        "" => what.to_owned(),
        why => format!("{what}: {why}"),
    }
}

/// Returns the errors of handlers that failed.
fn faults(verdict: &Verdict) -> impl Iterator<Item = &str> {
    let faults = verdict
        .reports
        .iter()
        .filter_map(|report| report.result.as_ref().err());
    faults.map(|fault| fault.message.as_str())
}

/// Returns the role and the text of each block of messages.
fn conversation(messages: &[Message]) -> impl Iterator<Item = (&'static str, String)> {
    messages.iter().flat_map(|message| {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let blocks = message.content.iter();
        blocks.map(move |block| (who, in_words(block)))
    })
}

/// Formats messages as lines; the lines of one text stay together.
fn dialogue(messages: &[Message]) -> String {
    let lines = conversation(messages).map(|(who, text)| {
        let text = visible(&text).replace('\n', "\n      ");
        format!("    {who}: {text}\n")
    });
    lines.collect()
}

fn in_words(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => text.clone(),
        Block::Image(_) => "[an image]".to_owned(),
        Block::ToolUse(call) => format!("[calls {} {}]", call.name, call.arguments),
        Block::ToolResult(result) => {
            let content: Vec<String> = result.content.iter().map(in_words).collect();
            format!("[result of {}] {}", result.id, content.join("\n"))
        }
        Block::Reasoning(thought) => format!("[thinks] {}", thought.text),
        Block::Other { format, .. } => format!("[something of the format {format:?}]"),
    }
}

/// Returns everything besides the decision, by the keys that handlers use.
fn verdict_fields(verdict: &Verdict) -> Map<String, Value> {
    let Verdict {
        decision: _,
        continue_reason: _,
        ends_turn: _,
        messages: _,
        context,
        updated_input,
        removed_input,
        updated_messages,
        updated_tool_response,
        summary,
        synthetic,
        metadata,
        environment,
        spent: _,
        reports: _,
    } = verdict;
    let text = |parts: &[String], separator| {
        let is_present = !parts.is_empty();
        is_present.then(|| parts.join(separator))
    };
    // Values of variables may be secret.
    let variables: Vec<String> = environment.keys().cloned().collect();
    let updated_messages = updated_messages.as_ref().map(|messages| {
        let blocks = conversation(messages);
        blocks
            .map(|(who, text)| json!({"role": who, "content": text}))
            .collect::<Vec<_>>()
    });
    let mut fields = json!({
        "additional_context": text(context, "\n"),
        "updated_input": updated_input,
        "removed_input": text(removed_input, ", "),
        UPDATED_MESSAGES: updated_messages,
        "updated_tool_response": updated_tool_response,
        "summary": summary,
        "synthetic_response": synthetic.as_ref().map(|synthetic| &synthetic.content),
        "metadata": Some(metadata).filter(|metadata| !metadata.is_empty()),
        "environment": text(&variables, ", "),
    });
    let mut fields = fields
        .as_object_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    fields.retain(|_, value| !value.is_null());
    fields
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Returns the verdict as JSON.
pub(crate) fn as_json(event: Event, verdict: &Verdict) -> Value {
    let handlers: Vec<Value> = verdict
        .reports
        .iter()
        .map(|report| {
            let (output, fault) = match &report.result {
                Ok(_) => (
                    json!(format_handler_verdict(event, report, verdict)),
                    Value::Null,
                ),
                Err(fault) => (Value::Null, json!(fault.message)),
            };
            json!({
                "handler": report.handler,
                "ms": report.elapsed.as_secs_f64() * 1_000.0,
                "said": output,
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
        "goes_on": verdict.continue_reason,
        "messages": verdict.messages,
        "said": verdict_fields(verdict),
    })
}

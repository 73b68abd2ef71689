//! Content of a session.

use std::collections::HashMap;
use std::io::Write as _;

use cachalot_agent::{Provenance, UsageTotals};
use cachalot_core::clock::iso8601;
use cachalot_model::{Block, Message, Role, ToolResult, wire};
use cachalot_prompt::{Session, prefix};
use serde_json::json;

use crate::chat::{sum, words};
use crate::command_error::Result;
use crate::render;
use crate::render::local_time::to_second;
use crate::render::visible::{on_one_line, visible};

/// Prints the bytes that were sent to the provider, up to the end of the messages.
pub(super) fn raw(session: &Session) -> Result<()> {
    let wire = wire::for_format(session.head.format);
    let mut stdout = render::stdout::open()?;
    for piece in prefix(&session.prompt, wire) {
        stdout.write_all(&piece)?;
    }
    stdout.flush()?;
    Ok(())
}

/// Prints the session as JSON.
pub(super) fn json(session: &Session) -> Result<()> {
    let messages = session.prompt.messages();
    let messages: Vec<&Message> = messages.iter().map(|message| &**message).collect();
    let head = &session.head;
    render::json(&json!({
        "id": head.id,
        "agent": head.agent,
        "provider": head.provider,
        "model": head.model,
        "workspace": head.workspace,
        "created": iso8601(head.created),
        "messages": messages,
        "report": sum::json(&used(session), 0),
    }))
}

/// Prints the session as text.
pub(super) fn print_text(session: &Session) -> Result<()> {
    let head = &session.head;
    let messages = session.prompt.messages();
    let count = render::count(messages.len() as u64, "message", "messages");
    let mut text = format!(
        "session {} · {} ({}/{}) · {count} · {}\n{}\n",
        head.id,
        on_one_line(&head.agent),
        on_one_line(&head.provider),
        on_one_line(&head.model),
        to_second(head.created),
        sum::line(&used(session), 0),
    );
    let mut called: HashMap<&str, &str> = HashMap::new();
    let mut speaking = None;
    for message in &messages {
        for block in &message.content {
            let speaker = match (message.role, block) {
                // A tool result is attributed to the caller of the tool.
                (Role::User, Block::ToolResult(_)) | (Role::Assistant, _) => head.agent.as_str(),
                (Role::User, _) => "user",
            };
            if speaking != Some((speaker, message.role)) {
                if speaking.is_none_or(|(before, _)| before != speaker) {
                    text += &format!("\n{}:\n", on_one_line(speaker));
                }
                speaking = Some((speaker, message.role));
            }
            text += &format_block(block, &called);
            if let Block::ToolUse(call) = block {
                called.insert(&call.id, &call.name);
            }
        }
        if let Some(provenance) = Provenance::from_message(message) {
            text += &format!("  ({})\n", words::synthetic(&provenance));
        }
    }
    render::out(&text)
}

fn used(session: &Session) -> UsageTotals {
    UsageTotals {
        model_calls: u32::try_from(session.totals.answers).unwrap_or(u32::MAX),
        usage: session.totals.usage,
        paid: session.totals.spent,
        ..UsageTotals::default()
    }
}

/// Formats a block. `called` contains the tools of calls, by the calls' ids.
fn format_block(block: &Block, called: &HashMap<&str, &str>) -> String {
    match block {
        Block::Text { text, .. } => indented(text, "  "),
        Block::Image(_) => "  (a picture)\n".to_owned(),
        Block::ToolUse(call) => {
            let arguments = on_one_line(&call.arguments);
            format!("  → {} {arguments}\n", on_one_line(&call.name))
        }
        Block::ToolResult(result) => {
            let name = called.get(result.id.as_str()).copied().unwrap_or("?");
            let failed = if result.is_error { " failed" } else { "" };
            let text = text_of(result);
            format!(
                "  ← {}{failed}\n{}",
                on_one_line(name),
                indented(&text, "    ")
            )
        }
        Block::Reasoning(reasoning) if reasoning.text.trim().is_empty() => String::new(),
        Block::Reasoning(reasoning) => indented(&format!("({})", reasoning.text.trim()), "  "),
        Block::Other { .. } => "  (something that only its provider can show)\n".to_owned(),
    }
}

fn text_of(result: &ToolResult) -> String {
    result
        .content
        .iter()
        .map(|block| match block {
            Block::Text { text, .. } => text.as_str(),
            _ => "(a picture)\n",
        })
        .collect()
}

fn indented(text: &str, by: &str) -> String {
    visible(text.trim_end())
        .lines()
        .map(|line| format!("{by}{line}").trim_end().to_owned() + "\n")
        .collect()
}

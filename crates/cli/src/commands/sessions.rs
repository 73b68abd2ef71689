//! `cachalot sessions`.

use std::sync::Arc;

use cachalot_cache::Bounds;
use cachalot_core::clock::iso8601;
use cachalot_model::{Block, Message, Role, wire};
use cachalot_prompt::{Listing, Overview, Session, Sessions, Summary, prefix};
use serde_json::{Value, json};

use crate::arguments::{SessionsCommand, Where};
use crate::outcome::{Result, Trouble};
use crate::render;
use crate::wiring::{Opening, Surroundings, Warn};

pub(crate) async fn run(
    command: &SessionsCommand,
    surroundings: &Surroundings,
    warn: Warn,
) -> Result<()> {
    match command {
        SessionsCommand::Ls { place, all, json } => {
            let sessions = open(place, surroundings, warn)?;
            list(&sessions, *all, *json).await
        }
        SessionsCommand::Show {
            id,
            place,
            json,
            raw,
        } => {
            let sessions = open(place, surroundings, warn)?;
            let session = sessions
                .open(id)
                .await
                .map_err(Trouble::failed)?
                .ok_or_else(|| absent(id))?;
            show(&session, *json, *raw)
        }
        SessionsCommand::Rm { ids, all, place } => {
            let sessions = open(place, surroundings, warn)?;
            remove(&sessions, ids, *all).await
        }
    }
}

fn open(place: &Where, surroundings: &Surroundings, warn: Warn) -> Result<Sessions> {
    let home = surroundings.home(place.db.as_deref(), None)?;
    let engine = Opening {
        surroundings,
        home: &home,
        run: "",
        bounds: Bounds::default(),
        secrets: false,
        warn,
    }
    .for_inspection()?;
    let memory = engine
        .memory
        .ok_or_else(|| Trouble::failed("there is no memory"))?;
    Ok(Sessions::new(
        memory,
        Arc::clone(&surroundings.clock),
        engine.seals,
    ))
}

fn absent(id: &str) -> Trouble {
    Trouble::failed(format!(
        "there is no session `{id}`; `cachalot sessions ls` lists them"
    ))
}

async fn list(sessions: &Sessions, all: bool, as_json: bool) -> Result<()> {
    let mut found = sessions
        .list(&Listing::default())
        .await
        .map_err(Trouble::failed)?;
    found.retain(|summary| {
        let delegated = matches!(&summary.state, Ok(overview) if overview.head.parent.is_some());
        all || !delegated
    });
    found.sort_by_key(|summary| std::cmp::Reverse(summary.saved));
    if as_json {
        let listed: Vec<Value> = found.iter().map(summary_json).collect();
        return render::json(&json!({ "sessions": listed }));
    }
    let mut rows = vec![
        [
            "session", "agent", "model", "messages", "cost", "changed", "about",
        ]
        .map(ToOwned::to_owned)
        .to_vec(),
    ];
    rows.extend(found.iter().map(row));
    render::out(&render::table::columns(&rows))
}

fn row(summary: &Summary) -> Vec<String> {
    let changed = iso8601(summary.saved);
    match &summary.state {
        Ok(Overview {
            head,
            totals,
            messages,
            ..
        }) => vec![
            summary.id.clone(),
            head.agent.clone(),
            format!("{}/{}", head.provider, head.model),
            messages.to_string(),
            totals.spent.cost.to_string(),
            changed,
            head.title.clone().unwrap_or_default(),
        ],
        Err(error) => {
            let mut row = vec![summary.id.clone()];
            row.extend(std::iter::repeat_n("?".to_owned(), 4));
            row.extend([changed, error.to_string()]);
            row
        }
    }
}

fn summary_json(summary: &Summary) -> Value {
    match &summary.state {
        Ok(overview) => {
            let head = &overview.head;
            json!({
                "id": summary.id, "agent": head.agent, "provider": head.provider,
                "model": head.model, "title": head.title, "workspace": head.workspace,
                "parent": head.parent, "created": iso8601(head.created),
                "saved": iso8601(summary.saved), "messages": overview.messages,
                "bytes": overview.bytes,
                "input_tokens": overview.totals.spent.input_tokens,
                "output_tokens": overview.totals.spent.output_tokens,
                "dollars": overview.totals.spent.cost.dollars(),
                "unpriced_calls": overview.totals.spent.cost.unpriced,
            })
        }
        Err(error) => json!({
            "id": summary.id, "saved": iso8601(summary.saved), "error": error.to_string(),
        }),
    }
}

fn show(session: &Session, as_json: bool, raw: bool) -> Result<()> {
    if raw {
        let wire = wire::of(session.head.format);
        let bytes: Vec<u8> = prefix(&session.prompt, wire).concat();
        let text = String::from_utf8_lossy(&bytes);
        return render::out(&format!("{text}\n"));
    }
    let messages = session.prompt.messages();
    if as_json {
        let messages: Vec<&Message> = messages.iter().map(|message| &**message).collect();
        return render::json(&json!({
            "id": session.head.id, "agent": session.head.agent, "messages": messages,
        }));
    }
    let mut text = String::new();
    for message in &messages {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => session.head.agent.as_str(),
        };
        for block in &message.content {
            text += &told(who, block);
        }
    }
    render::out(&text)
}

/// A block as people read it.
fn told(who: &str, block: &Block) -> String {
    match block {
        Block::Text { text, .. } => format!("{who}: {}\n", text.trim_end()),
        Block::Image(_) => format!("{who}: (a picture)\n"),
        Block::ToolUse(call) => format!("{who}: → {} {}\n", call.name, call.arguments),
        Block::ToolResult(result) => {
            let text: String = result
                .content
                .iter()
                .map(|block| match block {
                    Block::Text { text, .. } => text.as_str(),
                    _ => "(a picture)",
                })
                .collect();
            let failed = if result.is_error { "failed: " } else { "" };
            format!("← {failed}{}\n", text.trim_end())
        }
        Block::Reasoning(reasoning) if reasoning.text.is_empty() => String::new(),
        Block::Reasoning(reasoning) => format!("({})\n", reasoning.text.trim_end()),
        Block::Other { .. } => format!("{who}: (something that only its provider can show)\n"),
    }
}

async fn remove(sessions: &Sessions, ids: &[String], all: bool) -> Result<()> {
    let mut chosen = Vec::new();
    if all {
        let found = sessions
            .list(&Listing::default())
            .await
            .map_err(Trouble::failed)?;
        chosen.extend(found.into_iter().map(|summary| summary.id));
    }
    for id in ids {
        // All are looked up before any is removed.
        let found = sessions.resolve(id).await.map_err(Trouble::failed)?;
        chosen.push(found.ok_or_else(|| absent(id))?);
    }
    let mut removed: u64 = 0;
    for id in &chosen {
        removed += u64::from(sessions.remove(id).await.map_err(Trouble::failed)?);
    }
    render::err(&format!(
        "{} removed",
        render::count(removed, "session", "sessions")
    ));
    Ok(())
}

//! `cachalot sessions`.

mod export;
mod show;
pub(crate) mod tree;

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use cachalot_cache::{Ledger, LedgerSelection};
use cachalot_core::Cost;
use cachalot_core::clock::iso8601;
use cachalot_prompt::{SessionFilter, SessionOverview, SessionSummary, Sessions};
use serde_json::{Value, json};

use crate::arguments::{SessionsCommand, StoreArguments};
use crate::chat::sum::dollars;
use crate::command_error::{CommandError, Result};
use crate::render::local_time::to_second;
use crate::render::table::{self, Column, table};
use crate::render::visible::on_one_line;
use crate::render::{self, cut, grouped};
use crate::wiring::{Engine, EngineOptions, ProcessEnvironment, Warn};

/// The maximum length of a title in the list, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// Lists, shows, draws, exports and removes sessions.
///
/// # Errors
/// There is no store or no such session, or the store fails.
pub(crate) async fn run(
    command: &SessionsCommand,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    match command {
        SessionsCommand::Ls { place, all, json } => {
            let home = process_environment.home(place.db.as_deref(), None)?;
            let opening = EngineOptions::new(process_environment, &home, "", warn);
            let sessions = sessions_of(opening.for_listing(place)?, process_environment)?;
            list(&sessions, *all, *json).await
        }
        SessionsCommand::Show {
            id,
            place,
            json,
            raw,
        } => {
            let sessions = open(place, process_environment, Arc::clone(&warn))?;
            let session = sessions.open(id).await?.ok_or_else(|| absent(id))?;
            if session.holds_secrets() {
                warn("the session holds something that was known as a secret when it was written");
            }
            match (raw, json) {
                (true, _) => show::raw(&session),
                (_, true) => show::json(&session),
                _ => show::print_text(&session),
            }
        }
        SessionsCommand::Rm { ids, all, report } => {
            let home = process_environment.home(report.place.db.as_deref(), None)?;
            let ledger = Ledger::at(&home.ledger, "", Arc::clone(&warn));
            let sessions = open(&report.place, process_environment, warn)?;
            remove(&sessions, &ledger, ids, *all, report.json).await
        }
        SessionsCommand::Tree { agent, report } => {
            let sessions = open(&report.place, process_environment, warn)?;
            tree::tree(&sessions, agent.as_deref(), report.json).await
        }
        SessionsCommand::Export {
            ids,
            all,
            out,
            with_secrets,
            place,
        } => {
            let home = process_environment.home(place.db.as_deref(), None)?;
            let sessions = open(place, process_environment, Arc::clone(&warn))?;
            let export = export::Export {
                ids,
                all: *all,
                out: out.as_deref().unwrap_or(Path::new("-")),
                with_secrets: *with_secrets,
                warn,
            };
            export.run(&sessions, &home).await
        }
        SessionsCommand::Sweep(report) => {
            let sessions = open(&report.place, process_environment, warn)?;
            sweep(&sessions, report.json).await
        }
    }
}

pub(crate) fn open(
    place: &StoreArguments,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<Sessions> {
    let home = process_environment.home(place.db.as_deref(), None)?;
    let engine = EngineOptions::new(process_environment, &home, "", warn).for_inspection()?;
    sessions_of(engine, process_environment)
}

fn sessions_of(engine: Engine, process_environment: &ProcessEnvironment) -> Result<Sessions> {
    let store = engine
        .store
        .ok_or_else(|| CommandError::failed("there is no store"))?;
    Ok(Sessions::new(
        store,
        Arc::clone(&process_environment.clock),
        engine.secret_set,
    ))
}

fn absent(id: &str) -> CommandError {
    let id = on_one_line(id);
    CommandError::failed(format!(
        "there is no session `{id}`; `cachalot sessions ls` lists them"
    ))
}

async fn all_sessions(sessions: &Sessions, parent: Option<&str>) -> Result<Vec<SessionSummary>> {
    let listing = SessionFilter {
        parent,
        ..SessionFilter::default()
    };
    Ok(sessions.list(&listing).await?)
}

async fn list(sessions: &Sessions, all: bool, as_json: bool) -> Result<()> {
    let mut found = all_sessions(sessions, None).await?;
    found.retain(|summary| {
        let delegated = matches!(&summary.state, Ok(overview) if overview.head.parent.is_some());
        all || !delegated
    });
    if as_json {
        let listed: Vec<Value> = found.iter().map(summary_json).collect();
        return render::json(&listed);
    }
    if found.is_empty() {
        render::err("there are no sessions: `cachalot chat FILE` begins one");
        return Ok(());
    }
    let columns = [
        Column::whole("session"),
        Column::text("agent"),
        Column::text("model").optional(),
        Column::number("messages").optional(),
        Column::number("cost"),
        Column::whole("changed"),
        Column::wrapped("about"),
    ];
    let mut text = String::new();
    if std::io::stdout().is_terminal() {
        text += &format!("{}\n", table::headline(&describe(&found)));
    }
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    render::out(&(text + &table(&columns, &rows)))
}

/// One sentence: the number of the sessions, their cost, and the newest.
fn describe(found: &[SessionSummary]) -> String {
    let mut cost = Cost::default();
    for summary in found {
        if let Ok(overview) = &summary.state {
            cost += overview.totals.spent.cost;
        }
    }
    let sessions = render::count(found.len() as u64, "session", "sessions");
    let newest = found.iter().map(|summary| summary.saved).max();
    let newest = newest.map_or_else(String::new, to_second);
    format!("{sessions}, {cost}; the newest was changed at {newest}")
}

fn row(summary: &SessionSummary) -> Vec<String> {
    let changed = to_second(summary.saved);
    match &summary.state {
        Ok(SessionOverview {
            head,
            totals,
            messages,
            ..
        }) => vec![
            summary.id.clone(),
            on_one_line(&head.agent),
            on_one_line(&format!("{}/{}", head.provider, head.model)),
            grouped(*messages),
            totals.spent.cost.to_string(),
            changed,
            cut(
                &on_one_line(head.title.as_deref().unwrap_or_default()),
                MAX_TITLE_CHARS,
            ),
        ],
        Err(error) => {
            let mut row = vec![summary.id.clone()];
            row.extend(std::iter::repeat_n("?".to_owned(), 4));
            row.extend([changed, on_one_line(&error.to_string())]);
            row
        }
    }
}

fn summary_json(summary: &SessionSummary) -> Value {
    match &summary.state {
        Ok(overview) => {
            let head = &overview.head;
            let spent = &overview.totals.spent;
            json!({
                "id": summary.id, "agent": head.agent, "provider": head.provider,
                "model": head.model, "title": head.title, "workspace": head.workspace,
                "parent": head.parent, "created": iso8601(head.created),
                "saved": iso8601(summary.saved), "messages": overview.messages,
                "bytes": overview.bytes, "holds_secrets": overview.holds_secrets,
                "input_tokens": spent.input_tokens,
                "cached_input_tokens": overview.totals.usage.cache_read,
                "output_tokens": spent.output_tokens,
                "dollars": dollars(spent.cost), "unpriced_calls": spent.cost.unpriced,
            })
        }
        Err(error) => json!({
            "id": summary.id, "saved": iso8601(summary.saved), "error": error.to_string(),
        }),
    }
}

/// Removes the chosen sessions and their descendants (forks and delegations). The ledger keeps the costs of
/// their calls and erases the details.
async fn remove(
    sessions: &Sessions,
    ledger: &Ledger,
    ids: &[String],
    all: bool,
    as_json: bool,
) -> Result<()> {
    let mut chosen = Vec::new();
    if all {
        let found = all_sessions(sessions, None).await?;
        chosen.extend(found.into_iter().map(|summary| summary.id));
    }
    for id in ids {
        // All ids are resolved before any session is removed.
        let found = sessions.resolve(id).await?.ok_or_else(|| absent(id))?;
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    let mut next = 0;
    while let Some(id) = chosen.get(next).cloned() {
        next += 1;
        for child in all_sessions(sessions, Some(&id)).await? {
            if !chosen.contains(&child.id) {
                chosen.push(child.id);
            }
        }
    }
    // The ledger is erased first: if that fails, the sessions still exist, and the command can be repeated.
    let which = if all {
        LedgerSelection::AllSessions
    } else {
        LedgerSelection::Sessions(&chosen)
    };
    ledger.erase(which, false)?;
    let mut removed = Vec::new();
    for id in chosen {
        if sessions.remove(&id).await? {
            removed.push(id);
        }
    }
    let count = removed.len() as u64;
    if as_json {
        return render::json(&json!({ "removed": removed, "count": count }));
    }
    for id in &removed {
        render::out(&format!("{id}\n"))?;
    }
    let sessions = render::count(count, "session", "sessions");
    render::err(&format!("removed {sessions}"));
    Ok(())
}

/// Erases pieces that no session needs.
async fn sweep(sessions: &Sessions, as_json: bool) -> Result<()> {
    let swept = sessions.sweep().await?;
    if as_json {
        return render::json(&json!({"pieces": swept.pieces, "bytes": swept.bytes}));
    }
    render::err(&match swept.pieces {
        0 => "swept nothing: every piece is needed".to_owned(),
        pieces => format!(
            "swept {} that no session needs, {}",
            render::count(pieces, "piece", "pieces"),
            render::bytes(swept.bytes)
        ),
    });
    Ok(())
}

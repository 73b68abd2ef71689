//! `cachalot prefix live`.
//!
//! Chats record each answer of a model in the ledger, with the diagnosis of its prefix; gateways record the
//! breaks of their clients. This command follows the ledger's file, so it sees the chats and gateways of every
//! process that uses the same database.

use std::time::Duration;

use cachalot_cache::{Ledger, LedgerRow};
use cachalot_core::Millis;
use cachalot_core::clock::iso8601;
use serde_json::{Value, json};

use crate::arguments::PrefixLive;
use crate::chat::sum::dollars;
use crate::command_error::{CommandError, Result};
use crate::commands::prefix::recorded_break::{cause, known, lost_cost};
use crate::interrupts::Interrupts;
use crate::render;
use crate::render::local_time::to_second;
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// Polling interval of the ledger.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Prints broken prefixes as chats and gateways record them, until Ctrl-C.
///
/// # Errors
/// The ledger cannot be read, or the reader of the output is gone.
pub(super) async fn live(
    arguments: &PrefixLive,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let mut interrupts = Interrupts::listen()?;
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let ledger = Ledger::at(&home.ledger, "live", warn);
    let now = process_environment.clock.now();
    let since = arguments.since.map(|age| {
        let age = Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX);
        now.saturating_sub(age)
    });
    // Without `--since`, polling starts after the newest row.
    let mut after = if since.is_some() { 0 } else { i64::MAX };
    let look = |after: &mut i64| -> Result<usize> {
        let (rows, newest) = ledger.broken_prefixes(*after, since.unwrap_or(Millis::MIN))?;
        *after = newest;
        let shown = rows
            .iter()
            .filter(|row| !arguments.gateway || client(row).is_some());
        let mut count = 0;
        for row in shown {
            count += 1;
            let line = if arguments.json {
                document(row).to_string()
            } else {
                line(row)
            };
            render::out(&format!("{line}\n"))?;
        }
        Ok(count)
    };
    let whose = if arguments.gateway {
        "the gateways"
    } else {
        "the chats and gateways"
    };
    render::err(&format!(
        "watching for broken prefixes of {whose} that use {}; Ctrl-C ends it",
        home.location()
    ));
    if look(&mut after)? == 0 {
        render::err("no prefix has broken yet");
    }
    let gone = output_closed();
    tokio::pin!(gone);
    loop {
        tokio::select! {
            _ = interrupts.next() => return Ok(()),
            () = &mut gone => return Err(CommandError::BrokenPipe),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        look(&mut after)?;
    }
}

/// Resolves when the reader of a pipe on standard output is gone; never for files.
#[cfg(unix)]
async fn output_closed() {
    use std::os::fd::AsFd as _;

    use tokio::io::Interest;
    use tokio::net::unix::pipe::Sender;

    let descriptor = std::io::stdout().as_fd().try_clone_to_owned();
    // Unchecked, because the check makes writes to the shared descriptor non-blocking. Nothing is written
    // through this one.
    match descriptor.and_then(Sender::from_owned_fd_unchecked) {
        Ok(pipe) => {
            let _ = pipe.ready(Interest::ERROR).await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Never resolves: the next write fails instead.
#[cfg(not(unix))]
async fn output_closed() {
    std::future::pending().await
}

/// Returns the name of the agent that asked; `None` for a client of a gateway.
fn agent(row: &LedgerRow) -> Option<&str> {
    match client(row) {
        None => Some(row.scope.strip_prefix("agent:").unwrap_or(&row.scope)),
        Some(_) => None,
    }
}

/// Returns the client of a gateway: `key:NAME`, or the digest of its credentials.
fn client(row: &LedgerRow) -> Option<&str> {
    row.scope.strip_prefix("user:")
}

/// Returns the agent, or the client with a digest of credentials abbreviated.
fn who(row: &LedgerRow) -> &str {
    match client(row) {
        None => agent(row).unwrap_or_default(),
        Some(name) if name.contains(':') => name,
        Some(digest) => digest.get(..10).unwrap_or(digest),
    }
}

/// Formats a row: `2026-11-22 21:04:05  root  SESSION  openai/gpt-4o  system_changed: … · 1,204 tokens paid
/// for anew · $0.03`.
fn line(row: &LedgerRow) -> String {
    let session = row.handle.as_deref().unwrap_or_default();
    // Rows of earlier versions contain only the sentence.
    let tokens = known(row, "lost_tokens").as_u64();
    let text = match (known(row, "prefix").as_str(), tokens) {
        (Some(reason), Some(tokens)) => {
            let mut text = reason.to_owned();
            if let Some(place) = known(row, "place").as_str() {
                text += &format!(" at {place}");
            }
            text.extend(cause(row).map(|cause| format!(": {}", cause.what())));
            text += &format!(" · {}", render::count(tokens, "token", "tokens"));
            text += " paid for anew";
            text.extend(lost_cost(row).map(|cost| format!(" · {cost}")));
            text
        }
        _ => row.reason.clone().unwrap_or_default(),
    };
    let sub_agent = known(row, "sub_agent").as_str();
    let sub_agent = sub_agent.map(|name| format!("  sub-agent {name}"));
    on_one_line(&format!(
        "{}  {}  {session}{}  {}  {text}",
        to_second(row.at),
        who(row),
        sub_agent.unwrap_or_default(),
        row.name,
    ))
}

fn document(row: &LedgerRow) -> Value {
    json!({
        "at": iso8601(row.at),
        "agent": agent(row),
        "client": client(row),
        "session": row.handle,
        "on_behalf_of": known(row, "on_behalf_of"),
        "sub_agent": known(row, "sub_agent"),
        "model": row.name,
        "reason": known(row, "prefix"),
        "cause": known(row, "cause"),
        "what": cause(row).map(|cause| cause.what()),
        "place": known(row, "place"),
        "remedy": known(row, "what_to_do"),
        "expected_read_tokens": known(row, "could_have_read"),
        "actual_read": known(row, "read_from_its_cache"),
        "lost_tokens": known(row, "lost_tokens"),
        "lost_dollars": lost_cost(row).and_then(dollars),
        "message": row.reason,
    })
}

#[cfg(test)]
mod tests {
    use cachalot_cache::CallStatus;
    use cachalot_core::{Cost, Spend};

    use super::*;

    /// The row of a broken prefix, with what the ledger knows of it.
    fn row(input: Value) -> LedgerRow {
        LedgerRow {
            id: 1,
            at: 1_800_000_000_000,
            run: "run".to_owned(),
            kind: "prefix".to_owned(),
            name: "openai/gpt-4o".to_owned(),
            scope: "agent:root".to_owned(),
            key: "k".to_owned(),
            handle: Some("fork".to_owned()),
            session: Some("holder".to_owned()),
            answered: CallStatus::Miss,
            reason: Some("the provider could not read\nwhat it had been sent before".to_owned()),
            not_stored: None,
            failure: None,
            unpriced: None,
            failed: false,
            erased: false,
            paid: Spend::default(),
            saved: Spend::default(),
            input: Some(input),
            input_digest: None,
        }
    }

    #[test]
    fn row_of_an_earlier_version_is_shown_on_one_line() {
        let row = row(json!({"prefix": "expired", "could_have_read": 2_000}));
        assert_eq!(
            line(&row),
            format!(
                "{}  root  fork  openai/gpt-4o  the provider could not read what it had been sent before",
                to_second(row.at)
            )
        );
        let document = document(&row);
        assert_eq!(document["reason"], "expired");
        assert_eq!(document["expected_read_tokens"], 2_000);
        assert!(document["lost_tokens"].is_null() && document["lost_dollars"].is_null());
    }

    #[test]
    fn client_of_a_gateway_is_no_agent() {
        let mut row = row(json!({"prefix": "expired", "lost_tokens": 2_000}));
        assert_eq!(document(&row)["client"], Value::Null);
        for (scope, client, shown) in [
            ("user:key:nightly", "key:nightly", "  key:nightly  fork  "),
            (
                "user:6353c79af9bcccc19e49cb675db392c3",
                "6353c79af9bcccc19e49cb675db392c3",
                "  6353c79af9  fork  ",
            ),
        ] {
            scope.clone_into(&mut row.scope);
            assert!(line(&row).contains(shown), "{}", line(&row));
            let document = document(&row);
            assert_eq!(document["client"], client);
            assert!(document["agent"].is_null());
        }
    }

    #[test]
    fn sub_agent_of_a_session_is_named() {
        let mut row = row(json!({"prefix": "expired", "lost_tokens": 2_000, "sub_agent": "a81f"}));
        "user:key:nightly".clone_into(&mut row.scope);
        let shown = line(&row);
        assert!(
            shown.contains("  fork  sub-agent a81f  openai/gpt-4o  expired"),
            "{shown}"
        );
        assert_eq!(document(&row)["sub_agent"], "a81f");
    }

    #[test]
    fn unknown_fields_are_omitted() {
        let known = json!({
            "prefix": "evicted_or_unknown", "lost_tokens": 1, "on_behalf_of": "holder",
            "lost_cost": Cost::UNPRICED,
        });
        let row = row(known);
        let shown = line(&row);
        assert!(
            shown.ends_with("  evicted_or_unknown · 1 token paid for anew · unpriced"),
            "{shown}"
        );
        let document = document(&row);
        assert_eq!(document["on_behalf_of"], "holder");
        assert!(document["lost_dollars"].is_null() && document["what"].is_null());
    }
}

//! `cachalot why`.

use cachalot_cache::{Explanation, Ledger, LedgerError};

use crate::arguments::Why;
use crate::command_error::{CommandError, Result};
use crate::render;
use crate::wiring::{ProcessEnvironment, Warn};

/// The maximum number of sessions that are named if an id is ambiguous.
pub(crate) const MAX_CANDIDATES: u32 = 10;

pub(crate) fn why(
    arguments: &Why,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let ledger = Ledger::at(&home.ledger, "why", warn);
    let explained = match &arguments.key {
        Some(key) => explain_key(&ledger, key)?,
        None => ledger.explain(None).map_err(CommandError::failed)?,
    };
    let Some(explanation) = explained else {
        let path = home.ledger.display();
        return Err(CommandError::failed(match &arguments.key {
            Some(key) => format!("the ledger {path} knows no call of {key}"),
            None => match newest_session(&ledger).map_err(CommandError::failed)? {
                Some(session) => format!(
                    "no call of this run could have been answered by the cache: the ledger {path} records only answers of models; `cachalot why SESSION` explains the last one of a session, `cachalot why {session}` that of the newest"
                ),
                None => format!("the ledger {path} is empty: nothing was run yet"),
            },
        }));
    };
    if arguments.json {
        render::json(&explanation)
    } else {
        render::out(&render::explanation::render(&explanation))
    }
}

/// Returns the last call under a key or a handle, or of the only session whose id begins with `key`.
fn explain_key(ledger: &Ledger, key: &str) -> Result<Option<Explanation>> {
    let explained = ledger.explain(Some(key)).map_err(CommandError::failed)?;
    if explained.is_some() || key.is_empty() {
        return Ok(explained);
    }
    let sessions = ledger.sessions(key, MAX_CANDIDATES + 1);
    match resolve_session_id(key, sessions.map_err(CommandError::failed)?)? {
        None => Ok(None),
        Some(session) => ledger.explain(Some(&session)).map_err(CommandError::failed),
    }
}

/// Returns the session with exactly this id, or else the only one of those that begin with it.
///
/// # Errors
/// Several sessions begin with it.
pub(crate) fn resolve_session_id(
    beginning: &str,
    mut found: Vec<String>,
) -> Result<Option<String>> {
    match found.as_slice() {
        _ if found.iter().any(|session| session == beginning) => Ok(Some(beginning.to_owned())),
        [] | [_] => Ok(found.pop()),
        several => Err(ambiguous(beginning, several)),
    }
}

fn newest_session(ledger: &Ledger) -> std::result::Result<Option<String>, LedgerError> {
    Ok(ledger.sessions("", 1)?.pop())
}

fn ambiguous(beginning: &str, sessions: &[String]) -> CommandError {
    let named = sessions.iter().take(MAX_CANDIDATES as usize);
    let mut named: Vec<String> = named.map(|session| format!("`{session}`")).collect();
    if sessions.len() > named.len() {
        named.push("…".to_owned());
    }
    let named = named.join(", ");
    CommandError::failed(format!(
        "several sessions begin with `{beginning}`: {named}; give more of the name"
    ))
}

//! `cachalot why`.

use cachalot_cache::{Explanation, Ledger};
use cachalot_core::digest::{is_abbreviation, may_be_abbreviation};

use crate::abbreviation::{MAX_CANDIDATES, resolve};
use crate::arguments::Why;
use crate::command_error::{CommandError, Result};
use crate::fleet_ledger::ReadCopy;
use crate::render;
use crate::wiring::{ProcessEnvironment, Warn};

pub(crate) async fn why(
    arguments: &Why,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let fleet = match &arguments.fleet.ledger {
        Some(url) => Some(ReadCopy::of(url, process_environment, Warn::clone(&warn)).await?),
        None => None,
    };
    let ledger = match &fleet {
        Some(copy) => copy.ledger.clone(),
        None => Ledger::at(&home.ledger, "why", warn),
    };
    let explained = match &arguments.key {
        Some(key) => explain_key(&ledger, key)?,
        None => ledger.explain(None)?,
    };
    let Some(explanation) = explained else {
        let path = match &arguments.fleet.ledger {
            Some(url) => url.clone(),
            None => home.ledger.display().to_string(),
        };
        return Err(CommandError::failed(match &arguments.key {
            Some(key) => format!("the ledger {path} knows no call of {key}"),
            None => match ledger.sessions("", 1)?.pop() {
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
        render::out(&render::explanation::render(
            &explanation,
            arguments.verbose,
        ))
    }
}

/// Returns the last call under a key or a handle, or under the only one that `key` abbreviates, or of the only
/// session whose id begins with `key`.
fn explain_key(ledger: &Ledger, key: &str) -> Result<Option<Explanation>> {
    let explained = ledger.explain(Some(key))?;
    if explained.is_some() || key.is_empty() {
        return Ok(explained);
    }
    let meant = match whole_key(ledger, key)? {
        Some(whole) => Some(whole),
        None => {
            let sessions = ledger.sessions(key, MAX_CANDIDATES + 1)?;
            resolve("sessions", key, sessions)?
        }
    };
    match meant {
        None => Ok(None),
        Some(meant) => Ok(ledger.explain(Some(&meant))?),
    }
}

/// Returns the only key or handle in the ledger that `key` abbreviates; `None` if there is none.
///
/// # Errors
/// There are several.
pub(crate) fn whole_key(ledger: &Ledger, key: &str) -> Result<Option<String>> {
    if !may_be_abbreviation(key) {
        return Ok(None);
    }
    let mut found = ledger.keys(key, MAX_CANDIDATES + 1)?;
    found.retain(|whole| is_abbreviation(key, whole));
    resolve("keys", key, found)
}

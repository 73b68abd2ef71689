//! `cachalot why`.

use cachalot_cache::{Explanation, Ledger, LedgerRow};
use cachalot_core::digest::{is_abbreviation, may_be_abbreviation};
use cachalot_mcp::caching;
use serde::Serialize;

use crate::abbreviation::{MAX_CANDIDATES, resolve};
use crate::arguments::Why;
use crate::command_error::{CommandError, Result};
use crate::fleet_ledger::ReadCopy;
use crate::render;
use crate::wiring::{ProcessEnvironment, Warn};

/// Maximum number of rows of the ledger before a call, and after it, among which a write is searched.
const MAX_ROWS: i64 = 1_000;

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
    let written_by = writes(&ledger, &explanation)?;
    if arguments.json {
        render::json(&ExplanationWithWrites {
            explanation,
            written_by,
        })
    } else {
        render::out(&render::explanation::render(
            &explanation,
            &written_by,
            arguments.verbose,
        ))
    }
}

/// An explanation as JSON.
#[derive(Serialize)]
struct ExplanationWithWrites {
    #[serde(flatten)]
    explanation: Explanation,
    /// Calls through the MCP proxy that may have invalidated the answer, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    written_by: Vec<LedgerRow>,
}

/// Returns the calls of the same MCP server that may have invalidated the answer to a call through the proxy, oldest
/// first: those since the earlier call under its key, and those that had not ended yet. None if the answer was not
/// invalidated by a call.
fn writes(ledger: &Ledger, explanation: &Explanation) -> Result<Vec<LedgerRow>> {
    let call = &explanation.call;
    let mut reasons = [&call.reason, &call.not_stored].into_iter().flatten();
    let is_written = reasons.any(|reason| caching::is_of_another_call(reason));
    let Some((server, _)) = caching::proxy_call(call).filter(|_| is_written) else {
        return Ok(Vec::new());
    };
    let earlier = explanation.same.as_ref().map_or(i64::MIN, |same| same.id);
    let from = earlier.max(call.id.saturating_sub(MAX_ROWS));
    let rows = ledger.calls_after(from, (2 * MAX_ROWS) as u32)?.into_iter();
    let writes = rows.filter(|row| {
        // A call that had not ended yet has a later row.
        let began = row.at - row.paid.time.as_millis() as i64;
        caching::proxy_call(row).is_some_and(|(of, _)| of == server)
            && caching::may_have_changed_something(row)
            && began <= call.at
    });
    Ok(writes.collect())
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

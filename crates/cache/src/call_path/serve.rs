//! The end of a lookup: counts what an entry answers, and what a frozen run refuses.

use std::sync::Arc;

use cachalot_core::Millis;

use crate::engine::Engine;
use crate::front::FrontEntry;
use crate::ledger::{CallStatus, PendingRow};
use crate::outcome::Outcome;
use crate::policy::{CacheMode, HitPolicy};
use crate::summary::CacheStatus;
use crate::{FrozenMiss, Key, Reason};

use super::request::Request;

/// Serves an entry that was not found in the front at first, or a local copy.
pub(super) fn found(
    request: &Request<'_>,
    front_entry: &Arc<FrontEntry>,
    status: CacheStatus,
) -> Outcome {
    let (engine, key, hit) = (request.engine, request.key, request.hit);
    let now = engine.access.clock.now();
    match status {
        // The use of a copy is recorded in the local store, and its file statuses are not written back to the server.
        CacheStatus::LocalHit(_) => account_hit(engine, key, front_entry, status, hit, now),
        _ => entry(engine, key, front_entry, status, hit, now),
    }
}

/// Records a hit, at `now` by this machine's clock, and returns its outcome.
pub(super) fn entry(
    engine: &Engine,
    key: Key,
    front_entry: &Arc<FrontEntry>,
    status: CacheStatus,
    hit: &HitPolicy,
    now: Millis,
) -> Outcome {
    // Only `CacheMode::On` may write to the store here.
    if hit.mode == CacheMode::On {
        engine.write_backs.write_back(front_entry);
    }
    let at = engine.access.store_time(now);
    engine.eviction.record_use(&front_entry.entry, at);
    account_hit(engine, key, front_entry, status, hit, now)
}

/// Accounts for a hit, and returns its outcome.
fn account_hit(
    engine: &Engine,
    key: Key,
    front_entry: &FrontEntry,
    status: CacheStatus,
    hit: &HitPolicy,
    now: Millis,
) -> Outcome {
    let entry = &front_entry.entry;
    let answered = CallStatus::from_status(&status);
    let tally = &front_entry.tally;
    engine
        .ledger
        .record_hit(entry, tally, now, answered, hit.session.as_ref());
    Outcome::from_entry(key, entry, status)
}

/// Records that a frozen run has no answer for a call.
pub(super) fn refuse(request: &Request<'_>, reason: Reason) -> FrozenMiss {
    request.engine.ledger.send(PendingRow {
        reason: Some(reason.to_string()),
        ..request.ledger_row(CallStatus::Refused)
    });
    FrozenMiss {
        name: request.call.name.to_owned(),
        key: request.key,
        reason,
    }
}

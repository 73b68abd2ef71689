//! Old leases, and those that an erase revokes.

use std::sync::Arc;

use cachalot_store::implementation::{MIN_LAPSED_LEASE_AGE, matches_all};
use cachalot_store::{Error, Millis, RecordFilter, ReserveResult};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::client::Server;
use super::document::{delete, unless_changed};
use super::find::BATCH;
use super::name::{self, IdRange};
use super::reader::{Query, Reader};
use super::space::{Space, ended};

/// One in so many reservations removes old leases.
const CLEAN_UP_EVERY: u64 = 64;

/// Returns the writes that end leases of a space that match a filter after its key.
pub(super) async fn revocations(
    reader: &Reader,
    space: &Space,
    filter: &RecordFilter<'_>,
    after: Option<&str>,
) -> Result<Vec<Value>, Error> {
    // The index of each field has the order of identifiers within a value.
    let is_current = json!({"fieldFilter": {
        "field": {"fieldPath": "current"}, "op": "EQUAL", "value": {"booleanValue": true}
    }});
    let current = Query {
        parent: &space.0,
        collection: "leases",
        field: None,
        descending: false,
        conditions: vec![is_current],
        select: &["key", "labels"],
        limit: BATCH,
    };
    let range = IdRange::of(name::id(filter.prefix));
    let current = current.within(&range, after.map(name::id).as_deref());
    let mut writes = Vec::new();
    for lease in reader.query_all(&current).await? {
        if matches_all(filter.labels, &lease.labels()?) {
            writes.push(ended(&lease.path));
        }
    }
    Ok(writes)
}

/// Removes old leases after one in many reservations; nothing waits for it.
pub(super) fn after_reservation(
    server: &Arc<Server>,
    space: &Space,
    reserved: &ReserveResult,
    now: Millis,
) {
    if let ReserveResult::Held(lease) = reserved
        && lease.fence.is_multiple_of(CLEAN_UP_EVERY)
        && let Ok(runtime) = Handle::try_current()
    {
        let (server, space) = (Arc::clone(server), Space(space.0.clone()));
        runtime.spawn(async move {
            // The next one tries again.
            let _ = remove_old(server, &space, now).await;
        });
    }
}

/// Removes leases that have ended or lapsed long before `now`.
pub(super) async fn remove_old(
    server: Arc<Server>,
    space: &Space,
    now: Millis,
) -> Result<(), Error> {
    let old = Query {
        parent: &space.0,
        collection: "leases",
        field: Some("until"),
        descending: false,
        conditions: Vec::new(),
        select: &["until"],
        limit: BATCH,
    };
    let moment = now - MIN_LAPSED_LEASE_AGE;
    let old = old.and(
        "LESS_THAN_OR_EQUAL",
        json!({"integerValue": moment.to_string()}),
    );
    let leases = Reader::new(Arc::clone(&server)).query(&old, None).await?;
    // A lease stays if its holder has renewed it.
    let removals = leases
        .iter()
        .map(|lease| unless_changed(delete(&lease.path), Some(lease)));
    server.write_each(&removals.collect::<Vec<_>>()).await
}

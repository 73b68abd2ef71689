//! `cachalot cache encrypt`: all records of a store under the first secret.
//!
//! Each record is replaced by one call, on the condition that it has not changed. An interruption therefore leaves
//! records of both kinds, all of which processes can read that have all secrets (and the word `plain`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_backends::encrypted::{Encryption, SECRETS, SECRETS_FILE, State};
use cachalot_core::Problem;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use cachalot_store::{
    Error, ErrorKind, Order, PageRequest, PutAllResult, PutCondition, Record, RecordFilter, Store,
    space,
};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use crate::command_error::{CommandError, Result};
use crate::encrypted_records::{self, Counts};
use crate::render;
use crate::wiring::EngineOptions;

/// Maximum time of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Records that are replaced at the same time.
const CONCURRENT: usize = 16;

/// Attempts to replace a record that others change.
const MAX_ATTEMPTS: u32 = 20;

/// Numbers of records.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Encrypted {
    encrypted: u64,
    /// Records that had the first secret already.
    current: u64,
    /// Records that cannot be decrypted: their secret is not given, or they are damaged.
    unreadable: u64,
    /// Records that the store does not accept with the bytes that encryption adds.
    too_large: u64,
}

enum Done {
    Encrypted,
    /// Another process has encrypted it, or erased it.
    Current,
    Unreadable,
    TooLarge,
}

/// Encrypts the records of a store, and the copies of its entries on this machine.
///
/// # Errors
/// No secret is set, the store does not answer, or records are left that are not encrypted with the first secret.
pub(super) async fn encrypt(opening: &EngineOptions<'_>, as_json: bool) -> Result<()> {
    let Some(encryption) = opening.encryption()? else {
        let problem = Problem::new("no-secret", "cache encrypt: no secret is set");
        return Err(CommandError::usage(problem.help(format!(
            "set {SECRETS} or {SECRETS_FILE}: `openssl rand -hex 32` makes a secret"
        ))));
    };
    opening.check_exists()?;
    let store = opening.open_unencrypted()?;
    let mut report = BTreeMap::new();
    for (space, one, many) in encrypted_records::spaces() {
        let done = encrypt_space(store.as_ref(), space, &encryption).await?;
        if !as_json {
            print(done, one, many);
        }
        report.insert(space, done);
    }
    if let Some(copies) = opening.home.copies.as_ref().filter(|path| path.exists()) {
        let options = SqliteOptions::new(Arc::clone(&opening.process_environment.clock));
        let copies = SqliteStore::open(copies, options)?;
        let done = encrypt_space(&copies, space::CACHE, &encryption).await?;
        if !as_json {
            print(done, "copy on this machine", "copies on this machine");
        }
        report.insert("copies", done);
    }
    if as_json {
        render::json(&report)?;
    }
    let mut left = Counts::new();
    encrypted_records::count(store.as_ref(), Some(&encryption), &mut left).await?;
    left.remove(&State::Current);
    let copies = report.get("copies");
    let copies = copies.map_or(0, |done| done.unreadable + done.too_large);
    let left = left.values().sum::<u64>() + copies;
    let too_large: u64 = report.values().map(|done| done.too_large).sum();
    match left {
        0 => Ok(()),
        _ => Err(CommandError::failed(format!(
            "not encrypted with the first secret: {} in {}; {}",
            render::count(left, "record", "records"),
            opening.home.location(),
            remedies(left, too_large)
        ))),
    }
}

/// The remedies for records that are left, of which some are too large for the store when encrypted.
fn remedies(left: u64, too_large: u64) -> String {
    let mut remedies = Vec::new();
    if left > too_large {
        remedies.push(
            "give all secrets of the store, in all processes that write to it, and run this again"
                .to_owned(),
        );
    }
    if too_large > 0 {
        remedies.push(format!(
            "erase the {} too large for the store when encrypted, or use a store with a higher limit",
            render::count(too_large, "record that is", "records that are")
        ));
    }
    remedies.join("; ")
}

fn print(done: Encrypted, one: &str, many: &str) {
    if done.encrypted + done.current + done.unreadable + done.too_large == 0 {
        return;
    }
    let mut text = format!("{} encrypted", render::count(done.encrypted, one, many));
    for (number, state) in [
        (done.current, "with this secret already"),
        (done.unreadable, "of another secret, or damaged"),
        (done.too_large, "too large for the store when encrypted"),
    ] {
        if number > 0 {
            text += &format!(", {} {state}", render::grouped(number));
        }
    }
    render::err(&text);
}

async fn encrypt_space(
    store: &dyn Store,
    space: &str,
    encryption: &Encryption,
) -> Result<Encrypted> {
    let mut counts = Counts::new();
    let mut others = encrypted_records::others(store, space, Some(encryption), &mut counts).await?;
    // A memory is written anew. The newest stays the newest.
    others.sort_by_key(|other| other.updated);
    let concurrent = match space {
        // One by one: concurrent writes would change the order.
        space::USER => 1,
        _ => CONCURRENT,
    };
    let mut encrypted = Encrypted {
        current: counts.get(&State::Current).copied().unwrap_or(0),
        ..Encrypted::default()
    };
    let mut done = stream::iter(others)
        .map(|other| async move { replace(store, space, &other.key, encryption).await })
        .buffered(concurrent);
    while let Some(done) = done.try_next().await? {
        *match done {
            Done::Encrypted => &mut encrypted.encrypted,
            Done::Current => &mut encrypted.current,
            Done::Unreadable => &mut encrypted.unreadable,
            Done::TooLarge => &mut encrypted.too_large,
        } += 1;
    }
    Ok(encrypted)
}

/// Encrypts one record, with its labels, its expiry and, except in long-term memory, its times.
async fn replace(
    store: &dyn Store,
    space: &str,
    key: &str,
    encryption: &Encryption,
) -> std::result::Result<Done, Error> {
    for _ in 0..MAX_ATTEMPTS {
        let found = store.get(space, key, &[]).within(CALL_TIMEOUT).await?;
        let Some(found) = found.record else {
            erase_unserved(store, space, key).await?;
            return Ok(Done::Current);
        };
        if encryption.state(&found.value) == State::Current {
            return Ok(Done::Current);
        }
        let value = match encryption.renewed(space, key, &found.value) {
            Ok(value) => value,
            Err(error) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Corrupt) => {
                return Ok(Done::Unreadable);
            }
            Err(error) => return Err(error),
        };
        let before = found.value.clone();
        match write(store, space, Record { value, ..found }, before).await {
            Ok(true) => return Ok(Done::Encrypted),
            Ok(false) => {}
            Err(error) if error.kind == ErrorKind::TooLarge => return Ok(Done::TooLarge),
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(
        ErrorKind::Busy,
        format!("other processes kept changing the record `{key:.80}`: run this again"),
    ))
}

/// Erases an entry of the cache that is listed and not served: a server that may have lost writes keeps entries of before.
/// The order keeps reservations as they are.
async fn erase_unserved(
    store: &dyn Store,
    space: &str,
    key: &str,
) -> std::result::Result<(), Error> {
    if space != space::CACHE {
        return Ok(());
    }
    let filter = RecordFilter {
        prefix: key,
        order: Order::LeastRecentlyUsed,
        ..RecordFilter::default()
    };
    let erased = store.erase(space, &filter, PageRequest::keys(1));
    erased.within(CALL_TIMEOUT).await.map(drop)
}

/// Writes a record in place of one that has not changed; returns false if it has.
async fn write(
    store: &dyn Store,
    space: &str,
    record: Record,
    before: bytes::Bytes,
) -> std::result::Result<bool, Error> {
    let amended = store.amend(space, record.clone());
    match amended.within(CALL_TIMEOUT).await {
        Err(error) if error.kind == ErrorKind::Unsupported => {}
        amended => return Ok(amended?.is_some()),
    }
    let key = record.key.clone();
    let condition = PutCondition {
        space,
        key: &key,
        value: Some(before),
    };
    let stored = store.put_all(condition, vec![(space, record)]);
    Ok(stored.within(CALL_TIMEOUT).await? == PutAllResult::Stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_are_too_large_have_a_remedy_of_their_own() {
        let secrets = "give all secrets";
        let size = "erase the 2 records that are too large";
        for (left, too_large, expected) in [
            (3, 0, [true, false]),
            (3, 2, [true; 2]),
            (2, 2, [false, true]),
        ] {
            let text = remedies(left, too_large);
            assert_eq!(
                [secrets, size].map(|part| text.contains(part)),
                expected,
                "{text}"
            );
        }
    }
}

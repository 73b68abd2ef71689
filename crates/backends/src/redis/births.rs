//! The births of the shards that a client has used. `store.lua` describes what they are for.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::shard::Shard;

/// The birth of each shard whose counters this client may have read, by the prefix of its keys.
#[derive(Debug, Default)]
pub(super) struct Births(Mutex<HashMap<String, u64>>);

impl Births {
    /// Returns the birth to send with a call.
    pub(super) fn get(&self, shard: &Shard) -> Option<u64> {
        let births = self.0.lock();
        births.get(&shard.prefix).copied()
    }

    /// Notes the birth that a reply contains. It replaces only the one that was sent with the call: the script has
    /// compared these two. False if another one is known: the reply does not count then, because the counters
    /// in it may be those of a space that was emptied.
    pub(super) fn accept(&self, shard: &Shard, sent: Option<u64>, received: u64) -> bool {
        let mut births = self.0.lock();
        match births.get_mut(&shard.prefix) {
            Some(known) if sent == Some(*known) => *known = received,
            Some(known) => return *known == received,
            None => drop(births.insert(shard.prefix.clone(), received)),
        }
        true
    }
}

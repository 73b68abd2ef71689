//! The pieces of recent bodies: a request of a conversation repeats most of the one before it. A piece that is known is
//! found by its bytes, all of which are compared, and is neither parsed nor judged again.
//!
//! A client never meets pieces of another one: neither what they say, nor the time that they save.

mod body;
mod judge;
mod piece;
mod split;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) use body::PieceBody;
pub(crate) use judge::{Judging, judge};
pub(crate) use split::Split;

use crate::endpoint::Endpoint;

/// Minimum size of a body of which pieces are recognized, in bytes.
pub(crate) const MIN_BODY: usize = 16 << 10;
/// Maximum size of all bodies together, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum size of one body, in bytes.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Maximum number of bodies.
const MAX_BODIES: usize = 256;
/// Maximum number of bodies of a client that are compared with a request: the most recent ones.
const MAX_COMPARED: usize = 16;
/// Maximum number of pieces by which a body may differ from the one before it in its conversation.
const MAX_CHANGED: usize = 8;

/// The most recent bodies of all clients, the oldest first.
#[derive(Default)]
pub(crate) struct PieceIndex(Mutex<Bodies>);

#[derive(Default)]
struct Bodies {
    recent: VecDeque<RecentBody>,
    bytes: usize,
}

struct RecentBody {
    client: Arc<str>,
    endpoint: Endpoint,
    body: Arc<PieceBody>,
}

impl PieceIndex {
    /// Returns the most recent bodies of a client, the newest first.
    pub(crate) fn recent(&self, client: &str, endpoint: Endpoint) -> Vec<Arc<PieceBody>> {
        let bodies = self.0.lock();
        let of_client =
            |recent: &&RecentBody| recent.endpoint == endpoint && *recent.client == *client;
        let found = bodies.recent.iter().rev().filter(of_client);
        let found = found.map(|recent| Arc::clone(&recent.body));
        found.take(MAX_COMPARED).collect()
    }

    /// Keeps a body, in place of the one before it in its conversation.
    pub(crate) fn keep(&self, client: &str, endpoint: Endpoint, body: &Arc<PieceBody>) {
        if body.weight() > MAX_BODY_BYTES {
            return;
        }
        let mut bodies = self.0.lock();
        let is_before = |recent: &RecentBody| {
            recent.endpoint == endpoint
                && *recent.client == *client
                && body.follows(&recent.body, MAX_CHANGED)
        };
        if let Some(before) = bodies.recent.iter().rposition(is_before) {
            bodies.remove(before);
        }
        bodies.bytes += body.weight();
        bodies.recent.push_back(RecentBody {
            client: client.into(),
            endpoint,
            body: Arc::clone(body),
        });
        while bodies.bytes > MAX_BYTES || bodies.recent.len() > MAX_BODIES {
            bodies.remove(0);
        }
    }
}

impl Bodies {
    fn remove(&mut self, at: usize) {
        if let Some(removed) = self.recent.remove(at) {
            self.bytes -= removed.body.weight();
        }
    }
}

#[cfg(test)]
mod tests;

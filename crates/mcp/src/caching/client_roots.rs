//! The roots of clients, which select the files that a server offers.

use std::collections::BTreeSet;

use cachalot_core::{Canonical, Digest};
use parking_lot::Mutex;

use crate::relay::{Frame, FrameKind};

/// Maximum number of requests that wait for the answers of clients. The answer to a forgotten one counts as unknown.
const MAX_WAITING: usize = 1_024;

/// Requests of a server for the roots of its clients, by their ids.
#[derive(Default)]
pub(super) struct RootRequests(Mutex<BTreeSet<Box<str>>>);

impl RootRequests {
    /// Takes note of a request of the server.
    pub(super) fn note(&self, request: &Frame) {
        if request.kind() != FrameKind::Request || request.method() != "roots/list" {
            return;
        }
        let mut waiting = self.0.lock();
        if waiting.len() >= MAX_WAITING {
            waiting.clear();
        }
        waiting.insert(request.id().unwrap_or_default().into());
    }

    /// Returns the digest of the roots in the response of a client; `None` if it is no response to such a request.
    pub(super) fn digest(&self, response: &Frame) -> Option<Digest> {
        if response.kind() != FrameKind::Response || !self.0.lock().remove(response.id()?) {
            return None;
        }
        let roots = response.result().unwrap_or_default().as_bytes();
        // Roots without a canonical form are distinguished by their bytes.
        let canonical = Canonical::json(roots).map(|roots| roots.digest());
        Some(canonical.unwrap_or_else(|_| Digest::sha256(roots)))
    }
}

//! Log of the received requests.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use cachalot_core::Millis;
use parking_lot::{Mutex, MutexGuard};

/// A received request and the status of its response.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReceivedRequest {
    /// Time of arrival, by the simulator's clock.
    pub at: Millis,
    /// Method: `POST`, `GET`.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// Headers with lowercase names, in the order received.
    pub headers: Vec<(String, String)>,
    /// Body, byte for byte.
    pub body: Bytes,
    /// Status of the response; 0 before there is one.
    pub status: u16,
    /// True if the client disconnected before the end of the answer.
    pub disconnected: bool,
}

impl ReceivedRequest {
    /// Returns the value of the header `name`; the first if there are several.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl fmt::Debug for ReceivedRequest {
    /// Omits keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| match name.as_str() {
                "authorization" | "x-api-key" | "api-key" | "x-goog-api-key" => {
                    (name.as_str(), "…")
                }
                _ => (name.as_str(), value.as_str()),
            })
            .collect();
        f.debug_struct("Received")
            .field("at", &self.at)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &headers)
            .field("body", &String::from_utf8_lossy(&self.body))
            .field("status", &self.status)
            .field("disconnected", &self.disconnected)
            .finish()
    }
}

/// Maximum total size of the kept bodies, in bytes; the oldest requests are dropped first.
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// The log of a running simulator.
#[derive(Debug, Default)]
pub(crate) struct RequestLog(Mutex<LogEntries>);

#[derive(Debug, Default)]
struct LogEntries {
    requests: VecDeque<ReceivedRequest>,
    /// Number of dropped requests.
    forgotten: u64,
    bytes: usize,
    violations: Vec<String>,
}

impl RequestLog {
    fn log(&self) -> MutexGuard<'_, LogEntries> {
        self.0.lock()
    }

    /// Records a request; returns its number.
    pub(crate) fn add_request(&self, received: ReceivedRequest) -> u64 {
        let mut log = self.log();
        log.bytes += received.body.len();
        log.requests.push_back(received);
        while log.bytes > MAX_BODY_BYTES && log.requests.len() > 1 {
            let oldest = log.requests.pop_front();
            log.bytes -= oldest.map_or(0, |oldest| oldest.body.len());
            log.forgotten += 1;
        }
        log.forgotten + log.requests.len() as u64 - 1
    }

    pub(crate) fn answer(&self, number: u64, status: u16) {
        self.change(number, |request| request.status = status);
    }

    pub(crate) fn disconnect(&self, number: u64) {
        self.change(number, |request| request.disconnected = true);
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut ReceivedRequest)) {
        let mut log = self.log();
        let at = number.checked_sub(log.forgotten);
        let at = at.and_then(|at| usize::try_from(at).ok());
        if let Some(request) = at.and_then(|at| log.requests.get_mut(at)) {
            change(request);
        }
    }

    pub(crate) fn add_violation(&self, violation: String) {
        self.log().violations.push(violation);
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.log().requests.iter().cloned().collect()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.log().violations.clone()
    }
}

//! Limits of a gateway.

use std::time::Duration;

/// Limits of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a request body that is read before it is passed on, in bytes.
    pub body_bytes: usize,
    /// Maximum size of all such bodies together, in bytes, as far as they have arrived; a request that finds no room is
    /// refused.
    pub all_bodies_bytes: usize,
    /// Maximum size of a compressed body when it is decompressed, in bytes.
    pub decoded_bytes: usize,
    /// Maximum number of JSON values in a body.
    pub body_values: usize,
    /// Maximum time in which such a body arrives.
    pub body_timeout: Duration,
    /// Maximum time in which the head of a request arrives.
    pub head_timeout: Duration,
    /// Maximum number of connections; further ones wait.
    pub connections: usize,
    /// Maximum time until an upstream's response begins.
    pub answer_timeout: Duration,
    /// Maximum time between two parts of an upstream's response.
    pub idle_timeout: Duration,
    /// Maximum size of an answer that may be stored, in bytes. A longer one reaches its clients completely, and is not
    /// stored; a client that reads it slower than others of the same answer may be this much behind.
    pub answer_bytes: u64,
    /// Pause after which a run of an agent has ended.
    pub run_pause: Duration,
    /// Time in which responses are finished when the gateway stops.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            all_bodies_bytes: 512 << 20,
            decoded_bytes: 16 << 20,
            body_values: 1_000_000,
            body_timeout: Duration::from_secs(120),
            head_timeout: Duration::from_secs(30),
            connections: 4_096,
            answer_timeout: Duration::from_secs(30 * 60),
            idle_timeout: Duration::from_secs(10 * 60),
            answer_bytes: 64 << 20,
            run_pause: Duration::from_secs(10 * 60),
            shutdown: Duration::from_secs(10),
        }
    }
}

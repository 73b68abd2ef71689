//! The place up to which a stream was read.

use std::time::Duration;

use sse_stream::Sse;

/// Pause before a cut stream is resumed, if the server names none.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause before a stream is resumed.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The place up to which a stream was read.
#[derive(Default)]
pub(super) struct Cursor {
    /// The ID of the last event that has one.
    pub(super) id: Option<String>,
    retry: Option<Duration>,
    /// Attempts since the last message.
    pub(super) attempts: u32,
}

impl Cursor {
    /// Notes the place of an event.
    pub(super) fn note(&mut self, event: &Sse) {
        if let Some(id) = event.id.as_ref().filter(|id| !id.is_empty()) {
            self.id = Some(id.clone());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry));
        }
    }

    /// Waits as long as the server asks for, and longer after each attempt.
    pub(super) async fn pause(&mut self) {
        let pause = self.retry.unwrap_or(RETRY_PAUSE);
        let pause = pause.saturating_mul(2_u32.saturating_pow(self.attempts));
        self.attempts = self.attempts.saturating_add(1);
        tokio::time::sleep(pause.min(MAX_RETRY_PAUSE)).await;
    }
}

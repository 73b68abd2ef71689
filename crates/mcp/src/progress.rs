//! Progress notifications of servers, and the calls that they belong to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::time::Instant;

/// Minimum time between two progress reports of a call.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of characters of a message that are reported.
const MAX_MESSAGE_CHARS: usize = 200;

/// The calls of a connection that may receive progress notifications. Clones share everything.
#[derive(Clone, Default)]
pub(super) struct ActiveCalls(Arc<Mutex<HashMap<ProgressToken, ActiveCall>>>);

struct ActiveCall {
    tool: String,
    last_report: Option<Instant>,
}

/// The registration of a call, which ends when this is dropped.
pub(super) struct CallRegistration<'a> {
    calls: &'a ActiveCalls,
    token: ProgressToken,
}

impl Drop for CallRegistration<'_> {
    fn drop(&mut self) {
        self.calls.all().remove(&self.token);
    }
}

impl ActiveCalls {
    fn all(&self) -> MutexGuard<'_, HashMap<ProgressToken, ActiveCall>> {
        self.0.lock()
    }

    /// Registers a call of a tool under this token, until the result is dropped.
    pub(super) fn begin(&self, token: ProgressToken, tool: &str) -> CallRegistration<'_> {
        let tool = tool.to_owned();
        self.all().insert(
            token.clone(),
            ActiveCall {
                tool,
                last_report: None,
            },
        );
        CallRegistration { calls: self, token }
    }

    /// Returns the tool and the text to report; `None` if the call has ended, or the last report was too
    /// recent.
    pub(super) fn next_report(
        &self,
        progress: &ProgressNotificationParam,
    ) -> Option<(String, String)> {
        let now = Instant::now();
        let mut calls = self.all();
        let call = calls.get_mut(&progress.progress_token)?;
        if call
            .last_report
            .is_some_and(|last_report| now - last_report < MIN_REPORT_INTERVAL)
        {
            return None;
        }
        call.last_report = Some(now);
        Some((call.tool.clone(), text(progress)))
    }
}

/// Formats progress like `3 of 10: reading`.
fn text(progress: &ProgressNotificationParam) -> String {
    let mut text = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    let message = progress.message.as_deref().unwrap_or_default().trim();
    if !message.is_empty() {
        text.push_str(": ");
        text.extend(message.chars().take(MAX_MESSAGE_CHARS));
    }
    text
}

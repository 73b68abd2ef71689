//! Progress notifications of servers, and the calls that they belong to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::time::Instant;

/// Progress of a call is told no more often.
const PAUSE: Duration = Duration::from_millis(100);

/// So many characters of a message are told.
const LONGEST: usize = 200;

/// The calls of a connection that may tell of their progress. Clones share everything.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<HashMap<ProgressToken, Call>>>);

struct Call {
    tool: String,
    told: Option<Instant>,
}

/// Ends with the call.
pub(super) struct Going<'a> {
    calls: &'a Calls,
    token: ProgressToken,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.calls.all().remove(&self.token);
    }
}

impl Calls {
    fn all(&self) -> MutexGuard<'_, HashMap<ProgressToken, Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of a tool goes on under this token, until what is returned is dropped.
    pub(super) fn begin(&self, token: ProgressToken, tool: &str) -> Going<'_> {
        let tool = tool.to_owned();
        self.all().insert(token.clone(), Call { tool, told: None });
        Going { calls: self, token }
    }

    /// The tool and what is to be told of it; `None` if nobody waits for it, or if something was told
    /// just now.
    pub(super) fn told(&self, progress: &ProgressNotificationParam) -> Option<(String, String)> {
        let now = Instant::now();
        let mut calls = self.all();
        let call = calls.get_mut(&progress.progress_token)?;
        if call.told.is_some_and(|told| now - told < PAUSE) {
            return None;
        }
        call.told = Some(now);
        Some((call.tool.clone(), text(progress)))
    }
}

/// `3 of 10: reading`.
fn text(progress: &ProgressNotificationParam) -> String {
    let mut text = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    let message = progress.message.as_deref().unwrap_or_default().trim();
    if !message.is_empty() {
        text.push_str(": ");
        text.extend(message.chars().take(LONGEST));
    }
    text
}

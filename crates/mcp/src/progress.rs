//! The calls in progress, and what belongs to them: notifications of progress, and questions of servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::watch;
use tokio::time::Instant;

use super::respondents::Respondents;

/// Minimum time between two progress reports of a call.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of characters of a message that are reported.
const MAX_MESSAGE_CHARS: usize = 200;

/// The calls of a server that are in progress: they receive progress notifications, and the server may ask
/// something while it works on them. Clones share everything.
#[derive(Clone, Default)]
pub(super) struct ActiveCalls(Arc<Mutex<CallsState>>);

#[derive(Default)]
struct CallsState {
    calls: HashMap<ProgressToken, ActiveCall>,
    /// Number of questions of the server that are not answered.
    questions: usize,
    /// The time when the first of them was asked.
    asked: Option<Instant>,
}

struct ActiveCall {
    tool: String,
    respondents: Respondents,
    last_report: Option<Instant>,
    started: Instant,
    /// The last notification of progress, or answer to a question.
    last_sign: Instant,
    /// Time that answers took.
    waited: Duration,
    /// Set when the server has asked anything during the call.
    was_asked: bool,
    /// Closed when the call ends.
    ended: watch::Sender<()>,
}

/// The registration of a call, which ends when this is dropped.
pub(super) struct CallRegistration<'a> {
    calls: &'a ActiveCalls,
    token: ProgressToken,
}

/// The time that a call still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeLeft {
    /// Until then, unless there is progress.
    Until(Instant),
    /// The server waits for an answer: that time does not count.
    Paused,
    /// The limit of a call without progress is over.
    NoProgress,
    /// The limit of all calls is over.
    Over,
}

/// A question of the server, which ends when this is dropped.
pub(super) struct OpenQuestion {
    calls: ActiveCalls,
    /// The respondents of the call.
    pub(super) respondents: Respondents,
    ended: watch::Receiver<()>,
}

impl Drop for CallRegistration<'_> {
    fn drop(&mut self) {
        self.calls.state().calls.remove(&self.token);
    }
}

impl CallRegistration<'_> {
    /// Returns the time that the call still has: `limit` since the last sign of progress, `maximum` in total.
    pub(super) fn time_left(&self, limit: Duration, maximum: Duration) -> TimeLeft {
        let state = self.calls.state();
        let Some(call) = state
            .calls
            .get(&self.token)
            .filter(|_| state.questions == 0)
        else {
            return TimeLeft::Paused;
        };
        let now = Instant::now();
        let (idle, total) = (call.last_sign + limit, call.started + call.waited + maximum);
        if total <= now {
            TimeLeft::Over
        } else if idle <= now {
            TimeLeft::NoProgress
        } else {
            TimeLeft::Until(idle.min(total))
        }
    }

    /// True if the server has asked anything during the call.
    pub(super) fn was_asked(&self) -> bool {
        let state = self.calls.state();
        let call = state.calls.get(&self.token);
        call.is_some_and(|call| call.was_asked)
    }
}

impl OpenQuestion {
    /// Waits until the call ends on whose behalf the server asks.
    pub(super) async fn ended(&mut self) {
        // The sender sends nothing: this returns when it is dropped.
        let _ = self.ended.changed().await;
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut state = self.calls.state();
        state.questions = state.questions.saturating_sub(1);
        if state.questions > 0 {
            return;
        }
        let now = Instant::now();
        let Some(asked) = state.asked.take() else {
            return;
        };
        for call in state.calls.values_mut() {
            call.last_sign = now;
            call.waited += now.saturating_duration_since(asked.max(call.started));
        }
    }
}

impl ActiveCalls {
    fn state(&self) -> MutexGuard<'_, CallsState> {
        self.0.lock()
    }

    /// Registers a call of a tool under this token, until the result is dropped. `respondents` answer what the server
    /// asks meanwhile.
    pub(super) fn begin(
        &self,
        token: ProgressToken,
        tool: &str,
        respondents: Respondents,
    ) -> CallRegistration<'_> {
        let started = Instant::now();
        let call = ActiveCall {
            tool: tool.to_owned(),
            respondents,
            last_report: None,
            started,
            last_sign: started,
            waited: Duration::ZERO,
            was_asked: false,
            ended: watch::Sender::new(()),
        };
        self.state().calls.insert(token.clone(), call);
        CallRegistration { calls: self, token }
    }

    /// Begins a question of the server; `None` if there is no call on whose behalf it may ask. All calls count as
    /// asked: the message does not name the call, and results that depend on an answer must not be stored.
    pub(super) fn ask(&self) -> Option<OpenQuestion> {
        let mut state = self.state();
        for call in state.calls.values_mut() {
            call.was_asked = true;
        }
        let newest = state.calls.values().max_by_key(|call| call.started)?;
        let (respondents, ended) = (newest.respondents.clone(), newest.ended.subscribe());
        state.questions += 1;
        state.asked.get_or_insert_with(Instant::now);
        Some(OpenQuestion {
            calls: self.clone(),
            respondents,
            ended,
        })
    }

    /// Returns the tool and the text to report; `None` if the call has ended, or the last report was too
    /// recent.
    pub(super) fn next_report(
        &self,
        progress: &ProgressNotificationParam,
    ) -> Option<(String, String)> {
        let now = Instant::now();
        let mut state = self.state();
        let call = state.calls.get_mut(&progress.progress_token)?;
        call.last_sign = now;
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

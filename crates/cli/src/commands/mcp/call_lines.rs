//! The lines that the proxy prints for calls.

use std::sync::Arc;
use std::time::Duration;

use cachalot_mcp::relay::{CacheAccount, CallObserver, CallReport};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::render;
use crate::render::visible::on_one_line;

/// Maximum time for which a line waits until it is decided if the answer is stored.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Prints a line for each call, when it is decided if its answer is stored.
#[derive(Default)]
pub(super) struct CallLines {
    /// Lines that wait.
    waiting: Arc<Mutex<JoinSet<()>>>,
}

impl CallLines {
    /// Returns the function that prints a line. It is to be called within a runtime.
    pub(super) fn observer(&self) -> CallObserver {
        let waiting = Arc::clone(&self.waiting);
        Arc::new(move |report: CallReport| {
            let account = report.account.clone();
            let Some(account) = account.filter(|account| !account.is_complete()) else {
                let account = report.account.as_deref();
                let refusal = account.and_then(CacheAccount::known_refusal);
                return render::err(&line(&report, refusal.as_deref()));
            };
            let mut waiting = waiting.lock();
            while waiting.try_join_next().is_some() {}
            waiting.spawn(async move {
                let refusal = account.refusal(MAX_WAIT).await;
                render::err(&line(&report, refusal.as_deref()));
            });
        })
    }

    /// Waits for the lines of calls that have ended.
    pub(super) async fn finish(&self) {
        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        while waiting.join_next().await.is_some() {}
    }
}

/// Formats a report: `tools/call echo    1 ms  miss: expired; not stored: the tool reported an error`.
fn line(report: &CallReport, refusal: Option<&str>) -> String {
    let subject = report.subject.as_deref().map(on_one_line);
    let what = match subject {
        Some(subject) => format!("{} {subject}", report.method),
        None => report.method.clone(),
    };
    let mut line = format!("{what:<40} {:>9}", render::time(report.elapsed));
    if report.is_error {
        line.push_str("  error");
    }
    if let Some(cache) = &report.cache {
        line.push_str(&format!("  cache {}", on_one_line(cache)));
    }
    if let Some(account) = &report.account {
        let reason = on_one_line(account.reason());
        line.push_str(&format!("  {}: {reason}", account.status()));
    }
    if let Some(refusal) = refusal.filter(|_| !report.is_error) {
        line.push_str(&format!("; not stored: {}", on_one_line(refusal)));
    }
    line
}

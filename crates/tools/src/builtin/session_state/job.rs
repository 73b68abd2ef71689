//! One background job.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachalot_core::SecretSet;
use cachalot_process::{Ended, Error, GroupKiller, describe_status};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::builtin::shell::{Capture, cut};

/// Maximum number of bytes of output that are kept of a job: the first and the last ones.
const MAX_OUTPUT_BYTES: usize = 10 << 20;

/// A command that runs in the background, or ran.
pub(in crate::builtin) struct Job {
    pub(in crate::builtin) id: String,
    given: NewJob,
    secret_set: Arc<SecretSet>,
    started: Instant,
    output: Mutex<Capture>,
    end: watch::Sender<Option<JobEnd>>,
    /// Set when the model stopped the job, or the session ended.
    is_stopped: AtomicBool,
    /// Set when the model was informed of the end, or is not to be.
    is_end_known: AtomicBool,
    killer: GroupKiller,
    /// Ends the run when it is dropped.
    stop: Mutex<Option<oneshot::Sender<()>>>,
}

/// The end of a job.
#[derive(Debug, Clone)]
struct JobEnd {
    /// `completed`, `failed` or `stopped`.
    status: &'static str,
    /// `exit status 1`.
    detail: String,
    elapsed: Duration,
}

/// A job to start.
pub(in crate::builtin) struct NewJob {
    /// The command line.
    pub(in crate::builtin) line: String,
    /// The directory as the call gives it.
    pub(in crate::builtin) directory: Option<PathBuf>,
    /// Maximum number of bytes of output in the notice of the end; `None`: no output.
    pub(in crate::builtin) notice_output: Option<usize>,
}

impl Job {
    pub(in crate::builtin) fn new(
        id: String,
        given: NewJob,
        secret_set: Arc<SecretSet>,
        killer: GroupKiller,
        stop: oneshot::Sender<()>,
    ) -> Self {
        Self {
            id,
            given,
            secret_set,
            started: Instant::now(),
            output: Mutex::new(Capture::new(MAX_OUTPUT_BYTES)),
            end: watch::Sender::new(None),
            is_stopped: AtomicBool::new(false),
            is_end_known: AtomicBool::new(false),
            killer,
            stop: Mutex::new(Some(stop)),
        }
    }

    pub(in crate::builtin) fn push(&self, bytes: &[u8]) {
        self.output.lock().push(bytes);
    }

    /// Records the end of the program.
    pub(in crate::builtin) fn record_end(&self, ended: Result<Ended, Error>) {
        let (status, detail) = match ended {
            _ if self.is_stopped.load(Ordering::SeqCst) => ("stopped", "killed".to_owned()),
            Ok(ended) if ended.status.success() => ("completed", describe_status(ended.status)),
            Ok(ended) => ("failed", describe_status(ended.status)),
            Err(error) => ("failed", error.to_string()),
        };
        let elapsed = self.started.elapsed();
        self.end.send_replace(Some(JobEnd {
            status,
            detail,
            elapsed,
        }));
    }

    pub(in crate::builtin) fn is_running(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// Kills the process group, and ends the run.
    pub(in crate::builtin) fn stop(&self) {
        // Before the kill: the task that records the end reads it.
        self.is_stopped.store(true, Ordering::SeqCst);
        self.killer.kill();
        drop(self.stop.lock().take());
    }

    /// Waits for the end.
    pub(in crate::builtin) async fn ended(&self) {
        // The sender is a field of `self`.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns the job in one line.
    pub(in crate::builtin) fn line(&self) -> String {
        let text = format!("{}: {}: `{}`", self.id, self.status(), self.given.line);
        self.secret_set.redact(&text).into_owned()
    }

    /// Returns `running for 3 s` or `completed (exit status 0) after 3 s`.
    fn status(&self) -> String {
        match &*self.end.borrow() {
            None => format!("running for {}", seconds(self.started.elapsed())),
            Some(end) => format!(
                "{} ({}) after {}",
                end.status,
                end.detail,
                seconds(end.elapsed)
            ),
        }
    }

    /// Describes the job with its output: from the byte `offset` on, otherwise the beginning and the end, and
    /// at most `limit` bytes. The model then knows the end of the job.
    pub(in crate::builtin) fn describe(&self, limit: usize, offset: Option<usize>) -> String {
        if !self.is_running() {
            self.is_end_known.store(true, Ordering::SeqCst);
        }
        let directory = match &self.given.directory {
            Some(directory) => format!("\nDirectory: {}", directory.display()),
            None => String::new(),
        };
        let head = format!(
            "Job {}: {}\nCommand: {}{directory}\n",
            self.id,
            self.status(),
            self.given.line
        );
        let head = self.secret_set.redact(&head).into_owned();
        format!("{head}Output:\n{}", self.shown_output(limit, offset))
    }

    fn shown_output(&self, limit: usize, offset: Option<usize>) -> String {
        let kept = self.output.lock().shown(&self.secret_set);
        match offset {
            _ if kept.is_empty() => "(none)".to_owned(),
            None if kept.len() <= limit => kept,
            None => cut(&kept, &kept, limit / 2, 0),
            Some(offset) => {
                let from = kept.ceil_char_boundary(offset.min(kept.len()));
                let to = kept.floor_char_boundary(from.saturating_add(limit).min(kept.len()));
                let part = &kept[from..to.max(from)];
                format!(
                    "{part}\n[bytes {from} to {} of {}]",
                    to.max(from),
                    kept.len()
                )
            }
        }
    }

    /// Takes the notice of the end, unless the model knows it or the job is running.
    pub(in crate::builtin) fn take_notice(&self) -> Option<String> {
        if self.is_running() || self.is_end_known.swap(true, Ordering::SeqCst) {
            return None;
        }
        Some(match self.given.notice_output {
            Some(limit) => format!(
                "A background job has ended.\n{}",
                self.describe(limit, None)
            ),
            None => format!(
                "The background job {}. `view_background_job` shows its output.",
                self.line()
            ),
        })
    }
}

/// Formats a duration in seconds, with a decimal below ten.
fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds => format!("{seconds} s"),
    }
}

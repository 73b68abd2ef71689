//! The background jobs of a session, and the tasks that run them.

use std::sync::Arc;

use cachalot_core::EffectTargets;
use cachalot_operation::domains::raised_domains;
use cachalot_operation::{ToolContext, WriteNotifier};
use cachalot_process::{Error, Lingering, Run, Streams};
use parking_lot::Mutex;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::job::{Job, NewJob};
use crate::builtin::call_error::CallError;
use crate::builtin::shell::start_error;

/// Maximum number of running jobs of a session.
const MAX_RUNNING: usize = 16;

/// Maximum number of jobs of a session whose output is kept; the oldest ones that have ended are dropped.
const MAX_KEPT: usize = 32;

/// The tasks that run the jobs of all sessions of a process. Clones share them. Dropping the last one kills
/// the jobs.
#[derive(Clone, Default)]
pub(in crate::builtin) struct JobTasks(Arc<Mutex<JoinSet<()>>>);

impl JobTasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        // Tasks that have ended are dropped.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Waits until all tasks have ended.
    pub(in crate::builtin) async fn wait(&self) {
        let mut tasks = std::mem::take(&mut *self.0.lock());
        while tasks.join_next().await.is_some() {}
    }
}

/// The background jobs of a session. Dropping them kills those that are running.
pub(in crate::builtin) struct BackgroundJobs {
    state: Mutex<JobsState>,
    tasks: JobTasks,
}

#[derive(Default)]
struct JobsState {
    /// The jobs, oldest first.
    jobs: Vec<Arc<Job>>,
    /// The number of jobs that were started.
    started: u64,
    /// Set when no job may be started any more.
    is_closed: bool,
}

impl BackgroundJobs {
    pub(in crate::builtin) fn new(tasks: JobTasks) -> Self {
        Self {
            state: Mutex::default(),
            tasks,
        }
    }

    /// Starts a job by running `command`. The caches are notified of a write before the command starts, and of its end when the
    /// command has ended.
    ///
    /// # Errors
    /// The session is ending, too many jobs are running, or the command cannot be started.
    pub(in crate::builtin) async fn start(
        &self,
        new: NewJob,
        command: Command,
        write_notifier: &WriteNotifier,
        context: &ToolContext,
    ) -> Result<Arc<Job>, CallError> {
        let domains = raised_domains(&EffectTargets::Unknown, context.workspace.root());
        let write = write_notifier.begin(domains).await;
        // Locked until the job is in the list: `close` either prevents its start or finds it there.
        let mut state = self.state.lock();
        state.make_room()?;
        let run = Run {
            command,
            input: None,
            streams: Streams::Merged,
            output_limit: None,
            timeout: None,
            lingering: Lingering::WaitThenKill,
        };
        let started = run
            .start()
            .map_err(|error: Error| CallError::Refused(start_error(&new.line, &error)))?;
        state.started += 1;
        let (stop, stopped) = oneshot::channel();
        let id = format!("job_{}", state.started);
        let secret_set = Arc::clone(&context.secret_set);
        let job = Arc::new(Job::new(id, new, secret_set, started.killer(), stop));
        state.jobs.push(Arc::clone(&job));
        let running = Arc::clone(&job);
        self.tasks.spawn(async move {
            let stopped = async {
                // The sender is dropped to stop the job.
                let _ = stopped.await;
            };
            let ended = started.run_until(stopped, |_, bytes| running.push(bytes));
            let ended = ended.await;
            // Before the end is recorded: a caller that sees the end must not be served results that are older than the
            // writes of the job.
            write.end().await;
            running.record_end(ended);
        });
        Ok(job)
    }

    /// Returns the job with this ID.
    ///
    /// # Errors
    /// There is no such job.
    pub(in crate::builtin) fn job(&self, id: &str) -> Result<Arc<Job>, CallError> {
        let state = self.state.lock();
        let found = state.jobs.iter().find(|job| job.id == id);
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = state.jobs.iter().map(|job| job.id.as_str()).collect();
            CallError::Refused(if known.is_empty() {
                format!("there is no background job `{id}`, nor any other")
            } else {
                format!(
                    "there is no background job `{id}`; the jobs are: {}",
                    known.join(", ")
                )
            })
        })
    }

    /// Returns all jobs, oldest first.
    pub(in crate::builtin) fn all(&self) -> Vec<Arc<Job>> {
        self.state.lock().jobs.clone()
    }

    /// Takes the notices about jobs that have ended since the last call, one paragraph each.
    pub(in crate::builtin) fn take_notices(&self) -> Vec<String> {
        let jobs = self.all();
        jobs.iter().filter_map(|job| job.take_notice()).collect()
    }

    /// Kills all jobs. No job can be started afterwards.
    pub(in crate::builtin) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        for job in &state.jobs {
            job.stop();
        }
    }
}

impl JobsState {
    /// Makes room for another job.
    ///
    /// # Errors
    /// The session is ending, or too many jobs are running.
    fn make_room(&mut self) -> Result<(), CallError> {
        if self.is_closed {
            return Err(CallError::Refused(
                "the session is ending; no job can be started".to_owned(),
            ));
        }
        let running = self.jobs.iter().filter(|job| job.is_running()).count();
        if running >= MAX_RUNNING {
            return Err(CallError::Refused(format!(
                "{running} background jobs are running, which is the maximum: stop one, or wait for one"
            )));
        }
        if self.jobs.len() >= MAX_KEPT
            && let Some(oldest) = self.jobs.iter().position(|job| !job.is_running())
        {
            self.jobs.remove(oldest);
        }
        Ok(())
    }
}

impl Drop for BackgroundJobs {
    fn drop(&mut self) {
        self.close();
    }
}

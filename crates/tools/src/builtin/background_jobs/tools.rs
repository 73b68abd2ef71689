//! The five tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::config::{CallArguments, Parameter, tool_schema};
use cachalot_operation::{
    Command, CommandText, OperationMetadata, ResourceAccess, Tool, ToolContext, ToolOutput,
    TypedTool, WriteNotifier,
};
use serde::Deserialize;

use crate::builtin::call_error::CallError;
use crate::builtin::internal_tool::{InternalCall, internal_tool};
use crate::builtin::session_state::{NewJob, SessionState};
use crate::builtin::shell::{CommandEnvironment, sandboxed_line, working_directory};
use crate::builtin::{harmless_metadata, passing_result};

/// Default time that `wait_background_job` waits, in seconds.
const WAIT_SECONDS: u64 = 60;

/// Describes a tool that only reads the state of jobs, and runs beside other such tools.
fn reading(
    name: &'static str,
    description: &'static str,
    parameters: &[Parameter],
) -> OperationMetadata {
    OperationMetadata {
        exclusive: false,
        ..harmless_metadata(name, description, tool_schema(parameters))
    }
}

/// Returns the result of a call about a job.
fn result(done: Result<String, CallError>, context: &ToolContext) -> ToolOutput {
    passing_result(match done {
        Ok(text) => ToolOutput::text(text),
        Err(error) => error.output(&context.secret_set),
    })
}

/// The tool `run_background_job`. Its effects are unknown.
pub(super) struct RunJob {
    metadata: OperationMetadata,
    state: Arc<SessionState>,
    environment: CommandEnvironment,
    write_notifier: WriteNotifier,
    output_limit: usize,
}

impl RunJob {
    pub(super) fn new(
        state: &Arc<SessionState>,
        environment: CommandEnvironment,
        write_notifier: WriteNotifier,
        output_limit: usize,
        recall: bool,
    ) -> Self {
        let parameters = RunArguments::PARAMETERS.iter();
        let parameters = parameters.filter(|parameter| recall || parameter.name != "recall");
        let parameters: Vec<Parameter> = parameters.copied().collect();
        Self {
            metadata: OperationMetadata::with_side_effects(
                "run_background_job",
                "Starts a command that runs in the background, and returns the ID of the job at once. For servers, watchers, and commands that take long. Nothing is on its standard input. It is killed when the conversation ends. Its end is announced with the next message or result of a call.",
                tool_schema(&parameters),
            ),
            state: Arc::clone(state),
            environment,
            write_notifier,
            output_limit,
        }
    }

    async fn start(
        &self,
        arguments: RunArguments,
        context: &ToolContext,
    ) -> Result<String, CallError> {
        let line = arguments.cmd;
        if line.contains('\0') {
            return Err(CallError::Refused(
                "`cmd` holds a NUL character, which no command can".to_owned(),
            ));
        }
        if line.trim().is_empty() {
            return Err(CallError::Refused(
                "`cmd` is empty: give a command line".to_owned(),
            ));
        }
        let mut command = sandboxed_line(&line, context)?;
        command.current_dir(working_directory(
            &context.workspace,
            arguments.cwd.as_deref(),
        )?);
        self.environment.apply(&mut command, context);
        let new = NewJob {
            line,
            directory: arguments.cwd.map(PathBuf::from),
            notice_output: arguments.recall.then_some(self.output_limit),
        };
        let jobs = &self.state.jobs;
        let job = jobs
            .start(new, command, &self.write_notifier, context)
            .await?;
        Ok(format!("The background job {} is running.", job.id))
    }
}

/// The arguments of `run_background_job`.
#[derive(CallArguments, Deserialize)]
pub(super) struct RunArguments {
    /// A command line for the shell.
    cmd: String,
    /// Where it runs, relative to the workspace; the workspace itself by default.
    cwd: Option<String>,
    /// Adds the output to the notice about its end.
    #[setting(default = false)]
    #[serde(default)]
    recall: bool,
}

#[async_trait]
impl TypedTool for RunJob {
    type Arguments = RunArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &RunArguments, _: &ToolContext) -> Effects {
        Effects::UNKNOWN
    }

    fn resource_access(&self, arguments: &RunArguments) -> ResourceAccess {
        ResourceAccess {
            commands: vec![Command {
                text: CommandText::Line(arguments.cmd.clone()),
                directory: arguments.cwd.as_ref().map(PathBuf::from),
            }],
            ..ResourceAccess::default()
        }
    }

    async fn run(&self, arguments: RunArguments, context: &ToolContext) -> ToolOutput {
        result(self.start(arguments, context).await, context)
    }
}

/// The jobs of a session, and the approximate maximum number of bytes of output that a result shows.
struct ShownJobs {
    state: Arc<SessionState>,
    output_limit: usize,
}

/// Creates the tools for jobs that were started.
pub(super) fn for_started_jobs(
    state: &Arc<SessionState>,
    output_limit: usize,
) -> [Arc<dyn Tool>; 4] {
    let jobs = || ShownJobs {
        state: Arc::clone(state),
        output_limit,
    };
    let list = reading(
        "list_background_jobs",
        "Lists the background jobs of this conversation: ID, status, run time, command.",
        &[],
    );
    let view = reading(
        "view_background_job",
        "Shows the status and the output (stdout and stderr together) of a background job.",
        ViewJob::PARAMETERS,
    );
    let stop = OperationMetadata::with_side_effects(
        "stop_background_job",
        "Kills a background job and what it started.",
        tool_schema(StopJob::PARAMETERS),
    );
    let wait = reading(
        "wait_background_job",
        "Waits until a background job has ended, and shows its status and output. Use it instead of repeated calls of view_background_job.",
        WaitForJob::PARAMETERS,
    );
    [
        internal_tool::<ListJobs>(list, jobs()),
        internal_tool::<ViewJob>(view, jobs()),
        internal_tool::<StopJob>(stop, jobs()),
        internal_tool::<WaitForJob>(wait, jobs()),
    ]
}

/// A call of `list_background_jobs`.
#[derive(Deserialize)]
struct ListJobs {}

#[async_trait]
impl InternalCall for ListJobs {
    type State = ShownJobs;

    async fn run(self, jobs: &ShownJobs, context: &ToolContext) -> ToolOutput {
        let jobs = jobs.state.jobs.all();
        let lines: Vec<String> = jobs.iter().map(|job| job.line()).collect();
        let text = if lines.is_empty() {
            "There are no background jobs.".to_owned()
        } else {
            lines.join("\n")
        };
        result(Ok(text), context)
    }
}

/// A call of `view_background_job`.
#[derive(CallArguments, Deserialize)]
struct ViewJob {
    /// The ID of the job.
    job_id: String,
    /// The byte of the kept output from which on it is shown; the beginning and the end by default.
    #[setting(range = 0..=u32::MAX as u64)]
    offset: Option<usize>,
}

#[async_trait]
impl InternalCall for ViewJob {
    type State = ShownJobs;

    async fn run(self, jobs: &ShownJobs, context: &ToolContext) -> ToolOutput {
        let job = jobs.state.jobs.job(&self.job_id);
        let shown = job.map(|job| job.describe(jobs.output_limit, self.offset));
        result(shown, context)
    }
}

/// A call of `stop_background_job`.
#[derive(CallArguments, Deserialize)]
struct StopJob {
    /// The ID of the job.
    job_id: String,
}

impl StopJob {
    async fn stop(&self, jobs: &ShownJobs) -> Result<String, CallError> {
        let job = jobs.state.jobs.job(&self.job_id)?;
        if !job.is_running() {
            return Err(CallError::Refused(format!(
                "the job is not running. {}",
                job.line()
            )));
        }
        job.stop();
        job.ended().await;
        Ok(job.describe(jobs.output_limit, None))
    }
}

#[async_trait]
impl InternalCall for StopJob {
    type State = ShownJobs;

    fn effects() -> Effects {
        Effects::UNKNOWN
    }

    async fn run(self, jobs: &ShownJobs, context: &ToolContext) -> ToolOutput {
        result(self.stop(jobs).await, context)
    }
}

/// A call of `wait_background_job`.
#[derive(CallArguments, Deserialize)]
struct WaitForJob {
    /// The ID of the job.
    job_id: String,
    /// The maximum number of seconds to wait; the job then keeps running.
    #[setting(range = 1..=24 * 60 * 60, default = WAIT_SECONDS)]
    timeout: Option<u64>,
}

impl WaitForJob {
    async fn wait(&self, jobs: &ShownJobs) -> Result<String, CallError> {
        let job = jobs.state.jobs.job(&self.job_id)?;
        let seconds = self.timeout.unwrap_or(WAIT_SECONDS);
        let waited = tokio::time::timeout(Duration::from_secs(seconds), job.ended()).await;
        let shown = job.describe(jobs.output_limit, None);
        Ok(match waited {
            Ok(()) => shown,
            Err(_) => format!("The job is still running after {seconds} s of waiting.\n{shown}"),
        })
    }
}

#[async_trait]
impl InternalCall for WaitForJob {
    type State = ShownJobs;

    async fn run(self, jobs: &ShownJobs, context: &ToolContext) -> ToolOutput {
        result(self.wait(jobs).await, context)
    }
}

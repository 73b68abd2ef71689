//! The five tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::spec::{Literal, Parameter, ParameterKind as Kind, key, required, tool_schema};
use cachalot_operation::{
    Command, CommandText, OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool,
    WriteNotifier,
};
use cachalot_process::shell_command;
use serde::Deserialize;

use crate::builtin::session_state::{NewJob, SessionState};
use crate::builtin::shell::{CommandEnvironment, working_directory};
use crate::builtin::{harmless_metadata, passing_result};

/// Default time that `wait_background_job` waits, in seconds.
const WAIT_SECONDS: u64 = 60;

const JOB_ID: Parameter = required("job_id", Kind::Text, "The ID of the job.");

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
fn result(done: Result<String, String>, context: &ToolContext) -> ToolOutput {
    passing_result(match done {
        Ok(text) => ToolOutput::text(text),
        Err(why) => ToolOutput::error(context.secret_set.redact(&why)),
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

#[rustfmt::skip]
const RUN: [Parameter; 3] = [
    required("cmd", Kind::Text, "A command line for the shell."),
    key("cwd", Kind::Text, "Where it runs, relative to the workspace; the workspace itself by default."),
    key("recall", Kind::Boolean, "Adds the output to the notice about its end.").default(Literal::Boolean(false)),
];

impl RunJob {
    pub(super) fn new(
        state: &Arc<SessionState>,
        environment: CommandEnvironment,
        write_notifier: WriteNotifier,
        output_limit: usize,
        recall: bool,
    ) -> Self {
        let parameters = match recall {
            true => &RUN[..],
            false => &RUN[..2],
        };
        Self {
            metadata: OperationMetadata::with_side_effects(
                "run_background_job",
                "Starts a command that runs in the background, and returns the ID of the job at once. For servers, watchers, and commands that take long. Nothing is on its standard input. It is killed when the conversation ends. Its end is announced with the next message or result of a call.",
                tool_schema(parameters),
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
    ) -> Result<String, String> {
        let line = arguments.cmd;
        if line.contains('\0') {
            return Err("`cmd` holds a NUL character, which no command can".to_owned());
        }
        if line.trim().is_empty() {
            return Err("`cmd` is empty: give a command line".to_owned());
        }
        let mut command = shell_command(&line);
        command.current_dir(working_directory(
            &context.workspace,
            arguments.cwd.as_deref(),
        )?);
        self.environment.apply(&mut command, context);
        let new = NewJob {
            line,
            command,
            directory: arguments.cwd.map(PathBuf::from),
            notice_output: arguments.recall.then_some(self.output_limit),
        };
        let jobs = &self.state.jobs;
        let job = jobs.start(new, &self.write_notifier, context).await?;
        Ok(format!("The background job {} is running.", job.id))
    }
}

/// The arguments of `run_background_job`.
#[derive(Deserialize)]
pub(super) struct RunArguments {
    cmd: String,
    cwd: Option<String>,
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

/// The tool `list_background_jobs`.
pub(super) struct ListJobs {
    metadata: OperationMetadata,
    state: Arc<SessionState>,
}

impl ListJobs {
    pub(super) fn new(state: &Arc<SessionState>) -> Self {
        Self {
            metadata: reading(
                "list_background_jobs",
                "Lists the background jobs of this conversation: ID, status, run time, command.",
                &[],
            ),
            state: Arc::clone(state),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct NoArguments {}

#[async_trait]
impl TypedTool for ListJobs {
    type Arguments = NoArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &NoArguments, _: &ToolContext) -> Effects {
        Effects::reading(Vec::new())
    }

    fn resource_access(&self, _: &NoArguments) -> ResourceAccess {
        ResourceAccess::default()
    }

    async fn run(&self, _: NoArguments, context: &ToolContext) -> ToolOutput {
        let jobs = self.state.jobs.all();
        let lines: Vec<String> = jobs.iter().map(|job| job.line()).collect();
        let text = match lines.is_empty() {
            true => "There are no background jobs.".to_owned(),
            false => lines.join("\n"),
        };
        result(Ok(text), context)
    }
}

/// The tool `view_background_job`.
pub(super) struct ViewJob {
    metadata: OperationMetadata,
    state: Arc<SessionState>,
    output_limit: usize,
}

impl ViewJob {
    pub(super) fn new(state: &Arc<SessionState>, output_limit: usize) -> Self {
        let offset = key(
            "offset",
            Kind::IntegerIn(0, u32::MAX as u64),
            "The byte of the kept output from which on it is shown; the beginning and the end by default.",
        );
        Self {
            metadata: reading(
                "view_background_job",
                "Shows the status and the output (stdout and stderr together) of a background job.",
                &[JOB_ID, offset],
            ),
            state: Arc::clone(state),
            output_limit,
        }
    }
}

/// The arguments of `view_background_job`.
#[derive(Deserialize)]
pub(super) struct ViewArguments {
    job_id: String,
    offset: Option<usize>,
}

#[async_trait]
impl TypedTool for ViewJob {
    type Arguments = ViewArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &ViewArguments, _: &ToolContext) -> Effects {
        Effects::reading(Vec::new())
    }

    fn resource_access(&self, _: &ViewArguments) -> ResourceAccess {
        ResourceAccess::default()
    }

    async fn run(&self, arguments: ViewArguments, context: &ToolContext) -> ToolOutput {
        let job = self.state.jobs.job(&arguments.job_id);
        let shown = job.map(|job| job.describe(self.output_limit, arguments.offset));
        result(shown, context)
    }
}

/// The tool `stop_background_job`.
pub(super) struct StopJob {
    metadata: OperationMetadata,
    state: Arc<SessionState>,
    output_limit: usize,
}

impl StopJob {
    pub(super) fn new(state: &Arc<SessionState>, output_limit: usize) -> Self {
        Self {
            metadata: OperationMetadata::with_side_effects(
                "stop_background_job",
                "Kills a background job and what it started.",
                tool_schema(&[JOB_ID]),
            ),
            state: Arc::clone(state),
            output_limit,
        }
    }

    async fn stop(&self, id: &str) -> Result<String, String> {
        let job = self.state.jobs.job(id)?;
        if !job.is_running() {
            return Err(format!("the job is not running. {}", job.line()));
        }
        job.stop();
        job.ended().await;
        Ok(job.describe(self.output_limit, None))
    }
}

/// The arguments of `stop_background_job`.
#[derive(Deserialize)]
pub(super) struct StopArguments {
    job_id: String,
}

#[async_trait]
impl TypedTool for StopJob {
    type Arguments = StopArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &StopArguments, _: &ToolContext) -> Effects {
        Effects::UNKNOWN
    }

    fn resource_access(&self, _: &StopArguments) -> ResourceAccess {
        ResourceAccess::default()
    }

    async fn run(&self, arguments: StopArguments, context: &ToolContext) -> ToolOutput {
        result(self.stop(&arguments.job_id).await, context)
    }
}

/// The tool `wait_background_job`.
pub(super) struct WaitForJob {
    metadata: OperationMetadata,
    state: Arc<SessionState>,
    output_limit: usize,
}

impl WaitForJob {
    pub(super) fn new(state: &Arc<SessionState>, output_limit: usize) -> Self {
        let timeout = key(
            "timeout",
            Kind::IntegerIn(1, 24 * 60 * 60),
            "The maximum number of seconds to wait; the job then keeps running.",
        );
        Self {
            metadata: reading(
                "wait_background_job",
                "Waits until a background job has ended, and shows its status and output. Use it instead of repeated calls of view_background_job.",
                &[JOB_ID, timeout.default(Literal::Integer(WAIT_SECONDS))],
            ),
            state: Arc::clone(state),
            output_limit,
        }
    }

    async fn wait(&self, arguments: WaitArguments) -> Result<String, String> {
        let job = self.state.jobs.job(&arguments.job_id)?;
        let seconds = arguments.timeout.unwrap_or(WAIT_SECONDS);
        let waited = tokio::time::timeout(Duration::from_secs(seconds), job.ended()).await;
        let shown = job.describe(self.output_limit, None);
        Ok(match waited {
            Ok(()) => shown,
            Err(_) => format!("The job is still running after {seconds} s of waiting.\n{shown}"),
        })
    }
}

/// The arguments of `wait_background_job`.
#[derive(Deserialize)]
pub(super) struct WaitArguments {
    job_id: String,
    timeout: Option<u64>,
}

#[async_trait]
impl TypedTool for WaitForJob {
    type Arguments = WaitArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &WaitArguments, _: &ToolContext) -> Effects {
        Effects::reading(Vec::new())
    }

    fn resource_access(&self, _: &WaitArguments) -> ResourceAccess {
        ResourceAccess::default()
    }

    async fn run(&self, arguments: WaitArguments, context: &ToolContext) -> ToolOutput {
        result(self.wait(arguments).await, context)
    }
}

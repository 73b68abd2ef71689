//! The tool `shell`, which runs a command.

mod capture;
mod environment;
mod sandboxed;
mod shared_capture;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::config::{
    CallArguments, Custom, ParameterKind as Kind, SettingValue as _, Settings, tool_schema,
};
use cachalot_core::{Effects, Secret};
use cachalot_operation::{CommandText, ResourceAccess};
use cachalot_process::{Ended, Error, Lingering, Run, StartError, Streams, describe_status};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

use super::call_error::CallError;
use crate::filter::NameFilter;
use crate::workspace::{PathKind, Workspace};
use cachalot_operation::{OperationMetadata, ToolContext, ToolOutput, TypedTool};
pub(super) use capture::{Capture, cut};
pub(super) use environment::CommandEnvironment;
pub(super) use sandboxed::line as sandboxed_line;
use shared_capture::SharedCapture;

pub use environment::looks_like_a_credential;

/// Settings of the tool `shell`.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`shell`", default)]
pub struct ShellSettings {
    /// The default timeout of a command.
    #[setting(default = "120s")]
    pub timeout: Duration,
    /// The maximum timeout that a call may request; at least `timeout`.
    #[setting(default = "600s", alias = "maxTimeout")]
    pub max_timeout: Duration,
    /// Settings of its commands.
    #[setting(flatten)]
    pub commands: CommandSettings,
}

/// Settings of tools that run commands.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "commands", default)]
pub struct CommandSettings {
    /// The approximate maximum of output that is shown, in bytes.
    ///
    /// Of longer output, the beginning and the end are shown.
    #[setting(key = "max_output", alias = "maxOutput", range = 1..=1 << 30, default = 30_000)]
    pub output_limit: usize,
    /// Environment variables for every command.
    ///
    /// They replace those of the same name.
    #[setting(key = "env", alias = "environment")]
    pub environment: BTreeMap<String, Secret<String>>,
    /// Patterns of environment variables that are passed on although they look like credentials.
    ///
    /// `*` for all. Default none: a command gets the whole environment except variables whose name is that of
    /// a credential (`…_TOKEN`, `…_API_KEY`, `…PASSWORD…`), whose value looks like one (`sk-…`,
    /// `postgres://me:secret@host`), or which contain a known secret.
    #[setting(key = "pass_env", alias = "passEnv", kind = NameFilter::KIND)]
    pub pass: Vec<String>,
}

const COMMAND: Kind = Kind::Custom(&Custom::shape(
    || json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }] }),
));

/// The tool `shell`. Runs a command line in the system's shell, or a program with its arguments, in the
/// workspace. Returns stdout and stderr in the order of writing, with known secrets masked. The command's
/// standard input is empty. The output is published while the command runs ([`ToolContext::output`]). The command and the processes that it started are killed on timeout, or when the
/// call is dropped. Background processes that are still running when the command ends by itself are not
/// killed. Its effects are unknown.
pub struct Shell {
    metadata: OperationMetadata,
    settings: ShellSettings,
    environment: CommandEnvironment,
}

impl Shell {
    /// Creates the tool.
    ///
    /// # Errors
    /// If an entry of [`CommandSettings::pass`] is not a valid pattern.
    pub fn new(mut settings: ShellSettings) -> Result<Self, globset::Error> {
        // A longer default timeout also raises the maximum.
        settings.max_timeout = settings.max_timeout.max(settings.timeout);
        let (timeout, longest) = (
            settings.timeout.as_secs_f64(),
            settings.max_timeout.as_secs_f64(),
        );
        let mut parameters = tool_schema(ShellArguments::PARAMETERS);
        parameters["properties"]["timeout"]["description"] = format!(
            "Seconds after which it and what it started are killed; {timeout} by default, at most {longest}."
        )
        .into();
        Ok(Self {
            environment: CommandEnvironment::new(&settings.commands)?,
            metadata: OperationMetadata::with_side_effects(
                "shell",
                "Runs a command and gives its output (stdout and stderr together) and its exit status. Nothing is on its standard input, so it must not ask questions. To keep a program running, start it in the background with its output in a file. Prefer the file tools for reading, searching and editing files.",
                parameters,
            ),
            settings,
        })
    }

    fn timeout(&self, seconds: Option<f64>) -> Result<Duration, CallError> {
        let Some(seconds) = seconds else {
            return Ok(self.settings.timeout);
        };
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|timeout| !timeout.is_zero() && *timeout <= self.settings.max_timeout)
            .ok_or_else(|| {
                CallError::Refused(format!(
                    "`timeout` must be above 0 and at most {} seconds, but it is {seconds}",
                    self.settings.max_timeout.as_secs_f64()
                ))
            })
    }

    fn command(
        &self,
        arguments: &ShellArguments,
        context: &ToolContext,
    ) -> Result<Command, CallError> {
        let mut command = arguments.command.to_command(context)?;
        let directory = arguments.working_directory.as_deref();
        command.current_dir(working_directory(&context.workspace, directory)?);
        self.environment.apply(&mut command, context);
        Ok(command)
    }

    /// Runs a command line like a call of the tool.
    pub(super) async fn run_line(
        &self,
        line: &str,
        directory: Option<String>,
        context: &ToolContext,
    ) -> ToolOutput {
        let arguments = ShellArguments {
            command: CommandArgument::Line(line.to_owned()),
            timeout: None,
            working_directory: directory,
        };
        TypedTool::run(self, arguments, context).await
    }

    /// Returns the result of a command that ended, or that was killed on timeout (`None`).
    fn report(
        &self,
        ended: Option<Ended>,
        written: &SharedCapture,
        timeout: Duration,
    ) -> ToolOutput {
        let mut text = written.shown();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match ended {
            Some(ended) => text.push_str(&format!("[{}]", describe_status(ended.status))),
            None => text.push_str(&format!(
                "[killed after {} seconds, with all that it had started: give a larger `timeout` (at most {}), or start it in the background with its output in a file]",
                timeout.as_secs_f64(),
                self.settings.max_timeout.as_secs_f64(),
            )),
        }
        if ended.is_some_and(|ended| ended.left_running) {
            text.push_str("\n[something that it started is still running; what it writes from now on is lost, and writing may end it: let it write to a file]");
        }
        if ended.is_some_and(|ended| ended.status.success()) {
            ToolOutput::text(text)
        } else {
            ToolOutput::error(text)
        }
    }
}

/// The arguments of `shell`.
#[derive(Debug, CallArguments, Deserialize)]
pub struct ShellArguments {
    /// A command line for the shell (pipes, `&&`, variables); or a list of a program and its arguments, which no
    /// shell touches.
    #[setting(kind = COMMAND)]
    command: CommandArgument,
    // The settings are in its description.
    timeout: Option<f64>,
    /// Where it runs, relative to the workspace; the workspace itself by default.
    working_directory: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CommandArgument {
    Line(String),
    Program(Vec<String>),
}

impl CommandArgument {
    fn to_command(&self, context: &ToolContext) -> Result<Command, CallError> {
        let words = match self {
            Self::Line(line) => std::slice::from_ref(line),
            Self::Program(words) => words,
        };
        if words.iter().any(|word| word.contains('\0')) {
            return Err(CallError::Refused(
                "`command` holds a NUL character, which no command can".to_owned(),
            ));
        }
        match self {
            Self::Line(line) if line.trim().is_empty() => Err(CallError::Refused(
                "`command` is empty: give a command line, or a list of a program and its arguments"
                    .to_owned(),
            )),
            Self::Line(line) => sandboxed::line(line, context),
            Self::Program(words) => {
                let (program, arguments) = words
                    .split_first()
                    .filter(|(program, _)| !program.is_empty())
                    .ok_or_else(|| {
                        CallError::Refused(
                            "`command` is empty: give a program and its arguments".to_owned(),
                        )
                    })?;
                let mut command = sandboxed::command(program, context)?;
                command.args(arguments);
                Ok(command)
            }
        }
    }
}

#[async_trait]
impl TypedTool for Shell {
    type Arguments = ShellArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _arguments: &ShellArguments, _context: &ToolContext) -> Effects {
        Effects::UNKNOWN
    }

    fn resource_access(&self, arguments: &ShellArguments) -> ResourceAccess {
        let text = match &arguments.command {
            CommandArgument::Line(line) => CommandText::Line(line.clone()),
            CommandArgument::Program(words) => CommandText::Program(words.clone()),
        };
        ResourceAccess {
            commands: vec![cachalot_operation::Command {
                text,
                directory: arguments.working_directory.as_ref().map(PathBuf::from),
            }],
            ..ResourceAccess::default()
        }
    }

    async fn run(&self, arguments: ShellArguments, context: &ToolContext) -> ToolOutput {
        let prepared = self
            .timeout(arguments.timeout)
            .and_then(|timeout| Ok((timeout, self.command(&arguments, context)?)));
        let (timeout, command) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return error.output(&context.secret_set),
        };
        let program = command
            .as_std()
            .get_program()
            .to_string_lossy()
            .into_owned();
        let secret_set = Arc::clone(&context.secret_set);
        let written = Arc::new(SharedCapture::new(
            self.settings.commands.output_limit,
            secret_set,
        ));
        context.output.publish(Arc::clone(&written) as _);
        let run = Run {
            command,
            input: None,
            streams: Streams::Merged,
            output_limit: None,
            timeout: Some(timeout),
            lingering: Lingering::Leave,
        };
        match run.run(|_, bytes| written.push(bytes)).await {
            Ok(ended) => self.report(Some(ended), &written, timeout),
            Err(Error::TimedOut(_)) => self.report(None, &written, timeout),
            Err(error) => {
                ToolOutput::error(context.secret_set.redact(&start_error(&program, &error)))
            }
        }
    }
}

/// Returns the working directory of a command: in the workspace after resolving symbolic links.
pub(super) fn working_directory(
    workspace: &Workspace,
    named: Option<&str>,
) -> Result<PathBuf, CallError> {
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return Ok(workspace.root().to_owned());
    };
    let resolved = workspace.resolved(named)?;
    match resolved.found {
        PathKind::Directory => Ok(resolved.real),
        PathKind::Nothing => Err(CallError::Refused(format!(
            "there is no directory `{named}` in the workspace to run in"
        ))),
        _ => Err(CallError::Refused(format!(
            "`{named}` is no directory to run in"
        ))),
    }
}

pub(super) fn start_error(program: &str, error: &Error) -> String {
    match error {
        Error::Start(StartError::NoProgram(_)) => format!(
            "there is no program `{program}`: check its name and PATH; shell syntax (pipes, `&&`, variables) needs `command` to be one text"
        ),
        Error::Start(StartError::Refused(error))
            if error.kind() == io::ErrorKind::PermissionDenied =>
        {
            format!("`{program}` may not be run: {error}; check that it is executable")
        }
        Error::Start(error) => format!("`{program}` did not run: {error}"),
        error => format!("`{program}` did not run: {error}"),
    }
}

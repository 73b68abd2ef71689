//! `shell.run`.

mod job;

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::text::tail;
use cachalot_process::{Error, StartError};
use serde_json::{Value, json};

use super::arguments::{
    CheckedArguments, any, boolean, count, declared_by, duration, excerpt, list, required, text,
};
use super::location;
use crate::passed_variables::is_passed;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime};

pub(super) use job::{Ended, Job, JobError};

#[rustfmt::skip]
static RUN: OperationMetadata = OperationMetadata::declared(
    "shell.run",
    &["actions.shell_run"],
    "Runs a program and waits for it; no shell is involved.",
    &[
        required(list("command", "The program and its arguments, each a text of its own.")),
        duration("timeout", "The time after which it and what it started are killed; `60s` by default."),
        count("output_limit", (1, 1 << 30), "Bytes that it may write to each of stdout and stderr; 1048576 by default."),
        text("directory", "The working directory; the run's directory by default."),
        any("environment", "A list of names of environment variables to pass on, or a mapping of names to values; beside these it gets PATH, HOME, LANG, LC_* and TMPDIR only."),
        text("stdin", "The text on stdin; none by default."),
        boolean("check", "Fail the node if the exit code is not 0; true by default."),
    ],
);

pub(super) struct Run;

#[async_trait]
impl Operation for Run {
    declared_by!(RUN);

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&RUN, arguments);
        let replaced = given.value_of("environment").and_then(Value::as_object);
        let mut variables = passed_variables(runtime);
        variables.retain(|name, _| replaced.is_none_or(|replaced| !replaced.contains_key(name)));
        // The values of a mapping are already in the arguments.
        let named: Vec<Value> = names(&given)?
            .into_iter()
            .map(|name| {
                let value = runtime.environment.get(&name);
                // The value may be a credential, and the key is stored, so only its digest is keyed.
                let digest = value.map(|value| location::digest_text(runtime, value));
                json!({ "variable": name, "digest": digest })
            })
            .collect();
        let mut inputs = json!({
            "directory": location::path_key(&resolved(directory(&given, runtime)?)),
            "passed": variables,
            "named": named,
        });
        add_sandbox(&mut inputs, runtime);
        Ok(inputs)
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&RUN, &arguments);
        let check = given.flag("check", true)?;
        let job = job(&given, runtime)?;
        let program = job.program.clone();
        let ended = job
            .run()
            .await
            .map_err(|error| failure(&given, &program, error))?;
        if check && ended.code != 0 {
            return Err(exit_failure(&given, runtime, &program, &ended));
        }
        let stdout = stdout(&given, &program, ended.output.stdout)?;
        Ok(json!({
            "stdout": stdout,
            "stderr": String::from_utf8_lossy(&ended.output.stderr),
            "exit_code": ended.code,
            "success": ended.code == 0,
        }))
    }
}

impl Action for Run {}

fn job(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<Job, Failure> {
    let mut command = Vec::new();
    for word in given
        .list("command")?
        .ok_or_else(|| given.wrong("command", "is required"))?
    {
        match given.scalar("command", word)? {
            Some(word) if !word.contains('\0') => command.push(word),
            Some(_) => return Err(given.wrong("command", "holds a NUL character")),
            None => return Err(given.wrong("command", "holds null: expected text")),
        }
    }
    let mut words = command.into_iter();
    let program = words
        .next()
        .filter(|program| !program.is_empty())
        .ok_or_else(|| given.wrong("command", "is empty: expected a program and its arguments"))?;
    Ok(Job {
        program,
        arguments: words.collect(),
        directory: directory(given, runtime)?,
        environment: environment(given, runtime)?,
        input: given.text("stdin")?.map(|text| text.as_bytes().to_vec()),
        timeout: given
            .duration("timeout")?
            .unwrap_or(Duration::from_secs(60)),
        output_limit: usize::try_from(given.count("output_limit")?.unwrap_or(1 << 20))
            .unwrap_or(usize::MAX),
        sandbox: runtime.sandbox.clone(),
    })
}

fn directory(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<PathBuf, Failure> {
    match given.non_empty_text("directory")? {
        None => Ok(runtime.directory.clone()),
        Some(named) => location::local_path(given, runtime, "directory", named),
    }
}

/// Returns the keyed form of a directory: with links resolved, because their targets may change before
/// the next run. A directory that is reached through no link is keyed as written.
pub(super) fn resolved(directory: PathBuf) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in directory.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    match directory.canonicalize() {
        Ok(real) if real != plain => real,
        Ok(_) | Err(_) => directory,
    }
}

/// Returns the names in a list of environment variables.
fn names(given: &CheckedArguments<'_>) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for name in given
        .value_of("environment")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        match name.as_str() {
            Some(name) if is_name(name) => names.push(name.to_owned()),
            _ => {
                let what = "holds what is no name of an environment variable";
                return Err(given.wrong("environment", what));
            }
        }
    }
    Ok(names)
}

/// Adds the sandbox of programs to the inputs of one.
pub(super) fn add_sandbox(inputs: &mut Value, runtime: &Runtime) {
    // Keys of runs without a sandbox stay as they were before there was one.
    if let Some(sandbox) = &runtime.sandbox {
        inputs["sandbox"] = sandbox.key();
    }
}

/// Returns the variables of the run that are always passed on.
pub(super) fn passed_variables(runtime: &Runtime) -> BTreeMap<String, String> {
    runtime
        .environment
        .iter()
        .filter(|(name, _)| is_passed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn environment(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = passed_variables(runtime);
    match given.value_of("environment") {
        None | Some(Value::Null) => {}
        Some(Value::Array(_)) => {
            for name in names(given)? {
                if let Some(value) = runtime.environment.get(&name) {
                    variables.insert(name, value.clone());
                }
            }
        }
        Some(Value::Object(fields)) => {
            for (name, value) in fields {
                match given.scalar("environment", value)? {
                    _ if !is_name(name) => {
                        let what = format_args!(
                            "holds `{}`, which is no name of an environment variable",
                            excerpt(name)
                        );
                        return Err(given.wrong("environment", what));
                    }
                    Some(value) if value.contains('\0') => {
                        let what = format_args!("gives `{name}` a value with a NUL character");
                        return Err(given.wrong("environment", what));
                    }
                    Some(value) => {
                        variables.insert(name.clone(), value);
                    }
                    None => {
                        variables.remove(name);
                    }
                }
            }
        }
        Some(_) => {
            let what = "is neither a list of names nor a mapping of names to values";
            return Err(given.wrong("environment", what));
        }
    }
    Ok(variables)
}

/// Returns the failure of a program that did not run to completion.
pub(super) fn failure(given: &CheckedArguments<'_>, program: &str, error: JobError) -> Failure {
    let error = match error {
        JobError::NoSandbox(_) => {
            return given.failure("no_sandbox", format_args!("`{program}`: {error}"));
        }
        JobError::Process(error) => error,
    };
    match error {
        Error::Start(StartError::NoDirectory(path)) => given.failure("not_found", format_args!("there is no directory `{}` to run `{program}` in", path.display())),
        Error::Start(StartError::NoProgram(_)) => given.failure(
            "not_found",
            format_args!("there is no program `{program}`: check its name and PATH (pipes and other shell syntax need a shell: `[sh, -c, …]`)"),
        ),
        Error::Start(StartError::Refused(error)) => given.failure("shell_error", format_args!("`{program}` did not start: {error}")),
        Error::Pipe(error) => given.failure("shell_error", format_args!("`{program}`: {error}")),
        Error::TimedOut(after) => given.transient("timeout", format_args!("`{program}` did not end within {after:?} and was killed; raise `timeout`")),
        Error::TooMuchOutput { stream, limit } => {
            let remedy = match given.action() {
                "shell.run" => "raise `output_limit`, or let it write to a file",
                _ => "let it write less",
            };
            given.failure(
                "output_limit",
                format_args!("`{program}` wrote more than {limit} bytes to {stream} and was killed: {remedy}"),
            )
        }
    }
}

/// Returns a program's stdout as text.
///
/// # Errors
/// If it is not UTF-8.
pub(super) fn stdout(
    given: &CheckedArguments<'_>,
    program: &str,
    bytes: Vec<u8>,
) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        given.failure("validation_error", format_args!(
            "`{program}` wrote to stdout what is not UTF-8 (byte {}): let it write to a file, or pipe it through an encoder",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Returns the failure of a program whose exit code is not 0.
pub(super) fn exit_failure(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    program: &str,
    ended: &Ended,
) -> Failure {
    let how = if ended.code < 0 {
        format!("was ended by signal {}", -ended.code)
    } else {
        format!("ended with exit code {}", ended.code)
    };
    let output_excerpt = if ended.output.stderr.trim_ascii().is_empty() {
        &ended.output.stdout
    } else {
        &ended.output.stderr
    };
    let output_excerpt = self::output_excerpt(runtime, output_excerpt);
    let separator = if output_excerpt.is_empty() { "" } else { ": " };
    given.failure(
        "shell_error",
        format_args!("`{program}` {how}{separator}{output_excerpt}"),
    )
}

/// Returns the end of a program's output, which usually contains the reason of a failure, without secrets.
pub(super) fn output_excerpt(runtime: &Runtime, written: &[u8]) -> String {
    const MAX_CHARS: usize = 1_000;
    // Masked before it is cut: a truncated secret would not be recognized.
    let text = runtime.masked(&String::from_utf8_lossy(written));
    let text = text.trim();
    let kept = tail(text, MAX_CHARS);
    if kept.len() < text.len() {
        format!("…{kept}")
    } else {
        text.to_owned()
    }
}

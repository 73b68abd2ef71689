//! `provider: shell`: a program that reads a prompt and answers on stdout in place of a model.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use cachalot_core::duration::Range;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::text::word_list;
use cachalot_core::tree::Node;
use cachalot_core::{Cost, Problem, Spend};
use cachalot_process::Error;
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use super::super::arguments::CheckedArguments;
use super::super::location;
use super::super::run_settings::setting;
use super::super::shell::{self, Job, JobError};
use super::line_reporter::LineReporter;
use super::{choice, messages};
use crate::exact_json::as_text;
use crate::template::is_literal;
use crate::{Arguments, Failure, OperationMetadata, Runtime, codes, origin, spending};

/// The name of the provider, and the prefix of model names that stand for a program.
const PROVIDER: &str = "shell";
const PREFIX: &str = "shell/";

/// Placeholder for the prompt in an argument.
const PROMPT: &str = "{prompt}";
/// Placeholder in an argument for the path of a file with the prompt.
const INPUT_FILE: &str = "{input_file}";

/// The maximum length in bytes of a prompt that is passed as an argument; a longer one goes to stdin.
/// Linux allows 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 100_000;

/// The maximum bytes that a program may write to each of stdout and stderr.
const OUTPUT_LIMIT: usize = 16 * 1024 * 1024;

/// The default timeout of a configured program.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Arguments of a call that a program cannot receive.
const UNSUPPORTED_ARGUMENTS: [&str; 9] = word_list(
    "max_retries base_url token_key stop response_format tools tool_choice provider_opts \
     reasoning_effort",
);

/// The way in which the program receives the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// On stdin, unless an argument contains it.
    Pipe,
    /// In a file whose path an argument contains.
    File,
}

/// A program that answers prompts.
#[derive(Debug)]
struct Program {
    name: String,
    command: String,
    arguments: Vec<String>,
    input: Input,
    timeout: Duration,
    environment: BTreeMap<String, String>,
}

/// Built-in programs: coding agents, with the command-line options for a single non-interactive answer.
#[rustfmt::skip]
const BUILTIN_PROGRAMS: [(&str, &str, &[&str]); 6] = [
    ("claude", "claude", &["-p", PROMPT, "--dangerously-skip-permissions", "--no-session-persistence"]),
    ("codex", "codex", &word_list::<7>("--yolo exec -c model=gpt-5.5 -c model_reasoning_effort=xhigh -")),
    ("cursor", "agent", &["-p", PROMPT, "--output-format", "text"]),
    ("gemini", "gemini", &["prompt"]),
    ("opencode", "opencode", &["-p", PROMPT, "-q"]),
    ("qwen", "qwen", &[]),
];

/// The timeout of a program of [`BUILTIN_PROGRAMS`]: a coding agent may work for hours.
const BUILTIN_TIMEOUT: Duration = Duration::from_secs(108_000);

/// Returns the name of the program that a call asks, if it asks one.
///
/// # Errors
/// If the provider is `shell` and no program is named, or a model chose it, or if `shell_provider` is given
/// for another provider.
pub(super) fn program_name<'g>(
    about: &'static OperationMetadata,
    arguments: &'g Arguments,
    runtime: &'g Runtime,
) -> Result<Option<&'g str>, Failure> {
    let given = CheckedArguments::new(about, arguments);
    let text = |name| given.non_empty_text(name);
    let (provider, model) = (text("provider")?, text("model")?);
    let by_model = model.and_then(|model| model.strip_prefix(PREFIX));
    let is_meant = match provider {
        Some(provider) => provider == PROVIDER,
        None => {
            by_model.is_some()
                || (model.is_none() && setting(runtime, "/llm/provider") == Some(PROVIDER))
        }
    };
    let shell_provider = text("shell_provider")?;
    if !is_meant {
        return match shell_provider {
            Some(_) => Err(given.wrong("shell_provider", "needs `provider: shell`")),
            None => Ok(None),
        };
    }
    let is_configured = provider.is_none() && by_model.is_none() && shell_provider.is_none();
    if origin::is_chosen_by_model() && !is_configured {
        let what = "cannot be a program in arguments that a model chose: set `settings.llm.provider`, if it is to answer";
        return Err(given.wrong("provider", what));
    }
    let name = shell_provider
        .or(by_model)
        .or_else(|| setting(runtime, "/llm/shell_provider"));
    match name {
        Some(name) => Ok(Some(name)),
        None => Err(given.wrong(
            "shell_provider",
            "is required with `provider: shell`: the name of a program, such as `claude`",
        )),
    }
}

/// Returns the arguments of the same question to each fallback.
pub(super) fn alternatives(arguments: &Arguments, runtime: &Runtime) -> Vec<Arguments> {
    const PROGRAM_ARGUMENTS: [&str; 4] = ["model", "provider", "shell_provider", "fallbacks"];
    let configured = runtime.settings.pointer("/llm/fallbacks");
    let names = arguments.get("fallbacks").or(configured);
    names
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| choice::with_model(arguments, &PROGRAM_ARGUMENTS, name))
        .collect()
}

/// Returns the problem of a call in a file that names a program that is neither configured nor built in.
/// `settings` are those of the file. A name that a template produces is not checked.
pub(in crate::actions) fn unknown_program(arguments: &Node, settings: &Value) -> Option<Problem> {
    let is_program = arguments.get("provider").and_then(Node::as_text) == Some(PROVIDER);
    let node = arguments.get("shell_provider").filter(|_| is_program)?;
    let name = node.as_text().filter(|name| is_literal(name))?;
    let help = help(name, &configured(settings))?;
    let message = format!("there is no program `{name}` for `provider: shell`");
    let problem = Problem::new(codes::BAD_VALUE, message);
    Some(problem.at(&node.place).help(help))
}

/// Returns the configured programs of a file; the first mapping takes precedence over the second.
fn configured(settings: &Value) -> Vec<&Map<String, Value>> {
    ["/llm/shell_providers", "/shell_providers"]
        .into_iter()
        .filter_map(|pointer| settings.pointer(pointer)?.as_object())
        .collect()
}

/// Returns a suggestion for an unknown name; `None` if the program exists.
fn help(name: &str, configured: &[&Map<String, Value>]) -> Option<String> {
    let names: Vec<&str> = configured
        .iter()
        .flat_map(|programs| programs.keys())
        .map(String::as_str)
        .chain(BUILTIN_PROGRAMS.iter().map(|(known, ..)| *known))
        .collect();
    (!names.contains(&name)).then(|| did_you_mean(name, &names))
}

/// One question to a program.
pub(super) struct ProgramCall<'a> {
    given: CheckedArguments<'a>,
    program: Program,
    prompt: String,
}

impl<'a> ProgramCall<'a> {
    /// Creates the question to the program of this name.
    ///
    /// # Errors
    /// If the program is not known, or the call has an argument that a program cannot receive.
    pub(super) fn new(
        about: &'static OperationMetadata,
        arguments: &'a Arguments,
        name: &str,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let given = CheckedArguments::new(about, arguments);
        let useless = UNSUPPORTED_ARGUMENTS
            .into_iter()
            .find(|name| given.value_of(name).is_some_and(|value| !value.is_null()));
        if let Some(useless) = useless {
            return Err(given.wrong(useless, "is not for `provider: shell`: leave it out"));
        }
        let mut program = program(name, &given, runtime)?;
        program.timeout = given.duration("timeout")?.unwrap_or(program.timeout);
        let prompt = messages::prompt(&given)?;
        Ok(Self {
            given,
            program,
            prompt,
        })
    }

    /// Returns the inputs besides the arguments that change the answer.
    pub(super) fn identity(&self, runtime: &Runtime) -> Value {
        let Program {
            name,
            command,
            arguments,
            input,
            // The timeout does not change the answer.
            timeout: _,
            environment,
        } = &self.program;
        // Values may be credentials, and the key is stored, so only their digests are keyed.
        let digests: Map<String, Value> = environment
            .iter()
            .map(|(name, value)| (name.clone(), location::digest_text(runtime, value).into()))
            .collect();
        let mut identity = json!({
            "shell": {
                "provider": name,
                "command": command,
                "arguments": arguments,
                "input": match input {
                    Input::Pipe => "pipe",
                    Input::File => "file",
                },
                "environment": digests,
            },
            "directory": location::path_key(&shell::resolved(runtime.directory.clone())),
            "passed": shell::passed_variables(runtime),
        });
        shell::add_sandbox(&mut identity, runtime);
        identity
    }

    /// Asks, and waits for the complete answer. With `shows_stream`, shows it then.
    ///
    /// # Errors
    /// If the budget cannot be enforced, or the program does not exist, exceeds its timeout, fails, or
    /// writes nothing.
    pub(super) async fn answer(
        &self,
        runtime: &Runtime,
        shows_stream: bool,
    ) -> Result<Value, Failure> {
        self.check_budget(runtime)?;
        let started = Instant::now();
        let call_guard = runtime.meter.start_call();
        // The file must exist until the program has ended.
        let (job, file) = self.job(runtime)?;
        let ended = spending::with_time_limit(runtime, job.run()).await?;
        drop((call_guard, file));
        if !matches!(
            ended,
            Err(JobError::NoSandbox(_) | JobError::Process(Error::Start(_)))
        ) {
            // A program that did not start has answered nothing, and cost nothing.
            self.account(started, runtime).await;
        }
        let program = &self.program.command;
        let allows_alternatives = |failure| Failure {
            allows_alternatives: true,
            ..failure
        };
        let ended = ended
            .map_err(|fault| allows_alternatives(shell::failure(&self.given, program, fault)))?;
        if ended.code != 0 {
            let failure = shell::exit_failure(&self.given, runtime, program, &ended);
            return Err(allows_alternatives(Failure {
                retryable: true,
                ..failure
            }));
        }
        let answer = shell::stdout(&self.given, program, ended.output.stdout)?;
        let content = answer.trim();
        if content.is_empty() {
            let output_excerpt = shell::output_excerpt(runtime, &ended.output.stderr);
            let separator = if output_excerpt.is_empty() { "" } else { ": " };
            return Err(allows_alternatives(self.given.transient(
                "malformed_answer",
                format_args!("`{program}` wrote nothing to stdout{separator}{output_excerpt}"),
            )));
        }
        if shows_stream {
            let mut lines = LineReporter::new(runtime);
            lines.add(content);
            lines.finish();
        }
        Ok(json!({
            "content": content,
            "model": format!("{PREFIX}{}", self.program.name),
            "provider": PROVIDER,
            "shell_provider": self.program.name,
            "stop_reason": "end",
            "usage": {},
            "cost": null,
        }))
    }

    /// Rejects a budget of money or tokens, because a program does not report its usage.
    fn check_budget(&self, runtime: &Runtime) -> Result<(), Failure> {
        let budget = runtime.meter.budget();
        let limit = match (budget.max_cost, budget.max_tokens) {
            (Some(_), _) => "max_cost",
            (None, Some(_)) => "max_tokens",
            (None, None) => {
                let checked = runtime.meter.check();
                return checked.map_err(|over| Failure::new("over_budget", over.to_string()));
            }
        };
        let name = &self.program.name;
        Err(self.given.failure(
            "over_budget",
            format_args!("the budget (`{limit}`) cannot be enforced: `{PREFIX}{name}` does not report its usage. Remove `{limit}`"),
        ))
    }

    fn job(&self, runtime: &Runtime) -> Result<(Job, Option<NamedTempFile>), Failure> {
        let Program {
            name,
            command,
            arguments,
            input,
            timeout,
            environment,
        } = &self.program;
        let holds_prompt = |argument: &String| argument.contains(PROMPT);
        let (arguments, stdin, file) = match input {
            Input::Pipe if !arguments.iter().any(holds_prompt) => {
                (arguments.clone(), Some(self.prompt.clone()), None)
            }
            Input::Pipe if self.prompt.len() > MAX_ARGUMENT_BYTES => {
                let rest = arguments.iter().filter(|argument| !holds_prompt(argument));
                (rest.cloned().collect(), Some(self.prompt.clone()), None)
            }
            Input::Pipe => (substitute(arguments, PROMPT, &self.prompt), None, None),
            Input::File => {
                let file = self.file(runtime)?;
                let path = file.path().to_string_lossy().into_owned();
                (substitute(arguments, INPUT_FILE, &path), None, Some(file))
            }
        };
        if arguments.iter().any(|argument| argument.contains('\0')) {
            let what = format_args!("an argument of `{name}` holds a NUL character");
            return Err(self.given.failure("validation_error", what));
        }
        let mut variables = shell::passed_variables(runtime);
        variables.extend(environment.clone());
        let job = Job {
            program: command.clone(),
            arguments,
            directory: runtime.directory.clone(),
            environment: variables,
            input: stdin.map(String::into_bytes),
            timeout: *timeout,
            output_limit: OUTPUT_LIMIT,
            sandbox: runtime.sandbox.clone(),
        };
        Ok((job, file))
    }

    /// Creates a temporary file with the prompt that only its owner can read; it is deleted on drop. In a sandbox, the
    /// program sees its own directory for temporary files only.
    fn file(&self, runtime: &Runtime) -> Result<NamedTempFile, Failure> {
        let made = match &runtime.sandbox {
            Some(sandbox) => NamedTempFile::new_in(sandbox.temporary()),
            None => NamedTempFile::new(),
        };
        let written = made.and_then(|mut file| {
            file.write_all(self.prompt.as_bytes())?;
            file.flush()?;
            Ok(file)
        });
        written.map_err(|error| {
            self.given.failure(
                "io_error",
                format_args!("the file for the prompt could not be written: {error}"),
            )
        })
    }

    async fn account(&self, started: Instant, runtime: &Runtime) {
        runtime.meter.record(None, Cost::UNPRICED);
        let spent = Spend {
            cost: Cost::UNPRICED,
            ..Spend::for_call(started.elapsed())
        };
        let about =
            json!({ "model": format!("{PREFIX}{}", self.program.name), "provider": PROVIDER });
        let saved = Spend::default();
        spending::account(runtime, self.given.action(), &about, spent, saved).await;
    }
}

/// Returns the arguments with `mark` replaced by `value`.
fn substitute(arguments: &[String], mark: &str, value: &str) -> Vec<String> {
    arguments
        .iter()
        .map(|argument| argument.replace(mark, value))
        .collect()
}

/// Returns the program of this name: the configured one, else the built-in one.
fn program(
    name: &str,
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
) -> Result<Program, Failure> {
    let configured = configured(&runtime.settings);
    if let Some(fields) = configured
        .iter()
        .find_map(|programs| programs.get(name)?.as_object())
    {
        return Ok(from_configuration(name, fields));
    }
    if let Some((_, command, arguments)) =
        BUILTIN_PROGRAMS.iter().find(|(known, ..)| *known == name)
    {
        return Ok(Program {
            name: name.to_owned(),
            command: (*command).to_owned(),
            arguments: arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
            input: Input::Pipe,
            timeout: BUILTIN_TIMEOUT,
            environment: BTreeMap::new(),
        });
    }
    Err(given.wrong(
        "shell_provider",
        format_args!(
            "names `{name}`, which is neither in `settings.llm.shell_providers` nor known: {}",
            help(name, &configured).unwrap_or_default()
        ),
    ))
}

/// Returns a configured program; the configuration was checked when the file was loaded.
fn from_configuration(name: &str, fields: &Map<String, Value>) -> Program {
    let arguments = fields.get("args").and_then(Value::as_array);
    let environment = fields.get("env").and_then(Value::as_object);
    Program {
        name: name.to_owned(),
        command: fields
            .get("command")
            .map_or_else(|| name.to_owned(), as_text),
        arguments: arguments.into_iter().flatten().map(as_text).collect(),
        input: match fields.get("stdin_mode").and_then(Value::as_str) {
            Some("file") => Input::File,
            _ => Input::Pipe,
        },
        timeout: fields
            .get("timeout")
            .and_then(|timeout| Range::POSITIVE.read_json(timeout).ok())
            .unwrap_or(TIMEOUT),
        environment: environment
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), as_text(value)))
            .collect(),
    }
}

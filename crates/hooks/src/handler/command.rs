//! Handlers that are commands: input on stdin, output on stdout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use cachalot_core::Problem;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::expand::{self, Spelling};
use super::process::Job;
use super::{Handler, Shared};
use crate::definition::{Background, Entry};
use crate::dialect::{Ended, FirstLine};
use crate::dispatch::{Left, Sessions, Surroundings};
use crate::input::Input;
use crate::output::{Fault, Output};

/// The variable that contains the path of the file for environment variables.
const EXPORTS: &str = "CLAUDE_ENV_FILE";

#[derive(Clone)]
struct Command {
    line: String,
    entry: Entry,
    environment: Arc<BTreeMap<String, String>>,
    /// The base directory of relative paths.
    directory: PathBuf,
    sessions: Arc<Sessions>,
}

pub(super) fn ready(
    line: &str,
    entry: &Entry,
    surroundings: &Surroundings,
    shared: &Shared,
) -> Result<Arc<dyn Handler>, Problem> {
    let wrong = match line {
        _ if line.trim().is_empty() => Some("is empty"),
        _ if line.contains('\0') => Some("holds a NUL character, which no command can"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        let event = entry.event;
        return Err(
            Problem::new("bad-value", format!("the command for `{event}` {wrong}"))
                .help("give a shell line, such as `./check.sh`"),
        );
    }
    Ok(Arc::new(Command {
        line: line.to_owned(),
        entry: entry.clone(),
        environment: Arc::clone(&surroundings.environment),
        directory: surroundings.directory.clone(),
        sessions: Arc::clone(&shared.sessions),
    }))
}

#[async_trait]
impl Handler for Command {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        let environment = self.environment(input)?;
        let job = Job {
            line: self.line.clone(),
            directory: self.working_directory(input, &environment)?,
            environment,
            input: self.entry.dialect.write(&self.entry, input)?,
        };
        match self.entry.dialect.runs_on() {
            true => self.unless_it_runs_on(job, input).await,
            false => {
                let ended = job.run().await?;
                self.entry.dialect.read(&self.entry, input, &ended)
            }
        }
    }
}

impl Command {
    /// Runs a command and waits for it, unless its first line moves it to the background. Its later
    /// output is then delivered when the next turn of the session starts.
    async fn unless_it_runs_on(&self, job: Job, input: &Input) -> Result<Output, Fault> {
        let (tell, told) = oneshot::channel();
        let mut tell = Some(tell);
        let mut running = Box::pin(job.run_showing(move |stdout| {
            if tell.is_none() {
                return;
            }
            match FirstLine::of(stdout) {
                FirstLine::Incomplete => {}
                FirstLine::Other => tell = None,
                FirstLine::RunsOn { limit } => {
                    let _ = tell.take().map(|tell| tell.send(limit));
                }
            }
        }));
        let limit = tokio::select! {
            biased;
            ended = &mut running => {
                let ended = ended?;
                if !matches!(FirstLine::of(&ended.stdout), FirstLine::RunsOn { .. }) {
                    return self.entry.dialect.read(&self.entry, input, &ended);
                }
                // It already ended, but still counts as a background command: its output decides
                // nothing.
                let left = Left::of(&self.entry, Instant::now(), self.later(input, &ended));
                self.sessions.begin(&input.session_id);
                self.sessions.leave(&input.session_id, left);
                return Ok(Output::default());
            }
            Ok(limit) = told => limit.unwrap_or(self.entry.definition.timeout),
        };
        let (this, input) = (self.clone(), input.clone());
        self.sessions.begin(&input.session_id);
        tokio::spawn(async move {
            let began = Instant::now();
            let said = match timeout(limit, running).await {
                Ok(ended) => ended.and_then(|ended| this.later(&input, &ended)),
                Err(_) => Err(Fault::new(format!(
                    "it ran on in the background and did not end within {limit:?}; `asyncTimeout` gives it more milliseconds"
                ))),
            };
            let left = Left::of(&this.entry, began, said);
            this.sessions.leave(&input.session_id, left);
        });
        Ok(Output::default())
    }

    /// Parses the output after the first line.
    fn later(&self, input: &Input, ended: &Ended) -> Result<Output, Fault> {
        let mut entry = self.entry.clone();
        // Its output must not make the agent continue.
        entry.definition.background.get_or_insert(Background::Quiet);
        let ended = Ended {
            stdout: FirstLine::later(&ended.stdout),
            ..ended.clone()
        };
        entry.dialect.read(&entry, input, &ended)
    }

    /// The environment: ours, then the variables set by hooks of the session, by the dialect and by the
    /// definition.
    fn environment(&self, input: &Input) -> Result<BTreeMap<String, String>, Fault> {
        let mut environment = (*self.environment).clone();
        environment.extend(self.sessions.environment(&input.session_id));
        environment.extend(self.entry.dialect.environment(input));
        if self.entry.dialect.takes_exports(input.event) {
            let file = self
                .sessions
                .exports(&input.session_id)
                .map_err(|error| Fault::new(format!("there can be no `{EXPORTS}`: {error}")))?;
            environment.insert(EXPORTS.to_owned(), file.to_string_lossy().into_owned());
        }
        let mut added = BTreeMap::new();
        for (name, text) in &self.entry.definition.env {
            // An unset variable is empty, as in a shell.
            let value = expand::expand(text, Spelling::Braced, |name| {
                Ok(environment.get(name).map_or("", String::as_str))
            })?;
            added.insert(name.clone(), value);
        }
        environment.extend(added);
        Ok(environment)
    }

    fn working_directory(
        &self,
        input: &Input,
        environment: &BTreeMap<String, String>,
    ) -> Result<PathBuf, Fault> {
        let Some(named) = &self.entry.definition.working_dir else {
            return Ok(self.directory.join(&input.cwd));
        };
        let set = |name: &str| expand::set(environment, name, "`working_dir`");
        let expanded = expand::expand(named, Spelling::Shell, set)?;
        // A tilde that comes from the value of a variable is not expanded.
        let path = match named.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let below = expanded[1..].trim_start_matches('/');
                Path::new(set("HOME")?).join(below)
            }
            _ => PathBuf::from(expanded),
        };
        Ok(self.directory.join(path))
    }
}

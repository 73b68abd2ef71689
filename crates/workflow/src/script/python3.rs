//! The runner for `language: python3`: the user's own interpreter, with everything that it can do.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::pool::Pool;
use super::process::Launch;
use super::wire::Interpreter;
use super::{Ended, Script, ScriptFailure, ScriptRunner};

/// The worker's program, which needs nothing but Python 3.8 and its standard library.
const WORKER: &str = include_str!("python3_worker.py");

/// How blocks are run.
#[derive(Debug, Clone)]
pub struct Python3Options {
    /// The interpreter: a name that is looked up in the `PATH` of `environment`, or a path.
    pub interpreter: OsString,
    /// The whole environment of the workers.
    pub environment: Vec<(OsString, OsString)>,
    /// Where the workers run, and from where blocks may import modules.
    pub directory: PathBuf,
    /// How long a block may run; starting a worker and waiting for one are not counted.
    pub time_limit: Duration,
    /// How many blocks may run at the same time, at least one; the others wait.
    pub workers: usize,
}

impl Python3Options {
    /// `python3`, 30 seconds, sixteen at a time.
    #[must_use]
    pub fn new(environment: Vec<(OsString, OsString)>, directory: PathBuf) -> Self {
        Self {
            interpreter: "python3".into(),
            environment,
            directory,
            time_limit: Duration::from_secs(30),
            workers: 16,
        }
    }
}

/// Runs blocks in the user's own Python: what a block sees, returns and prints is as in
/// [`PythonRunner`](super::python::PythonRunner), what it may do is unlimited.
///
/// Workers are started when the first block needs them and kept for the next, so a module that a
/// block imported stays imported there. Each block has names of its own. Dropping the future of
/// [`ScriptRunner::run`] kills the block's worker with what it started, dropping the runner all.
///
/// A runner belongs to the tokio runtime on which it is used first.
#[derive(Debug)]
pub struct Python3Runner {
    /// Why there is no pool: the interpreter was not found.
    pool: Result<Pool, String>,
}

impl Python3Runner {
    /// A runner that has started nothing yet. An interpreter that is not there fails the first
    /// block, not this.
    #[must_use]
    pub fn new(options: Python3Options) -> Self {
        let Python3Options {
            interpreter,
            environment,
            directory,
            time_limit,
            workers,
        } = options;
        let pool = match found(&interpreter, &environment, &directory) {
            None => Err(missing(&interpreter)),
            Some(program) => {
                let launch = Launch {
                    program,
                    arguments: vec!["-u".into(), "-c".into(), WORKER.into()],
                    environment,
                    directory,
                    greeting: "{}".to_owned(),
                    ready: "ready",
                };
                Ok(Pool::new(
                    launch,
                    Interpreter::Python,
                    workers,
                    time_limit,
                    false,
                    0,
                ))
            }
        };
        Self { pool }
    }
}

#[async_trait]
impl ScriptRunner for Python3Runner {
    async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Result<Ended, ScriptFailure> {
        match &self.pool {
            Ok(pool) => pool.run(script, state, variables, 0).await,
            Err(message) => Err(ScriptFailure {
                kind: "script_worker",
                message: message.clone(),
                line: Some(script.first_line),
                printed: String::new(),
            }),
        }
    }
}

/// The interpreter's path; relative ones are relative to `directory`.
fn found(
    interpreter: &OsStr,
    environment: &[(OsString, OsString)],
    directory: &Path,
) -> Option<PathBuf> {
    let named = Path::new(interpreter);
    if named.components().count() > 1 {
        return Some(directory.join(named)).filter(|path| path.is_file());
    }
    let (_, path) = environment.iter().find(|(name, _)| name == "PATH")?;
    env::split_paths(path)
        .map(|folder| directory.join(folder).join(named))
        .flat_map(|path| {
            [
                path.clone(),
                path.with_extension(env::consts::EXE_EXTENSION),
            ]
        })
        .find(|path| path.is_file())
}

fn missing(interpreter: &OsStr) -> String {
    format!(
        "the block needs the program `{}` (`language: python3`, `settings.python.runner`, \
         `--python`), which was not found on the PATH; install Python 3, or have the block run in \
         the embedded Python",
        interpreter.display()
    )
}

//! The runner for `language: python3`: the user's own interpreter, without restrictions.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::pool::Pool;
use super::process::Launch;
use super::wire::Interpreter;
use super::{Script, ScriptFailure, ScriptResult, ScriptRunner};

/// The worker's program, which requires only Python 3.8 and its standard library.
const WORKER: &str = include_str!("python3_worker.py");

/// Options of the `python3` runner.
#[derive(Debug, Clone)]
pub struct Python3Options {
    /// The interpreter: a name that is looked up in the `PATH` of `environment`, or a path.
    pub interpreter: OsString,
    /// The complete environment of the workers.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory of the workers, from which blocks may import modules.
    pub directory: PathBuf,
    /// The maximum run time of a block; starting a worker and waiting for one do not count.
    pub time_limit: Duration,
    /// The maximum number of blocks that run concurrently, at least one; further blocks wait.
    pub workers: usize,
}

impl Python3Options {
    /// Returns the default options: `python3`, 30 seconds, sixteen workers.
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

/// Runs blocks in the user's own Python. Inputs, results and output are the same as in
/// [`EmbeddedRunner`](super::embedded::EmbeddedRunner); a block has all permissions of the process.
///
/// Workers are started on demand and reused, so a module that a block imported stays imported in its
/// worker. Each block has its own names. Dropping the future of [`ScriptRunner::run`] kills the block's
/// worker and the processes that it started; dropping the runner kills all workers.
///
/// A runner belongs to the tokio runtime on which it is used first.
#[derive(Debug)]
pub struct Python3Runner {
    /// The pool, or the message that the interpreter was not found.
    pool: Result<Pool, String>,
}

impl Python3Runner {
    /// Creates a runner without starting a worker. A missing interpreter fails the first block, not this
    /// call.
    #[must_use]
    pub fn new(options: Python3Options) -> Self {
        let Python3Options {
            interpreter,
            environment,
            directory,
            time_limit,
            workers,
        } = options;
        let pool = match find_interpreter(&interpreter, &environment, &directory) {
            None => Err(not_found_message(&interpreter)),
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
    ) -> Result<ScriptResult, ScriptFailure> {
        match &self.pool {
            Ok(pool) => pool.run(script, state, variables, 0).await,
            Err(message) => {
                let line = Some(script.first_line);
                Err(ScriptFailure::new("script_worker", message.as_str(), line))
            }
        }
    }
}

/// Returns the interpreter's path; relative paths are relative to `directory`.
fn find_interpreter(
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

fn not_found_message(interpreter: &OsStr) -> String {
    format!(
        "the block needs the program `{}` (`language: python3`, `settings.python.runner`, \
         `--python`), which was not found on the PATH; install Python 3, or have the block run in \
         the embedded Python",
        interpreter.display()
    )
}

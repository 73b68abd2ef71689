//! Options of worker processes that are the user's own Python.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cachalot_tools::WorkspaceSandbox;

use super::ScriptFailure;
use super::process::Launch;
use super::wire::Greeting;
use crate::passed_variables::is_passed;

/// The worker's program, which requires only the standard library.
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
    /// The sandbox of the workers; `None`: they have all rights of the user.
    pub sandbox: Option<WorkspaceSandbox>,
    /// The maximum run time of a block; starting a worker and waiting for one do not count.
    pub time_limit: Duration,
    /// The maximum memory of a worker, in bytes, in addition to its memory at start; 0 means no limit. Enforced on
    /// Linux.
    pub memory_limit: u64,
    /// The maximum number of blocks that run concurrently, at least one; further blocks wait.
    pub workers: usize,
}

impl Python3Options {
    /// Returns the default options: `python3` without a sandbox, 30 seconds, no limit of memory, sixteen workers.
    #[must_use]
    pub fn new(environment: Vec<(OsString, OsString)>, directory: PathBuf) -> Self {
        Self {
            interpreter: "python3".into(),
            environment,
            directory,
            sandbox: None,
            time_limit: Duration::from_secs(30),
            memory_limit: 0,
            workers: 16,
        }
    }

    /// Leaves only the environment variables that every program of a workflow gets, and those that choose an interpreter
    /// and its modules.
    #[must_use]
    pub fn with_few_variables(mut self) -> Self {
        let selects_python = |name: &str| {
            ["VIRTUAL_ENV", "PYENV_VERSION"].contains(&name) || name.starts_with("PYTHON")
        };
        let is_kept = |name: &OsStr| {
            let name = name.to_str();
            name.is_some_and(|name| is_passed(name) || selects_python(name))
        };
        self.environment.retain(|(name, _)| is_kept(name));
        self
    }

    /// Returns the start of a worker.
    ///
    /// # Errors
    /// The interpreter was not found.
    pub(super) fn launch(self) -> Result<Launch, ScriptFailure> {
        let program = find_interpreter(&self.interpreter, &self.environment, &self.directory)
            .ok_or_else(|| not_found(&self.interpreter))?;
        let greeting = Greeting {
            memory_limit: self.memory_limit,
        };
        let mut environment = self.environment;
        // Another directory for temporary files is not visible in the sandbox.
        if let Some(sandbox) = &self.sandbox {
            environment.retain(|(name, _)| name != "TMPDIR");
            environment.push(("TMPDIR".into(), sandbox.temporary().into()));
        }
        Ok(Launch {
            program,
            arguments: vec!["-u".into(), "-c".into(), WORKER.into()],
            environment,
            directory: self.directory,
            sandbox: self.sandbox,
            greeting: serde_json::to_string(&greeting).unwrap_or_default(),
        })
    }

    /// Returns true if there is such a program.
    #[must_use]
    pub fn is_found(&self) -> bool {
        find_interpreter(&self.interpreter, &self.environment, &self.directory).is_some()
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

fn not_found(interpreter: &OsStr) -> ScriptFailure {
    let message = format!(
        "the block needs the program `{}` (`language: python3`, `settings.python.runner`, \
         `--python`), which was not found on the PATH; install Python 3, or have the block run in \
         the embedded Python",
        interpreter.display()
    );
    ScriptFailure::new("script_worker", message, None)
}

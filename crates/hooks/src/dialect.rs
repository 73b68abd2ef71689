//! The words in which handlers of other runtimes speak: names of events, fields and tools, exit codes,
//! units, environment variables.

use std::fmt;

use crate::definition::Entry;
use crate::input::Input;
use crate::output::{Fault, Output};

/// In whose words a handler is told and speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// docker-agent's, which are our own, too.
    #[default]
    DockerAgent,
    /// Claude Code's.
    Claude,
    /// Codex'.
    Codex,
    /// Gemini CLI's.
    Gemini,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::DockerAgent, Self::Claude, Self::Codex, Self::Gemini];

    /// Its name in files: `docker-agent`, `claude`, `codex`, `gemini`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DockerAgent => "docker-agent",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a process, or a request, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code; 0 for a request that succeeded.
    pub code: i32,
    /// What it said.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
}

impl Dialect {
    /// What a handler is told: one JSON document.
    ///
    /// # Errors
    /// The input cannot be written.
    pub fn write(self, entry: &Entry, input: &Input) -> Result<Vec<u8>, Fault> {
        let _ = (entry, input);
        Ok(Vec::new())
    }

    /// Environment variables that its handlers expect.
    #[must_use]
    pub fn environment(self, input: &Input) -> Vec<(String, String)> {
        let _ = input;
        Vec::new()
    }

    /// What a handler has said.
    ///
    /// # Errors
    /// It failed, or said nothing that the dialect knows.
    pub fn read(self, entry: &Entry, input: &Input, ended: &Ended) -> Result<Output, Fault> {
        let _ = (entry, input, ended);
        Ok(Output::default())
    }

    /// Whether a handler that blocks `stop` wants the agent to go on.
    #[must_use]
    pub fn stop_goes_on(self) -> bool {
        self != Self::DockerAgent
    }
}

//! The runner of the Python code of a workflow.

use std::cell::OnceCell;
use std::sync::Arc;

use cachalot_core::Problem;
use cachalot_sandbox::Mechanism;
use cachalot_tools::{Workspace, WorkspaceSandbox};
use cachalot_workflow::format::{
    Agent, InlineCode, Language, Python3Settings, PythonChoice, PythonRunner,
};
use cachalot_workflow::script::{self, Python3Options, ScriptFailure, WorkerPool};

use crate::arguments::{Python, SandboxMode};
use crate::command_error::{CommandError, Result};
use crate::sandbox::{self, NetworkAccess, PythonNetwork, SandboxSettings, SessionSandbox};
use crate::wiring::ProcessEnvironment;

/// The runners of Python that this machine and the command line permit. What needs the machine is tried at most once.
pub(crate) struct PythonRunners<'a> {
    chosen: Option<PythonRunner>,
    settings: &'a SandboxSettings,
    process_environment: &'a ProcessEnvironment,
    has_sandbox: OnceCell<bool>,
    auto_is_python3: OnceCell<bool>,
}

/// The code of the problem of a file whose Python code asks for the network.
pub(crate) const NEEDS_NETWORK: &str = "needs-network";

/// The way in which Python code of a file runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PythonPlan {
    /// True if code without `language` runs in the user's own Python.
    pub(crate) auto_is_python3: bool,
    /// True if code runs in the user's own Python, in a sandbox.
    pub(crate) needs_sandbox: bool,
    /// The network of that code.
    pub(crate) network: PythonNetwork,
}

impl<'a> PythonRunners<'a> {
    pub(crate) fn new(
        python: &Python,
        settings: &'a SandboxSettings,
        process_environment: &'a ProcessEnvironment,
    ) -> Self {
        Self {
            chosen: python.runner(),
            settings,
            process_environment,
            has_sandbox: OnceCell::new(),
            auto_is_python3: OnceCell::new(),
        }
    }

    /// Passes the choice to a reader of files.
    pub(crate) fn choose<T>(&self, read: impl FnOnce(PythonChoice<'_>) -> T) -> T {
        read(PythonChoice {
            runner: self.chosen,
            auto_is_python3: &|| self.auto_is_python3(),
        })
    }

    fn auto_is_python3(&self) -> bool {
        *self.auto_is_python3.get_or_init(|| {
            self.options(&Python3Settings::default()).is_found() && self.has_sandbox()
        })
    }

    fn has_sandbox(&self) -> bool {
        *self.has_sandbox.get_or_init(|| {
            self.settings.flag != Some(SandboxMode::Off) && sandbox::guarding().is_some()
        })
    }

    /// Returns the way in which the Python code of a file runs. With `permits_network`, the user permits the network to it.
    ///
    /// # Errors
    /// The file asks for the user's own Python, and there is no sandbox for it; or for a network that the user does not
    /// permit: [`NEEDS_NETWORK`].
    pub(crate) fn plan(
        &self,
        agent: &Agent,
        permits_network: bool,
    ) -> std::result::Result<PythonPlan, Problem> {
        let settings = &agent.settings.python;
        let runner = self.chosen.or(settings.runner).unwrap_or_default();
        let auto_is_python3 = || runner == PythonRunner::Auto && self.auto_is_python3();
        let is_own = |block: &&InlineCode| match block.language {
            Language::Python3 => true,
            Language::Python => auto_is_python3(),
            Language::Lua => false,
        };
        let files = std::iter::once(agent).chain(agent.subgraphs());
        let mut blocks = files.flat_map(|file| &file.scripts);
        let Some(block) = blocks.find(is_own) else {
            return Ok(PythonPlan::default());
        };
        let needs_sandbox = self.has_sandbox();
        let is_permitted = self.chosen == Some(PythonRunner::Python3)
            || self.settings.flag == Some(SandboxMode::Off);
        if !needs_sandbox && !is_permitted {
            let problem = Problem::new(
                "no-sandbox",
                "the block runs in your own Python, and this machine has no sandbox for it",
            );
            return Err(problem.at(&block.place).help(
                "`--python python3` runs it without a sandbox, with all your rights; `cachalot doctor` says why there is none",
            ));
        }
        let network = match (settings.network, &self.settings.network) {
            (true, NetworkAccess::None) if permits_network => PythonNetwork::All,
            (true, _) => PythonNetwork::AsPermitted,
            (false, _) if self.settings.is_network_by_flag => PythonNetwork::AsPermitted,
            (false, _) => PythonNetwork::None,
        };
        if needs_sandbox
            && network == PythonNetwork::AsPermitted
            && self.settings.network == NetworkAccess::None
        {
            let problem = Problem::new(
                NEEDS_NETWORK,
                "the file asks for the network in its Python code (`settings.python.network`)",
            );
            return Err(problem.at(&block.place).help(
                "`--sandbox-network` permits it, or the file under `network_of` in sandbox.yaml",
            ));
        }
        Ok(PythonPlan {
            auto_is_python3: auto_is_python3(),
            needs_sandbox,
            network,
        })
    }

    /// Compiles the blocks of a file with the interpreter that will run them, in a sandbox in which it writes nothing if
    /// they run in one. Returns their problems, and what the embedded interpreter would refuse in those that run in the
    /// user's own Python only where there is one.
    ///
    /// # Errors
    /// The sandbox cannot be prepared.
    pub(crate) async fn check(&self, agent: &Agent) -> Result<(Vec<Problem>, Vec<Problem>)> {
        let plan = match self.plan(agent, false) {
            Ok(plan) => plan,
            Err(problem) => return Ok((vec![problem], Vec::new())),
        };
        let mut options = self.options(&agent.settings.python3);
        // The file names the program.
        let session = if plan.needs_sandbox {
            Some(self.session_to_compile()?)
        } else {
            None
        };
        options.sandbox = session.as_ref().map(|(_, sandbox)| sandbox.clone());
        let compiler = WorkerPool::python3(options);
        let (mut problems, mut python_only) = (Vec::new(), Vec::new());
        for file in std::iter::once(agent).chain(agent.subgraphs()) {
            for block in &file.scripts {
                let is_auto = block.language == Language::Python && plan.auto_is_python3;
                if !is_auto && block.language != Language::Python3 {
                    continue;
                }
                if let Err(failure) = compiler.compile(&block.script).await {
                    let code = match failure.kind {
                        "script_error" => "script-syntax",
                        _ => "script-worker",
                    };
                    problems.push(problem(file, block, &failure, code));
                } else if is_auto
                    && let Err(failure) =
                        script::check(&block.script.source, block.script.first_line)
                {
                    python_only.push(problem(file, block, &failure, "script-unsupported"));
                }
            }
        }
        compiler.close().await;
        Ok((problems, python_only))
    }

    /// Returns a sandbox in which nothing of the working directory can be written, with what has to last as long.
    fn session_to_compile(&self) -> Result<(SessionSandbox, WorkspaceSandbox)> {
        let directory = &self.process_environment.directory;
        let workspace = Workspace::open(directory)
            .map_err(|error| CommandError::failed(format!("{}: {error}", directory.display())))?;
        let home = self.process_environment.home(None, None)?;
        let settings = SandboxSettings::default();
        let session = SessionSandbox::new(
            &settings,
            Mechanism::default(),
            self.process_environment,
            &home,
            workspace.root(),
        )?;
        let sandbox = WorkspaceSandbox {
            sandbox: session.protecting(&[]),
            workspace: Arc::new(workspace),
            rules: Arc::default(),
            may_write: false,
        };
        Ok((session, sandbox))
    }

    /// Returns the options of the user's own Python. Its limits are those of `settings`.
    pub(crate) fn options(&self, settings: &Python3Settings) -> Python3Options {
        let environment = &self.process_environment.environment;
        let mut options = Python3Options::new(
            environment
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            self.process_environment.directory.clone(),
        );
        options.time_limit = settings.time_limit.unwrap_or(options.time_limit);
        if let Some(command) = &settings.command {
            options.interpreter = command.into();
        }
        options
    }
}

/// Returns the problem of a block that does not compile.
fn problem(
    file: &Agent,
    block: &InlineCode,
    failure: &ScriptFailure,
    code: &'static str,
) -> Problem {
    let line = failure.line.unwrap_or(block.script.first_line);
    let (message, help) = match failure.message.split_once("; ") {
        Some((message, help)) => (message, help),
        None => (failure.message.as_str(), "correct the block"),
    };
    Problem::new(code, message)
        .at(&file.line_of(block, line))
        .help(help)
}

//! The runner of the Python code of a workflow.

use std::cell::OnceCell;
use std::sync::Arc;

use cachalot_core::Problem;
use cachalot_tools::WorkspaceSandbox;
use cachalot_workflow::format::{
    Agent, InlineCode, Language, PythonChoice, PythonRunner, ScriptSettings,
};
use cachalot_workflow::script::{self, Python3Options, ScriptFailure, WorkerPool};

use crate::arguments::{Python, SandboxFlags, SandboxMode};
use crate::sandbox;
use crate::wiring::ProcessEnvironment;

/// The runners of Python that this machine and the command line permit. What needs the machine is tried at most once.
pub(crate) struct PythonRunners<'a> {
    chosen: Option<PythonRunner>,
    sandbox: Option<SandboxMode>,
    process_environment: &'a ProcessEnvironment,
    has_sandbox: OnceCell<bool>,
}

/// The way in which Python code of a file runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PythonPlan {
    /// True if code without `language` runs in the user's own Python.
    pub(crate) auto_is_python3: bool,
    /// True if code runs in the user's own Python, in a sandbox.
    pub(crate) needs_sandbox: bool,
}

impl<'a> PythonRunners<'a> {
    pub(crate) fn new(
        python: &Python,
        sandbox: &SandboxFlags,
        process_environment: &'a ProcessEnvironment,
    ) -> Self {
        Self {
            chosen: python.runner(),
            sandbox: sandbox.sandbox,
            process_environment,
            has_sandbox: OnceCell::new(),
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
        self.options(&ScriptSettings::default()).is_found() && self.has_sandbox()
    }

    fn has_sandbox(&self) -> bool {
        self.sandbox != Some(SandboxMode::Off)
            && *self.has_sandbox.get_or_init(sandbox::is_available)
    }

    /// Returns the way in which the Python code of a file runs.
    ///
    /// # Errors
    /// The file asks for the user's own Python, and there is no sandbox for it; or for a network that the command
    /// line does not permit.
    pub(crate) fn plan(&self, agent: &Agent, flags: &SandboxFlags) -> Result<PythonPlan, Problem> {
        let files = std::iter::once(agent).chain(agent.subgraphs());
        let mut blocks = files.flat_map(|file| &file.scripts);
        let runner = self
            .chosen
            .or(agent.settings.python.runner)
            .unwrap_or_default();
        let mut plan = PythonPlan {
            auto_is_python3: false,
            needs_sandbox: false,
        };
        let is_own = |language: Language| match language {
            Language::Python3 => true,
            Language::Python => runner == PythonRunner::Auto && self.auto_is_python3(),
            Language::Lua => false,
        };
        let Some(block) = blocks.find(|block| is_own(block.language)) else {
            return Ok(plan);
        };
        plan.auto_is_python3 = runner == PythonRunner::Auto && self.auto_is_python3();
        plan.needs_sandbox = self.has_sandbox();
        let is_permitted =
            self.chosen == Some(PythonRunner::Python3) || self.sandbox == Some(SandboxMode::Off);
        if !plan.needs_sandbox && !is_permitted {
            let problem = Problem::new(
                "no-sandbox",
                "the block runs in your own Python, and this machine has no sandbox for it",
            );
            return Err(problem.at(&block.place).help(
                "`--python python3` runs it without a sandbox, with all your rights; `cachalot doctor` says why there is none",
            ));
        }
        if plan.needs_sandbox && agent.settings.python.network && !flags.sandbox_network {
            let problem = Problem::new(
                "needs-network",
                "the file asks for the network in its Python code (`settings.python.network`)",
            );
            return Err(problem
                .at(&block.place)
                .help("`--sandbox-network` permits it"));
        }
        Ok(plan)
    }

    /// Compiles the blocks of a file with the interpreter that will run them. Returns their problems, and what the
    /// embedded interpreter would refuse in those that run in the user's own Python only where there is one.
    pub(crate) async fn check(&self, agent: &Agent) -> (Vec<Problem>, Vec<Problem>) {
        let plan = match self.plan(
            agent,
            &SandboxFlags {
                sandbox_network: true,
                ..SandboxFlags::default()
            },
        ) {
            Ok(plan) => plan,
            Err(problem) => return (vec![problem], Vec::new()),
        };
        let (mut problems, mut python_only) = (Vec::new(), Vec::new());
        let compiler = self.python3(&agent.settings.python3, None);
        for file in std::iter::once(agent).chain(agent.subgraphs()) {
            for block in &file.scripts {
                let is_auto = block.language == Language::Python && plan.auto_is_python3;
                if !is_auto && block.language != Language::Python3 {
                    continue;
                }
                if let Err(failure) = compiler.compile(&block.script).await {
                    problems.push(problem(file, block, &failure, "script-syntax"));
                } else if is_auto
                    && let Err(failure) =
                        script::check(&block.script.source, block.script.first_line)
                {
                    python_only.push(problem(file, block, &failure, "script-unsupported"));
                }
            }
        }
        (problems, python_only)
    }

    /// Returns the runner of code that asks for the user's own Python.
    pub(crate) fn python3(
        &self,
        settings: &ScriptSettings,
        sandbox: Option<WorkspaceSandbox>,
    ) -> Arc<WorkerPool> {
        let mut options = self.options(settings);
        options.sandbox = sandbox;
        Arc::new(WorkerPool::python3(options))
    }

    /// Returns the runner of code that does not ask for the user's own Python, and runs in it. It sees the variables that
    /// commands of a workflow do, and those of Python.
    pub(crate) fn auto(
        &self,
        settings: &ScriptSettings,
        sandbox: Option<WorkspaceSandbox>,
    ) -> Arc<WorkerPool> {
        let mut options = self.options(settings);
        options.sandbox = sandbox;
        let is_passed = |name: &str| {
            ["PATH", "HOME", "LANG", "VIRTUAL_ENV", "PYENV_VERSION"].contains(&name)
                || ["LC_", "PYTHON"]
                    .iter()
                    .any(|start| name.starts_with(start))
        };
        options
            .environment
            .retain(|(name, _)| name.to_str().is_some_and(is_passed));
        Arc::new(WorkerPool::python3(options))
    }

    /// Returns the options of the user's own Python. Its limits are those of `settings`.
    pub(crate) fn options(&self, settings: &ScriptSettings) -> Python3Options {
        let environment = &self.process_environment.environment;
        let mut options = Python3Options::new(
            environment
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            self.process_environment.directory.clone(),
        );
        options.time_limit = settings.time_limit.unwrap_or(options.time_limit);
        options.memory_limit = settings.memory_limit.unwrap_or(options.memory_limit);
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

//! A model provider in this process, and agents that ask it.

use std::process::{Command, Stdio};

use cachalot_simulator::{ReceivedRequest, RunningSimulator, Script, Simulator, SimulatorOptions};
use tokio::runtime::Runtime;

use crate::bodies;
use crate::support::{CommandOutput, Home};

/// A simulator. When it is dropped, everything that it was sent is checked.
pub(crate) struct Provider {
    runtime: Runtime,
    running: Option<RunningSimulator>,
    url: String,
    accepts_anything: bool,
}

impl Provider {
    pub(crate) fn start(script: Script) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let options = SimulatorOptions {
            script,
            ..SimulatorOptions::default()
        };
        let running = runtime.block_on(Simulator::start(options)).unwrap();
        Self {
            url: running.url(),
            running: Some(running),
            runtime,
            accepts_anything: false,
        }
    }

    /// One that does what the simulator does without a script.
    pub(crate) fn built_in() -> Self {
        Self::start(Script::built_in())
    }

    /// One with a script in YAML.
    pub(crate) fn scripted(script: &str) -> Self {
        Self::start(Script::parse("script.yaml", script).unwrap())
    }

    /// The same; what is sent may be wrong.
    pub(crate) fn accepting_anything(mut self) -> Self {
        self.accepts_anything = true;
        self
    }

    /// The requests, in order.
    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.running.as_ref().unwrap().received()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sets the address for a command.
    pub(crate) fn known_to(&self, command: &mut Command) {
        command
            .env("OPENAI_BASE_URL", format!("{}/v1", self.url))
            .env("ANTHROPIC_BASE_URL", &self.url)
            .env("CACHALOT_EXAMPLE_PROVIDER", format!("{}/v1", self.url));
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let running = self.running.take().unwrap();
        let (received, violations) = (running.received(), running.violations());
        self.runtime.block_on(running.stop());
        if !std::thread::panicking() && !self.accepts_anything {
            assert_eq!(violations, Vec::<String>::new());
            bodies::check(&received);
        }
    }
}

impl Home {
    /// `cachalot chat …`, with the provider in its place, and a question on stdin.
    pub(crate) fn ask(
        &self,
        provider: &Provider,
        arguments: &[&str],
        question: &str,
    ) -> CommandOutput {
        self.ask_with(provider, arguments, question.as_bytes(), |_| {})
    }

    /// The same, with something else about the command.
    pub(crate) fn ask_with(
        &self,
        provider: &Provider,
        arguments: &[&str],
        question: &[u8],
        change: impl FnOnce(&mut Command),
    ) -> CommandOutput {
        let mut command = self.command(&[&["chat"], arguments].concat());
        provider.known_to(&mut command);
        self.answer(command, question, change)
    }

    /// Runs a command with a question on stdin.
    pub(crate) fn answer(
        &self,
        mut command: Command,
        question: &[u8],
        change: impl FnOnce(&mut Command),
    ) -> CommandOutput {
        use std::io::Write as _;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that fails does not read it.
        let _ = stdin.write_all(question);
        drop(stdin);
        child.wait_with_output().unwrap().into()
    }
}

/// The session id that a chat printed.
pub(crate) fn session(ran: &CommandOutput) -> String {
    let line = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("session "));
    line.unwrap_or_else(|| panic!("no session is told: {ran}"))
        .to_owned()
}

/// An agent with a shell that needs approval.
pub(crate) const SHELL: &str = r#"providers: {openai: {format: chat}}
agents:
  root:
    model: openai/gpt-4o
    instruction: Run what you are told.
    toolsets: [{type: shell}]
"#;

/// A scripted model that runs the commands and delegates the tasks of the user's message.
pub(crate) const SCRIPTED_MODEL: &str = r#"
rules:
  - user: 'run (.*)'
    tools: [shell]
    steps:
      - text: I run it.
        tool_calls: [{name: shell, arguments: {command: '{{1}}'}}]
      - text: 'It said: {{last_result}}'
  - user: 'read (\S+)'
    tools: [read_file]
    steps:
      - tool_calls: [{name: read_file, arguments: {path: '{{1}}'}}]
      - text: 'It says: {{last_result}}'
  - user: 'delegate (.*)'
    tools: [transfer_task]
    steps:
      - text: I give it away.
        tool_calls: [{name: transfer_task, arguments: {agent: helper, task: 'run {{1}}'}}]
      - text: 'Helper said: {{last_result}}'
  - user: 'think'
    steps:
      - reasoning: "First this.\nThen that."
        text: I have thought.
  - user: 'slowly'
    steps:
      - text: one two three four five six seven eight nine ten
        fault: {slow: {first_byte: 10ms, per_event: 500ms}}
  - user: 'escape'
    steps:
      - text: "a \u001b[31mred\u001b[0m word"
otherwise: {text: 'I was told: {{user}}'}
"#;

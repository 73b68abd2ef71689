//! Command line definitions for clap.

mod mcp;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::config::{Settings, Word};
use cachalot_gateway::MIN_KEEP_ALIVE;
use cachalot_hooks::Dialect;
use cachalot_workflow::format::PythonRunner;
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use mcp::{
    Mcp, McpClient, McpCommand, McpInstall, McpLogin, McpLogout, McpProxy, McpServerArguments,
    McpServerProcess, McpSuggest,
};

/// Runs YAML agents and memoizes their steps: never pays for the same work twice, and explains every payment.
#[derive(Debug, Parser)]
#[command(name = "cachalot", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Without a command, the first ones to run on this machine are printed.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Sum up what coding agents have cost, from the transcripts that they leave on this machine.
    Spend(Spend),
    /// Run an agent file and print the final state as JSON.
    Run(Run),
    /// Chat with an agent: the built-in one, or one of a file. With a prompt on stdin, print only the answer.
    Chat(Box<Chat>),
    /// Write a commented agent file or workflow to start from.
    Init(Init),
    /// List, show, export and remove chat sessions.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Simulate the model providers locally, to try everything without an API key.
    Simulate(Simulate),
    /// Run a client of model APIs with a gateway of its own, and print what it has cost and saved.
    Exec(Exec),
    /// Answer requests of other clients from the cache, or pass them on to their provider: change only their base URL.
    Serve(Serve),
    /// Put the cache between a client of MCP and its servers: pass everything on, and answer from the cache what a policy
    /// permits.
    Mcp(Box<Mcp>),
    /// Check an agent file or a configuration file of the gateway, and report all problems at once.
    Validate(Validate),
    /// List, show, erase, sweep, export and import cache entries.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Export calls, erase their details, or delete them.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Check the store: whether it can be reached, how fast it is, and what it cannot do.
    Doctor(Doctor),
    /// Hash the content of paths and URIs (local, http, s3, gs, az).
    Hash(Hash),
    /// Explain why a call was a hit or a miss, and what it cost.
    Why(Why),
    /// Analyze provider prompt caching: where prefixes break, why, and what it costs.
    #[command(subcommand)]
    Prefix(PrefixCommand),
    /// Show the model catalog: prices, limits, endpoints, reasoning efforts.
    Models(ModelList),
    /// Test hooks.
    #[command(subcommand)]
    Hooks(HooksCommand),
    /// Print the JSON Schema of agent files, of hook files and hook input and output, of the gateway's files, or of policies of
    /// the MCP proxy.
    Schema {
        /// The kind of file.
        #[arg(value_enum, default_value_t = SchemaOf::Agent)]
        of: SchemaOf,
    },
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Runs inline code for a parent process.
    #[command(name = "__script-worker", hide = true)]
    ScriptWorker,
    /// Runs a server of MCP, and ends it with the parent process.
    #[command(name = "__mcp-server", hide = true)]
    McpServer(McpServerProcess),
}

/// The store that a command uses.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreArguments {
    /// The store: a file, postgres://USER@HOST/DATABASE, redis://HOST/NUMBER or s3://BUCKET/NAME.db [default: CACHALOT_DB, then `settings.ltm` of the
    /// agent file, then a file in the user's data directory].
    #[arg(long, value_name = "PATH|URL")]
    pub(crate) db: Option<PathBuf>,
}

/// Whether a command needs its store.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct StoreRequirement {
    /// Fail before anything is paid for if the store cannot be used. Without this flag, a warning is shown, and nothing is
    /// cached.
    #[arg(long)]
    pub(crate) require_store: bool,
}

/// The ledger that a command reads.
#[derive(Debug, Args)]
pub(crate) struct FleetArguments {
    /// The ledger of several machines, postgres://USER@HOST/DATABASE, in place of that of this machine.
    #[arg(long, value_name = "URL")]
    pub(crate) ledger: Option<String>,
}

/// The store that a command reports about, and the form of the report.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    /// Write a new digest key to FILE, which must not exist, for all machines that share a store; check nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["db", "json", "adopt_digest_key"])]
    pub(crate) new_digest_key: Option<PathBuf>,
    /// Make the digest key of this machine that of the store, after all machines have got a new one.
    #[arg(long)]
    pub(crate) adopt_digest_key: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("mode"))]
pub(crate) struct Run {
    /// The agent file.
    pub(crate) file: PathBuf,
    /// Initial state: a JSON object, @FILE that contains one, KEY=TEXT, or KEY:=JSON. May be repeated.
    #[arg(long, short, value_name = "INPUT")]
    pub(crate) input: Vec<String>,
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    #[command(flatten)]
    pub(crate) store: StoreRequirement,
    /// JSON or YAML file with the values of `{{ secrets.NAME }}`.
    #[arg(long, value_name = "FILE")]
    pub(crate) secrets: Option<PathBuf>,
    /// Read secrets from environment variables with this prefix: PREFIX_NAME becomes `secrets.NAME`.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) secrets_env: Option<String>,
    #[command(flatten)]
    pub(crate) python: Python,
    /// Approve a node that needs approval before it runs (`interrupt_before`); `all` approves every
    /// node. A run without a required approval does not start. May be repeated.
    #[arg(long, value_name = "NODE")]
    pub(crate) approve: Vec<String>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,
    /// Answer memoized steps only from the cache; a miss is an error.
    #[arg(long, group = "mode")]
    pub(crate) frozen: bool,
    /// Run memoized steps again and replace their cached results.
    #[arg(long, group = "mode")]
    pub(crate) refresh: bool,
    /// Neither read nor write the cache.
    #[arg(long, group = "mode")]
    pub(crate) no_cache: bool,
    /// Show which steps would be hits and which would be paid for; run nothing.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Print the state and the report as one JSON document.
    #[arg(long, conflicts_with = "ndjson")]
    pub(crate) json: bool,
    /// Print events as they happen, one JSON document per line; the last one contains the state.
    #[arg(long)]
    pub(crate) ndjson: bool,
    /// Also write a report for a browser into this file: the steps, why each one was paid for, cost and savings. One file
    /// without a network.
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub(crate) html: Option<PathBuf>,
    /// Print only errors on stderr.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also print why each step missed the cache, and the logs of MCP servers.
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// Accepts the words of a setting.
fn words<T: Word>() -> PossibleValuesParser {
    PossibleValuesParser::new(T::WORDS.iter().map(|(word, _)| *word))
}

/// The runner of inline code.
#[derive(Debug, Default, Args)]
pub(crate) struct Python {
    /// Runner of Python blocks: the `python3` of this machine, the embedded interpreter, or `auto`: `python3` where it
    /// can be put in a sandbox, else the embedded one. `python3` also permits to run it without a sandbox where there is
    /// none [default: `settings.python.runner`, else auto]
    #[arg(long = "python", value_name = "RUNNER", value_parser = words::<PythonRunner>())]
    runner: Option<String>,
}

impl Python {
    /// Returns the runner, if the flag is set.
    pub(crate) fn runner(&self) -> Option<PythonRunner> {
        self.runner.as_deref().and_then(PythonRunner::from_word)
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("chat_mode"))]
pub(crate) struct Chat {
    /// The agent file, with `agents` [default: the built-in agent]. A text that is no file is the prompt.
    #[arg(value_name = "FILE")]
    pub(crate) first: Option<String>,
    /// The first message. `@NAME` in it attaches a file or the list of a directory.
    #[arg(value_name = "PROMPT")]
    pub(crate) second: Option<String>,
    /// The agent file, in place of FILE; or the `config.json` of nanobot.
    #[arg(long, value_name = "FILE", conflicts_with = "second")]
    pub(crate) config: Option<PathBuf>,
    /// Answer the prompt and exit. Text on stdin is appended to the prompt.
    #[arg(long, short)]
    pub(crate) print: bool,
    /// The model, as `provider/model` [default: that of the file; without a file, that of the provider whose
    /// key is set].
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Resume the newest session of this directory.
    #[arg(long = "continue", short = 'c', group = "resumed")]
    pub(crate) continues: bool,
    /// Resume this session; a unique prefix of its ID is enough. Without an ID, choose from a list.
    #[arg(
        long,
        visible_alias = "session",
        value_name = "ID",
        num_args = 0..=1,
        default_missing_value = "",
        group = "resumed"
    )]
    pub(crate) resume: Option<String>,
    /// The agent to chat with [default: `root`, else the first in the file].
    #[arg(long, value_name = "NAME", conflicts_with = "resumed")]
    pub(crate) agent: Option<String>,
    /// Directory of the tools; they cannot access files outside it [default: the current directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    #[command(flatten)]
    pub(crate) store: StoreRequirement,
    /// Approve every tool call that no rule denies.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,
    #[command(flatten)]
    pub(crate) hook: HookFlags,
    /// Neither read nor write the cache.
    #[arg(long, group = "chat_mode")]
    pub(crate) no_cache: bool,
    /// Run every turn and tool call again and replace cached results.
    #[arg(long, group = "chat_mode")]
    pub(crate) refresh: bool,
    /// Form of the answer to one prompt: text, one JSON document, or one JSON document per event.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output_format: OutputFormat,
    /// The same as `--output-format json`.
    #[arg(long, conflicts_with = "output_format")]
    json: bool,
    /// Print only the answer, and warnings and errors on stderr.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Also print the model's thinking, the logs of MCP servers, and why each tool call missed the cache.
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// Form of the answer to one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer.
    Text,
    /// One document with the answer and the report.
    Json,
    /// One document per event and line, the last one with the answer and the report.
    StreamJson,
}

impl Chat {
    /// Returns the form of the answer to one prompt.
    pub(crate) fn output_format(&self) -> OutputFormat {
        if self.json {
            OutputFormat::Json
        } else {
            self.output_format
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The kind of file.
    #[arg(value_enum, default_value_t = InitKind::Agent)]
    pub(crate) kind: InitKind,
    /// The file to write, which must not exist [default: agent.yaml or workflow.yaml].
    pub(crate) file: Option<PathBuf>,
    /// The model, as `provider/model` [default: that of the provider whose key is set].
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

/// Kinds of files that `cachalot init` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitKind {
    /// An agent, for `cachalot chat`.
    Agent,
    /// A workflow, for `cachalot run`.
    Workflow,
}

/// The sandbox of commands and Python code.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SandboxFlags {
    /// Run commands of tools in a sandbox (`on`, also without a value): they write in the workspace only, not to protected
    /// files, read no credentials and no denied files, and have no network. `auto` also runs them without a question,
    /// except those that a rule asks about. `off` runs commands and Python outside, `ask` commands after an approval
    /// [default: `sandbox.yaml` in the configuration directory, else `ask`; for `chat --yes` and Python, in a sandbox where
    /// the machine has one]. Linux only.
    #[arg(long, value_name = "MODE", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(crate) sandbox: Option<SandboxMode>,
    /// In the sandbox, this file or directory can be written, too, such as a cache of packages. May be repeated.
    #[arg(long, value_name = "PATH")]
    pub(crate) sandbox_write: Vec<PathBuf>,
    /// In the sandbox, the network of the machine can be used; or with HOSTS, separated by commas (`*.` for all below),
    /// only these, through an HTTP proxy.
    #[arg(long, value_name = "HOSTS", num_args = 0.., require_equals = true, value_delimiter = ',')]
    pub(crate) sandbox_network: Option<Vec<String>>,
}

/// Use of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Settings)]
pub(crate) enum SandboxMode {
    /// Commands run outside, after an approval.
    Ask,
    /// Commands run in it.
    On,
    /// Commands run in it, and without a question unless a rule asks.
    Auto,
    /// Nothing runs in it.
    Off,
}

/// Hooks from the command line, in addition to those of files.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HookFlags {
    /// Hook file of Cachalot or of another runtime (.claude/settings.json, .codex/hooks.json,
    /// .gemini/settings.json). May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) hooks: Vec<PathBuf>,
    /// Runtime that the files of --hooks are for: docker-agent, claude, codex or gemini [default: detected
    /// from their content].
    #[arg(long, value_name = "NAME", requires = "hooks")]
    pub(crate) dialect: Option<Dialect>,
    /// Run this command before every tool call. May be repeated.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_pre_tool_use: Vec<String>,
    /// Run this command after every tool call.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_post_tool_use: Vec<String>,
    /// Run this command when a session starts.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_session_start: Vec<String>,
    /// Run this command when a session ends.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_session_end: Vec<String>,
    /// Run this command when the agent waits for user input.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_on_user_input: Vec<String>,
    /// Run this command when an agent finishes its turn.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_stop: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrefixCommand {
    /// Report prefix breaks in request logs, with cause and cost.
    Analyze(PrefixAnalyze),
    /// Check an agent file or a request body for prefix problems.
    Lint(PrefixLint),
    /// Show prefix breaks of running chats and gateways until Ctrl-C.
    Live(PrefixLive),
    /// Estimate the cost of a conversation with other cache markers or another model.
    Plan(PrefixPlan),
    /// Recompute what past requests would have cost with other cache lifetimes, renewals or summaries, and recommend a
    /// setting.
    #[command(name = "whatif")]
    WhatIf(PrefixWhatIf),
}

#[derive(Debug, Args)]
pub(crate) struct PrefixWhatIf {
    /// Transcripts and request logs, or folders of them; `-` for a log on stdin [default: where the programs that are known
    /// keep their transcripts].
    #[arg(value_name = "LOG|TRANSCRIPTS")]
    pub(crate) paths: Vec<PathBuf>,
    /// Only what was paid since this date (2026-11-20) or age (7d, 12h); a day counts as a whole.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only what was paid until this date or age; a day counts as a whole.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only projects whose path contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) project: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PrefixPlan {
    /// A session ID or a unique prefix of one, or a request log; `-` for stdin.
    #[arg(value_name = "SESSION|LOG")]
    pub(crate) what: String,
    /// Estimate for this model instead: `provider/model`. May be repeated.
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Seconds between requests that have no timestamp.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) every: u64,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

#[derive(Debug, Args)]
pub(crate) struct PrefixAnalyze {
    /// Request logs of any provider, one JSON document per line, transcripts of Claude Code or Codex, a folder
    /// with such files, or a store with chat sessions; `-` for stdin.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Exit with 1 if a prefix breaks.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a report for a browser into this file: the breaks with the texts before and after. One file without a
    /// network; `-` is stdout.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PrefixLive {
    /// Also show earlier breaks up to this age: a number with a unit, such as 12h or 30m.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) since: Option<Duration>,
    /// Show only the breaks of clients of a gateway (`cachalot serve`).
    #[arg(long)]
    pub(crate) gateway: bool,
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    /// Print one JSON document per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PrefixLint {
    /// An agent file or the JSON body of a request; `-` for stdin.
    pub(crate) file: PathBuf,
    /// Print the problems as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Fire an event; print the output of each handler and the verdict.
    Test(HooksTest),
}

#[derive(Debug, Args)]
pub(crate) struct HooksTest {
    /// The event: pre_tool_use, stop, …
    pub(crate) event: String,
    /// Input of the event: a JSON object with the fields of docs/HOOKS.md; `-` for stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Agent file with the hooks [default without --hooks: hooks.yaml, .claude/settings.json and similar
    /// files beside the input].
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Agent in that file [default: the agent of the input, else `root`, else the first].
    #[arg(long, value_name = "NAME", requires = "file")]
    pub(crate) agent: Option<String>,
    /// Hook file. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) hooks: Vec<PathBuf>,
    /// Runtime that the hook files are for: docker-agent, claude, codex or gemini [default: detected from
    /// their content].
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<Dialect>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The subject of a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Agent files.
    Agent,
    /// Hooks.
    Hooks,
    /// Configuration files of the gateway.
    Gateway,
    /// Policies of the MCP proxy.
    McpPolicy,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, newest first.
    Ls {
        #[command(flatten)]
        place: StoreArguments,
        /// Include sessions of sub-agents.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the conversation of a session.
    Show {
        /// Session ID or a unique prefix of it.
        id: String,
        #[command(flatten)]
        place: StoreArguments,
        /// Print JSON.
        #[arg(long, conflicts_with = "raw")]
        json: bool,
        /// Print the request bytes that were sent to the provider, up to the end of the messages.
        #[arg(long)]
        raw: bool,
    },
    /// Remove sessions and the sessions of their sub-agents; the ledger keeps only their costs.
    Rm {
        /// Session IDs or unique prefixes of them.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<String>,
        /// Remove all sessions.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        report: ReportArguments,
    },
    /// Draw the shared prefixes of sessions as a tree, with sizes.
    Tree {
        /// Show only sessions of this agent.
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        #[command(flatten)]
        report: ReportArguments,
    },
    /// Write conversations as JSON lines; sessions that another session continues are left out.
    Export {
        /// Only these sessions, continued or not: IDs or unique prefixes of them.
        #[arg(conflicts_with = "all")]
        ids: Vec<String>,
        /// Include sessions that another session continues.
        #[arg(long)]
        all: bool,
        /// The file to write; `-` for stdout [default: stdout].
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Include sessions that contain secrets.
        #[arg(long)]
        with_secrets: bool,
        #[command(flatten)]
        place: StoreArguments,
    },
    /// Erase prompt pieces that no session uses, left behind by killed processes.
    Sweep(ReportArguments),
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Port to listen on; 0 selects a free port.
    #[arg(long, default_value_t = 4010)]
    pub(crate) port: u16,
    /// Replies (YAML) [default: built-in replies].
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Time to the first byte of each answer, such as `2s` [default: that of the script, else none].
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) latency: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 selects a free port. Default: that of the configuration file, else 127.0.0.1:4114.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Configuration file: upstreams with credentials, keys with budgets, a certificate. Read again when it changes,
    /// and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Server that requests are passed on to, in place of the one with this name, or in addition (reached under
    /// /u/NAME/ only). Built in: openai, anthropic, gemini. May be repeated.
    #[arg(long, value_name = "NAME=URL")]
    pub(crate) upstream: Vec<String>,
    /// Further host name by which clients address the gateway. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    #[command(flatten)]
    pub(crate) store: StoreRequirement,
    /// Answer from the cache only; what is not stored is an error. Needs no credentials of upstreams.
    #[arg(long)]
    pub(crate) frozen: bool,
    /// Print no line for each request.
    #[arg(long, short, conflicts_with = "log_json")]
    pub(crate) quiet: bool,
    /// Print a JSON document for each request, without contents, to standard error.
    #[arg(long)]
    pub(crate) log_json: bool,
    /// Print a new key for a client and its digest for the configuration file, and end.
    #[arg(long, exclusive = true)]
    pub(crate) new_key: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The client that the command runs, if neither its first word nor the package of `npx` or `uvx` says so, by its name
    /// or that of its program. Options that the client needs are inserted behind its program, which has to be a word of
    /// the command.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Answer from the recording with this name, ask for what is not in it, and add that.
    #[arg(long, value_name = "NAME", value_parser = recording_name)]
    pub(crate) record: Option<String>,
    /// Answer from the recording with this name only, without a key and a network. What is not in it is an error for
    /// the client, and listed with its reason.
    #[arg(long, value_name = "NAME", value_parser = recording_name, conflicts_with = "record")]
    pub(crate) replay: Option<String>,
    /// Ask for everything anew, and record it.
    #[arg(long, requires = "record", conflicts_with = "replay")]
    pub(crate) fresh: bool,
    /// Text of the client's prompts that differs between two runs, such as `date`, which is not compared with the
    /// recording: an answer may be about the date of the recording. May be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) ignore: Vec<String>,
    /// Server that requests are passed on to, in place of the one with this name [default: the base URLs in the
    /// environment, such as OPENAI_BASE_URL, else openai, anthropic and gemini]. May be repeated.
    #[arg(long, value_name = "NAME=URL")]
    pub(crate) upstream: Vec<String>,
    /// Refuse a request once that would write an expired prefix to the provider's prompt cache again, if that costs more
    /// than this, in US dollars.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) guard: Option<u64>,
    /// Renew the prefixes of idle conversations up to this time after their last request, such as 30m, while that pays.
    #[arg(long, value_name = "TIME", value_parser = keep_alive_time)]
    pub(crate) keep_alive: Option<Duration>,
    /// The maximum of the estimated cost of the renewals in one pause of a conversation, in US dollars.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars, requires = "keep_alive", default_value = "0.20")]
    pub(crate) keep_alive_max: u64,
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    #[command(flatten)]
    pub(crate) store: StoreRequirement,
    /// Print no bill.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Maximum length of the name of a recording.
const MAX_RECORDING_NAME: usize = 64;

fn recording_name(text: &str) -> Result<String, String> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    let begins_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    if begins_well && text.chars().all(is_plain) && text.len() <= MAX_RECORDING_NAME {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "a name of up to {MAX_RECORDING_NAME} letters, digits, `-`, `_` and `.` is expected, which begins with a letter or digit"
        ))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The agent files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) python: Python,
    /// Print the problems as JSON: one document, or a list for several files.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Print the newest entry under a key or handle.
    Get {
        /// A handle (`cache:agent:…`), a `key` as written in the agent file, or the key of an entry. Of a digest,
        /// a unique prefix is sufficient.
        key: String,
        #[command(flatten)]
        place: StoreArguments,
        /// Print the entry with its metadata as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List entries.
    Ls {
        #[command(flatten)]
        which: EntrySelection,
        /// Print whole digests.
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        report: ReportArguments,
    },
    /// Erase entries.
    Rm {
        #[command(flatten)]
        which: EntrySelection,
        /// Erase every entry and the details of its calls in the ledger.
        #[arg(long, conflicts_with_all = ["pattern", "kind", "action", "tag"])]
        all: bool,
        /// Print what would be erased; erase nothing.
        #[arg(long)]
        dry_run: bool,
        /// Print whole digests.
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        report: ReportArguments,
    },
    /// Print the size of the cache, and what was paid and saved.
    Stats {
        #[command(flatten)]
        fleet: FleetArguments,
        #[command(flatten)]
        report: ReportArguments,
    },
    /// Erase expired entries.
    Sweep(ReportArguments),
    /// Copy entries, long-term memory and sessions to another store. Records that it has already stay; run it again to
    /// continue.
    Copy {
        /// The store to read: a file or a URL.
        from: PathBuf,
        /// The store to write: a file or a URL.
        to: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Encrypt everything in the store with the first secret of CACHALOT_ENCRYPTION_KEY: what is not encrypted, and what
    /// is encrypted with the other secrets. Run it again to continue.
    Encrypt(ReportArguments),
    /// Export entries to a cassette file, for `cache import` and `run --frozen`: all entries of the store, or those that
    /// meet all conditions.
    Export(CacheExport),
    /// Import all entries of a cassette file.
    Import {
        /// The file to read; `-` for stdin.
        file: PathBuf,
        #[command(flatten)]
        report: ReportArguments,
    },
}

#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct CacheExport {
    /// Only what runs of this workflow have used, as far as the ledger knows, and everything else under its handles.
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: Option<PathBuf>,
    /// The file to write; `-` for stdout.
    pub(crate) file: PathBuf,
    /// Only what this run has used, as far as the ledger knows: the ID that `run --json` and `why --json` print, a
    /// unique prefix of it, or `last`.
    #[arg(long, value_name = "ID", conflicts_with = "workflow")]
    pub(crate) run: Option<String>,
    /// Only entries with this tag; may be repeated.
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// Only entries whose handles match this pattern (`*` matches any text), or the entry of this key; a unique prefix of
    /// the digest is sufficient.
    #[arg(long)]
    pub(crate) pattern: Option<String>,
    /// Include entries with secrets in their keys, and the key of their digests.
    #[arg(long)]
    pub(crate) with_digest_key: bool,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Erase inputs, keys, handles and reasons of calls; keep their time, name and cost.
    #[command(group = ArgGroup::new("calls").required(true))]
    Rm {
        /// Calls with this handle (`*` matches any text) or this key; a unique prefix of the digest is sufficient.
        #[arg(value_name = "KEY", group = "calls")]
        key: Option<String>,
        /// Calls of this session and its forks: ID or unique prefix. May be repeated.
        #[arg(long, value_name = "ID", group = "calls")]
        session: Vec<String>,
        /// All calls.
        #[arg(long, group = "calls")]
        all: bool,
        /// Print the number of calls; change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        report: ReportArguments,
    },
    /// Write all calls as CSV, for spreadsheets and SQL; as Parquet in a build with DuckDB.
    Export {
        /// The file to write; `-` for stdout.
        file: PathBuf,
        #[command(flatten)]
        place: StoreArguments,
    },
    /// Delete calls from the ledger; keep the totals of `cache stats`.
    #[command(group = ArgGroup::new("calls").required(true))]
    Prune {
        /// Calls older than this: a number with a unit, such as 90d or 12h.
        #[arg(long, value_name = "AGE", group = "calls", value_parser = age)]
        older_than: Option<Duration>,
        /// All calls.
        #[arg(long, group = "calls")]
        all: bool,
        /// Print the number of calls; change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        report: ReportArguments,
    },
}

/// Parses an age. The error is a text because clap prints it as it is.
/// Reads an amount in US dollars as picodollars.
fn dollars(text: &str) -> Result<u64, String> {
    let amount = cachalot_model::budget::parse_dollars(text);
    amount.ok_or_else(|| "an amount in US dollars is expected, such as 0.50".to_owned())
}

fn keep_alive_time(text: &str) -> Result<Duration, String> {
    let time = age(text)?;
    if time > MIN_KEEP_ALIVE {
        Ok(time)
    } else {
        let reason = "nothing is renewed within the shortest lifetime of a prefix; write more than 5m, such as 30m";
        Err(reason.to_owned())
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:4114".to_owned())
}

fn age(text: &str) -> Result<Duration, String> {
    let age = cachalot_model::AGE.read_text(text);
    age.map_err(|refusal| format!("it {}; {}", refusal.cause, refusal.remedy))
}

/// Selects cache entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct EntrySelection {
    /// Handles that match this pattern (`*` matches any text), or a key; a unique prefix of the digest is
    /// sufficient.
    pub(crate) pattern: Option<String>,
    /// Kind of entry: workflow step, tool call, agent answer, or request.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Entries of this action, tool or agent.
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Entries with this tag; may be repeated.
    #[arg(long)]
    pub(crate) tag: Vec<String>,
}

/// Kind of work that an entry caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Action,
    Tool,
    Turn,
    Request,
}

#[derive(Debug, Args)]
pub(crate) struct ModelList {
    /// `MODEL`, `PROVIDER/MODEL`, or a part of the names of models [default: list all models].
    pub(crate) name: Option<String>,
    /// List only models of this provider.
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Hash {
    /// Paths or URIs.
    #[arg(required = true)]
    pub(crate) uri: Vec<String>,
    /// Hash algorithm: sha256, md5 or blake2b.
    #[arg(long, short, default_value = "sha256")]
    pub(crate) algorithm: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Spend {
    /// Transcripts, or folders of them [default: where the programs that are known keep theirs]. A first one that is no path
    /// is the ID of a session (see `--session`).
    #[arg(conflicts_with = "ledger", value_name = "SESSION|PATHS")]
    pub(crate) paths: Vec<PathBuf>,
    /// Show this session, answer by answer: pauses, prefix breaks, tools, sub-agents, and where the cost jumped. An ID, or
    /// a unique prefix of one.
    #[arg(long, value_name = "ID", conflicts_with_all = ["ledger", "since", "until", "project", "by", "csv"])]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) fleet: FleetArguments,
    /// Only what was paid since this date (2026-11-20) or age (7d, 12h); a day counts as a whole.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only what was paid until this date or age; a day counts as a whole.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only projects whose path contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) project: Option<String>,
    /// The rows of the table; several, separated by commas, give a row per combination (`day,model`).
    #[arg(long, value_enum, value_delimiter = ',', default_value = "day")]
    pub(crate) by: Vec<SpendGroup>,
    /// Also the dollars of input, cache reads, cache writes, output and tools.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print CSV, a line per row.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Write a report for a browser into this file: days, models, projects, and sessions answer by answer. One file
    /// without a network; `-` is stdout.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "by", "verbose", "json", "csv"])]
    pub(crate) html: Option<PathBuf>,
}

/// The rows of the table of `spend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpendGroup {
    /// A row per day, in the zone of this machine.
    Day,
    /// A row per week, which begins on Monday.
    Week,
    /// A row per month.
    Month,
    /// A row per directory in which an agent worked.
    Project,
    /// A row per session.
    Session,
    /// A row per model.
    Model,
    /// A row per program.
    #[value(alias = "client")]
    Agent,
}

impl SpendGroup {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Project => "project",
            Self::Session => "session",
            Self::Model => "model",
            Self::Agent => "agent",
        }
    }

    /// True if its rows are in the order of time.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Self::Day | Self::Week | Self::Month)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// A handle, a key, or a session (its last model answer); unique prefixes are sufficient [default: the last cacheable call].
    #[arg(conflicts_with = "last")]
    pub(crate) key: Option<String>,
    /// The last cacheable call.
    #[arg(long)]
    pub(crate) last: bool,
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    #[command(flatten)]
    pub(crate) fleet: FleetArguments,
    /// Print whole digests.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Returns the remedy for a mistake that clap does not know: names of files in place of something else, and a command
/// without `--`.
fn tip(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let given: Vec<String> = std::env::args().skip(1).take(2).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let is_file = |word: &str| std::path::Path::new(word).is_file();
    match *given {
        [word, ..] if named(ContextKind::InvalidSubcommand) == Some(word) && is_file(word) => {
            Some(format!(
                "`cachalot run {word}` runs a workflow, `cachalot chat {word}` talks to agents"
            ))
        }
        ["cache", "rm" | "ls"] if is_file(named(ContextKind::InvalidArg)?) => Some(
            "the shell replaces a pattern by names of files: put it in quotes, as in 'cache:*'"
                .to_owned(),
        ),
        ["exec", ..] => {
            let word = named(ContextKind::InvalidArg).filter(|word| !word.starts_with('-'))?;
            Some(format!(
                "put `--` before the command: `cachalot exec -- {word}`"
            ))
        }
        ["init", file] if named(ContextKind::InvalidValue) == Some(file) && file.contains('.') => {
            Some(format!("name the kind first: `cachalot init agent {file}`"))
        }
        _ => None,
    }
}

/// Adds a remedy to an error: that of a mistake that clap does not know, or the nearest command, if one is not known (clap
/// suggests a command with one letter more or less, but none with two letters swapped).
pub(crate) fn suggest(error: &mut clap::Error) {
    use clap::CommandFactory as _;
    use clap::error::{ContextKind, ContextValue};
    if let Some(tip) = tip(error) {
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
        return;
    }
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return,
    };
    if std::env::args().nth(1).as_ref() != Some(&word) {
        return;
    }
    let command = Arguments::command();
    let commands = command.get_subcommands();
    let shown = commands.filter(|known| !known.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    if let Some(meant) = cachalot_core::suggest::nearest(&word, names) {
        let meant = ContextValue::Strings(vec![meant.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
}

//! Command line definitions for clap.

use std::path::PathBuf;
use std::time::Duration;

use cachalot_hooks::Dialect;
use cachalot_workflow::format::Language;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Runs YAML agents whose steps are memoized: nothing is paid for twice, and every payment can be explained.
#[derive(Debug, Parser)]
#[command(
    name = "cachalot",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent file; the final state goes to stdout as one JSON document.
    Run(Run),
    /// Talk to an agent; piped, one question and the answer alone.
    Chat(Chat),
    /// Look at the sessions of chats, export and remove them.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Stand in for the model providers on this machine, so that everything can be tried without a key.
    Simulate(Simulate),
    /// Check an agent file, and tell everything that is wrong with it at once.
    Validate(Validate),
    /// Look into the cache, and erase, sweep, export or import.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Erase what the ledger holds about calls, and delete calls from it.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Hash the content behind paths and URIs (local, http, s3, gs, az).
    Hash(Hash),
    /// Explain why a call was answered as it was.
    Why(Why),
    /// Look into the prefixes of requests that providers cache: why they break, and what that costs.
    #[command(subcommand)]
    Prefix(PrefixCommand),
    /// Show the catalog of models: prices, limits, endpoints, thinking and reasoning efforts.
    Models(ModelList),
    /// Try hooks out.
    #[command(subcommand)]
    Hooks(HooksCommand),
    /// Print the JSON Schema of agent files, or of hooks: what files say, and what handlers are told
    /// and say.
    Schema {
        /// Of what.
        #[arg(value_enum, default_value_t = SchemaOf::Agent)]
        of: SchemaOf,
    },
    /// Print completions for a shell.
    Completions {
        /// For which shell.
        shell: Shell,
    },
    /// Runs inline code for a parent process.
    #[command(name = "__script-worker", hide = true)]
    ScriptWorker,
}

/// Where the memory is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Where {
    /// The memory's file; otherwise CACHALOT_DB, then `settings.ltm` of the agent file, then the
    /// user's data directory.
    #[arg(long, value_name = "PATH")]
    pub(crate) db: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("mode"))]
pub(crate) struct Run {
    /// The agent file.
    pub(crate) file: PathBuf,
    /// Input for the state: a JSON object, @FILE with one, KEY=TEXT, or KEY:=JSON. May be repeated.
    #[arg(long, short, value_name = "INPUT")]
    pub(crate) input: Vec<String>,
    #[command(flatten)]
    pub(crate) place: Where,
    /// A JSON or YAML file with the values of `{{ secrets.NAME }}`.
    #[arg(long, value_name = "FILE")]
    pub(crate) secrets: Option<PathBuf>,
    /// Take secrets from environment variables that begin so: PREFIX_NAME becomes `secrets.NAME`.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) secrets_env: Option<String>,
    #[command(flatten)]
    pub(crate) python: Python,
    /// Answer memoized steps from the cache only; a miss is an error.
    #[arg(long, group = "mode")]
    pub(crate) frozen: bool,
    /// Run memoized steps afresh, and store what they give.
    #[arg(long, group = "mode")]
    pub(crate) refresh: bool,
    /// Neither look into the cache nor store.
    #[arg(long, group = "mode")]
    pub(crate) no_cache: bool,
    /// Show what would be answered from the cache and what would be paid; run nothing.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Print one JSON document on stdout with the state and the report.
    #[arg(long, conflicts_with = "ndjson")]
    pub(crate) json: bool,
    /// Print events on stdout as they happen, one JSON document a line; the last one holds the state.
    #[arg(long)]
    pub(crate) ndjson: bool,
    /// Only errors on stderr.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also tell why each step was not answered from the cache, and what MCP servers log.
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// What runs inline code.
#[derive(Debug, Args)]
pub(crate) struct Python {
    /// The runner of Python blocks, in place of `settings.python.runner`: the embedded interpreter, or
    /// the Python on this machine (without restrictions)
    #[arg(long = "python", value_name = "RUNNER", value_parser = Language::RUNNERS)]
    runner: Option<String>,
}

impl Python {
    /// The language that blocks without one are in, if the command says so.
    pub(crate) fn language(&self) -> Option<Language> {
        self.runner.as_deref().and_then(Language::of_runner)
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("chat_mode"))]
pub(crate) struct Chat {
    /// The agent file, with `agents`.
    pub(crate) file: PathBuf,
    /// Go on with this session; the beginning of its name is enough.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The agent to talk to; otherwise `root`, or the first of the file.
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    pub(crate) agent: Option<String>,
    /// The directory that the tools work in and cannot leave; otherwise the current one.
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Where,
    /// Allow every tool call that no rule denies, without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) hook: HookFlags,
    /// Run every tool call and every turn: nothing is answered from the cache, and nothing is kept.
    #[arg(long, group = "chat_mode")]
    pub(crate) no_cache: bool,
    /// Run every tool call and every turn, and keep what comes of it in place of what is there.
    #[arg(long, group = "chat_mode")]
    pub(crate) refresh: bool,
    /// With the question on stdin: one JSON document on stdout with the answer and the report.
    #[arg(long)]
    pub(crate) json: bool,
    /// The answer alone: no tool calls, no sums; only warnings and errors on stderr.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Also what the model thinks, what MCP servers log, and of every tool call why it was not answered
    /// from the cache.
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// Hooks that the command line adds to those of files.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HookFlags {
    /// A file with hooks: ours, or another runtime's (.claude/settings.json, .codex/hooks.json,
    /// .gemini/settings.json). May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) hooks: Vec<PathBuf>,
    /// The runtime that the files of --hooks were written for: docker-agent, claude, codex or gemini.
    /// Without it, it is recognized by their content.
    #[arg(long, value_name = "NAME", requires = "hooks")]
    pub(crate) dialect: Option<Dialect>,
    /// Run this command before every tool call. May be repeated, like those that follow.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_pre_tool_use: Vec<String>,
    /// Run this command after every tool call.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_post_tool_use: Vec<String>,
    /// Run this command when a session begins.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_session_start: Vec<String>,
    /// Run this command when a session ends.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_session_end: Vec<String>,
    /// Run this command when the user is waited for.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_on_user_input: Vec<String>,
    /// Run this command when an agent has nothing more to do.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) hook_stop: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrefixCommand {
    /// Tell from logs of requests where prefixes break, why, and what that costs.
    Analyze(PrefixAnalyze),
    /// Check an agent file, or one request before it is sent.
    Lint(PrefixLint),
    /// Show prefixes of running chats as they break, until Ctrl-C.
    Live(PrefixLive),
    /// Tell what a conversation would have cost with other cache markers, or with another model.
    Plan(PrefixPlan),
}

#[derive(Debug, Args)]
pub(crate) struct PrefixPlan {
    /// A session (the beginning of its name is enough), or a log of requests; `-` for stdin.
    #[arg(value_name = "SESSION|LOG")]
    pub(crate) what: String,
    /// Ask this model in place of the one that was asked: `provider/model`. May be repeated.
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// How many seconds lie between requests that do not say when they were sent.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) every: u64,
    #[command(flatten)]
    pub(crate) place: Where,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PrefixAnalyze {
    /// Logs of requests to any provider, one JSON document a line; a memory with sessions of our
    /// own; `-` for stdin.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Fail if a prefix breaks.
    #[arg(long)]
    pub(crate) strict: bool,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PrefixLive {
    /// Begin with the breaks that are not older: a number with a unit, such as 12h or 30m.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) since: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: Where,
    /// One JSON document a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PrefixLint {
    /// An agent file, or the JSON body of a request; `-` for stdin.
    pub(crate) file: PathBuf,
    /// Print the problems as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Fire one event, and show what each handler says and what comes of it.
    Test(HooksTest),
}

#[derive(Debug, Args)]
pub(crate) struct HooksTest {
    /// The event: pre_tool_use, stop, …
    pub(crate) event: String,
    /// What handlers are told: a JSON object in our own words; `-` for stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// The agent file whose hooks are tried. Without it and --hooks, those that lie beside the input
    /// are: hooks.yaml, .claude/settings.json and their like.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The agent in it; otherwise the one that the input names, `root`, or the first of the file.
    #[arg(long, value_name = "NAME", requires = "file")]
    pub(crate) agent: Option<String>,
    /// A file with hooks to try. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) hooks: Vec<PathBuf>,
    /// The runtime that the files were written for: docker-agent, claude, codex or gemini.
    /// Without it, it is recognized by their content.
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<Dialect>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a schema is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Agent files.
    Agent,
    /// Hooks.
    Hooks,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, newest first.
    Ls {
        #[command(flatten)]
        place: Where,
        /// Also those of sub-agents.
        #[arg(long)]
        all: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what was said in a session.
    Show {
        /// The session; the beginning of its name is enough.
        id: String,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long, conflicts_with = "raw")]
        json: bool,
        /// The bytes that the provider was sent, up to the end of the messages.
        #[arg(long)]
        raw: bool,
    },
    /// Remove sessions, and those of the sub-agents that they gave tasks to; the ledger keeps only what
    /// they cost.
    Rm {
        /// The sessions; the beginnings of their names are enough.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<String>,
        /// Remove all sessions.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draw what sessions have in common as a tree, with its sizes.
    Tree {
        /// Only sessions of this agent.
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write conversations as JSON lines: those that no other session continues.
    Export {
        /// Only these sessions, continued or not; the beginnings of their names are enough.
        #[arg(conflicts_with = "all")]
        ids: Vec<String>,
        /// Also those that other sessions continue.
        #[arg(long)]
        all: bool,
        /// The file to write; otherwise, or as `-`, stdout.
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Include sessions that hold something that was known as a secret when it was written.
        #[arg(long)]
        with_secrets: bool,
        #[command(flatten)]
        place: Where,
    },
    /// Erase what processes that died have left behind: pieces of prompts that no session needs.
    Sweep {
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The port to listen on; 0 for any that is free.
    #[arg(long, default_value_t = 4010)]
    pub(crate) port: u16,
    /// What it answers (YAML); otherwise what comes with it.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The agent file.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) python: Python,
    /// Print the problems as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Print the newest entry under a key or handle.
    Get {
        /// A handle (`cache:agent:…`), a `key` as the agent file has it (if one agent has it), or 64 hex digits.
        key: String,
        #[command(flatten)]
        place: Where,
        /// With everything that is known of the entry.
        #[arg(long)]
        json: bool,
    },
    /// List entries.
    Ls {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Erase entries.
    Rm {
        #[command(flatten)]
        which: Which,
        /// Erase every entry, and what the ledger holds about the calls.
        #[arg(long, conflicts_with_all = ["pattern", "kind", "action", "tag"])]
        all: bool,
        /// Only tell what would be erased.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell how much is cached, and what it cost and saved.
    Stats {
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Erase entries whose time is over.
    Sweep {
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write every entry into a cassette, to be imported elsewhere and played with `run --frozen`.
    Export {
        /// The file to write; `-` for stdout.
        file: PathBuf,
        /// Include entries whose keys hold secrets, and the key that those were digested under.
        #[arg(long)]
        with_digest_key: bool,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Store every entry of a cassette.
    Import {
        /// The file to read; `-` for stdin.
        file: PathBuf,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Erase inputs, keys, handles and reasons of calls; their time, name and cost stay.
    #[command(group = ArgGroup::new("calls").required(true))]
    Rm {
        /// The calls under this handle, in which `*` matches any text, or under this key of 64 hex
        /// digits.
        #[arg(value_name = "KEY", group = "calls")]
        key: Option<String>,
        /// The calls of this session, those of forks that ran for it included; the beginning of its
        /// name is enough. May be repeated.
        #[arg(long, value_name = "ID", group = "calls")]
        session: Vec<String>,
        /// All calls.
        #[arg(long, group = "calls")]
        all: bool,
        /// Only count the calls.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete calls from the ledger; the sums that `cache stats` shows stay.
    #[command(group = ArgGroup::new("calls").required(true))]
    Prune {
        /// The calls that are older: a number with a unit, such as 90d or 12h.
        #[arg(long, value_name = "AGE", group = "calls", value_parser = age)]
        older_than: Option<Duration>,
        /// All calls.
        #[arg(long, group = "calls")]
        all: bool,
        /// Only count the calls.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        place: Where,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

fn age(text: &str) -> Result<Duration, String> {
    let problem = "write a number with a unit, such as `90d`, `12h`, `30m`";
    cachalot_model::parse_age(text).ok_or_else(|| problem.to_owned())
}

/// Which entries.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Which {
    /// Handles that match; `*` stands for any text.
    pub(crate) pattern: Option<String>,
    /// Entries of this kind: steps of workflows, tool calls, whole answers of agents, or requests.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Entries of this action, tool or agent.
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Entries with this tag; may be repeated.
    #[arg(long)]
    pub(crate) tag: Vec<String>,
}

/// What kind of work an entry answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Action,
    Tool,
    Turn,
    Request,
}

#[derive(Debug, Args)]
pub(crate) struct ModelList {
    /// The model to show: `MODEL`, or `PROVIDER/MODEL`. Without it, all models are listed.
    pub(crate) name: Option<String>,
    /// Only models of this provider.
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Hash {
    /// Paths or URIs.
    #[arg(required = true)]
    pub(crate) uri: Vec<String>,
    /// sha256, md5 or blake2b.
    #[arg(long, short, default_value = "sha256")]
    pub(crate) algorithm: String,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// A handle or a key, or a session, of which the last answer of a model is told; without one, the
    /// last call that the cache could have answered.
    #[arg(conflicts_with = "last")]
    pub(crate) key: Option<String>,
    /// The last call that the cache could have answered.
    #[arg(long)]
    pub(crate) last: bool,
    #[command(flatten)]
    pub(crate) place: Where,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Adds the nearest command to an error about an unknown one. Clap suggests a command with one letter more or
/// less, but none with two letters swapped.
pub(crate) fn suggest(error: &mut clap::Error) {
    use clap::CommandFactory as _;
    use clap::error::{ContextKind, ContextValue};
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

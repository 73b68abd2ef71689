//! `settings` of an agent file.

use std::time::Duration;

use cachalot_cache::LedgerLimits;
use cachalot_core::config::{
    Custom, Parameter, ParameterKind as Kind, Table, Values, key, no_effect, section, unsupported,
};
use cachalot_core::duration::Range;
use cachalot_core::text::word_list;
use cachalot_core::tree::{MapEntry, Node};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::{AGE, ModelSettings};
use cachalot_storage::AllowedHosts;
use serde_json::{Value, json};

use super::calls::{names_action, text_search};
use super::language::PythonRunner;
use super::llm_settings::{LLM, SHELL_PROVIDERS};
use crate::actions::WAITING;
use crate::codes;

/// The settings of an agent file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// All settings as a plain value, for the run.
    pub value: Value,
    /// `name`: the agent's name in cache handles, if it differs from the file's `name`.
    pub name: Option<String>,
    /// `ltm`.
    pub memory: MemorySettings,
    /// `cache`.
    pub cache: CacheSettings,
    /// `ledger`: retention of individual calls in the ledger.
    pub ledger: LedgerLimits,
    /// `python`: limits of inline code in the embedded Python interpreter, and the runner.
    pub python: ScriptSettings,
    /// `lua`: limits of inline code in Lua.
    pub lua: ScriptSettings,
    /// `python3`: limits of inline code in the user's own interpreter.
    pub python3: ScriptSettings,
    /// `llm`: defaults of every model.
    pub llm: ModelSettings,
    /// `parallel.max_workers`: the maximum number of concurrent branches for nodes that set no limit.
    pub max_workers: Option<usize>,
}

/// `settings.ltm`: the store of long-term memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySettings {
    /// `backend`: the store backend.
    pub backend: Option<String>,
    /// `path`, `url`, or their other names, as written.
    pub path: Option<String>,
    /// The place of the backend in the file, or else of the path.
    pub place: Option<SourceSpan>,
    /// `staleness`: for how long an entry may be served after another process changed it.
    pub staleness: Duration,
    /// `durable`: a Redis server has all acknowledged writes when it starts again.
    pub durable: bool,
    /// `local`: keeps copies of cached answers on this machine for times when the server does not answer.
    pub local: bool,
    /// `digest_key_file`: the file of the key under which secrets are digested.
    pub digest_key_file: Option<String>,
    /// The place of a step that searches long-term memory by text, which not every backend can.
    pub text_search: Option<SourceSpan>,
}

/// `settings.cache`: limits of the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheSettings {
    /// `max_bytes`: the maximum total size of all entries.
    pub max_bytes: Option<u64>,
    /// `max_entries`: the maximum number of entries.
    pub max_entries: Option<u64>,
    /// `front_bytes`: the maximum size of entries in the in-process front of the cache.
    pub front_bytes: Option<u64>,
    /// `patience`, or `patience_ms`: the maximum time that a call waits for a slow store before it runs uncached.
    pub patience: Option<Duration>,
    /// `store_timeout`, or `store_timeout_ms`: the timeout for storing a result.
    pub store_timeout: Option<Duration>,
}

/// `settings.python`, `settings.python3` or `settings.lua`: limits of inline code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptSettings {
    /// `time_limit`, in seconds.
    pub time_limit: Option<Duration>,
    /// `memory_limit`, in bytes (`python` and `lua`).
    pub memory_limit: Option<u64>,
    /// `command`: the interpreter (`python3` only).
    pub command: Option<String>,
    /// `runner`: the runner of the file's Python blocks without `language` (`python` only).
    pub runner: Option<PythonRunner>,
    /// `network`: true if Python blocks need the network (`python` only).
    pub network: bool,
}

/// Help text that names the place where this runtime reports a run.
const EVENTS_HELP: &str = "`cachalot run --ndjson` writes the events of a run";

/// Help text for a setting of actions that do not exist here.
const ACTIONS_HELP: &str = "it is for actions that this runtime does not have";

/// Help text for what says how branches run.
const ONE_WAY: &str = "branches run at the same time in one process";

/// The minimum of `max_bytes` of the ledger. Below it, totals alone could leave no room for a payment.
const MIN_LEDGER_BYTES: u64 = 1 << 20;

/// Any amount of bytes or entries.
const AMOUNT: Kind = Kind::IntegerIn(0, u64::MAX);

/// [`WAITING`] in milliseconds.
const MILLISECONDS: Kind = Kind::IntegerIn(1, 3_600_000);

/// The keys of `settings`. Environment variables have been expanded before they are read.
#[rustfmt::skip]
pub static SETTINGS: Table = Table::new(
    "`settings`",
    "Settings; `${NAME}` and `${NAME:-default}` stand for environment variables.",
    &[
        &[
            key("name", Kind::Text, "The agent's name in cache keys, if it is not the file's `name`."),
            key("ltm", Kind::Deferred(&LTM), "The store of long-term memory and of the cache."),
            key("ltm_path", Kind::Text, "The same as `settings.ltm.path`."),
            section("cache", &CACHE),
        ],
        LEDGER_KEY,
        &[
            section("python", &PYTHON),
            section("lua", &LUA),
            section("python3", &PYTHON3),
            section("parallel", &PARALLEL),
            key("llm", Kind::Definition("llm_settings", &LLM), "The default model, and defaults of all models."),
            SHELL_PROVIDERS,
            section("web", &WEB),
            section("http", &HTTP),
            section("llamaextract", &LLAMAEXTRACT),
        ],
        OF_OTHERS,
    ],
);

/// The keys of `settings` in a file that contains only agents.
static TEAM_SETTINGS: Table = Table::new("`settings`", "", &[LEDGER_KEY, HTTP_KEY]);

#[rustfmt::skip]
const HTTP_KEY: &[Parameter] = &[section("http", &HTTP)];

#[rustfmt::skip]
const LEDGER_KEY: &[Parameter] = &[section("ledger", &LEDGER)];

#[rustfmt::skip]
const LTM_KEYS: &[Parameter] = &[
    key("backend", Kind::Text, "The kind of memory: `sqlite` (default), `postgres`, `redis`, `turso`, `blob-sqlite` (a SQLite database in a bucket), `firestore`, `duckdb` (in a build with it), or `in-process`, which is gone at the end of the run."),
    key("path", Kind::Text, "The file of the memory, relative to the directory in which `cachalot` runs."),
    key("ltm_path", Kind::Text, "The same as `settings.ltm.path`."),
    key("url", Kind::Text, "The database of the memory on a server: `postgres://USER@HOST/DATABASE`, `redis://HOST/NUMBER`, `libsql://HOST`, `s3://BUCKET/NAME.db`, or `firestore://PROJECT/COLLECTION`."),
    key("ltm_url", Kind::Text, "The same as `settings.ltm.url`."),
    key("ltm_blob_uri", Kind::Text, "The same as `settings.ltm.url`."),
    key("ltm_auth_token", Kind::Text, "The token for a Turso database; written as `${VARIABLE}`."),
    key("staleness", Kind::Duration(STALENESS), "For how long a cached answer may be served after another machine has changed or erased it, such as `2s`; 0 by default: every hit asks the server. For Postgres and a single Redis server."),
    key("durable", Kind::Boolean, "Says that a Redis server loses nothing when it starts again, so that cached answers survive that; its settings are checked. False by default."),
    key("local", Kind::Boolean, "Keeps copies of cached answers on this machine: they answer while the server does not, within their time to live; answers of that time are sent later. For stores on a server; false by default."),
    key("digest_key_file", Kind::Text, "The file of the key under which secrets are digested before they enter a cache key, relative to the directory in which `cachalot` runs. Machines that share a store share calls with secrets only if they have the same key. `CACHALOT_DIGEST_KEY_FILE` wins over it."),
    no_effect("ltm_collection", "write the collection in `url: firestore://PROJECT/COLLECTION`"),
    no_effect("ltm_lock_backend", "writes to a bucket are conditional, and need no lock"),
    no_effect("ltm_lock_ttl", "writes to a bucket are conditional, and need no lock"),
];

/// The values of `staleness`.
const STALENESS: Range = Range::ANY.at_most(Duration::from_secs(3_600));

static LTM: Table = Table::new(
    "`settings.ltm`",
    "The store of long-term memory and of the cache.",
    &[LTM_KEYS],
);

/// `ltm` with a backend of another runtime, which reads further keys.
static LTM_OF_OTHERS: Table = Table::new("`settings.ltm`", "", &[LTM_KEYS]).open();

#[rustfmt::skip]
static CACHE: Table = Table::new(
    "`settings.cache`",
    "Limits of the cache.",
    &[&[
        key("max_bytes", AMOUNT, "The maximum bytes of all cached entries together; 1 GiB by default. The least recently used are evicted first."),
        key("max_entries", AMOUNT, "The maximum number of cached entries; 1,000,000 by default."),
        key("front_bytes", AMOUNT, "The bytes of entries, with their decoded forms, that the process keeps in memory; 64 MiB by default."),
        key("patience", Kind::Duration(WAITING), "How long a call waits for a slow memory before it runs uncached; `250ms` by default."),
        key("patience_ms", MILLISECONDS, "`patience` in milliseconds."),
        key("store_timeout", Kind::Duration(WAITING), "The maximum time for storing an answer, apart from the lookup; `5s` by default."),
        key("store_timeout_ms", MILLISECONDS, "`store_timeout` in milliseconds."),
    ]],
);

#[rustfmt::skip]
static LEDGER: Table = Table::new(
    "`settings.ledger`",
    "Retention of individual calls in the ledger.",
    &[&[
        key("max_age", Kind::Duration(AGE), "How old a call in the ledger may be, such as `90d` or `12h`; any age by default. It needs a unit."),
        key("max_bytes", Kind::IntegerIn(MIN_LEDGER_BYTES, u64::MAX), "How many bytes of data the ledger may hold, at least 1,048,576; 256 MiB by default. The oldest calls are deleted first."),
        key("max_hits", AMOUNT, "How many hits the ledger keeps one by one, and as many calls of each other kind that paid nothing; 1,000 by default."),
    ]],
);

#[rustfmt::skip]
const TIME_LIMIT: Parameter = key("time_limit", Kind::Duration(Range::POSITIVE), "How long a block may take; `30s` by default.");
#[rustfmt::skip]
const MEMORY_LIMIT: Parameter = key("memory_limit", Kind::IntegerIn(1, u64::MAX), "Bytes that a block may use; 512 MiB by default.");

#[rustfmt::skip]
static PYTHON: Table = Table::new(
    "`settings.python`",
    "The runner of inline code in Python, and its limits.",
    &[&[
        TIME_LIMIT,
        MEMORY_LIMIT,
        key("runner", Kind::Word(&PythonRunner::NAMES), "The runner of Python blocks without `language`: `auto` (default), `python3`, your own Python, or `embedded`."),
        key("network", Kind::Boolean, "True if blocks need the network: the run then asks for `--sandbox-network`; false by default."),
    ]],
);

static LUA: Table = Table::new(
    "`settings.lua`",
    "Limits of inline code in Lua.",
    &[&[TIME_LIMIT, MEMORY_LIMIT]],
);

/// The memory of the user's own interpreter is not limited.
#[rustfmt::skip]
static PYTHON3: Table = Table::new(
    "`settings.python3`",
    "The user's own Python interpreter, and its limit.",
    &[&[
        TIME_LIMIT,
        key("command", Kind::Text, "The Python that runs blocks of `python3`; `python3` by default."),
    ]],
);

#[rustfmt::skip]
static PARALLEL: Table = Table::new(
    "`settings.parallel`",
    "Concurrent branches.",
    &[&[
        key("max_workers", Kind::IntegerIn(1, 10_000), "How many branches run at a time where a node does not set it; 16 by default."),
        key("strategy", Kind::Custom(&Custom { schema: Some(|| json!({ "const": "thread" })), check: check_strategy }), "`thread`, the only strategy."),
        no_effect("streams", "no data goes from node to node but the state"),
        no_effect("remote", ONE_WAY),
    ]],
);

#[rustfmt::skip]
static WEB: Table = Table::new(
    "`settings.web`",
    "Web search.",
    &[&[section("search", &WEB_SEARCH)]],
);

#[rustfmt::skip]
static WEB_SEARCH: Table = Table::new(
    "`settings.web.search`",
    "The SearXNG instance.",
    &[&[key("base_url", Kind::Text, "The SearXNG instance of `web.search`.")]],
);

#[rustfmt::skip]
static HTTP: Table = Table::new(
    "`settings.http`",
    "Requests of actions.",
    &[&[
        key("allowed_hosts", Kind::Custom(&Custom { schema: Some(|| Kind::Texts.schema(false)), check: check_hosts }), "The only hosts that actions request, redirects included: names (`*.example.com` for those below one), addresses, networks."),
    ]],
);

static LLAMAEXTRACT: Table = Table::new(
    "`settings.llamaextract`",
    "LlamaCloud.",
    &[&[
        key("base_url", Kind::Text, "The address of LlamaCloud."),
        key("api_key", Kind::Text, "Its key."),
    ]],
);

/// Keys of `settings` that other runtimes support, and this one refuses or ignores.
#[rustfmt::skip]
const OF_OTHERS: &[Parameter] = &[
    unsupported("secrets", codes::UNSUPPORTED_SECTION),
    unsupported("session", codes::UNSUPPORTED_SECTION),
    unsupported("error_handling", codes::UNSUPPORTED_SECTION),
    unsupported("auth", codes::UNSUPPORTED_SECTION),
    no_effect("opik", EVENTS_HELP),
    no_effect("opik_llm_tracing", EVENTS_HELP),
    no_effect("auto_trace", EVENTS_HELP),
    no_effect("trace_exporter", EVENTS_HELP),
    no_effect("trace_file", EVENTS_HELP),
    no_effect("trace_format", EVENTS_HELP),
    no_effect("auto_trace_llm_payloads", EVENTS_HELP),
    no_effect("trace_payload_async", EVENTS_HELP),
    no_effect("trace_payload_compress", EVENTS_HELP),
    no_effect("trace_retention_days", EVENTS_HELP),
    no_effect("trace_payload_retention_days", EVENTS_HELP),
    no_effect("progress", "the progress of a run is written to stderr"),
    no_effect("a2a", ACTIONS_HELP),
    no_effect("agents", "agents stand in the file, beside `nodes`: `agents:`"),
    no_effect("dspy", ACTIONS_HELP),
    no_effect("execution", ACTIONS_HELP),
    no_effect("interview", ACTIONS_HELP),
    no_effect("llamaindex", ACTIONS_HELP),
    no_effect("memory", ACTIONS_HELP),
    no_effect("textgrad", ACTIONS_HELP),
    no_effect("graph", ACTIONS_HELP),
    no_effect("memory_infrastructure", ACTIONS_HELP),
    no_effect("firestore", ACTIONS_HELP),
    no_effect("rate_limiters", ACTIONS_HELP),
    no_effect("model", "the default model of `llm.call` is `settings.llm.model`"),
    no_effect("temperature", "the default of `llm.call` is `settings.llm.temperature`"),
];

/// Reads the settings. Environment variables have already been expanded.
pub(super) fn read(node: &Node, problems: &mut Vec<Problem>) -> Settings {
    let Some(values) = SETTINGS.read(node, problems) else {
        return Settings::default();
    };
    let [python, lua, python3, parallel] =
        ["python", "lua", "python3", "parallel"].map(|key| values.table(key));
    let limits = |values: Option<Values<'_>>| ScriptSettings {
        time_limit: values.and_then(|values| values.duration("time_limit")),
        ..ScriptSettings::default()
    };
    let memory_limit =
        |values: Option<Values<'_>>| values.and_then(|values| values.integer("memory_limit"));
    let runner = python.and_then(|python| python.text("runner"));
    check_shell_providers(values, problems);
    Settings {
        value: node.to_value(),
        name: values.string("name"),
        memory: memory(values, problems),
        cache: values
            .table("cache")
            .map(|values| cache(values, problems))
            .unwrap_or_default(),
        ledger: ledger(values),
        python: ScriptSettings {
            memory_limit: memory_limit(python),
            runner: runner.and_then(PythonRunner::from_name),
            network: python
                .and_then(|python| python.boolean("network"))
                .unwrap_or(false),
            ..limits(python)
        },
        lua: ScriptSettings {
            memory_limit: memory_limit(lua),
            ..limits(lua)
        },
        python3: ScriptSettings {
            command: python3.and_then(|python3| python3.string("command")),
            ..limits(python3)
        },
        llm: match values.table("llm") {
            Some(llm) => {
                check_shell_providers(llm, problems);
                ModelSettings::read(llm, problems)
            }
            None => ModelSettings::default(),
        },
        max_workers: parallel.and_then(|parallel| parallel.integer("max_workers")),
    }
}

fn check_hosts(entry: &MapEntry, problems: &mut Vec<Problem>) {
    let Some(list) = entry.value.as_list() else {
        problems.push(entry.value.wrong_type("`allowed_hosts`", "a list"));
        return;
    };
    for item in list {
        let Some(text) = item.as_text() else {
            problems.push(item.wrong_type("a host", "text such as `api.example`"));
            continue;
        };
        if let Err(error) = AllowedHosts::parse(&[text.to_owned()]) {
            let problem = Problem::new(codes::BAD_VALUE, error.message);
            problems.push(problem.at(&item.place).help("correct the entry"));
        }
    }
}

fn check_strategy(entry: &MapEntry, problems: &mut Vec<Problem>) {
    match entry.value.as_text() {
        Some("thread") => {}
        None => problems.push(entry.value.wrong_type("`strategy`", "text")),
        Some(strategy) => problems.push(
            Problem::warning(
                codes::NO_EFFECT,
                format!("there is no parallel strategy `{strategy}`"),
            )
            .at(&entry.value.place)
            .help(ONE_WAY),
        ),
    }
}

/// Backends of long-term memory that the reference implementation supports and this runtime does not.
pub const UNSUPPORTED_BACKENDS: [&str; 6] =
    word_list("duckdb ducklake d1 litestream sqlalchemy hierarchical");

fn is_unsupported_backend(backend: Option<&Node>) -> bool {
    let name = backend.and_then(Node::as_text);
    name.is_some_and(|name| UNSUPPORTED_BACKENDS.contains(&name))
}

impl MemorySettings {
    /// Notes a step that searches by text.
    pub(super) fn note_text_search(&mut self, nodes: Option<&Node>) {
        self.text_search = nodes.and_then(text_search);
    }

    /// Replaces a backend that this runtime does not support by the default, with a warning, if no node of
    /// the file uses the store.
    pub(super) fn leave_out_unused(&mut self, nodes: Option<&Node>, problems: &mut Vec<Problem>) {
        let is_used = |name: &str| {
            let name = name.strip_prefix("actions.").unwrap_or(name);
            ["ltm", "cache", "agent", "tool.memory"]
                .iter()
                .any(|it| name.starts_with(it))
                || name.contains("{{")
        };
        let Some(backend) = self.backend.clone() else {
            return;
        };
        if !UNSUPPORTED_BACKENDS.contains(&backend.as_str())
            || nodes.is_some_and(|nodes| names_action(nodes, &is_used))
        {
            return;
        }
        let message = format!("the store backend `{backend}` is not part of this build");
        let mut warning = Problem::warning(codes::NO_EFFECT, message)
            .help("no node uses the store, so the file runs without it");
        warning.place = self.place.clone();
        problems.push(warning);
        *self = Self::default();
    }
}

/// Reports a program that reads its prompt from a file, and has no argument for the path.
fn check_shell_providers(values: Values<'_>, problems: &mut Vec<Problem>) {
    for (_, program) in values.tables("shell_providers") {
        let arguments = program.texts("args").unwrap_or_default();
        if program.text("stdin_mode") == Some("file")
            && !arguments.iter().any(|it| it.contains("{input_file}"))
        {
            let message = "`stdin_mode: file`, and no argument holds the path";
            let help = "put `{input_file}` where the program takes the path of its input";
            let problem = Problem::new(codes::BAD_VALUE, message).at(&program.place("stdin_mode"));
            problems.push(problem.help(help));
        }
    }
}

fn memory(values: Values<'_>, problems: &mut Vec<Problem>) -> MemorySettings {
    let ltm = values.node("ltm").and_then(|node| {
        let table = if is_unsupported_backend(node.get("backend")) {
            &LTM_OF_OTHERS
        } else {
            &LTM
        };
        node.as_map().and_then(|_| table.read(node, problems))
    });
    let mut memory = MemorySettings::default();
    if let Some(ltm) = ltm {
        memory.backend = ltm.string("backend");
        memory.staleness = ltm.duration("staleness").unwrap_or_default();
        memory.durable = ltm.boolean("durable").unwrap_or_default();
        memory.local = ltm.boolean("local").unwrap_or_default();
        memory.digest_key_file = ltm.string("digest_key_file");
        memory.place = memory.backend.as_ref().map(|_| ltm.place("backend"));
    }
    let of_ltm = ltm.into_iter().flat_map(|ltm| {
        ["path", "ltm_path", "url", "ltm_url", "ltm_blob_uri"].map(|key| (ltm, key))
    });
    for (section, key) in of_ltm.chain([(values, "ltm_path")]) {
        let Some(path) = section.string(key) else {
            continue;
        };
        let place = section.place(key);
        match memory.path {
            Some(_) => problems.push(duplicate_key(key, &place)),
            None => memory.path = Some(path),
        }
        memory.place = memory.place.or(Some(place));
    }
    let token = ltm.and_then(|ltm| ltm.string("ltm_auth_token"));
    if let (Some(url), Some(token)) = (&mut memory.path, token) {
        let separator = if url.contains('?') { '&' } else { '?' };
        *url = format!("{url}{separator}authToken={token}");
    }
    memory
}

fn duplicate_key(key: &str, place: &SourceSpan) -> Problem {
    let message = format!("`{key}` names a second place of the store");
    Problem::new(codes::BAD_VALUE, message)
    .at(place)
    .help("keep one of `ltm.path`, `ltm.ltm_path`, `ltm_path`, `ltm.url`, `ltm.ltm_url` and `ltm.ltm_blob_uri`")
}

fn cache(values: Values<'_>, problems: &mut Vec<Problem>) -> CacheSettings {
    for (key, milliseconds) in [
        ("patience", "patience_ms"),
        ("store_timeout", "store_timeout_ms"),
    ] {
        if let (Some(_), Some(entry)) = (values.node(key), values.entry(milliseconds)) {
            let message = format!("`{milliseconds}` and `{key}` are the same setting");
            let problem = Problem::new("two-spellings", message).at(&entry.key_place);
            problems.push(problem.help(format!("take `{milliseconds}` out")));
        }
    }
    let duration = |key, milliseconds| {
        let in_milliseconds = values.integer(milliseconds).map(Duration::from_millis);
        values.duration(key).or(in_milliseconds)
    };
    CacheSettings {
        max_bytes: values.integer("max_bytes"),
        max_entries: values.integer("max_entries"),
        front_bytes: values.integer("front_bytes"),
        patience: duration("patience", "patience_ms"),
        store_timeout: duration("store_timeout", "store_timeout_ms"),
    }
}

/// Reads `settings` of a file that contains only agents. Its keys are `ledger`, and `http` for
/// actions that are tools.
pub fn read_team_settings(node: &Node, problems: &mut Vec<Problem>) -> LedgerLimits {
    let values = TEAM_SETTINGS.read(node, problems);
    values.map(ledger).unwrap_or_default()
}

fn ledger(settings: Values<'_>) -> LedgerLimits {
    let default = LedgerLimits::default();
    let Some(values) = settings.table("ledger") else {
        return default;
    };
    LedgerLimits {
        age: values.duration("max_age").or(default.age),
        bytes: values.integer("max_bytes").unwrap_or(default.bytes),
        unpaid: values.integer("max_hits").unwrap_or(default.unpaid),
    }
}

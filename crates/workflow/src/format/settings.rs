//! `settings` of an agent file.

use std::time::Duration;

use cachalot_cache::{EngineSettings, LedgerLimits, SharedStoreSettings};
use cachalot_core::config::{
    self, Custom, Named, Parameter, ParameterKind as Kind, Settings as _, Table, Values, key,
    no_effect, unsupported,
};
use cachalot_core::text::word_list;
use cachalot_core::tree::{MapEntry, Node};
use cachalot_core::{Problem, Secret, SourceSpan};
use cachalot_model::{AGE, ModelSettings};
use cachalot_storage::AllowedHosts;
use serde_json::{Value, json};

use super::calls::{names_action, text_search};
use super::language::PythonRunner;
use super::llm_settings::{LLM, ShellProvider};
use crate::codes;

/// Settings; `${NAME}` and `${NAME:-default}` stand for environment variables.
#[derive(Debug, Clone, Default, PartialEq, config::Settings)]
#[settings(name = "`settings`", also = OF_OTHERS, check = complete)]
pub struct Settings {
    /// All settings as a plain value, for the run.
    #[setting(skip)]
    pub value: Value,
    /// The agent's name in cache keys, if it is not the file's `name`.
    #[setting(then = LTM_SECTION, then = LTM_PATH)]
    pub name: Option<String>,
    /// `ltm`.
    #[setting(skip)]
    pub memory: MemorySettings,
    /// Limits of the cache.
    #[setting(default)]
    pub cache: CacheSettings,
    /// Retention of individual calls in the ledger.
    #[setting(default)]
    pub ledger: LedgerSettings,
    /// The runner of inline code in Python, and its limits.
    #[setting(default)]
    pub python: PythonSettings,
    /// Limits of inline code in Lua.
    #[setting(default)]
    pub lua: ScriptLimits,
    /// The user's own Python interpreter, and its limit.
    #[setting(default)]
    pub python3: Python3Settings,
    /// Concurrent branches.
    #[setting(default)]
    pub parallel: ParallelSettings,
    /// The default model, and defaults of all models.
    #[setting(kind = Kind::Definition("llm_settings", &LLM), default)]
    pub llm: ModelSettings,
    /// Programs that answer in place of models (`provider: shell`), by name.
    pub shell_providers: Vec<Named<ShellProvider>>,
    /// Web search.
    pub web: Option<WebSettings>,
    /// Requests of actions.
    pub http: Option<HttpSettings>,
    /// LlamaCloud.
    pub llamaextract: Option<LlamaExtractSettings>,
}

/// The store of long-term memory and of the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.ltm`", also = LTM_OF_OTHERS)]
pub struct MemorySettings {
    /// The kind of memory: `sqlite` (default), `postgres`, `redis`, `turso`, `blob-sqlite` (a SQLite database in a
    /// bucket), `firestore`, `duckdb` (in a build with it), or `in-process`, which is gone at the end of the run.
    pub backend: Option<String>,
    /// The file of the memory, relative to the directory in which `cachalot` runs.
    ///
    /// Or what its other names contain, as written.
    #[setting(then = LTM_PATH, then = URL, then = LTM_URL, then = LTM_BLOB_URI, then = AUTH_TOKEN)]
    pub path: Option<String>,
    /// The place of the backend in the file, or else of the path.
    #[setting(skip)]
    pub place: Option<SourceSpan>,
    /// How a store on a server is used.
    #[setting(flatten)]
    pub shared: SharedStoreSettings,
    /// The file of the key under which secrets are digested before they enter a cache key, relative to the directory in
    /// which `cachalot` runs. Machines that share a store share calls with secrets only if they have the same key.
    /// `CACHALOT_DIGEST_KEY_FILE` wins over it.
    pub digest_key_file: Option<String>,
    /// The place of a step that searches long-term memory by text, which not every backend can.
    #[setting(skip)]
    pub text_search: Option<SourceSpan>,
}

/// Limits of the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.cache`", also = MILLISECOND_KEYS, check = complete_cache)]
pub struct CacheSettings {
    /// The limits.
    #[setting(flatten)]
    pub limits: EngineSettings,
}

/// Other spellings of limits.
const MILLISECOND_KEYS: &[Parameter] = &[PATIENCE_MS, STORE_TIMEOUT_MS];

const PATIENCE_MS: Parameter = key("patience_ms", MILLISECONDS, "`patience` in milliseconds.");
const STORE_TIMEOUT_MS: Parameter = key(
    "store_timeout_ms",
    MILLISECONDS,
    "`store_timeout` in milliseconds.",
);

/// [`cachalot_cache::WAITING`] in milliseconds.
const MILLISECONDS: Kind = Kind::IntegerIn(1, 3_600_000);

/// Retention of individual calls in the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.ledger`")]
pub struct LedgerSettings {
    /// How old a call in the ledger may be, such as `90d` or `12h`; any age by default. It needs a unit.
    #[setting(kind = Kind::Duration(AGE))]
    max_age: Option<Duration>,
    /// How many bytes of data the ledger may hold, at least 1,048,576; 256 MiB by default. The oldest calls are deleted
    /// first.
    #[setting(range = MIN_LEDGER_BYTES..)]
    max_bytes: Option<u64>,
    /// How many hits the ledger keeps one by one, and as many calls of each other kind that paid nothing; 1,000 by
    /// default.
    max_hits: Option<u64>,
}

/// The minimum of `max_bytes` of the ledger. Below it, totals alone could leave no room for a payment.
const MIN_LEDGER_BYTES: u64 = 1 << 20;

impl LedgerSettings {
    /// Returns the limits, with the defaults of those that are not set.
    #[must_use]
    pub fn limits(&self) -> LedgerLimits {
        let default = LedgerLimits::default();
        LedgerLimits {
            age: self.max_age.or(default.age),
            bytes: self.max_bytes.unwrap_or(default.bytes),
            unpaid: self.max_hits.unwrap_or(default.unpaid),
        }
    }
}

/// The runner of inline code in Python, and its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.python`")]
pub struct PythonSettings {
    /// The limits of a block.
    #[setting(flatten)]
    pub limits: ScriptLimits,
    /// The runner of Python blocks without `language`: `auto` (default), `python3`, your own Python, or `embedded`.
    pub runner: Option<PythonRunner>,
    /// True if blocks need the network: the run then asks for `--sandbox-network`; false by default.
    pub network: bool,
}

/// Limits of inline code in Lua.
///
/// And those of inline code in Python.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.lua`")]
pub struct ScriptLimits {
    /// How long a block may take; `30s` by default.
    pub time_limit: Option<Duration>,
    /// Bytes that a block may use; 512 MiB by default.
    #[setting(range = 1..)]
    pub memory_limit: Option<u64>,
}

/// The user's own Python interpreter, and its limit.
///
/// Its memory is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.python3`")]
pub struct Python3Settings {
    /// How long a block may take; `30s` by default.
    pub time_limit: Option<Duration>,
    /// The Python that runs blocks of `python3`; `python3` by default.
    pub command: Option<String>,
}

/// Concurrent branches.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.parallel`", also = PARALLEL_OF_OTHERS)]
pub struct ParallelSettings {
    /// How many branches run at a time where a node does not set it; 16 by default.
    #[setting(range = 1..=10_000, then = STRATEGY)]
    pub max_workers: Option<usize>,
}

/// Web search.
///
/// Actions read this section and the next ones from [`Settings::value`].
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.web`")]
pub struct WebSettings {
    /// The SearXNG instance.
    pub search: Option<WebSearchSettings>,
}

/// The SearXNG instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.web.search`")]
pub struct WebSearchSettings {
    /// The SearXNG instance of `web.search`.
    pub base_url: Option<String>,
}

/// Requests of actions.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.http`")]
pub struct HttpSettings {
    /// The only hosts that actions request, redirects included: names (`*.example.com` for those below one),
    /// addresses, networks.
    #[setting(kind = Kind::Custom(&Custom { schema: Some(|| Kind::Texts.schema(false)), check: check_hosts }))]
    pub allowed_hosts: Option<Vec<String>>,
}

/// LlamaCloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, config::Settings)]
#[settings(name = "`settings.llamaextract`")]
pub struct LlamaExtractSettings {
    /// The address of LlamaCloud.
    pub base_url: Option<String>,
    /// Its key.
    pub api_key: Option<Secret<String>>,
}

/// `settings` of a file that contains only agents.
///
/// `http` is for actions that are tools.
#[derive(Debug, Clone, Default, config::Settings)]
#[settings(name = "`settings`")]
pub struct TeamSettings {
    /// Retention of individual calls in the ledger.
    #[setting(default)]
    pub ledger: LedgerSettings,
    /// Limits of the cache.
    #[setting(default)]
    pub cache: EngineSettings,
    /// How a store on a server is used.
    #[setting(default)]
    pub ltm: SharedStoreSettings,
    #[setting(key = "http")]
    _http: Option<HttpSettings>,
}

/// Help text that names the place where this runtime reports a run.
const EVENTS_HELP: &str = "`cachalot run --ndjson` writes the events of a run";

/// Help text for a setting of actions that do not exist here.
const ACTIONS_HELP: &str = "it is for actions that this runtime does not have";

/// Help text for what says how branches run.
const ONE_WAY: &str = "branches run at the same time in one process";

#[rustfmt::skip]
const LTM_SECTION: Parameter = key("ltm", Kind::Deferred(MemorySettings::TABLE), "The store of long-term memory and of the cache.");
#[rustfmt::skip]
const LTM_PATH: Parameter = key("ltm_path", Kind::Text, "The same as `settings.ltm.path`.");
#[rustfmt::skip]
const URL: Parameter = key("url", Kind::Text, "The database of the memory on a server: `postgres://USER@HOST/DATABASE`, `redis://HOST/NUMBER`, `libsql://HOST`, `s3://BUCKET/NAME.db`, or `firestore://PROJECT/COLLECTION`.");
#[rustfmt::skip]
const LTM_URL: Parameter = key("ltm_url", Kind::Text, "The same as `settings.ltm.url`.");
#[rustfmt::skip]
const LTM_BLOB_URI: Parameter = key("ltm_blob_uri", Kind::Text, "The same as `settings.ltm.url`.");
#[rustfmt::skip]
const AUTH_TOKEN: Parameter = key("ltm_auth_token", Kind::Text, "The token for a Turso database; written as `${VARIABLE}`.");

const LTM_OF_OTHERS: &[Parameter] = &[
    no_effect(
        "ltm_collection",
        "write the collection in `url: firestore://PROJECT/COLLECTION`",
    ),
    no_effect("ltm_lock_backend", NO_LOCK),
    no_effect("ltm_lock_ttl", NO_LOCK),
];

const NO_LOCK: &str = "writes to a bucket are conditional, and need no lock";

/// `ltm` with a backend of another runtime, which reads further keys.
static LTM_OF_OTHER_BACKENDS: Table = Table::new(
    "`settings.ltm`",
    "",
    &[MemorySettings::PARAMETERS, LTM_OF_OTHERS],
)
.open();

#[rustfmt::skip]
const STRATEGY: Parameter = key("strategy", Kind::Custom(&Custom { schema: Some(|| json!({ "const": "thread" })), check: check_strategy }), "`thread`, the only strategy.");

const PARALLEL_OF_OTHERS: &[Parameter] = &[
    no_effect("streams", "no data goes from node to node but the state"),
    no_effect("remote", ONE_WAY),
];

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
    Settings::read(node, problems).unwrap_or_default()
}

/// Completes what several keys set.
fn complete(settings: &mut Settings, values: Values<'_>, problems: &mut Vec<Problem>) {
    settings.value = values.mapping().to_value();
    if let Some(llm) = values.table("llm") {
        llm.setting::<Vec<Named<ShellProvider>>>("shell_providers", problems);
    }
    settings.memory = memory(values, problems);
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
                .any(|prefix| name.starts_with(prefix))
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

fn memory(values: Values<'_>, problems: &mut Vec<Problem>) -> MemorySettings {
    let ltm = values.node("ltm").and_then(|node| {
        let table = if is_unsupported_backend(node.get("backend")) {
            &LTM_OF_OTHER_BACKENDS
        } else {
            MemorySettings::TABLE
        };
        node.as_map().and_then(|_| table.read(node, problems))
    });
    let memory = ltm.and_then(|ltm| MemorySettings::from_values(ltm, problems));
    let mut memory = memory.unwrap_or_default();
    let mut others = vec![(values, LTM_PATH)];
    if let Some(ltm) = ltm {
        let mut named = ["backend", "path"].into_iter();
        memory.place = named
            .find(|key| ltm.text(key).is_some())
            .map(|key| ltm.place(key));
        others.splice(
            0..0,
            [LTM_PATH, URL, LTM_URL, LTM_BLOB_URI].map(|key| (ltm, key)),
        );
    }
    for (section, Parameter { name, .. }) in others {
        let Some(path) = section.string(name) else {
            continue;
        };
        let place = section.place(name);
        match memory.path {
            Some(_) => problems.push(duplicate_key(name, &place)),
            None => memory.path = Some(path),
        }
        memory.place = memory.place.or(Some(place));
    }
    let token = ltm.and_then(|ltm| ltm.string(AUTH_TOKEN.name));
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

fn complete_cache(cache: &mut CacheSettings, values: Values<'_>, problems: &mut Vec<Problem>) {
    for (key, milliseconds, duration) in [
        ("patience", PATIENCE_MS.name, &mut cache.limits.patience),
        (
            "store_timeout",
            STORE_TIMEOUT_MS.name,
            &mut cache.limits.store_timeout,
        ),
    ] {
        if let (Some(_), Some(entry)) = (values.node(key), values.entry(milliseconds)) {
            let message = format!("`{milliseconds}` and `{key}` are the same setting");
            let problem = Problem::new("two-spellings", message).at(&entry.key_place);
            problems.push(problem.help(format!("take `{milliseconds}` out")));
        }
        *duration = duration.or(values.integer(milliseconds).map(Duration::from_millis));
    }
}

/// Reads `settings` of a file that contains only agents.
pub fn read_team_settings(node: &Node, problems: &mut Vec<Problem>) -> TeamSettings {
    TeamSettings::read(node, problems).unwrap_or_default()
}

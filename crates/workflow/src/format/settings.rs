//! Reads `settings` of an agent file; `llm_settings` reads `settings.llm`.

use std::time::Duration;

use cachalot_cache::LedgerLimits;
use cachalot_core::tree::{MapEntry, Node, NodeKind, Section};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::{ModelSettings, age};
use cachalot_storage::AllowedHosts;
use serde_json::Value;

use super::agent::Language;
use super::calls::names_action;
use super::{codes, llm_settings};

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
    /// `ledger`.
    pub ledger: LedgerSettings,
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
    /// `path` or `ltm_path`, as written.
    pub path: Option<String>,
    /// The place of the backend in the file, or else of the path.
    pub place: Option<SourceSpan>,
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
    /// `patience_ms`: the maximum time that a call waits for a slow store before it runs uncached.
    pub patience: Option<Duration>,
    /// `store_timeout_ms`: the timeout for storing a result.
    pub store_timeout: Option<Duration>,
}

/// `settings.ledger`: retention of individual calls in the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerSettings {
    /// `max_age`: the maximum age of a call.
    pub max_age: Option<Duration>,
    /// `max_bytes`: the maximum size of the ledger's data.
    pub max_bytes: Option<u64>,
    /// `max_hits`: the maximum number of hits.
    pub max_hits: Option<u64>,
}

impl LedgerSettings {
    /// The minimum of `max_bytes`. Below it, totals alone could leave no room for a payment.
    pub const LEAST_BYTES: u64 = 1 << 20;

    /// Returns the limits, with defaults for those that the file does not set.
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
    pub runner: Option<Language>,
}

/// Keys of `settings` that other runtimes support and this one does not.
const UNSUPPORTED: &[&str] = &["secrets", "session", "error_handling", "auth"];

/// Help text that names the place where this runtime reports a run.
const TRACED: &str = "`cachalot run --ndjson` writes the events of a run";

/// Help text for a setting of actions that do not exist here.
const OF_ACTIONS: &str = "it is for actions that this runtime does not have";

/// Keys of `settings` that change no result.
const NO_EFFECT: &[(&str, &str)] = &[
    ("opik", TRACED),
    ("opik_llm_tracing", TRACED),
    ("auto_trace", TRACED),
    ("trace_exporter", TRACED),
    ("trace_file", TRACED),
    ("trace_format", TRACED),
    ("auto_trace_llm_payloads", TRACED),
    ("trace_payload_async", TRACED),
    ("trace_payload_compress", TRACED),
    ("trace_retention_days", TRACED),
    ("trace_payload_retention_days", TRACED),
    ("progress", "the progress of a run is written to stderr"),
    ("a2a", OF_ACTIONS),
    (
        "agents",
        "agents stand in the file, beside `nodes`: `agents:`",
    ),
    ("dspy", OF_ACTIONS),
    ("execution", OF_ACTIONS),
    ("interview", OF_ACTIONS),
    ("llamaindex", OF_ACTIONS),
    ("memory", OF_ACTIONS),
    ("textgrad", OF_ACTIONS),
    ("graph", OF_ACTIONS),
    ("memory_infrastructure", OF_ACTIONS),
    ("firestore", OF_ACTIONS),
    ("rate_limiters", OF_ACTIONS),
    (
        "model",
        "the default model of `llm.call` is `settings.llm.model`",
    ),
    (
        "temperature",
        "the default of `llm.call` is `settings.llm.temperature`",
    ),
];

/// Reads the settings. Environment variables have already been expanded.
pub(super) fn read(node: &Node, problems: &mut Vec<Problem>) -> Settings {
    let Some(mut section) = Section::from_node(node, "`settings`", problems) else {
        return Settings::default();
    };
    let mut settings = Settings {
        value: node.to_value(),
        ..Settings::default()
    };
    settings.name = section.text("name", problems).map(str::to_owned);
    settings.memory = memory(&mut section, problems);
    settings.cache = cache(&mut section, problems);
    settings.ledger = ledger(&mut section, problems);
    settings.python = script(&mut section, "python", "`settings.python`", problems);
    settings.lua = script(&mut section, "lua", "`settings.lua`", problems);
    settings.python3 = script(&mut section, "python3", "`settings.python3`", problems);
    if let Some(llm) = section.section("llm", "`settings.llm`", problems) {
        settings.llm = llm_settings::read(llm, problems);
    }
    shell_providers(&mut section, problems);
    settings.max_workers = parallel(&mut section, problems);
    if let Some(mut web) = section.section("web", "`settings.web`", problems) {
        if let Some(mut search) = web.section("search", "`settings.web.search`", problems) {
            search.text("base_url", problems);
            search.finish(problems);
        }
        web.finish(problems);
    }
    if let Some(mut http) = section.section("http", "`settings.http`", problems) {
        hosts(&mut http, problems);
        http.finish(problems);
    }
    if let Some(mut extract) = section.section("llamaextract", "`settings.llamaextract`", problems)
    {
        extract.text("base_url", problems);
        extract.text("api_key", problems);
        extract.finish(problems);
    }
    unsupported(
        &mut section,
        UNSUPPORTED,
        codes::UNSUPPORTED_SECTION,
        "`settings`",
        problems,
    );
    without_effect(&mut section, NO_EFFECT, "`settings`", problems);
    section.finish(problems);
    settings
}

/// Claims keys that other runtimes support, and reports each that is present as unsupported.
pub(super) fn unsupported(
    section: &mut Section<'_>,
    keys: &'static [&'static str],
    code: &'static str,
    what: &str,
    problems: &mut Vec<Problem>,
) {
    for key in keys {
        if section.has(key)
            && let Some(entry) = section.entry(key)
        {
            problems.push(
                Problem::new(code, format!("`{key}` in {what} is not supported"))
                    .at(&entry.key_place)
                    .help("take it out: it would have no effect here"),
            );
        }
    }
}

/// Claims keys that change no result, with a warning for each that is present. The reference
/// implementation accepts them too.
pub(super) fn without_effect(
    section: &mut Section<'_>,
    keys: &'static [(&'static str, &'static str)],
    what: &str,
    problems: &mut Vec<Problem>,
) {
    for (key, help) in keys {
        if let Some(entry) = section.entry_if_unclaimed(key) {
            problems.push(no_effect(entry, what, help));
        }
    }
}

/// Creates the warning for a key that changes no result.
pub(crate) fn no_effect(entry: &MapEntry, what: &str, help: &str) -> Problem {
    let message = format!("`{}` in {what} has no effect", entry.key);
    Problem::warning(codes::NO_EFFECT, message)
        .at(&entry.key_place)
        .help(help)
}

/// Reads `http.allowed_hosts`, the only hosts that actions may request.
fn hosts(http: &mut Section<'_>, problems: &mut Vec<Problem>) {
    let Some(list) = http.list("allowed_hosts", problems) else {
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

/// Backends of long-term memory that the reference implementation supports and this runtime does not.
pub const BACKENDS_OF_OTHERS: [&str; 11] = [
    "redis",
    "postgres",
    "duckdb",
    "ducklake",
    "turso",
    "d1",
    "blob-sqlite",
    "firestore",
    "litestream",
    "sqlalchemy",
    "hierarchical",
];

fn is_of_others(backend: Option<&Node>) -> bool {
    let name = backend.and_then(Node::as_text);
    name.is_some_and(|name| BACKENDS_OF_OTHERS.contains(&name))
}

impl MemorySettings {
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
        if !BACKENDS_OF_OTHERS.contains(&backend.as_str())
            || nodes.is_some_and(|nodes| names_action(nodes, &is_used))
        {
            return;
        }
        let message = format!("the memory backend `{backend}` is not part of this build");
        let mut warning = Problem::warning(codes::NO_EFFECT, message)
            .help("no node uses the memory, so the file runs without it");
        warning.place = self.place.clone();
        problems.push(warning);
        *self = Self::default();
    }
}

/// Reads `shell_providers`: programs that answer prompts (`provider: shell`).
pub(super) fn shell_providers(section: &mut Section<'_>, problems: &mut Vec<Problem>) {
    for entry in section.map("shell_providers", problems).unwrap_or_default() {
        let Some(mut program) = Section::from_node(&entry.value, "a shell provider", problems)
        else {
            continue;
        };
        program.text("command", problems);
        let arguments = program.texts("args", problems).unwrap_or_default();
        let mode = program.text("stdin_mode", problems);
        let refuse = |node: Option<&Node>, message: String, help: &str| {
            node.map(|node| {
                Problem::new(codes::BAD_VALUE, message)
                    .at(&node.place)
                    .help(help)
            })
        };
        problems.extend(match mode {
            None | Some("pipe") => None,
            Some("file") if arguments.iter().any(|it| it.contains("{input_file}")) => None,
            Some("file") => refuse(
                program.node("stdin_mode"),
                "`stdin_mode: file`, and no argument holds the path".to_owned(),
                "put `{input_file}` where the program takes the path of its input",
            ),
            Some(other) => refuse(
                program.node("stdin_mode"),
                format!("there is no `stdin_mode` `{other}`"),
                "write `pipe` or `file`",
            ),
        });
        if let Some(seconds) = program.number("timeout", problems)
            && !(seconds > 0.0 && Duration::try_from_secs_f64(seconds).is_ok())
            && let Some(node) = program.node("timeout")
        {
            problems.push(
                Problem::new(codes::OUT_OF_RANGE, format!("`timeout` is {seconds}"))
                    .at(&node.place)
                    .help("write a positive number of seconds"),
            );
        }
        for variable in program.map("env", problems).unwrap_or_default() {
            if matches!(
                variable.value.kind,
                NodeKind::List(_) | NodeKind::Map(_) | NodeKind::Null
            ) {
                problems.push(variable.value.wrong_type("an environment variable", "text"));
            }
        }
        // Other runtimes print the answer while it streams; here `llm.stream` does.
        program.boolean("verbose", problems);
        program.finish(problems);
    }
}

fn memory(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> MemorySettings {
    let mut memory = MemorySettings::default();
    if let Some(mut ltm) = section.section("ltm", "`settings.ltm`", problems) {
        if is_of_others(ltm.node("backend")) {
            // The backend's own keys are read by the runtimes that support it.
            let _ = ltm.take_rest();
        }
        for key in ["backend", "path", "ltm_path"] {
            let Some(text) = ltm.text(key, problems) else {
                continue;
            };
            let place = ltm.node(key).map(|node| node.place.clone());
            match key {
                "backend" => memory.backend = Some(text.to_owned()),
                _ if memory.path.is_some() => {
                    problems.extend(place.as_ref().map(|place| twice(key, place)))
                }
                _ => memory.path = Some(text.to_owned()),
            }
            memory.place = memory.place.or(place);
        }
        ltm.finish(problems);
    }
    if let Some(path) = section.text("ltm_path", problems) {
        let place = section.node("ltm_path").map(|node| node.place.clone());
        match memory.path {
            Some(_) => problems.extend(place.as_ref().map(|place| twice("ltm_path", place))),
            None => memory.path = Some(path.to_owned()),
        }
        memory.place = memory.place.or(place);
    }
    memory
}

fn twice(key: &str, place: &SourceSpan) -> Problem {
    Problem::new(
        codes::BAD_VALUE,
        format!("`{key}` names a second path of the memory"),
    )
    .at(place)
    .help("keep one of `ltm.path`, `ltm.ltm_path` and `ltm_path`")
}

fn cache(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> CacheSettings {
    let Some(mut cache) = section.section("cache", "`settings.cache`", problems) else {
        return CacheSettings::default();
    };
    let read = CacheSettings {
        max_bytes: cache.integer("max_bytes", 0..=u64::MAX, problems),
        max_entries: cache.integer("max_entries", 0..=u64::MAX, problems),
        front_bytes: cache.integer("front_bytes", 0..=u64::MAX, problems),
        patience: cache
            .integer("patience_ms", 1..=3_600_000, problems)
            .map(Duration::from_millis),
        store_timeout: cache
            .integer("store_timeout_ms", 1..=3_600_000, problems)
            .map(Duration::from_millis),
    };
    cache.finish(problems);
    read
}

/// Reads `settings` of a file that contains only agents. It has no key but `ledger`.
pub fn read_of_team(node: &Node, problems: &mut Vec<Problem>) -> LedgerSettings {
    let Some(mut section) = Section::from_node(node, "`settings`", problems) else {
        return LedgerSettings::default();
    };
    let read = ledger(&mut section, problems);
    section.finish(problems);
    read
}

fn ledger(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> LedgerSettings {
    let Some(mut ledger) = section.section("ledger", "`settings.ledger`", problems) else {
        return LedgerSettings::default();
    };
    let read = LedgerSettings {
        max_age: age(&mut ledger, "max_age", problems),
        max_bytes: ledger.integer(
            "max_bytes",
            LedgerSettings::LEAST_BYTES..=u64::MAX,
            problems,
        ),
        max_hits: ledger.integer("max_hits", 0..=u64::MAX, problems),
    };
    ledger.finish(problems);
    read
}

fn script(
    section: &mut Section<'_>,
    key: &'static str,
    what: &'static str,
    problems: &mut Vec<Problem>,
) -> ScriptSettings {
    let Some(mut script) = section.section(key, what, problems) else {
        return ScriptSettings::default();
    };
    let seconds = script.number("time_limit", problems);
    let time_limit = seconds.and_then(|seconds| {
        let limit = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|limit| !limit.is_zero());
        if limit.is_none()
            && let Some(node) = script.node("time_limit")
        {
            problems.push(
                Problem::new(codes::OUT_OF_RANGE, format!("`time_limit` is {seconds}"))
                    .at(&node.place)
                    .help("write a positive number of seconds"),
            );
        }
        limit
    });
    let mut settings = ScriptSettings {
        time_limit,
        ..ScriptSettings::default()
    };
    // The memory of the user's own interpreter is not limited.
    if key == "python3" {
        settings.command = script.text("command", problems).map(str::to_owned);
    } else {
        settings.memory_limit = script.integer("memory_limit", 1..=u64::MAX, problems);
    }
    if key == "python" {
        settings.runner = runner(&mut script, problems);
    }
    script.finish(problems);
    settings
}

/// `settings.python.runner`.
fn runner(script: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<Language> {
    let name = script.text("runner", problems)?;
    let runner = Language::of_runner(name);
    if runner.is_none()
        && let Some(node) = script.node("runner")
    {
        let [embedded, python3] = Language::RUNNERS;
        problems.push(
            Problem::new(
                codes::BAD_VALUE,
                format!("there is no runner of Python code `{name}`"),
            )
            .at(&node.place)
            .help(format!("write `{embedded}` or `{python3}`")),
        );
    }
    runner
}

fn parallel(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Option<usize> {
    let mut parallel = section.section("parallel", "`settings.parallel`", problems)?;
    let workers = parallel.integer("max_workers", 1..=10_000, problems);
    if let Some(strategy) = parallel.text("strategy", problems)
        && strategy != "thread"
        && let Some(node) = parallel.node("strategy")
    {
        problems.push(
            Problem::warning(
                codes::NO_EFFECT,
                format!("there is no parallel strategy `{strategy}`"),
            )
            .at(&node.place)
            .help("branches run at the same time in one process"),
        );
    }
    let keys = &[
        ("streams", "no data goes from node to node but the state"),
        ("remote", "branches run at the same time in one process"),
    ];
    without_effect(&mut parallel, keys, "`settings.parallel`", problems);
    parallel.finish(problems);
    workers.and_then(|workers| usize::try_from(workers).ok())
}

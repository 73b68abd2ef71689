//! Settings of the tool cache: the keys `cacheToolResults…` of a `tools` section.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::duration::Range;
use cachalot_core::spec::{Custom, Literal, ParameterKind as Kind, Table, key, words};
use cachalot_core::tree::Node;
use serde_json::json;

/// Settings of the tool cache. Off by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCacheSettings {
    /// `cacheToolResults`: true to cache results. Default false.
    pub enabled: bool,
    /// `cacheToolResultsMaxSize`: maximum number of results per session, at least 1; the least recently used
    /// are evicted first. Default 128.
    pub max_size: u64,
    /// `cacheToolResultsMaxBytes`: maximum total bytes of a session's results. Default 16 MiB.
    pub max_bytes: u64,
    /// `cacheToolResultsScope`: the sharing of results. Default the session.
    pub scope: ToolCacheScope,
    /// `cacheToolResultsDelivery`: the delivery of repeated results. Default in full.
    pub delivery: RepeatDelivery,
    /// `cacheToolResultsTtl`: time to live of the results of these tools, by tool.
    pub ttl: BTreeMap<String, Duration>,
}

/// The calls that share cached results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolCacheScope {
    /// The calls of one session, during its lifetime.
    #[default]
    Session,
    /// All present and later sessions in one workspace.
    Workspace,
    /// All present and later sessions of one user.
    User,
}

/// The delivery of a result that the conversation contains already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RepeatDelivery {
    /// In full.
    #[default]
    Full,
    /// A short note that it is unchanged, if the request still contains the earlier result verbatim.
    Marker,
}

/// Default of [`ToolCacheSettings::max_size`].
const MAX_SIZE: u64 = 128;
/// Default of [`ToolCacheSettings::max_bytes`].
const MAX_BYTES: u64 = 16 << 20;

impl Default for ToolCacheSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            max_size: MAX_SIZE,
            max_bytes: MAX_BYTES,
            scope: ToolCacheScope::Session,
            delivery: RepeatDelivery::Full,
            ttl: BTreeMap::new(),
        }
    }
}

impl ToolCacheSettings {
    /// Reads a `tools` section, in YAML or in JSON. Each key may be written in camel case
    /// (`cacheToolResults`) or with underscores (`cache_tool_results`).
    #[must_use]
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let default = Self::default();
        let Some(values) = TOOL_CACHE.read(node, problems) else {
            return default;
        };
        Self {
            enabled: values.boolean(ENABLED).unwrap_or(default.enabled),
            max_size: values.integer(MAX_SIZE_KEY).unwrap_or(default.max_size),
            max_bytes: values.integer(MAX_BYTES_KEY).unwrap_or(default.max_bytes),
            scope: values.choice(SCOPE, &SCOPES).unwrap_or_default(),
            delivery: values.choice(DELIVERY, &DELIVERIES).unwrap_or_default(),
            ttl: values
                .map(TTL)
                .iter()
                .filter_map(|entry| {
                    Some((entry.key.clone(), Range::POSITIVE.read(&entry.value).ok()?))
                })
                .collect(),
        }
    }
}

const ENABLED: &str = "cacheToolResults";
const MAX_SIZE_KEY: &str = "cacheToolResultsMaxSize";
const MAX_BYTES_KEY: &str = "cacheToolResultsMaxBytes";
const SCOPE: &str = "cacheToolResultsScope";
const DELIVERY: &str = "cacheToolResultsDelivery";
const TTL: &str = "cacheToolResultsTtl";

/// The keys of a `tools` section.
#[rustfmt::skip]
pub static TOOL_CACHE: Table = Table::new(
    "`tools`",
    "The tool result cache.",
    &[&[
        key(ENABLED, Kind::Boolean, "Caches results.").default(Literal::Boolean(false)).with_aliases(&["cache_tool_results"]),
        key(MAX_SIZE_KEY, Kind::IntegerIn(1, u64::MAX), "The maximum number of results per session; the least recently used are evicted.").default(Literal::Integer(MAX_SIZE)).with_aliases(&["cache_tool_results_max_size"]),
        key(MAX_BYTES_KEY, Kind::IntegerIn(1, u64::MAX), "The maximum total size of these results in bytes.").default(Literal::Integer(MAX_BYTES)).with_aliases(&["cache_tool_results_max_bytes"]),
        key(SCOPE, Kind::Word(&SCOPE_WORDS), "The calls that share results: `session`, `workspace` or `user`.").default(Literal::Text("session")).with_aliases(&["cache_tool_results_scope"]),
        key(DELIVERY, Kind::Word(&DELIVERY_WORDS), "The delivery of a repeated result: `full` or `marker`.").default(Literal::Text("full")).with_aliases(&["cache_tool_results_delivery"]),
        key(TTL, Kind::Custom(&LIFETIMES), "How long results of a tool may be served: `{web_fetch: 10m}`.").with_aliases(&["cache_tool_results_ttl"]),
    ]],
);

const SCOPES: [(&str, ToolCacheScope); 3] = [
    ("session", ToolCacheScope::Session),
    ("workspace", ToolCacheScope::Workspace),
    ("user", ToolCacheScope::User),
];
const SCOPE_WORDS: [&str; 3] = words(&SCOPES);
const DELIVERIES: [(&str, RepeatDelivery); 2] = [
    ("full", RepeatDelivery::Full),
    ("marker", RepeatDelivery::Marker),
];
const DELIVERY_WORDS: [&str; 2] = words(&DELIVERIES);

/// Lifetimes by tool.
static LIFETIMES: Custom = Custom {
    schema: Some(|| json!({ "type": "object", "additionalProperties": Range::POSITIVE.schema() })),
    check: |section, problems| {
        Kind::Object.check(section, problems);
        for entry in section.value.as_map().unwrap_or_default() {
            let name = format!("`{}` in `{}`", entry.key, section.key);
            problems.extend(Range::POSITIVE.problem(&name, &entry.value));
        }
    },
};

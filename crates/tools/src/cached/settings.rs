//! Settings of the tool cache: the keys `cacheToolResults…` of a `tools` section.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::config::{Custom, ParameterKind as Kind, Settings};
use cachalot_core::duration::Range;
use cachalot_core::tree::{MapEntry, Node};
use serde_json::json;

/// The tool result cache.
///
/// Off by default. Each key may be written in camel case (`cacheToolResults`) or with underscores
/// (`cache_tool_results`).
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`tools`")]
pub struct ToolCacheSettings {
    /// Caches results.
    #[setting(
        key = "cacheToolResults",
        alias = "cache_tool_results",
        default = false
    )]
    pub enabled: bool,
    /// The maximum number of results per session; the least recently used are evicted.
    #[setting(
        key = "cacheToolResultsMaxSize",
        alias = "cache_tool_results_max_size",
        range = 1..,
        default = MAX_SIZE
    )]
    pub max_size: u64,
    /// The maximum total size of these results in bytes.
    #[setting(
        key = "cacheToolResultsMaxBytes",
        alias = "cache_tool_results_max_bytes",
        range = 1..,
        default = MAX_BYTES
    )]
    pub max_bytes: u64,
    /// The calls that share results: `session`, `workspace` or `user`.
    #[setting(
        key = "cacheToolResultsScope",
        alias = "cache_tool_results_scope",
        default = "session"
    )]
    pub scope: ToolCacheScope,
    /// The delivery of a repeated result: `full` or `marker`.
    #[setting(
        key = "cacheToolResultsDelivery",
        alias = "cache_tool_results_delivery",
        default = "full"
    )]
    pub delivery: RepeatDelivery,
    /// The beginning of results that are failures, and not kept, although their tool does not say so.
    #[setting(
        key = "cacheToolResultsErrorPrefix",
        alias = "cache_tool_results_error_prefix"
    )]
    pub error_prefix: Option<String>,
    /// How long results of a tool may be served: `{web_fetch: 10m}`.
    #[setting(
        key = "cacheToolResultsTtl",
        alias = "cache_tool_results_ttl",
        kind = Kind::Custom(&LIFETIMES),
        with = lifetimes
    )]
    pub ttl: BTreeMap<String, Duration>,
}

/// The calls that share cached results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
pub enum RepeatDelivery {
    /// In full.
    #[default]
    Full,
    /// A short note that it is unchanged, if the request still contains the earlier result verbatim.
    Marker,
}

/// Default of [`ToolCacheSettings::max_size`].
const MAX_SIZE: u64 = 128;
/// Default of [`ToolCacheSettings::max_bytes`]: 16 MiB.
const MAX_BYTES: u64 = 16 << 20;

impl Default for ToolCacheSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            max_size: MAX_SIZE,
            max_bytes: MAX_BYTES,
            scope: ToolCacheScope::Session,
            delivery: RepeatDelivery::Full,
            error_prefix: None,
            ttl: BTreeMap::new(),
        }
    }
}

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

fn lifetimes(node: &Node) -> Option<BTreeMap<String, Duration>> {
    let lifetime =
        |entry: &MapEntry| Some((entry.key.clone(), Range::POSITIVE.read(&entry.value).ok()?));
    Some(node.as_map()?.iter().filter_map(lifetime).collect())
}

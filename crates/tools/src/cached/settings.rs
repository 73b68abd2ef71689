//! Settings of the tool cache: the keys `cacheToolResults…` of a `tools` section.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::tree::{MapEntry, Node, Section};

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
    /// Claims its keys of a `tools` section, in YAML or in JSON. Each key may be written in camel case
    /// (`cacheToolResults`) or with underscores (`cache_tool_results`). The section may have other keys: the
    /// caller finishes it, so that unknown ones are reported.
    #[must_use]
    pub fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Self {
        let default = Self::default();
        let mut keys = Keys { section, problems };
        Self {
            enabled: keys.boolean(ENABLED).unwrap_or(default.enabled),
            max_size: keys.at_least_one(MAX_SIZE_KEY).unwrap_or(default.max_size),
            max_bytes: keys
                .at_least_one(MAX_BYTES_KEY)
                .unwrap_or(default.max_bytes),
            scope: keys
                .one_of(SCOPE, &SCOPES, "`session`, `workspace` or `user`")
                .unwrap_or(default.scope),
            delivery: keys
                .one_of(DELIVERY, &DELIVERIES, "`full` or `marker`")
                .unwrap_or(default.delivery),
            ttl: keys.lifetimes(TTL),
        }
    }
}

/// The two spellings of a key.
type Spellings = [&'static str; 2];

const ENABLED: Spellings = ["cacheToolResults", "cache_tool_results"];
const MAX_SIZE_KEY: Spellings = ["cacheToolResultsMaxSize", "cache_tool_results_max_size"];
const MAX_BYTES_KEY: Spellings = ["cacheToolResultsMaxBytes", "cache_tool_results_max_bytes"];
const SCOPE: Spellings = ["cacheToolResultsScope", "cache_tool_results_scope"];
const DELIVERY: Spellings = ["cacheToolResultsDelivery", "cache_tool_results_delivery"];
const TTL: Spellings = ["cacheToolResultsTtl", "cache_tool_results_ttl"];

const SCOPES: [(&str, ToolCacheScope); 3] = [
    ("session", ToolCacheScope::Session),
    ("workspace", ToolCacheScope::Workspace),
    ("user", ToolCacheScope::User),
];
const DELIVERIES: [(&str, RepeatDelivery); 2] = [
    ("full", RepeatDelivery::Full),
    ("marker", RepeatDelivery::Marker),
];

struct Keys<'a, 'b> {
    section: &'a mut Section<'b>,
    problems: &'a mut Vec<Problem>,
}

impl<'b> Keys<'_, 'b> {
    /// Returns the spelling that the section uses. Reports a problem if both are present.
    fn spelling(&mut self, [capitals, underscores]: Spellings) -> &'static str {
        if !self.section.has(underscores) {
            return capitals;
        }
        if self.section.has(capitals)
            && let Some(again) = self.section.entry(underscores)
        {
            self.problems.push(
                Problem::new(
                    "two-spellings",
                    format!("`{underscores}` and `{capitals}` are the same key"),
                )
                .at(&again.key_place)
                .help("leave one of them out"),
            );
            return capitals;
        }
        underscores
    }

    fn boolean(&mut self, key: Spellings) -> Option<bool> {
        let key = self.spelling(key);
        self.section.boolean(key, self.problems)
    }

    fn at_least_one(&mut self, key: Spellings) -> Option<u64> {
        let key = self.spelling(key);
        self.section.integer(key, 1..=u64::MAX, self.problems)
    }

    fn one_of<T: Copy>(
        &mut self,
        key: Spellings,
        words: &[(&str, T)],
        expected: &str,
    ) -> Option<T> {
        let key = self.spelling(key);
        let node = self.section.present(key)?;
        let known = node
            .as_text()
            .and_then(|text| words.iter().find(|(word, _)| *word == text));
        if known.is_none() {
            self.problems
                .push(node.wrong_type(&format!("`{key}`"), expected));
        }
        known.map(|(_, meaning)| *meaning)
    }

    fn lifetimes(&mut self, key: Spellings) -> BTreeMap<String, Duration> {
        let key = self.spelling(key);
        let entries: &'b [MapEntry] = self.section.map(key, self.problems).unwrap_or(&[]);
        let mut lifetimes = BTreeMap::new();
        for entry in entries {
            match lifetime(&entry.value) {
                Some(lifetime) => {
                    lifetimes.insert(entry.key.clone(), lifetime);
                }
                None => self.problems.push(entry.value.wrong_type(
                    &format!("`{}` in `{key}`", entry.key),
                    "a time like `30s`, `10m`, `12h` or `7d`",
                )),
            }
        }
        lifetimes
    }
}

/// Parses a time: an integer with a unit, or in seconds; greater than zero.
fn lifetime(node: &Node) -> Option<Duration> {
    let seconds = match (node.as_u64(), node.as_text()) {
        (Some(seconds), _) => seconds,
        (None, Some(text)) => {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let number: u64 = digits.parse().ok()?;
            let unit = match text.get(digits.len()..)? {
                "s" => 1,
                "m" => 60,
                "h" => 3_600,
                "d" => 86_400,
                _ => return None,
            };
            number.checked_mul(unit)?
        }
        (None, None) => return None,
    };
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

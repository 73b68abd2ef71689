//! `keys` of a configuration file.

use cachalot_core::config::{Custom, Named, ParameterKind as Kind, Settings};
use cachalot_core::tree::Node;
use cachalot_core::{Digest, Problem, SourceSpan};
use cachalot_model::budget::{DOLLARS, dollars};
use serde_json::json;

use super::UpstreamConfig;

/// A key that a client presents in place of a credential of the provider.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "a key")]
pub(crate) struct KeyConfig {
    /// The SHA-256 digest of the key, in hexadecimal digits, as `cachalot serve --new-key` prints it.
    #[setting(kind = Kind::Custom(&DIGEST), with = digest)]
    pub(crate) digest: Digest,
    /// The upstreams that it may reach. Default: all with a `credential`.
    pub(crate) upstreams: Vec<String>,
    /// The models that it may use; `*` matches any text. Default: all.
    pub(crate) models: Vec<String>,
    /// Scopes that its client may name in `x-cachalot-scope`: keys with the same scope share the answers to such
    /// requests.
    pub(crate) scopes: Vec<String>,
    #[setting(default)]
    pub(crate) budget: BudgetConfig,
    /// The maximum number of requests in a minute, in each gateway process.
    #[setting(range = 1..=1_000_000)]
    pub(crate) requests_per_minute: Option<u32>,
    /// The maximum number of tokens paid for in a minute, input and output, as far as answers report them, in each
    /// gateway process.
    #[setting(range = 1..=1_000_000_000)]
    pub(crate) tokens_per_minute: Option<u32>,
    #[setting(place)]
    place: SourceSpan,
}

/// The money that the key may spend, in all gateways with the same store.
// In picodollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
#[settings(name = "`budget`")]
pub(crate) struct BudgetConfig {
    /// The maximum in US dollars for each day (UTC).
    #[setting(kind = Kind::Custom(&DOLLARS), with = dollars)]
    pub(crate) day: Option<u64>,
    /// The maximum in US dollars for each month (UTC).
    #[setting(kind = Kind::Custom(&DOLLARS), with = dollars)]
    pub(crate) month: Option<u64>,
    /// The answer to requests while the store does not answer, which counts them: `refuse` (status 503), or `allow`, and
    /// the process counts for itself until it does. Default: `refuse`.
    pub(crate) when_unavailable: Option<WhenUnavailable>,
}

/// The answer to requests of a key with a budget while the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub(crate) enum WhenUnavailable {
    Refuse,
    Allow,
}

/// Maximum length of the name of a key.
const MAX_NAME: usize = 64;

static DIGEST: Custom = Custom {
    schema: Some(|| json!({ "type": "string" })),
    check: |entry, problems| {
        Kind::Text.check(entry, problems);
        if entry.value.as_text().is_some() && digest(&entry.value).is_none() {
            let message = "`digest` is no SHA-256 digest: expected 64 hexadecimal digits";
            let problem = Problem::new("bad-value", message).at(&entry.value.place);
            problems.push(problem.help("`cachalot serve --new-key` prints a key and its digest"));
        }
    },
};

fn digest(node: &Node) -> Option<Digest> {
    node.as_text()?.parse().ok()
}

impl BudgetConfig {
    /// Returns true if no limit is set.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.day.is_none() && self.month.is_none()
    }

    /// Returns true if requests are answered while the store does not answer.
    pub(crate) fn is_fail_open(&self) -> bool {
        self.when_unavailable == Some(WhenUnavailable::Allow)
    }
}

/// Checks the names of keys, which are part of names in the store, in statistics and in reports.
pub(super) fn check_names(keys: &[Named<KeyConfig>], problems: &mut Vec<Problem>) {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    for Named { name, value } in keys {
        if name.len() > MAX_NAME || name.is_empty() || !name.chars().all(is_plain) {
            let message = format!(
                "the name `{name}` of a key is not of 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`"
            );
            problems.push(Problem::new("bad-value", message).at(&value.place));
        }
    }
}

/// Checks that the upstreams of keys exist and have credentials, and that no two keys are the same.
pub(super) fn check_upstreams(
    keys: &[Named<KeyConfig>],
    upstreams: &[Named<UpstreamConfig>],
    problems: &mut Vec<Problem>,
) {
    for (at, key) in keys.iter().enumerate() {
        let place = &key.value.place;
        let is_same = |other: &&Named<KeyConfig>| other.value.digest == key.value.digest;
        if let Some(same) = keys[..at].iter().find(is_same) {
            let message = format!(
                "the keys `{}` and `{}` have the same digest",
                same.name, key.name
            );
            problems.push(Problem::new("bad-value", message).at(place));
        }
        for name in &key.value.upstreams {
            let found = upstreams.iter().find(|upstream| upstream.name == *name);
            let message = match found {
                None => format!(
                    "the key `{}` names the upstream `{name}`, which does not exist",
                    key.name
                ),
                Some(found) if found.value.credential.is_none() => format!(
                    "the key `{}` names the upstream `{name}`, which has no `credential`",
                    key.name
                ),
                Some(_) => continue,
            };
            problems.push(Problem::new("unknown-upstream", message).at(place));
        }
    }
}

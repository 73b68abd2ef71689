//! `keys` of a configuration file.

use cachalot_core::spec::{ParameterKind as Kind, Table, Values, key, required, section};
use cachalot_core::{Digest, Problem, SourceSpan};
use cachalot_model::budget::{DOLLARS, dollars};

use super::UpstreamConfig;

/// A key that the gateway gives to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyConfig {
    pub(crate) name: String,
    /// SHA-256 of the key.
    pub(crate) digest: Digest,
    /// Upstreams that it may reach; empty: all with a credential of the operator.
    pub(crate) upstreams: Vec<String>,
    /// Patterns of models that it may use; empty: all.
    pub(crate) models: Vec<String>,
    /// Scopes in which its client may share answers with clients of other keys.
    pub(crate) scopes: Vec<String>,
    pub(crate) budget: BudgetConfig,
    pub(crate) requests_per_minute: Option<u32>,
    pub(crate) tokens_per_minute: Option<u32>,
    place: SourceSpan,
}

/// The money that a key may spend, in picodollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BudgetConfig {
    pub(crate) day: Option<u64>,
    pub(crate) month: Option<u64>,
}

/// Maximum length of the name of a key.
const MAX_NAME: usize = 64;

#[rustfmt::skip]
pub(super) static KEY: Table = Table::new(
    "a key",
    "A key that a client presents in place of a credential of the provider.",
    &[&[
        required("digest", Kind::Text, "The SHA-256 digest of the key, in hexadecimal digits, as `cachalot serve --new-key` prints it."),
        key("upstreams", Kind::Texts, "The upstreams that it may reach. Default: all with a `credential`."),
        key("models", Kind::Texts, "The models that it may use; `*` matches any text. Default: all."),
        key("scopes", Kind::Texts, "Scopes that its client may name in `x-cachalot-scope`: keys with the same scope share the answers to such requests."),
        section("budget", &BUDGET),
        key("requests_per_minute", Kind::IntegerIn(1, 1_000_000), "The maximum number of requests in a minute, in each gateway process."),
        key("tokens_per_minute", Kind::IntegerIn(1, 1_000_000_000), "The maximum number of tokens paid for in a minute, input and output, as far as answers report them, in each gateway process."),
    ]],
);

#[rustfmt::skip]
static BUDGET: Table = Table::new(
    "`budget`",
    "The money that the key may spend, in all gateways with the same store.",
    &[&[
        key("day", Kind::Custom(&DOLLARS), "The maximum in US dollars for each day (UTC)."),
        key("month", Kind::Custom(&DOLLARS), "The maximum in US dollars for each month (UTC)."),
    ]],
);

impl BudgetConfig {
    /// Returns true if no limit is set.
    pub(crate) fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

impl KeyConfig {
    pub(super) fn read(
        name: &str,
        values: Values<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        // Part of names in the store, in statistics and in reports.
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
        if name.len() > MAX_NAME || name.is_empty() || !name.chars().all(is_plain) {
            let message = format!(
                "the name `{name}` of a key is not of 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`"
            );
            problems.push(Problem::new("bad-value", message).at(&values.mapping().head()));
            return None;
        }
        let text = values.text("digest")?;
        let Ok(digest) = text.parse() else {
            let message = format!(
                "`digest` of the key `{name}` is no SHA-256 digest: expected 64 hexadecimal digits"
            );
            let problem = Problem::new("bad-value", message).at(&values.place("digest"));
            problems.push(problem.help("`cachalot serve --new-key` prints a key and its digest"));
            return None;
        };
        let money = |table: Option<Values<'_>>, key| dollars(table?.node(key)?);
        let budget = values.table("budget");
        Some(Self {
            name: name.to_owned(),
            digest,
            upstreams: values.texts("upstreams").unwrap_or_default(),
            models: values.texts("models").unwrap_or_default(),
            scopes: values.texts("scopes").unwrap_or_default(),
            budget: BudgetConfig {
                day: money(budget, "day"),
                month: money(budget, "month"),
            },
            requests_per_minute: values.integer("requests_per_minute"),
            tokens_per_minute: values.integer("tokens_per_minute"),
            place: values.mapping().head(),
        })
    }
}

/// Checks that the upstreams of keys exist and have credentials, and that no two keys are the same.
pub(super) fn check_upstreams(
    keys: &[KeyConfig],
    upstreams: &[UpstreamConfig],
    problems: &mut Vec<Problem>,
) {
    for (at, key) in keys.iter().enumerate() {
        if let Some(same) = keys[..at].iter().find(|it| it.digest == key.digest) {
            let message = format!(
                "the keys `{}` and `{}` have the same digest",
                same.name, key.name
            );
            problems.push(Problem::new("bad-value", message).at(&key.place));
        }
        for name in &key.upstreams {
            let found = upstreams.iter().find(|it| it.upstream.name() == name);
            let message = match found {
                None => format!(
                    "the key `{}` names the upstream `{name}`, which does not exist",
                    key.name
                ),
                Some(found) if found.credential.is_none() => format!(
                    "the key `{}` names the upstream `{name}`, which has no `credential`",
                    key.name
                ),
                Some(_) => continue,
            };
            problems.push(Problem::new("unknown-upstream", message).at(&key.place));
        }
    }
}

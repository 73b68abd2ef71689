//! Provider rules that a diagnosis needs.

use std::sync::LazyLock;
use std::time::Duration;

use cachalot_accounting as accounting;
use cachalot_model::marker_rules::MarkerStyle;
use cachalot_model::wire::for_format;
use cachalot_model::{Catalog, CatalogEntry, Format, MarkerRules, Model, Price};
use serde_json::Value;

use super::snippet::member;
use crate::request::Request;

/// The rules of a provider for one model, as far as a diagnosis needs them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Rules {
    /// Number of blocks that the provider looks back from each marker, including the marked one; `None` for a
    /// provider that caches without markers.
    pub lookback: Option<u32>,
    /// True if consecutive tool calls count as one block, and consecutive tool results, too.
    pub runs_count_once: bool,
    /// The shortest prefix that the provider caches, in tokens.
    pub minimum: Option<u64>,
    /// The price of tokens.
    pub price: Option<Price>,
    /// The name of the model, on which some prices depend; empty if it is not known.
    pub model: String,
    /// Granularity of the reported cache reads in tokens: counts are rounded down to multiples of it.
    pub granularity: u64,
    /// The lifetime of a prefix that is not read, where requests set no markers with a lifetime of their own;
    /// `None` if the provider does not publish it.
    pub lifetime: Option<Duration>,
    /// True if `lifetime` is assumed, or only the usual one: the provider may keep a prefix for longer.
    pub is_lifetime_assumed: bool,
    /// True if nothing is cached without an explicit breakpoint (`prompt_cache_options.mode`).
    pub explicit_only: bool,
    /// True if the provider drops the thinking of earlier turns when the user writes.
    pub drops_thinking: bool,
    /// True if requests with and without images have separate caches of messages.
    pub images_apart: bool,
}

/// Published rules of prompt caches.
static PUBLISHED: LazyLock<accounting::Rules> = LazyLock::new(accounting::Rules::published);

/// Maximum lifetime of an unread prefix that is assumed for providers that publish none.
const MAX_ASSUMED_LIFETIME: Duration = Duration::from_secs(600);

impl Rules {
    /// Creates the rules from a provider's marking and the catalog entry of a model, if there is one.
    #[must_use]
    pub fn new(marker_rules: &MarkerRules, listed: Option<&CatalogEntry>) -> Self {
        let at_markers = marker_rules.style == MarkerStyle::CacheControl;
        let minimum = listed.and_then(|listed| listed.limits.minimum_cacheable);
        Self {
            lookback: at_markers.then_some(marker_rules.lookback),
            runs_count_once: marker_rules.runs_count_once,
            minimum: minimum.or((marker_rules.minimum > 0).then_some(marker_rules.minimum)),
            price: listed.and_then(|listed| listed.price.clone()),
            granularity: if at_markers { 0 } else { 128 },
            lifetime: (!at_markers).then_some(MAX_ASSUMED_LIFETIME),
            is_lifetime_assumed: !at_markers,
            ..Self::default()
        }
    }

    /// Adds the rules that providers publish for a model, beyond its markers.
    fn published(mut self, format: Format, name: &str) -> Self {
        name.clone_into(&mut self.model);
        let at_markers = self.lookback.is_some();
        if !at_markers && PUBLISHED.openai.contains_model(name) {
            let model = PUBLISHED.openai.model(name);
            self.granularity = match model.caching {
                accounting::Caching::Automatic { interval } => interval,
                accounting::Caching::Exact => 0,
            };
            self.lifetime = lifetime_by_name(&model.lifetime);
            self.is_lifetime_assumed = PUBLISHED.openai.fixed_lifetime(name).is_none();
        }
        let is_own = for_format(format).request_rules().provider == "anthropic";
        if at_markers && is_own && name.contains("claude") {
            self.drops_thinking = !PUBLISHED.anthropic.model(name).keeps_thinking;
            self.images_apart = true;
        }
        self
    }

    /// Applies the other members of a request: they may request another retention, and explicit breakpoints
    /// only.
    #[must_use]
    pub fn with_request_options(mut self, tail: &[u8]) -> Self {
        let options = member(tail, "prompt_cache_options").unwrap_or_default();
        let retention = member(tail, "prompt_cache_retention");
        let retention = retention.as_ref().or(options.get("ttl"));
        if let Some(name) = retention.and_then(Value::as_str)
            && self.lookback.is_none()
        {
            self.lifetime = lifetime_by_name(name);
        }
        self.explicit_only = options.get("mode").and_then(Value::as_str) == Some("explicit");
        self
    }

    /// Returns the rules for a configured model.
    #[must_use]
    pub fn for_model(model: &Model) -> Self {
        let listed = CatalogEntry {
            price: model.price().cloned(),
            limits: *model.limits(),
            ..CatalogEntry::default()
        };
        Self::new(model.marker_rules(), Some(&listed))
            .published(model.wire().format(), model.name())
    }

    /// Returns the rules for a request of which only the body is known.
    #[must_use]
    pub fn of_request(request: &Request, catalog: &Catalog) -> Self {
        let marker_rules = MarkerRules::find(request.provider(), &request.model, request.format);
        let listed = catalog.find_by_name(&request.model);
        Self::new(marker_rules, listed)
            .published(request.format, &request.model)
            .with_request_options(&request.tail)
    }
}

/// Returns the lifetime of a prefix that is not read, for a model of OpenAI; `None` if it is not published.
pub(crate) fn openai_lifetime(model: &str) -> Option<Duration> {
    if PUBLISHED.openai.contains_model(model) {
        lifetime_by_name(&PUBLISHED.openai.model(model).lifetime)
    } else {
        Some(MAX_ASSUMED_LIFETIME)
    }
}

fn lifetime_by_name(name: &str) -> Option<Duration> {
    let idle = PUBLISHED.openai.lifetime(name).idle;
    u64::try_from(idle).ok().map(Duration::from_millis)
}

//! What a diagnosis has to know of a provider.

use std::sync::LazyLock;
use std::time::Duration;

use cachalot_accounting as accounting;
use cachalot_model::marking::Style;
use cachalot_model::{Catalog, Format, Listed, Marking, Model, Price};
use serde_json::Value;

use super::snippet::member;
use crate::request::Request;

/// A provider's rules for one model, as far as a diagnosis needs them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Rules {
    /// How many blocks the provider looks back from each marker, the marked one included, if it
    /// caches at markers only; `None` where it caches by itself.
    pub lookback: Option<u32>,
    /// Whether consecutive calls of tools are one block of those, and consecutive results.
    pub runs_count_once: bool,
    /// The shortest prefix that it caches, in tokens.
    pub minimum: Option<u64>,
    /// What tokens cost.
    pub price: Option<Price>,
    /// How exactly the provider reports what it read, in tokens: it rounds down to multiples of this.
    pub granularity: u64,
    /// How long the provider keeps a prefix that nobody reads, where requests set no markers with a
    /// lifetime of their own; `None` if it does not publish that.
    pub lifetime: Option<Duration>,
    /// Whether nothing is cached without an explicit breakpoint (`prompt_cache_options.mode`).
    pub explicit_only: bool,
    /// Whether the provider drops the thinking of earlier turns when the user writes.
    pub drops_thinking: bool,
    /// Whether messages are cached apart for requests with and without pictures.
    pub images_apart: bool,
}

/// The published rules of prompt caches.
static PUBLISHED: LazyLock<accounting::Rules> = LazyLock::new(accounting::Rules::published);

/// What providers that publish nothing keep at most that nobody reads.
const LONGEST_UNMARKED: Duration = Duration::from_secs(600);

impl Rules {
    /// Of a provider that takes markers so, for a model of which this is known.
    #[must_use]
    pub fn new(marking: &Marking, listed: Option<&Listed>) -> Self {
        let at_markers = marking.style == Style::CacheControl;
        let minimum = listed.and_then(|listed| listed.limits.minimum_cacheable);
        Self {
            lookback: at_markers.then_some(marking.lookback),
            runs_count_once: marking.runs_count_once,
            minimum: minimum.or((marking.minimum > 0).then_some(marking.minimum)),
            price: listed.and_then(|listed| listed.price.clone()),
            granularity: if at_markers { 0 } else { 128 },
            lifetime: (!at_markers).then_some(LONGEST_UNMARKED),
            ..Self::default()
        }
    }

    /// The same with what the providers publish of a model beside its markers.
    fn published(mut self, format: Format, name: &str) -> Self {
        let at_markers = self.lookback.is_some();
        if !at_markers && PUBLISHED.openai.knows(name) {
            let model = PUBLISHED.openai.model(name);
            self.granularity = match model.caching {
                accounting::Caching::Automatic { interval } => interval,
                accounting::Caching::Exact => 0,
            };
            self.lifetime = lifetime_called(&model.lifetime);
        }
        if at_markers && format == Format::Messages && name.contains("claude") {
            self.drops_thinking = !PUBLISHED.anthropic.model(name).keeps_thinking;
            self.images_apart = true;
        }
        self
    }

    /// The same for a request with these further members: it may ask for another retention, and for
    /// explicit breakpoints only.
    #[must_use]
    pub fn asked_by(mut self, tail: &[u8]) -> Self {
        let options = member(tail, "prompt_cache_options").unwrap_or_default();
        let retention = member(tail, "prompt_cache_retention");
        let retention = retention.as_ref().or(options.get("ttl"));
        if let Some(name) = retention.and_then(Value::as_str)
            && self.lookback.is_none()
        {
            self.lifetime = lifetime_called(name);
        }
        self.explicit_only = options.get("mode").and_then(Value::as_str) == Some("explicit");
        self
    }

    /// Of a model of ours.
    #[must_use]
    pub fn for_model(model: &Model) -> Self {
        let listed = Listed {
            price: model.price().cloned(),
            limits: *model.limits(),
            ..Listed::default()
        };
        Self::new(model.marking(), Some(&listed)).published(model.wire().format(), model.name())
    }

    /// Of a request of which nothing is known but its body.
    #[must_use]
    pub fn of_request(request: &Request, catalog: &Catalog) -> Self {
        let marking = Marking::find(request.provider(), &request.model, request.format);
        let listed = catalog.find_by_name(&request.model);
        Self::new(marking, listed)
            .published(request.format, &request.model)
            .asked_by(&request.tail)
    }
}

fn lifetime_called(name: &str) -> Option<Duration> {
    let idle = PUBLISHED.openai.lifetime(name).idle;
    u64::try_from(idle).ok().map(Duration::from_millis)
}

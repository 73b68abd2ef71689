//! What a diagnosis has to know of a provider.

use cachalot_model::marking::Style;
use cachalot_model::{Catalog, Listed, Marking, Model, Price};

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
}

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
        }
    }

    /// Of a model of ours.
    #[must_use]
    pub fn for_model(model: &Model) -> Self {
        let listed = Listed {
            price: model.price().cloned(),
            limits: *model.limits(),
            ..Listed::default()
        };
        Self::new(model.marking(), Some(&listed))
    }

    /// Of a request of which nothing is known but its body.
    #[must_use]
    pub fn of_request(request: &Request, catalog: &Catalog) -> Self {
        let marking = Marking::find(request.provider(), &request.model, request.format);
        Self::new(marking, catalog.find_by_name(&request.model))
    }
}

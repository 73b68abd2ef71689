//! Members of requests and answers that change a price, beside the tokens.

use cachalot_accounting::Terms;
use serde_json::{Map, Value};

use crate::Usage;

/// Tokens that one model of an answer used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsage {
    /// The model, if it is not the one that was asked.
    pub model: Option<String>,
    /// The tokens.
    pub usage: Usage,
}

/// Returns the terms that a request asks for, in any format. `members` are those of its body.
#[must_use]
pub fn requested_terms(members: &Map<String, Value>) -> Terms {
    let tier = members
        .get("service_tier")
        .or_else(|| members.get("serviceTier"));
    let is_set = |value: &&Value| !value.is_null() && **value != Value::Bool(false);
    let searches = members.get("web_search_options").filter(is_set);
    Terms {
        tier: tier.and_then(named),
        geography: text(members.get("inference_geo")),
        speed: text(members.get("speed")),
        // The answer does not say how often the model has searched.
        unknown: searches.map(|_| "web search".to_owned()),
        ..Terms::default()
    }
}

/// Returns the name of a tier: a text, or the `type` of an object (Bedrock).
pub(crate) fn named(tier: &Value) -> Option<String> {
    text(Some(tier)).or_else(|| text(tier.get("type")))
}

/// Returns a text that is not empty.
pub(crate) fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns true if a value has a positive number anywhere.
pub(crate) fn has_count(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number > 0.0),
        Value::Array(items) => items.iter().any(has_count),
        Value::Object(members) => members.values().any(has_count),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_name_their_terms_in_the_words_of_each_format() {
        let read = |body: Value| requested_terms(body.as_object().unwrap_or(&Map::new()));
        let terms = read(json!({"service_tier": "flex", "inference_geo": "us", "speed": "fast"}));
        assert_eq!(terms.tier.as_deref(), Some("flex"));
        assert_eq!(terms.geography.as_deref(), Some("us"));
        assert_eq!(terms.speed.as_deref(), Some("fast"));
        for body in [
            json!({"serviceTier": "priority"}),
            json!({"serviceTier": {"type": "priority"}}),
        ] {
            assert_eq!(read(body).tier.as_deref(), Some("priority"));
        }
        for body in [
            json!({}),
            json!({"service_tier": null, "speed": 1, "inference_geo": "", "web_search_options": null}),
        ] {
            assert_eq!(read(body), Terms::default());
        }
        let searches = read(json!({"web_search_options": {}}));
        assert_eq!(searches.unknown.as_deref(), Some("web search"));
    }

    #[test]
    fn counts_are_found_at_any_depth() {
        assert!(has_count(&json!({"a": [{"b": 1}]})));
        assert!(!has_count(&json!({"a": [{"b": 0}], "c": null, "d": "5"})));
    }
}

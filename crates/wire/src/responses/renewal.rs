//! Requests of Responses that renew a prefix: with `prompt_cache_options.prewarm`, nothing is generated, where the model
//! has breakpoints (`openai` 7.18.0); otherwise a few tokens are.

use serde_json::{Map, Value, json};

use crate::renewal_changes::{RENEWAL_OUTPUT, RenewalChanges};
use crate::{Format, MarkerRules, MarkerStyle};

/// Returns the changes for a request to a model with these members.
pub(super) fn changes(
    model: &str,
    request: &Map<String, Value>,
) -> Result<RenewalChanges, &'static str> {
    let rules = MarkerRules::find("openai", model, Format::Responses);
    let generates = if rules.style == MarkerStyle::Breakpoints {
        let options = request
            .get("prompt_cache_options")
            .and_then(Value::as_object);
        let mut options = options.cloned().unwrap_or_default();
        options.insert("prewarm".to_owned(), true.into());
        ("prompt_cache_options", options.into())
    } else {
        ("max_output_tokens", json!(RENEWAL_OUTPUT))
    };
    Ok(RenewalChanges {
        removed: &[
            "background",
            "background_options",
            "generate",
            "stream",
            "stream_options",
        ],
        set: vec![generates, ("store", false.into())],
    })
}

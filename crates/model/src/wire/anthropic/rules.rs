//! Thinking, effort and sampling parameters, by the model's capabilities.

use serde_json::{Value, json};

use crate::RequestedReasoning;
use crate::catalog::{Capabilities, Thinking};
use crate::cloud::Cloud;
use crate::wire::openai;

/// The effort that switches thinking off.
const NO_EFFORT: &str = "none";

/// The smallest budget that the API accepts.
const MIN_THINKING_BUDGET: u64 = 1_024;

/// The parameters that a model accepts. Unknown capabilities count as accepted.
#[derive(Debug, Clone, Copy)]
pub(in crate::wire) struct ParameterRules {
    /// `None` if unknown; then a budget is sent as a budget, and an effort as adaptive thinking.
    thinking: Option<Thinking>,
    efforts: bool,
    pub(in crate::wire) sampling: bool,
    /// The cloud platform that serves the model. On a cloud platform, the address contains the model, and
    /// the body contains a version.
    cloud: Option<Cloud>,
}

impl ParameterRules {
    /// The rules of an unknown model.
    pub(in crate::wire) const UNKNOWN: Self = Self {
        thinking: None,
        efforts: true,
        sampling: true,
        cloud: None,
    };

    /// Returns the rules of a model with these capabilities, on a cloud platform or at Anthropic.
    pub(in crate::wire) fn new(cloud: Option<Cloud>, capabilities: &Capabilities) -> Self {
        let efforts = capabilities.efforts.as_ref();
        Self {
            thinking: capabilities.thinking,
            efforts: efforts.is_none_or(|efforts| !efforts.is_empty()),
            sampling: capabilities.sampling != Some(false),
            cloud,
        }
    }

    /// The value of `anthropic_version`; `None` for Anthropic's own API, where it is a header.
    pub(super) const fn version(self) -> Option<&'static str> {
        match self.cloud {
            None => None,
            Some(Cloud::Bedrock) => Some("bedrock-2023-05-31"),
            Some(Cloud::Vertex) => Some("vertex-2023-10-16"),
        }
    }

    /// Returns whether the body asks for a stream. On Bedrock, only the address does.
    pub(super) fn names_stream(self) -> bool {
        self.cloud != Some(Cloud::Bedrock)
    }

    /// The value of `thinking`; `None` leaves it out.
    pub(in crate::wire) fn thinking(
        self,
        wish: &RequestedReasoning,
        max_tokens: u64,
    ) -> Option<Value> {
        let off = || json!({"type": "disabled"});
        let adaptive = || json!({"type": "adaptive"});
        let enabled = |budget: u64| json!({"type": "enabled", "budget_tokens": budget});
        let is_off = matches!(wish, RequestedReasoning::Budget(0)) || is_none(wish);
        match (self.thinking, wish) {
            (Some(Thinking::None | Thinking::AlwaysOn), _) => None,
            _ if is_off => Some(off()),
            (
                None | Some(Thinking::Legacy | Thinking::AdaptiveOrLegacy),
                RequestedReasoning::Budget(budget),
            ) => Some(enabled(*budget)),
            (None | Some(Thinking::AdaptiveOrLegacy), RequestedReasoning::Effort(_)) => {
                Some(adaptive())
            }
            (Some(Thinking::Legacy), RequestedReasoning::Effort(effort)) => {
                // The answer needs a part of `max_tokens`, and the budget has to be smaller.
                let budget = openai::budget(effort).min(max_tokens / 4 * 3);
                (budget >= MIN_THINKING_BUDGET).then(|| enabled(budget))
            }
            // These models omit the text of their thinking by default.
            (Some(Thinking::Adaptive), _) => {
                Some(json!({"type": "adaptive", "display": "summarized"}))
            }
        }
    }

    /// The value of `output_config.effort`; `None` leaves it out.
    pub(in crate::wire) fn effort(self, wish: &RequestedReasoning) -> Option<&str> {
        match wish {
            _ if !self.efforts || is_none(wish) => None,
            RequestedReasoning::Effort(effort) => Some(effort),
            // For a model that does not accept the budget.
            RequestedReasoning::Budget(budget) => match self.thinking {
                Some(Thinking::Adaptive | Thinking::AlwaysOn) if *budget > 0 => {
                    Some(openai::effort(*budget))
                }
                _ => None,
            },
        }
    }
}

fn is_none(wish: &RequestedReasoning) -> bool {
    matches!(wish, RequestedReasoning::Effort(effort) if effort == NO_EFFORT)
}

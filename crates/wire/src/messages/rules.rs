//! Thinking, effort and sampling parameters, by the model's capabilities.

use serde_json::{Value, json};

use crate::RequestedReasoning;
use crate::openai;
use crate::{Capabilities, Thinking};

/// The effort that switches thinking off.
const NO_EFFORT: &str = "none";

/// The smallest budget that the API accepts.
const MIN_THINKING_BUDGET: u64 = 1_024;

/// The platform that serves a model of Anthropic. On a cloud platform, the address contains the model, and the body
/// contains a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Anthropic's own API.
    Maker,
    /// Amazon Bedrock.
    Bedrock,
    /// Google Vertex AI.
    Vertex,
}

/// The parameters that a model accepts. Unknown capabilities count as accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParameterRules {
    /// `None` if unknown; then a budget is sent as a budget, and an effort as adaptive thinking.
    thinking: Option<Thinking>,
    efforts: bool,
    pub(crate) sampling: bool,
    platform: Platform,
}

impl ParameterRules {
    /// The rules of an unknown model.
    pub(crate) const UNKNOWN: Self = Self {
        thinking: None,
        efforts: true,
        sampling: true,
        platform: Platform::Maker,
    };

    /// Returns the rules of a model with these capabilities, on a cloud platform or at Anthropic.
    pub(crate) fn new(platform: Platform, capabilities: &Capabilities) -> Self {
        let efforts = capabilities.efforts.as_ref();
        Self {
            thinking: capabilities.thinking,
            efforts: efforts.is_none_or(|efforts| !efforts.is_empty()),
            sampling: capabilities.sampling != Some(false),
            platform,
        }
    }

    /// The value of `anthropic_version`; `None` for Anthropic's own API, where it is a header.
    pub(super) const fn version(self) -> Option<&'static str> {
        match self.platform {
            Platform::Maker => None,
            Platform::Bedrock => Some("bedrock-2023-05-31"),
            Platform::Vertex => Some("vertex-2023-10-16"),
        }
    }

    /// Returns whether the body asks for a stream. On Bedrock, only the address does.
    pub(super) fn names_stream(self) -> bool {
        self.platform != Platform::Bedrock
    }

    /// The value of `thinking`; `None` leaves it out.
    pub(crate) fn thinking(self, wish: &RequestedReasoning, max_tokens: u64) -> Option<Value> {
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
    pub(crate) fn effort(self, wish: &RequestedReasoning) -> Option<&str> {
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

//! A provider's own comparison of a request with an earlier one.
//!
//! A request names an earlier answer ([`ComparisonParameter`](cachalot_model::ComparisonParameter)). Its own answer then has
//! `diagnostics` (Anthropic; null if nothing differs) or `prompt_cache_diagnostics` (OpenAI).
//!
//! Both compare requests, independently of cache hits, and report only the first difference. Their token
//! counts are estimates: they are used only where the answer reports no usage.

use serde_json::{Map, Value};

use super::reach::ReadEstimator;
use super::{Diagnosis, LikelyCause, PartialDiagnosis, Reason, without_break};

/// The result of a provider's comparison of a request with an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderVerdict {
    /// The first difference; [`Reason::None`] if there is none.
    pub reason: Reason,
    /// The cause, if the provider names it more precisely than the reason.
    pub cause: Option<LikelyCause>,
    /// Tokens behind the difference, as estimated by the provider.
    pub missed_tokens: u64,
}

impl ProviderVerdict {
    /// Parses the members of an answer to a request that named an earlier answer. Returns `None` if the
    /// answer has no comparison, or one without a result (still running, not found, not available).
    #[must_use]
    pub fn read(answer: &Map<String, Value>) -> Option<Self> {
        let (word, missed) = match answer.get("prompt_cache_diagnostics") {
            Some(found) => match found.get("type")?.as_str()? {
                "cache_hit" => ("none", None),
                "cache_miss" => (
                    found.get("reason")?.as_str()?,
                    found.get("cache_missed_tokens"),
                ),
                _ => return None,
            },
            None => match answer.get("diagnostics")? {
                Value::Null => ("none", None),
                found => {
                    let reason = found.get("cache_miss_reason")?;
                    let missed = reason.get("cache_missed_input_tokens");
                    (reason.get("type")?.as_str()?, missed)
                }
            },
        };
        let parameter = |cause| (Reason::ParametersChanged, Some(cause));
        let (reason, cause) = match word {
            "none" => (Reason::None, None),
            "model_changed" => (Reason::ModelChanged, Some(LikelyCause::ModelSwitched)),
            "tools_changed" => (Reason::ToolsChanged, None),
            "system_changed" => (Reason::SystemChanged, None),
            "messages_changed" | "input_changed" => (Reason::MessagesChanged, None),
            "context_compacted" => (Reason::MessagesChanged, Some(LikelyCause::Compaction)),
            "prompt_cache_key_changed" => parameter(LikelyCause::CacheKeyChanged),
            "service_tier_changed" => parameter(LikelyCause::Routing),
            "reasoning_effort_changed" => parameter(LikelyCause::ReasoningSetting),
            "text_format_changed" | "verbosity_changed" => parameter(LikelyCause::OutputSetting),
            _ => return None,
        };
        Some(Self {
            reason,
            cause,
            missed_tokens: missed.and_then(Value::as_u64).unwrap_or(0),
        })
    }

    /// Corrects a diagnosis that is based on the two requests.
    pub(super) fn applied_to(self, own: Diagnosis, reach: &ReadEstimator<'_>) -> Diagnosis {
        if self.reason == Reason::None {
            // The provider does not see the difference that we see. Tokens may be lost anyway, because cached
            // prefixes expire.
            return match own.at {
                Some(_) => without_break(reach),
                None => own,
            };
        }
        let is_confirmed = own.reason == self.reason;
        if is_confirmed || reach.has_read_enough() {
            return Diagnosis {
                by_provider: is_confirmed,
                ..own
            };
        }
        let found = PartialDiagnosis {
            reason: self.reason,
            at: None,
            cause: self.cause,
            change: None,
        };
        let found = found.with(reach, 0);
        let lost = match found.actual_read {
            Some(_) => found.lost_tokens,
            None => found.lost_tokens.min(self.missed_tokens),
        };
        Diagnosis {
            by_provider: true,
            lost_tokens: lost,
            lost_cost: reach.cost_of(lost),
            ..found
        }
    }
}

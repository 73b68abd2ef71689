//! Sub-agents with another model. The cost is an estimate: another model counts other tokens, and gives other answers.

use cachalot_model::Terms;

use super::lifetime::Provider;
use super::outcome::Outcome;
use super::policy::Family;
use super::pricing::Pricing;
use super::request::AnsweredRequest;

/// Returns the outcome if a sub-agent's request is sent to the newest model of a family; as paid if the conversation is
/// longer than that model's context.
pub(super) fn on_family(
    request: &AnsweredRequest,
    family: Family,
    pricing: &Pricing<'_>,
) -> Outcome {
    let paid = Outcome::paid(request);
    if !request.is_of_sub_agent() || request.provider != Provider::Anthropic {
        return paid;
    }
    let usage = &request.usage;
    let length = usage.total_input().saturating_add(usage.output);
    match pricing.newest(family) {
        Some(newest) if *newest.model != *request.model && length <= newest.context => Outcome {
            // The speed is one of the model that was asked.
            cost: pricing.by_model(
                request,
                &newest.model,
                &Terms {
                    speed: None,
                    ..request.terms.clone()
                },
            ),
            ..paid
        },
        _ => paid,
    }
}

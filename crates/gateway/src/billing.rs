//! The price of an answer.

use std::sync::Arc;

use cachalot_accounting::{Terms, Unpriced};
use cachalot_core::{Clock, Spend};
use cachalot_model::wire::requested_terms;
use cachalot_model::{Catalog, CatalogEntry, Charge};
use serde_json::Value;

use crate::answer::AnswerReport;
use crate::endpoint::Endpoint;
use crate::upstream::Upstream;

/// The reason for a stream of Chat Completions without usage.
const NO_USAGE: &str =
    "the stream has no usage: the client did not ask for it (`stream_options.include_usage`)";

/// Everything but the answer that its price depends on.
#[derive(Clone)]
pub(crate) struct Billing {
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    endpoint: Endpoint,
    upstream: Arc<Upstream>,
    /// The requested model.
    model: String,
    /// The terms that the request asks for, or the account has.
    requested: Terms,
    /// True if a stream was requested without its usage.
    leaves_out_usage: bool,
}

/// The payment for an answer.
#[derive(Debug, Default)]
pub(crate) struct Charged {
    pub(crate) spend: Spend,
    /// Input tokens that the provider read from its prompt cache.
    pub(crate) cache_read_tokens: u64,
    /// The reason why the cost is not known.
    pub(crate) unpriced: Option<String>,
}

impl Billing {
    /// Creates the billing of a request with this body.
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        endpoint: Endpoint,
        upstream: Arc<Upstream>,
        model: String,
        body: &Value,
    ) -> Self {
        let requested = body.as_object().map(requested_terms).unwrap_or_default();
        let account = upstream.account;
        let of_account = Terms {
            tier: account.service_tier.map(str::to_owned),
            geography: account.inference_geo.map(str::to_owned),
            host: Some(upstream.host().to_owned()),
            ..Terms::default()
        };
        // The account decides.
        let requested = Terms {
            tier: requested
                .tier
                .filter(|tier| !["auto", "unspecified"].contains(&tier.as_str())),
            ..requested
        };
        let asks_for_usage = body.pointer("/stream_options/include_usage");
        Self {
            catalog,
            clock,
            endpoint,
            model,
            requested: requested.or(of_account),
            leaves_out_usage: endpoint.selects_form_by("stream_options")
                && body.get("stream") == Some(&Value::Bool(true))
                && asks_for_usage != Some(&Value::Bool(true)),
            upstream,
        }
    }

    /// Returns the charge for an answer. An answer is unpriced if a part of its price is not known.
    pub(crate) fn charge(&self, report: &AnswerReport) -> Charged {
        if self.endpoint.is_free() {
            return Charged::default();
        }
        let terms = report.terms.clone().or(self.requested.clone());
        let charge = Charge::new(&report.usages, &terms, self.clock.now(), |other| {
            let names = match other {
                Some(name) => [Some(name), None],
                None => [Some(self.model.as_str()), report.model.as_deref()],
            };
            let mut names = names.into_iter().flatten().filter(|name| !name.is_empty());
            let listed = names
                .clone()
                .find_map(|name| Some((name, self.find(name)?)));
            match listed {
                Some((name, entry)) => (name, entry.price.as_ref()),
                None => (names.next().unwrap_or_default(), None),
            }
        });
        let unpriced = charge.cost.as_ref().err().map(|unknown| match unknown {
            Unpriced::Usage if self.leaves_out_usage => NO_USAGE.to_owned(),
            unknown => unknown.to_string(),
        });
        Charged {
            spend: Spend {
                input_tokens: charge.usage.total_input(),
                output_tokens: charge.usage.output,
                cost: charge.cost(),
                ..Spend::default()
            },
            cache_read_tokens: charge.usage.cache_read,
            unpriced,
        }
    }

    fn find(&self, model: &str) -> Option<&CatalogEntry> {
        let listed = self.catalog.find(self.upstream.name(), model);
        listed.or_else(|| self.catalog.find_by_name(model))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::{Cost, Millis};
    use http::{HeaderMap, HeaderValue, StatusCode, header};
    use serde_json::json;

    use super::*;
    use crate::answer::AnswerReader;
    use crate::upstream::AccountDefaults;

    #[derive(Debug)]
    struct At(Millis);

    impl Clock for At {
        fn now(&self) -> Millis {
            self.0
        }
    }

    /// 2026-11-28.
    const NOW: Millis = 1_795_824_000_000;

    fn upstream(name: &str, host: &str, account: AccountDefaults) -> Arc<Upstream> {
        let mut upstream = Upstream::new(name, &format!("https://{host}")).unwrap();
        upstream.account = account;
        Arc::new(upstream)
    }

    fn openai() -> Arc<Upstream> {
        upstream("openai", "api.openai.com", AccountDefaults::default())
    }

    fn anthropic() -> Arc<Upstream> {
        upstream("anthropic", "api.anthropic.com", AccountDefaults::default())
    }

    fn payment(
        endpoint: Endpoint,
        upstream: &Arc<Upstream>,
        at: Millis,
        request: &Value,
        answer: &str,
    ) -> Charged {
        let is_streamed = request["stream"] == true;
        let media = if is_streamed {
            "text/event-stream"
        } else {
            "application/json"
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        let mut reader = AnswerReader::new(endpoint, is_streamed, StatusCode::OK, &headers);
        reader.push(answer.as_bytes());
        let model = request["model"].as_str().unwrap_or_default().to_owned();
        let billing = Billing::new(
            Arc::new(Catalog::built_in()),
            Arc::new(At(at)),
            endpoint,
            Arc::clone(upstream),
            model,
            request,
        );
        billing.charge(&reader.finish())
    }

    fn cost(payment: &Charged) -> Cost {
        assert_eq!(payment.unpriced, None);
        payment.spend.cost
    }

    fn dollars(dollars: u64, thousandths: u64) -> Cost {
        Cost::from_picodollars((dollars * 1_000 + thousandths) * 1_000_000_000)
    }

    fn chat(model: &str, tier: Option<&str>) -> String {
        let mut answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100_000, "completion_tokens": 10_000, "total_tokens": 110_000}});
        if let Some(tier) = tier {
            answer["service_tier"] = json!(tier);
        }
        answer.to_string()
    }

    fn message(model: &str, usage: &Value) -> String {
        json!({"id": "m", "type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "hi"}], "usage": usage})
        .to_string()
    }

    #[test]
    fn tier_of_the_answer_comes_before_that_of_the_request_and_of_the_account() {
        let priority = AccountDefaults {
            service_tier: Some("priority"),
            ..AccountDefaults::default()
        };
        let priority = upstream("openai", "api.openai.com", priority);
        // 100,000 tokens at $5, and 10,000 at $30 per million.
        let standard = dollars(0, 800);
        let twofold = dollars(2, 0);
        for (at, requested, answered, expected) in [
            (openai(), json!("priority"), Some("priority"), twofold),
            (openai(), json!(null), Some("priority"), twofold),
            (openai(), json!("priority"), Some("default"), standard),
            (openai(), json!("priority"), None, twofold),
            (openai(), json!("auto"), None, standard),
            (openai(), json!("flex"), None, dollars(0, 400)),
            (Arc::clone(&priority), json!("auto"), None, twofold),
            (Arc::clone(&priority), json!(null), None, twofold),
            (Arc::clone(&priority), json!("default"), None, standard),
        ] {
            let request = json!({"model": "gpt-5.5", "service_tier": requested, "messages": []});
            let paid = payment(
                Endpoint::chat(),
                &at,
                NOW,
                &request,
                &chat("gpt-5.5", answered),
            );
            assert_eq!(cost(&paid), expected, "{requested} {answered:?}");
        }
        let eu = upstream("openai", "eu.api.openai.com", AccountDefaults::default());
        let request = json!({"model": "gpt-5.5", "messages": []});
        let paid = payment(Endpoint::chat(), &eu, NOW, &request, &chat("gpt-5.5", None));
        assert_eq!(cost(&paid), dollars(0, 880));
    }

    #[test]
    fn geography_speed_and_searches_have_their_price() {
        let of = |model: &str, usage: &Value| {
            let request = json!({"model": model, "max_tokens": 20_000, "messages": []});
            let answer = message(model, usage);
            payment(Endpoint::messages(), &anthropic(), NOW, &request, &answer)
        };
        let usage = |member: &str, value: &str| json!({"input_tokens": 100_000, "output_tokens": 10_000, "service_tier": "standard", member: value});
        // 100,000 tokens at $5, and 10,000 at $25 per million.
        let us = of("claude-opus-4-8", &usage("inference_geo", "us"));
        assert_eq!(cost(&us), dollars(0, 825));
        let fast = of("claude-opus-4-8", &usage("speed", "fast"));
        assert_eq!(cost(&fast), dollars(1, 500));
        // 1,000 tokens at $3 and 500 at $15 per million, and five searches at a cent.
        let searched = json!({"input_tokens": 1_000, "output_tokens": 500, "service_tier": "standard",
            "server_tool_use": {"web_search_requests": 5}});
        let searched = of("claude-sonnet-4-5", &searched);
        assert_eq!(cost(&searched), Cost::from_picodollars(60_500_000_000));
        let priority = json!({"input_tokens": 1, "output_tokens": 1, "service_tier": "priority"});
        let priority = of("claude-opus-4-8", &priority);
        assert_eq!(priority.spend.cost, Cost::UNPRICED);
        assert_eq!(
            priority.unpriced.unwrap(),
            "the price of the tier `priority` is not known"
        );
    }

    #[test]
    fn summaries_and_other_models_are_paid_for() {
        let usage = json!({"input_tokens": 1_000, "output_tokens": 100, "iterations": [
            {"type": "compaction", "input_tokens": 150_000, "output_tokens": 3_000},
            {"type": "message", "input_tokens": 1_000, "output_tokens": 100},
            {"type": "advisor_message", "model": "claude-opus-4-8", "input_tokens": 1_000, "output_tokens": 10},
        ]});
        let request = json!({"model": "claude-sonnet-4-5", "max_tokens": 200, "messages": []});
        let answer = message("claude-sonnet-4-5", &usage);
        let paid = payment(Endpoint::messages(), &anthropic(), NOW, &request, &answer);
        let sonnet = 151_000 * 3_000_000 + 3_100 * 15_000_000;
        let opus = 1_000 * 5_000_000 + 10 * 25_000_000;
        assert_eq!(cost(&paid), Cost::from_picodollars(sonnet + opus));
        assert_eq!(
            (paid.spend.input_tokens, paid.spend.output_tokens),
            (152_000, 3_110)
        );
    }

    #[test]
    fn streams_without_usage_say_who_left_it_out() {
        let chunk = json!({"id": "c", "model": "gpt-5.5", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]});
        let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
        let of = |options: &Value| {
            let request = json!({"model": "gpt-5.5", "stream": true, "stream_options": options, "messages": []});
            payment(Endpoint::chat(), &openai(), NOW, &request, &stream)
        };
        let left_out = of(&json!(null));
        assert_eq!(left_out.spend.cost, Cost::UNPRICED);
        assert_eq!(left_out.unpriced.unwrap(), NO_USAGE);
        let asked = of(&json!({"include_usage": true})).unpriced.unwrap();
        assert_eq!(asked, "the answer has no token counts");
    }

    #[test]
    fn prices_change_at_their_dates() {
        let request = json!({"model": "gemini-4-argon", "contents": []});
        let google = upstream(
            "gemini",
            "generativelanguage.googleapis.com",
            AccountDefaults::default(),
        );
        let answer = json!({"modelVersion": "gemini-4-argon",
            "candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 100_000, "candidatesTokenCount": 10_000}})
        .to_string();
        let paid = |at| cost(&payment(Endpoint::gemini(), &google, at, &request, &answer));
        // 2026-12-01.
        let change = 1_796_083_200_000;
        assert_eq!(paid(NOW), dollars(0, 300));
        assert_eq!(paid(change - 1), dollars(0, 300));
        assert_eq!(paid(change), dollars(0, 600));
    }
}

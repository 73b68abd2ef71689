//! Payments by model, as `cachalot exec` sums them up.

use crate::support::{Setup, chat, messages, streamed, until};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

#[tokio::test]
async fn payments_are_counted_by_upstream_and_model() {
    let setup = Setup::new().await;
    let payments = setup.gateway.payments();
    assert!(payments().is_empty());
    let long = "Answer briefly. ".repeat(600);
    for question in ["a", "b"] {
        let mut body = chat(question);
        body["messages"][0]["content"] = format!("{long}{question}").into();
        setup.ask(CHAT, &body).await;
        // A hit costs nothing.
        setup.ask(CHAT, &body).await;
    }
    setup.ask(MESSAGES, &messages("a")).await;
    setup.ask("/v1/messages/count_tokens", &messages("a")).await;
    let found = payments();
    let of = |upstream: &str, model: &str| found[&(upstream.to_owned(), model.to_owned())].clone();
    assert_eq!(found.len(), 2, "{found:?}");
    let chats = of("openai", "gpt-4o-mini");
    assert_eq!(chats.answers, 2);
    assert!(
        chats.paid.cost.picodollars > 0 && chats.unpriced.is_empty(),
        "{chats:?}"
    );
    // The second request reads what the first one was sent.
    assert!(chats.cache_read_tokens > 1_000, "{chats:?}");
    assert!(
        chats.cache_read_tokens < chats.paid.input_tokens,
        "{chats:?}"
    );
    let messages = of("anthropic", "claude-3-5-haiku-20241022");
    assert_eq!((messages.answers, messages.cache_read_tokens), (1, 0));
    // The function outlives the gateway.
    assert!(setup.gateway.stop().await);
    assert_eq!(payments(), found);
}

#[tokio::test]
async fn payments_of_unknown_cost_have_their_reasons() {
    let script = "rules:\n  - user: cut\n    steps: [{text: a b c d, fault: {cut: {after_events: 2}}}]\n  - user: x\n    steps: [{text: a}]\n";
    let setup = Setup::scripted(script).await;
    let payments = setup.gateway.payments();
    let cut = setup.post(CHAT, &streamed(chat("cut"))).send().await;
    let _ = cut.unwrap().bytes().await;
    setup.ask(CHAT, &streamed(chat("x"))).await;
    until(async || payments().values().any(|paid| paid.answers == 2)).await;
    let found = payments();
    let paid = found.values().next().unwrap();
    assert_eq!(
        (paid.paid.cost.unpriced, paid.unpriced.len()),
        (2, 2),
        "{paid:?}"
    );
    let mut reasons = paid.unpriced.keys();
    assert!(
        reasons.any(|reason| reason == "the end of the answer was not received"),
        "{paid:?}"
    );
    assert_eq!(paid.unpriced.values().sum::<u64>(), 2);
}

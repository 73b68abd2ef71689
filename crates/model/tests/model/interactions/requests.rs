//! Over the wire: addresses, keys and the identity of a model.

use cachalot_model::{Format, Message, ModelSettings, Models, Request};
use serde_json::json;

use crate::client::{Answer, Server, configured, model_dependencies};

#[tokio::test]
async fn all_requests_go_to_one_path() {
    for (base, path) in [
        ("", "/v1beta/interactions"),
        ("/v1beta", "/v1beta/interactions"),
        ("/v1beta/openai", "/v1beta/interactions"),
        ("/v1/", "/v1/interactions"),
        ("/v1/interactions", "/v1/interactions"),
    ] {
        let output = json!({"type": "model_output", "content": [{"type": "text", "text": "Deep"}]});
        let said = json!({"id": "v1_1", "status": "completed", "steps": [output]});
        let ended = json!({"event_type": "interaction.completed", "interaction": said}).to_string();
        let server = Server::start([
            Answer::json(200, &said.to_string()),
            Answer::stream(&[format!("event: interaction.completed\ndata: {ended}\n\n")]),
        ])
        .await;
        let yaml = format!(
            "models: {{m: {{provider: google, model: gemini-3.8-flash, format: interactions, base_url: '{}{base}', token_key: TEST_KEY}}}}",
            server.url()
        );
        let models = Models::new(
            model_dependencies(&[("TEST_KEY", "gemini-0123456789")]),
            configured(&yaml),
        );
        let model = models.find("m").unwrap();
        assert_eq!(model.wire().format(), Format::Interactions);
        let body = |stream| {
            let request = Request {
                messages: vec![Message::user("How deep?")],
                parameters: model.parameters().clone(),
                ..Request::default()
            };
            request.body(model.wire(), stream).unwrap()
        };
        let reply = model.ask(body(false)).await.unwrap();
        assert_eq!(reply.message.text(), "Deep");
        let mut deltas = 0;
        let reply = model
            .stream(body(true), &mut |_| deltas += 1)
            .await
            .unwrap();
        assert_eq!((reply.message.text().as_str(), deltas), ("Deep", 1));
        for asked in server.asked() {
            assert_eq!(asked.line, format!("POST {path} HTTP/1.1"));
            assert_eq!(asked.header("x-goog-api-key"), Some("gemini-0123456789"));
            assert_eq!(asked.header("authorization"), None);
        }
    }
}

/// The format is part of the identity, which keys contain.
#[test]
fn format_is_chosen_by_name_and_part_of_the_identity() {
    let yaml = "models:
  a: {provider: google, model: gemini-3.8-flash, format: gemini}
  b: {provider: google, model: gemini-3.8-flash, format: interactions}
  c: {provider: google, model: gemini-3.8-flash}
";
    let environment = model_dependencies(&[("GEMINI_API_KEY", "gemini-0123456789")]);
    let models = Models::new(environment, configured(yaml));
    for (name, format) in [("a", "gemini"), ("b", "interactions"), ("c", "chat")] {
        let model = models.find(name).unwrap();
        assert_eq!(model.identity()["format"], format);
        // The provider's own address gets the provider's own key.
        model.ready().unwrap();
    }
}

/// A provider that answers in the background would be asked, and paid, again and again.
#[test]
fn state_at_the_provider_is_never_asked_for() {
    let yaml = "models: {m: {provider: google, model: gemini-3.8-flash, format: interactions, provider_opts: {store: true, background: true, previous_interaction_id: v1_1, service_tier: flex}}}";
    let environment = model_dependencies(&[("GEMINI_API_KEY", "gemini-0123456789")]);
    let models = Models::new(environment, configured(yaml));
    let model = models.find("m").unwrap();
    let request = Request {
        messages: vec![Message::user("x")],
        parameters: model.parameters().clone(),
        ..Request::default()
    };
    let body = super::checked(&request.body(model.wire(), false).unwrap());
    let names: Vec<&str> = body
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(names, ["input", "model", "store", "service_tier"]);
    assert_eq!(body["store"], false);
    let unsent = models.unsent(Some("m"), &ModelSettings::default());
    let mut unsent: Vec<&str> = unsent.iter().map(|field| field.name).collect();
    unsent.sort_unstable();
    assert_eq!(unsent, ["background", "previous_interaction_id", "store"]);
}

//! Over the wire: addresses and keys.

use cachalot_model::{Format, Message, Models, Request};
use serde_json::json;

use crate::client::{Answer, Server, configured, model_dependencies};

fn said() -> String {
    json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Deep"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1},
    })
    .to_string()
}

#[tokio::test]
async fn path_contains_model_and_method() {
    for (base, path) in [
        ("", "/v1beta/models/gemini-2.5-flash"),
        ("/v1beta", "/v1beta/models/gemini-2.5-flash"),
        ("/v1beta/openai", "/v1beta/models/gemini-2.5-flash"),
        ("/v1/", "/v1/models/gemini-2.5-flash"),
    ] {
        let server = Server::start([
            Answer::json(200, &said()),
            Answer::stream(&[format!("data: {}\r\n\r\n", said())]),
        ])
        .await;
        let yaml = format!(
            "models: {{m: {{provider: google, model: gemini-2.5-flash, format: gemini, base_url: '{}{base}', token_key: TEST_KEY}}}}",
            server.url()
        );
        let models = Models::new(
            model_dependencies(&[("TEST_KEY", "gemini-0123456789")]),
            configured(&yaml),
        );
        let model = models.find("m").unwrap();
        assert_eq!(model.wire().format(), Format::Gemini);
        let request = Request {
            messages: vec![Message::user("How deep?")],
            parameters: model.parameters().clone(),
            ..Request::default()
        };
        let body = request.body(model.wire(), true).unwrap();
        assert_eq!(
            model.ask(body.clone()).await.unwrap().message.text(),
            "Deep"
        );
        let mut deltas = 0;
        let reply = model.stream(body, &mut |_| deltas += 1).await.unwrap();
        assert_eq!((reply.message.text().as_str(), deltas), ("Deep", 1));
        let asked = server.asked();
        assert_eq!(
            asked[0].line,
            format!("POST {path}:generateContent HTTP/1.1")
        );
        assert_eq!(
            asked[1].line,
            format!("POST {path}:streamGenerateContent?alt=sse HTTP/1.1")
        );
        for asked in asked {
            assert_eq!(asked.header("x-goog-api-key"), Some("gemini-0123456789"));
            assert_eq!(asked.header("authorization"), None);
        }
    }
}

/// Files that name no format go on as they are, so that their stored answers are found.
#[test]
fn google_uses_chat_unless_a_format_is_set() {
    let environment = model_dependencies(&[("GEMINI_API_KEY", "gemini-0123456789")]);
    let models = Models::new(environment, configured("models: {}"));
    let chat = models.find("gemini-2.5-flash").unwrap();
    assert_eq!(chat.wire().format(), Format::Chat);
    assert_eq!(
        chat.base_url(),
        "https://generativelanguage.googleapis.com/v1beta/openai"
    );
    assert_eq!(chat.identity()["format"], "chat");
    let yaml = "models:
  a: {provider: google, model: gemini-2.5-flash, format: gemini}
  b: {provider: google, model: gemini-2.5-flash, format: gemini, base_url: 'https://generativelanguage.googleapis.com/v1beta'}
";
    let environment = model_dependencies(&[("GEMINI_API_KEY", "gemini-0123456789")]);
    let models = Models::new(environment, configured(yaml));
    for name in ["a", "b"] {
        let model = models.find(name).unwrap();
        assert_eq!(model.identity()["format"], "gemini");
        // The provider's own address gets the provider's own key.
        model.ready().unwrap();
    }
}

//! Error messages, and the secrets that they do not contain.

use cachalot_model::{ErrorKind, Models};

use super::{
    Answer, KEY, Server, ask, configured, model, model_dependencies, model_with, refusal, says,
};

#[tokio::test]
async fn error_names_provider_reason_and_request_id() {
    let body = r#"{"error":{"message":"This model does not support tools.","type":"invalid_request_error","code":"unsupported"}}"#;
    let server = Server::start([Answer::of(400, &[("x-request-id", "req_42")], body)]).await;
    let error = ask(&model(&server)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "openai: This model does not support tools (status 400, unsupported, request req_42)"
    );
    for (header, id) in [
        ("request-id", "r1"),
        ("cf-ray", "r2"),
        ("apim-request-id", "r3"),
    ] {
        let server = Server::start([Answer::of(400, &[(header, id)], "{}")]).await;
        let error = ask(&model(&server)).await.unwrap_err();
        assert_eq!(error.request_id.as_deref(), Some(id));
        assert!(error.message.contains("gave no reason"), "{error}");
    }
    let body = r#"{"type":"error","error":{"type":"api_error","message":"Internal"},"request_id":"req_body"}"#;
    let server = Server::start([Answer::json(500, body)]).await;
    let error = ask(&model_with(&server, "retries: 0").0).await.unwrap_err();
    assert_eq!(error.request_id.as_deref(), Some("req_body"));
}

#[tokio::test]
async fn too_long_conversation_is_recognized() {
    for (status, message, code) in [
        (
            400,
            "This model's maximum context length is 128000 tokens.",
            "context_length_exceeded",
        ),
        (
            400,
            "prompt is too long: 205000 tokens > 200000 maximum",
            "invalid_request_error",
        ),
        (413, "Request exceeds the maximum size", "request_too_large"),
        (400, "the request exceeds the available context size", "x"),
        (
            400,
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            "invalid_request_error",
        ),
        (
            400,
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "invalid_argument",
        ),
        (
            400,
            "Your input exceeds the context window of this model.",
            "x",
        ),
        (500, "input is too long for the context window", "x"),
    ] {
        let server = Server::start([refusal(status, message, code)]).await;
        let error = ask(&model(&server)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLong, "{message}");
        assert!(error.message.contains("shorten the conversation"));
        assert_eq!(server.asked().len(), 1);
    }
    let behind = r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}"}}}"#;
    let server = Server::start([Answer::json(400, behind)]).await;
    let error = ask(&model(&server)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLong);
    let server = Server::start([refusal(
        429,
        "Request too large: limit 30000 tokens per min",
        "rate_limit_exceeded",
    )])
    .await;
    let error = ask(&model(&server)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Limited);
}

#[tokio::test]
async fn an_authentication_error_names_the_key_to_check() {
    let no = refusal(401, "Unauthorized", "invalid_api_key");
    let server = Server::start([no.clone()]).await;
    let error = ask(&model(&server)).await.unwrap_err();
    assert!(
        error
            .message
            .contains("check the key in the environment variable TEST_KEY"),
        "{error}"
    );
    let yaml = format!(
        "models: {{m: {{provider: openai, model: gpt-4o, base_url: '{}'}}}}",
        server.url()
    );
    let models = Models::new(
        model_dependencies(&[("OPENAI_API_KEY", KEY)]),
        configured(&yaml),
    );
    let error = ask(&models.find("m").unwrap()).await.unwrap_err();
    assert!(
        error.message.contains("write `token_key: OPENAI_API_KEY`"),
        "{error}"
    );
    assert!(
        server
            .asked()
            .iter()
            .skip(1)
            .all(|asked| asked.header("authorization").is_none())
    );
    let models = Models::new(model_dependencies(&[]), configured(&yaml));
    let error = ask(&models.find("m").unwrap()).await.unwrap_err();
    assert!(
        error.message.contains("name the environment variable"),
        "{error}"
    );
}

#[tokio::test]
async fn secrets_in_provider_errors_are_masked() {
    let repeated = format!(
        "Bad key {KEY} and header abcdef-header-secret, also Bearer eyJhbGciOiJIUzI1NiJ9xx and sk-proj-abcdefghijklmnopqrstuv"
    );
    let answers = [
        refusal(401, &repeated, KEY),
        Answer::of(502, &[], &repeated),
        Answer::of(502, &[], &format!("<html><title>{repeated}</title>")),
        Answer::json(200, &serde_json::json!({"error": repeated}).to_string()),
        Answer::json(200, &format!("{{\"x\": {KEY} {repeated}")),
        Answer::stream(&[format!(
            "data: {{\"error\":{{\"message\":\"{repeated}\"}}}}\n\n"
        )]),
        Answer::stream(&[format!("data: {repeated}\n\n")]),
    ];
    for answer in answers {
        let server = Server::start([answer.clone()]).await;
        let (model, _) = model_with(
            &server,
            "retries: 0, headers: {x-key: abcdef-header-secret}",
        );
        for error in [
            ask(&model).await.unwrap_err(),
            super::stream(&model).await.0.unwrap_err(),
        ] {
            let text = format!("{error} {error:?}");
            for secret in [
                KEY,
                "abcdef-header-secret",
                "eyJhbGciOiJIUzI1NiJ9xx",
                "sk-proj-abc",
            ] {
                assert!(!text.contains(secret), "{answer:?}: {text}");
            }
            assert!(text.contains("[secret]"), "{text}");
        }
        let shown = format!("{model:?} {:?} {:?}", model.identity(), model.base_url());
        assert!(!shown.contains(KEY) && !shown.contains("abcdef-header-secret"));
    }
}

/// Wherever a long text is cut short, nothing is left of a secret that was there.
#[tokio::test]
async fn truncated_error_text_contains_no_part_of_a_secret() {
    const ODD: &str = "Zq7+very.odd-key/that==looks~like#nothing";
    let cut_at = |length: usize| {
        let text = format!("{} {ODD} and more {}", "x".repeat(length), "y".repeat(700));
        let malformed = format!("{{\"{}{ODD}\"", "x".repeat(length % 190));
        [
            refusal(400, &text, "x"),
            Answer::of(400, &[], &text),
            Answer::json(200, &format!("{malformed} oops")),
            Answer::stream(&[format!("data: {text}\n\n")]),
            Answer::stream(&[format!(
                "data: {{\"error\":{{\"message\":\"{text}\"}}}}\n\n"
            )]),
        ]
    };
    let answers: Vec<Answer> = (100..640).step_by(7).flat_map(cut_at).collect();
    let server = Server::start(answers.clone()).await;
    let yaml = format!(
        "models: {{m: {{provider: openai, model: x, base_url: '{}', token_key: ODD, retries: 0}}}}",
        server.url()
    );
    let models = Models::new(model_dependencies(&[("ODD", ODD)]), configured(&yaml));
    let model = models.find("m").unwrap();
    for answer in &answers {
        let error = ask(&model).await.unwrap_err();
        assert!(!error.message.contains("Zq7+"), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn key_is_not_sent_to_a_redirect_target() {
    let elsewhere = Server::start([says("stolen")]).await;
    for status in [301, 302, 303, 307, 308] {
        let to = format!("{}/v1/chat/completions", elsewhere.url());
        let server = Server::start([Answer::of(status, &[("location", &to)], "")]).await;
        let error = ask(&model(&server)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration, "{error}");
        assert!(error.message.contains("redirects elsewhere"), "{error}");
        assert_eq!((server.asked().len(), elsewhere.asked().len()), (1, 0));
    }
}

#[tokio::test]
async fn an_html_error_page_is_shortened() {
    let page = format!(
        "<!DOCTYPE html><html><head><title>504 Gateway Time-out</title></head><body>{}</body></html>",
        "x".repeat(100_000)
    );
    let server = Server::start([Answer::of(504, &[("content-type", "text/html")], &page)]).await;
    let error = ask(&model_with(&server, "retries: 0").0).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error
            .message
            .starts_with("a web page, `504 Gateway Time-out`"),
        "{error}"
    );
    assert!(error.message.len() < 200);
}

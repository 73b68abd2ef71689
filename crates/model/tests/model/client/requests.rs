//! Requests of the client.

use cachalot_model::{Format, Models, Parameters, Request};

use super::{KEY, Server, ask, body, configured, model, model_dependencies, model_with, says};

#[tokio::test]
async fn request_is_sent_to_the_path_of_its_format_with_the_key() {
    let server = Server::start([says("Two thousand metres.")]).await;
    let model = model(&server);
    let reply = ask(&model).await.unwrap();
    assert_eq!(reply.message.text(), "Two thousand metres.");
    assert_eq!(reply.usage.unwrap().total_input(), 12);
    let asked = server.only();
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(
        asked.header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("accept"), Some("application/json"));
    assert_eq!(asked.json()["model"], "gpt-4o-mini");
    assert_eq!(
        asked.body,
        body(&model, false),
        "what is sent is the bytes that were given"
    );
}

#[tokio::test]
async fn messages_format_has_its_own_headers_and_path() {
    let answer = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5","content":[{"type":"text","text":"Deep."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let server = Server::start([super::Answer::json(200, answer)]).await;
    let environment = [
        ("ANTHROPIC_BASE_URL", server.url()),
        ("ANTHROPIC_API_KEY", KEY),
    ];
    let models = Models::new(model_dependencies(&environment), Default::default());
    let model = models.find("claude-sonnet-5").unwrap();
    assert_eq!(ask(&model).await.unwrap().message.text(), "Deep.");
    let asked = server.only();
    assert_eq!(asked.line, "POST /v1/messages HTTP/1.1");
    assert_eq!(asked.header("x-api-key"), Some(KEY));
    assert_eq!(asked.header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.json()["max_tokens"], 32_000);
    // The version is not part of the identity: it decides about no answer.
    assert_eq!(
        model.identity()["headers"]["anthropic-version"],
        "2023-06-01"
    );
}

/// The newest version is sent where nothing is refused by it, to servers that know it.
#[tokio::test]
async fn anthropic_version_follows_the_request_and_the_server() {
    const OLD: &str = "2023-06-01";
    const NEW: &str = "2026-10-21";
    let answer = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Deep."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    for (provider, settings, expected) in [
        ("anthropic", "", NEW),
        ("anthropic", "temperature: 0.5", OLD),
        ("anthropic", "top_p: 0.5", OLD),
        ("anthropic", "provider_opts: {top_k: 5}", OLD),
        (
            "anthropic",
            "headers: {anthropic-version: '2023-06-01'}",
            OLD,
        ),
        ("anthropic", "headers: {anthropic-version: mine}", "mine"),
        // Another server with this format may not know it.
        ("deepseek", "format: messages", OLD),
    ] {
        let server = Server::start([super::Answer::json(200, answer)]).await;
        let yaml = format!(
            "models:\n  m:\n    provider: {provider}\n    model: claude-sonnet-4-5\n    base_url: {}\n    token_key: TEST_KEY\n    {settings}\n",
            server.url()
        );
        let models = Models::new(model_dependencies(&[("TEST_KEY", KEY)]), configured(&yaml));
        ask(&models.find("m").unwrap()).await.unwrap();
        let asked = server.only();
        assert_eq!(
            asked.header("anthropic-version"),
            Some(expected),
            "{provider} {settings}"
        );
    }
}

/// Summaries by the provider need a value of `anthropic-beta`.
#[tokio::test]
async fn summaries_by_the_provider_are_asked_for_with_their_beta() {
    let answer = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Deep."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    for (settings, part, expected) in [
        ("", 0.9, "compact-2026-01-12"),
        (
            "headers: {anthropic-beta: mine}",
            0.9,
            "mine,compact-2026-01-12",
        ),
        (
            "headers: {anthropic-beta: compact-2026-01-12}",
            0.1,
            "compact-2026-01-12",
        ),
    ] {
        let server = Server::start([super::Answer::json(200, answer)]).await;
        let yaml = format!(
            "models:\n  m:\n    provider: anthropic\n    model: claude-sonnet-4-5\n    base_url: {}\n    token_key: TEST_KEY\n    {settings}\n",
            server.url()
        );
        let models = Models::new(model_dependencies(&[("TEST_KEY", KEY)]), configured(&yaml));
        let plain = models.find("m").unwrap();
        assert!(!plain.is_compacting());
        let model = plain.compacting_above(part).unwrap();
        assert!(model.is_compacting());
        assert_ne!(model.identity(), plain.identity());
        ask(&model).await.unwrap();
        let asked = server.only();
        assert_eq!(asked.header("anthropic-beta"), Some(expected));
        // 200,000 tokens; the API takes 50,000 and more.
        let above = if part > 0.5 { 180_000 } else { 50_000 };
        let trigger = &asked.json()["context_management"]["edits"][0]["trigger"];
        assert_eq!(trigger["value"], above);
    }
}

#[test]
fn only_some_providers_summarize_within_a_request() {
    let yaml = "models:
  responses: {provider: openai, model: gpt-5.6}
  chat: {provider: openai, model: gpt-5.6, format: chat}
  elsewhere: {provider: openai, model: gpt-5.6, format: responses, base_url: 'https://models.example/v1'}
  claude: {provider: anthropic, model: claude-opus-5}
  cloud: {provider: bedrock, model: claude-opus-5}
  own: {provider: openai, model: gpt-5.6, provider_opts: {context_management: [{type: compaction, compact_threshold: 9000}]}}
";
    let models = Models::new(
        model_dependencies(&[("OPENAI_API_KEY", KEY)]),
        configured(yaml),
    );
    let compacting = |name: &str| models.find(name).unwrap().compacting_above(0.5);
    for name in ["chat", "elsewhere", "cloud"] {
        assert!(compacting(name).is_none(), "{name}");
    }
    for name in ["responses", "claude"] {
        assert!(compacting(name).unwrap().is_compacting(), "{name}");
    }
    // What the user has set stays.
    assert!(models.find("own").unwrap().is_compacting());
    let own = compacting("own").unwrap();
    let threshold = &own.parameters().extra["context_management"][0]["compact_threshold"];
    assert_eq!(threshold, 9_000);
    // A session that continues in Chat Completions has no such parameter.
    let chat = compacting("responses").unwrap().continuing(Format::Chat);
    assert!(!chat.is_compacting());
}

#[tokio::test]
async fn headers_and_queries_are_sent_as_configured() {
    let server = Server::start([says("x")]).await;
    let yaml = format!(
        "models:
  m:
    provider: azure
    model: my-deployment
    base_url: '{}/openai/deployments/my-deployment?api-version=2024-10-21'
    token_key: TEST_KEY
    headers: {{X-Team: whales, OpenAI-Organization: org-1}}
    temperature: 0.5
    provider_opts: {{seed: 7}}
",
        server.url()
    );
    let models = Models::new(model_dependencies(&[("TEST_KEY", KEY)]), configured(&yaml));
    ask(&models.find("m").unwrap()).await.unwrap();
    let asked = server.only();
    assert_eq!(
        asked.line,
        "POST /openai/deployments/my-deployment/chat/completions?api-version=2024-10-21 HTTP/1.1"
    );
    assert_eq!(asked.header("api-key"), Some(KEY));
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.header("x-team"), Some("whales"));
    assert_eq!(asked.header("openai-organization"), Some("org-1"));
    assert_eq!(
        (&asked.json()["temperature"], &asked.json()["seed"]),
        (&0.5.into(), &7.into())
    );
}

#[tokio::test]
async fn authorization_header_replaces_the_key() {
    let server = Server::start([says("x")]).await;
    let yaml = format!(
        "models: {{m: {{provider: openai, model: gpt-4o, base_url: '{}', headers: {{Authorization: Token abcdefghij}}}}}}",
        server.url()
    );
    let models = Models::new(
        model_dependencies(&[("OPENAI_API_KEY", KEY)]),
        configured(&yaml),
    );
    ask(&models.find("m").unwrap()).await.unwrap();
    assert_eq!(
        server.only().header("authorization"),
        Some("Token abcdefghij")
    );
}

#[tokio::test]
async fn unsendable_key_is_reported_before_the_request() {
    let server = Server::start([says("x")]).await;
    let yaml = format!(
        "models: {{m: {{provider: openai, model: gpt-4o, base_url: '{}', token_key: ODD}}}}",
        server.url()
    );
    let models = Models::new(
        model_dependencies(&[("ODD", "abc\u{7f}def")]),
        configured(&yaml),
    );
    let error = ask(&models.find("m").unwrap()).await.unwrap_err();
    assert!(
        error.message.contains("ODD") && !error.message.contains("def"),
        "{error}"
    );
    let models = Models::new(model_dependencies(&[]), configured(&yaml));
    let error = ask(&models.find("m").unwrap()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "openai: no key: the environment variable ODD is not set; set it, or name another one with `token_key`"
    );
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn connections_are_reused() {
    let server = Server::start([says("x")]).await;
    let (model, _) = model_with(&server, "");
    for _ in 0..3 {
        ask(&model).await.unwrap();
    }
    assert_eq!((server.asked().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn parameters_of_a_call_replace_the_configured_ones() {
    let server = Server::start([says("x")]).await;
    let model = model(&server).with_parameters(Parameters {
        model: "another".into(),
        temperature: Some(0.25),
        ..Parameters::default()
    });
    assert_eq!(model.identity()["parameters"]["temperature"], 0.25);
    let request = Request {
        system: Some("Be brief.".into()),
        parameters: model.parameters().clone(),
        ..Request::default()
    };
    let body = request.body(model.wire(), false).unwrap();
    model.ask(body).await.unwrap();
    let asked = server.only().json();
    assert_eq!(
        (&asked["model"], &asked["temperature"]),
        (&"gpt-4o-mini".into(), &0.25.into())
    );
    assert_eq!(asked["messages"][0]["content"], "Be brief.");
}

/// Proxies come from the environment that is passed in; `NO_PROXY` names what goes without.
#[tokio::test]
async fn requests_use_the_proxy_of_the_environment() {
    let proxy = Server::start([says("through the proxy")]).await;
    let server = Server::start([says("directly")]).await;
    for (no_proxy, said) in [("", "through the proxy"), ("127.0.0.1", "directly")] {
        let mut model_dependencies = model_dependencies(&[("TEST_KEY", KEY)]);
        model_dependencies.http.environment = super::environment(&[
            ("HTTP_PROXY", proxy.url()),
            ("HTTPS_PROXY", proxy.url()),
            ("NO_PROXY", no_proxy),
        ]);
        let yaml = format!(
            "models: {{m: {{provider: openai, model: gpt-4o-mini, base_url: '{}/v1', token_key: TEST_KEY}}}}",
            server.url()
        );
        let model = Models::new(model_dependencies, configured(&yaml))
            .find("m")
            .unwrap();
        assert_eq!(ask(&model).await.unwrap().message.text(), said);
    }
    let line = format!("POST {}/v1/chat/completions HTTP/1.1", server.url());
    assert_eq!(proxy.only().line, line);
    assert_eq!(server.asked().len(), 1);
}

/// A provider behind TLS is asked through a tunnel: the proxy sees no key.
#[tokio::test]
async fn proxy_tunnel_to_a_tls_provider_carries_no_key() {
    let proxy = Server::start([super::Answer::of(407, &[], "")]).await;
    let mut model_dependencies = model_dependencies(&[("OPENAI_API_KEY", KEY)]);
    model_dependencies.http.environment = super::environment(&[("HTTPS_PROXY", proxy.url())]);
    let yaml = "models: {m: {provider: openai, model: gpt-4o-mini, retries: 0}}";
    let model = Models::new(model_dependencies, configured(yaml))
        .find("m")
        .unwrap();
    ask(&model).await.unwrap_err();
    let asked = proxy.only();
    assert_eq!(asked.line, "CONNECT api.openai.com:443 HTTP/1.1");
    assert_eq!(asked.header("authorization"), None);
}

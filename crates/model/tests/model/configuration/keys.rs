//! Which key goes where.

use cachalot_model::ErrorKind;

use super::{models, settings};
use crate::client::{KEY, Server, ask, says};

#[tokio::test]
async fn standard_key_is_sent_to_the_standard_address_only() {
    let server = Server::start([says("x")]).await;
    let other = format!("base_url: '{}'", server.url());
    let other = other.as_str();
    let base_url = ("OPENAI_BASE_URL", server.url());
    let key = ("OPENAI_API_KEY", KEY);
    let mine = ("MY_KEY", "my-own-key-0123456789");
    for (keys, environment, sent) in [
        // The user's own variable names the address: the user's key may go there.
        ("", vec![base_url, key], Some(KEY)),
        // The file names the same address as the variable.
        (other, vec![base_url, key], Some(KEY)),
        // The file names another address.
        (other, vec![key], None),
        (
            other,
            vec![("OPENAI_BASE_URL", "http://elsewhere.example"), key],
            None,
        ),
        // The file says which key may go there.
        (
            &format!("{other}, token_key: MY_KEY"),
            vec![key, mine],
            Some(mine.1),
        ),
        (
            &format!("{other}, token_key: OPENAI_API_KEY"),
            vec![key],
            Some(KEY),
        ),
        // A server on this machine needs none.
        ("", vec![base_url], None),
    ] {
        let yaml = format!("models: {{m: {{provider: openai, model: x, {keys}}}}}");
        let model = models(&yaml, &environment).find("m").unwrap();
        ask(&model).await.unwrap();
        let asked = server.asked();
        let bearer = sent.map(|key| format!("Bearer {key}"));
        assert_eq!(
            asked.last().unwrap().header("authorization"),
            bearer.as_deref(),
            "{keys} {environment:?}"
        );
    }
}

#[test]
fn missing_key_is_reported_before_the_request() {
    for (name, environment, missing) in [
        ("openai/gpt-4o", vec![], Some("OPENAI_API_KEY")),
        (
            "openai/gpt-4o",
            vec![("OPENAI_API_KEY", " ")],
            Some("OPENAI_API_KEY"),
        ),
        (
            "openai/gpt-4o",
            vec![("OPENAI_BASE_URL", "https://gateway.example")],
            Some("OPENAI_API_KEY"),
        ),
        ("openai/gpt-4o", vec![("OPENAI_API_KEY", KEY)], None),
        (
            "claude-opus-5",
            vec![("OPENAI_API_KEY", KEY)],
            Some("ANTHROPIC_API_KEY"),
        ),
        ("gemini-2.5-pro", vec![], Some("GEMINI_API_KEY")),
        ("gemini-2.5-pro", vec![("GOOGLE_API_KEY", KEY)], None),
        ("ollama/x", vec![], None),
        ("ollama/x", vec![("OLLAMA_HOST", "gpu.example")], None),
        ("vllm/x", vec![], None),
    ] {
        // It is found all the same: an answer from the cache needs no key.
        let model = models("{}", &environment).find(name);
        let model = model.unwrap();
        match (model.ready(), missing) {
            (Ok(()), None) => {}
            (Err(error), Some(variable)) => {
                assert_eq!(error.kind, ErrorKind::Unauthorized);
                assert!(error.message.contains(variable), "{error}");
            }
            (ready, missing) => panic!("{name} {environment:?}: {ready:?}, not {missing:?}"),
        }
    }
}

#[test]
fn base_url_variables_of_the_environment_are_used() {
    for (name, variable, value, base_url) in [
        (
            "ollama/x",
            "OLLAMA_HOST",
            "0.0.0.0",
            "http://127.0.0.1:11434/v1",
        ),
        (
            "ollama/x",
            "OLLAMA_HOST",
            "https://gpu.example",
            "https://gpu.example/v1",
        ),
        (
            "azure/x",
            "AZURE_OPENAI_ENDPOINT",
            "https://r.openai.azure.com",
            "https://r.openai.azure.com/openai/v1",
        ),
        (
            "litellm/x",
            "LITELLM_PROXY_API_BASE",
            "http://proxy:4000",
            "http://proxy:4000/v1",
        ),
        (
            "openai/x",
            "OPENAI_BASE_URL",
            "http://127.0.0.1:4010/v1",
            "http://127.0.0.1:4010/v1",
        ),
        (
            "openai/x",
            "OPENAI_BASE_URL",
            "  ",
            "https://api.openai.com/v1",
        ),
        (
            "anthropic/x",
            "ANTHROPIC_BASE_URL",
            "http://127.0.0.1:4010",
            "http://127.0.0.1:4010/",
        ),
    ] {
        let model = models("{}", &[(variable, value)]).find(name).unwrap();
        assert_eq!(model.base_url(), base_url);
    }
    let error = models("{}", &[("OPENAI_BASE_URL", "localhost:1")])
        .find("gpt-4o")
        .unwrap_err();
    assert!(error.message.contains("OPENAI_BASE_URL"), "{error}");
}

#[tokio::test]
async fn other_base_url_gets_neither_key_nor_headers() {
    let server = Server::start([says("x")]).await;
    let yaml = "models: {m: {provider: lab, model: x, headers: {x-secret: abcdefgh}}}
providers: {lab: {base_url: 'http://lab.example/v1', token_key: LAB, headers: {x-other: abcdefgh}}}";
    let models = models(yaml, &[("LAB", KEY), ("OPENAI_API_KEY", KEY)]);
    let call = settings(&format!("{{base_url: '{}'}}", server.url()));
    let model = models.choose(Some("m"), &call).unwrap();
    ask(&model).await.unwrap();
    let asked = server.only();
    for header in ["authorization", "x-secret", "x-other"] {
        assert_eq!(asked.header(header), None);
    }
    let call = settings("{provider: openai, model: x}");
    let model = models.choose(Some("m"), &call).unwrap();
    assert_eq!(model.base_url(), "https://api.openai.com/v1");
    assert!(!model.identity().to_string().contains("x-secret"));
}

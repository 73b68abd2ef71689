//! Unit tests of `src/builtin/unload/runner.rs`.

use super::*;

#[test]
fn local_servers_are_recognized_by_provider_host_and_port() {
    for (provider, base, expected) in [
        (
            "ollama",
            "http://localhost:11434/v1",
            Some("http://localhost:11434/api/generate"),
        ),
        (
            "ollama",
            "https://gpu/ollama/v1/",
            Some("https://gpu/ollama/api/generate"),
        ),
        (
            "custom",
            "http://127.0.0.1:11434",
            Some("http://127.0.0.1:11434/api/generate"),
        ),
        ("ollama", "https://ollama.com/v1", None),
        (
            "dmr",
            "http://localhost:12434/engines/v1",
            Some("http://localhost:12434/engines/unload"),
        ),
        ("dmr", "http://gpu/v1", Some("http://gpu/engines/unload")),
        (
            "custom",
            "http://localhost:12434/engines/llama.cpp/v1?a=b",
            Some("http://localhost:12434/engines/unload"),
        ),
        (
            "custom",
            "http://model-runner.docker.internal/engines/vllm/v1",
            Some("http://model-runner.docker.internal/engines/unload"),
        ),
        (
            "custom",
            "http://model-runner.docker.internal/exp/vDD4.40/engines/v1",
            Some("http://model-runner.docker.internal/exp/vDD4.40/engines/unload"),
        ),
        ("openai", "https://api.openai.com/v1", None),
        ("vllm", "http://localhost:8000/v1", None),
        ("lmstudio", "http://localhost:1234/v1", None),
    ] {
        let loaded = LoadedModel::at(provider, base, "m");
        assert_eq!(
            loaded.as_ref().map(|loaded| loaded.url.as_str()),
            expected,
            "{base}"
        );
    }
}

#[test]
fn each_server_gets_its_own_request_format() {
    let ollama = LoadedModel::at("ollama", "http://localhost:11434/v1", "llama3.2:latest").unwrap();
    assert_eq!(ollama.body(), json!({"model": "llama3.2", "keep_alive": 0}));
    let docker = LoadedModel::at("dmr", "http://localhost:12434/engines/v1", "ai/qwen3").unwrap();
    assert_eq!(docker.body(), json!({"models": ["ai/qwen3"]}));
}

//! Local model servers and their requests to unload a model.

use cachalot_model::Model;
use cachalot_storage::Url;
use serde_json::{Value, json};

/// A model that may be loaded on a local model server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoadedModel {
    /// The URL of the unload request.
    pub(super) url: Url,
    /// The name of the model on the server.
    pub(super) name: String,
    server: Server,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Server {
    Ollama,
    DockerModelRunner,
}

/// Host name of Docker Model Runner inside of containers.
const DOCKER_HOST: &str = "model-runner.docker.internal";

impl LoadedModel {
    /// The model, if its server is known to unload models.
    pub(super) fn from_model(model: &Model) -> Option<Self> {
        Self::at(model.provider(), model.base_url(), model.name())
    }

    fn at(provider: &str, base_url: &str, name: &str) -> Option<Self> {
        let mut url = Url::parse(base_url).ok()?;
        let server = Server::detect(provider, &url)?;
        let path = match server {
            Server::Ollama => {
                let before = url.path().trim_end_matches('/');
                let before = before.strip_suffix("/v1").unwrap_or(before);
                format!("{before}/api/generate")
            }
            Server::DockerModelRunner => format!("{}/unload", engines(url.path())),
        };
        url.set_path(&path);
        url.set_query(None);
        let name = match server {
            // A name without a tag means `:latest`.
            Server::Ollama => name.strip_suffix(":latest").unwrap_or(name),
            Server::DockerModelRunner => name,
        };
        Some(Self {
            url,
            name: name.to_owned(),
            server,
        })
    }

    /// The body of the unload request.
    pub(super) fn body(&self) -> Value {
        match self.server {
            Server::Ollama => json!({"model": self.name, "keep_alive": 0}),
            Server::DockerModelRunner => json!({"models": [self.name]}),
        }
    }
}

impl Server {
    fn detect(provider: &str, base: &Url) -> Option<Self> {
        let host = base.host_str()?;
        if host == "ollama.com" || host.ends_with(".ollama.com") {
            // Hosted by Ollama: uses no memory of the user.
            return None;
        }
        if provider == "dmr" || host == DOCKER_HOST || base.port() == Some(12434) {
            return Some(Self::DockerModelRunner);
        }
        (provider == "ollama" || base.port() == Some(11434)).then_some(Self::Ollama)
    }
}

/// The path up to `engines`, which a backend and `v1` may follow.
fn engines(path: &str) -> &str {
    const ENGINES: &str = "/engines";
    let ends = |at: usize| {
        let rest = &path[at + ENGINES.len()..];
        (rest.is_empty() || rest.starts_with('/')).then_some(at + ENGINES.len())
    };
    path.match_indices(ENGINES)
        .find_map(|(at, _)| ends(at))
        .map_or(ENGINES, |end| &path[..end])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
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
        let ollama =
            LoadedModel::at("ollama", "http://localhost:11434/v1", "llama3.2:latest").unwrap();
        assert_eq!(ollama.body(), json!({"model": "llama3.2", "keep_alive": 0}));
        let docker =
            LoadedModel::at("dmr", "http://localhost:12434/engines/v1", "ai/qwen3").unwrap();
        assert_eq!(docker.body(), json!({"models": ["ai/qwen3"]}));
    }
}

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
#[path = "../../../tests/unit/builtin/unload/runner.rs"]
mod tests;

//! Paths of the providers, and what a path says of a request that other providers say in its body.

use serde_json::Value;

use super::{Format, Refusal};

/// The API that a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) format: Format,
    /// The model, where the path names it.
    model: Option<String>,
    /// Whether the answer is streamed, where the path says so.
    is_streamed: Option<bool>,
    /// The service that offers the provider's API under addresses of its own.
    service: Service,
}

/// Who offers an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// Its provider.
    Own,
    /// Azure OpenAI, where every path but those under `/openai/v1` needs `api-version`.
    Azure { needs_version: bool },
}

/// What the path of a deployment begins with.
const DEPLOYMENTS: &str = "/openai/deployments/";

impl Route {
    /// Where a path leads; `None` if nowhere.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let own = |format| Self {
            format,
            model: None,
            is_streamed: None,
            service: Service::Own,
        };
        let azure = |format, needs_version| Self {
            service: Service::Azure { needs_version },
            ..own(format)
        };
        if let Some(rest) = path.strip_prefix(DEPLOYMENTS) {
            let (deployment, method) = rest.split_once('/')?;
            let is_chat = method == "chat/completions" && !deployment.is_empty();
            return is_chat.then(|| Self {
                model: Some(deployment.to_owned()),
                ..azure(Format::Chat, true)
            });
        }
        match path {
            "/v1/chat/completions" | "/v1beta/openai/chat/completions" => Some(own(Format::Chat)),
            "/v1/responses" => Some(own(Format::Responses)),
            "/v1/messages" | "/v1/messages/count_tokens" => Some(own(Format::Messages)),
            "/openai/v1/chat/completions" => Some(azure(Format::Chat, false)),
            "/openai/v1/responses" => Some(azure(Format::Responses, false)),
            "/openai/responses" => Some(azure(Format::Responses, true)),
            _ => Self::of_gemini(path),
        }
    }

    /// `/v1beta/models/NAME:METHOD`.
    fn of_gemini(path: &str) -> Option<Self> {
        let rest = ["/v1beta/models/", "/v1/models/"]
            .iter()
            .find_map(|prefix| path.strip_prefix(prefix))?;
        let (model, method) = rest.rsplit_once(':')?;
        let is_streamed = match method {
            "generateContent" | "countTokens" => false,
            "streamGenerateContent" => true,
            _ => return None,
        };
        Some(Self {
            format: Format::Gemini,
            model: Some(model.to_owned()),
            is_streamed: Some(is_streamed),
            service: Service::Own,
        })
    }

    /// Whether only tokens are to be counted.
    pub(crate) fn counts_tokens(path: &str) -> bool {
        path == "/v1/messages/count_tokens" || path.ends_with(":countTokens")
    }

    /// Checks the query.
    pub(crate) fn check(&self, query: &str) -> Result<(), Refusal> {
        let has = |name: &str| {
            let mut fields = query.split('&').filter_map(|field| field.split_once('='));
            fields.any(|(key, value)| key == name && !value.is_empty())
        };
        let is_sse = || query.split('&').any(|field| field == "alt=sse");
        match self.service {
            Service::Azure {
                needs_version: true,
            } if !has("api-version") => Err(Refusal::invalid("Resource not found")
                .status(404)
                .code("404")),
            _ if self.format == Format::Gemini && self.is_streamed == Some(true) && !is_sse() => {
                Err(Refusal::invalid(
                    "the simulator streams server-sent events only: add ?alt=sse",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Puts into the body what the path says.
    pub(crate) fn complete(&self, body: &mut Value) {
        let Some(body) = body.as_object_mut() else {
            return;
        };
        if let Some(model) = &self.model {
            body.insert("model".to_owned(), model.as_str().into());
        }
        if let Some(is_streamed) = self.is_streamed {
            body.insert("stream".to_owned(), is_streamed.into());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_formats_and_may_name_models() {
        for (path, expected) in [
            ("/v1/chat/completions", Some((Format::Chat, None))),
            ("/openai/v1/responses", Some((Format::Responses, None))),
            (
                "/openai/deployments/mine/chat/completions",
                Some((Format::Chat, Some("mine"))),
            ),
            ("/openai/deployments/mine/embeddings", None),
            ("/openai/deployments//chat/completions", None),
            (
                "/v1beta/models/gemini-2.5-pro:generateContent",
                Some((Format::Gemini, Some("gemini-2.5-pro"))),
            ),
            ("/v1beta/models/gemini-2.5-pro:embedContent", None),
            ("/v1/models/gpt-5", None),
            ("/", None),
        ] {
            let found = Route::at(path);
            let found = found
                .as_ref()
                .map(|route| (route.format, route.model.as_deref()));
            assert_eq!(found, expected, "{path}");
        }
    }
}

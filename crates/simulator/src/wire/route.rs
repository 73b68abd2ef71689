//! Paths of the providers, and the request parameters in a path that other providers have in the body.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{ApiError, Format, anthropic, bedrock, refuse, responses};

/// The API that a path selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) format: Format,
    /// Model, if the path contains it.
    model: Option<String>,
    /// True if the answer is streamed; `None` if the path does not determine it.
    is_streamed: Option<bool>,
    /// The service that offers the provider's API at its own addresses.
    service: Service,
}

/// Services that offer an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// The provider of the API.
    Own,
    /// Azure OpenAI; every path except those under `/openai/v1` needs `api-version`.
    Azure { needs_version: bool },
    /// Google Vertex AI, for Anthropic's models.
    Vertex,
    /// Amazon Bedrock: Anthropic's own format for its models, and Converse.
    Bedrock,
}

/// Prefix of the path of a deployment.
const DEPLOYMENTS: &str = "/openai/deployments/";

impl Route {
    /// Returns the API at a path; `None` if there is none.
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
            "/v1/responses" | "/v1/responses/compact" | "/v1/responses/input_tokens" => {
                Some(own(Format::Responses))
            }
            "/v1beta/interactions" | "/v1/interactions" => Some(own(Format::Interactions)),
            "/v1/messages" | "/v1/messages/count_tokens" => Some(own(Format::Messages)),
            "/openai/v1/chat/completions" => Some(azure(Format::Chat, false)),
            "/openai/v1/responses"
            | "/openai/v1/responses/compact"
            | "/openai/v1/responses/input_tokens" => Some(azure(Format::Responses, false)),
            "/openai/responses" => Some(azure(Format::Responses, true)),
            _ => Self::parse_gemini_path(path).or_else(|| Self::parse_vertex_path(path)),
        }
    }

    /// Parses `/v1/projects/PROJECT/locations/REGION/publishers/anthropic/models/NAME:METHOD` of Vertex AI
    /// and `/model/NAME/METHOD` of Bedrock.
    ///
    /// On Vertex AI, a request to the streaming method must also ask for a stream in its body.
    fn parse_vertex_path(path: &str) -> Option<Self> {
        let (model, format, is_streamed, service) = if let Some(rest) = path.strip_prefix("/model/")
        {
            let (model, method) = rest.split_once('/')?;
            let (format, is_streamed) = match method {
                "invoke" => (Format::Messages, false),
                "invoke-with-response-stream" => (Format::Messages, true),
                "converse" => (Format::Converse, false),
                "converse-stream" => (Format::Converse, true),
                _ => return None,
            };
            (model, format, Some(is_streamed), Service::Bedrock)
        } else {
            let rest = path.strip_prefix("/v1/projects/")?;
            let (_, rest) = rest.split_once("/publishers/anthropic/models/")?;
            let (model, method) = rest.rsplit_once(':')?;
            let is_streamed = match method {
                "rawPredict" => Some(false),
                "streamRawPredict" => None,
                _ => return None,
            };
            (model, Format::Messages, is_streamed, Service::Vertex)
        };
        let model = percent_decode_str(model).decode_utf8().ok()?;
        let model = match format {
            Format::Messages => original_name(&model),
            _ => model.into_owned(),
        };
        Some(Self {
            format,
            model: Some(model),
            is_streamed,
            service,
        })
    }

    /// Returns true for Vertex AI, which requires access tokens.
    pub(crate) fn is_vertex(&self) -> bool {
        self.service == Service::Vertex
    }

    /// Returns true for Bedrock, which verifies signatures.
    pub(crate) fn is_bedrock(&self) -> bool {
        self.service == Service::Bedrock
    }

    /// Parses `/v1beta/models/NAME:METHOD`.
    fn parse_gemini_path(path: &str) -> Option<Self> {
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

    /// Returns true if the path only counts tokens.
    pub(crate) fn counts_tokens(path: &str) -> bool {
        path == "/v1/messages/count_tokens"
            || path.ends_with(":countTokens")
            || responses::is_count(path)
    }

    /// Checks the query.
    pub(crate) fn check(&self, query: &str) -> Result<(), ApiError> {
        let has = |name: &str| {
            let mut fields = query.split('&').filter_map(|field| field.split_once('='));
            fields.any(|(key, value)| key == name && !value.is_empty())
        };
        let is_sse = || query.split('&').any(|field| field == "alt=sse");
        match self.service {
            Service::Azure {
                needs_version: true,
            } if !has("api-version") => Err(ApiError::invalid("Resource not found")
                .status(404)
                .code("404")),
            _ if self.format == Format::Gemini && self.is_streamed == Some(true) && !is_sse() => {
                refuse("the simulator streams server-sent events only: add ?alt=sse")
            }
            _ => Ok(()),
        }
    }

    /// Adds the parameters of the path to the body.
    ///
    /// # Errors
    /// On a cloud platform, the body contains a parameter of the path, or lacks the required version.
    pub(crate) fn complete(&self, body: &mut Value) -> Result<(), ApiError> {
        let Some(body) = body.as_object_mut() else {
            return Ok(());
        };
        let version = match self.service {
            Service::Vertex => Some("vertex-2023-10-16"),
            Service::Bedrock if self.format == Format::Messages => Some("bedrock-2023-05-31"),
            Service::Bedrock | Service::Own | Service::Azure { .. } => None,
        };
        if let Some(version) = version {
            if body.contains_key("model") {
                return refuse("model: Extra inputs are not permitted");
            }
            if self.is_bedrock() && body.contains_key("stream") {
                return refuse("stream: Extra inputs are not permitted");
            }
            match body.shift_remove("anthropic_version") {
                Some(named) if named == version => {}
                // Official clients send it from 2026-10 on.
                Some(named) if named == anthropic::LATEST_VERSION => {
                    anthropic::check_latest_version(body)?;
                }
                Some(_) => {
                    let message = format!("anthropic_version: Input should be '{version}'");
                    return refuse(message);
                }
                None => return refuse("anthropic_version: Field required"),
            }
            if self.is_bedrock() {
                body.shift_remove("anthropic_beta");
                let model = self.model.as_deref().unwrap_or_default();
                for part in body.values() {
                    bedrock::check_markers(model, bedrock::members(part, "cache_control"))?;
                }
            }
        }
        if let Some(model) = &self.model {
            body.insert("model".to_owned(), model.as_str().into());
        }
        if let Some(is_streamed) = self.is_streamed {
            body.insert("stream".to_owned(), is_streamed.into());
        }
        Ok(())
    }
}

/// Returns the name at Anthropic of a model on a cloud platform, which is also the name in answers:
/// `claude-sonnet-4-5-20250929` for `us.anthropic.claude-sonnet-4-5-20250929-v1:0` and for
/// `claude-sonnet-4-5@20250929`. Any other name is returned unchanged.
fn original_name(model: &str) -> String {
    let Some(at) = model.find("claude-") else {
        return model.to_owned();
    };
    let name = model[at..].trim_end_matches("@default").replace('@', "-");
    let is_version = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 3;
    match name.rsplit_once("-v") {
        Some((before, version)) if is_version(version) => before.to_owned(),
        _ => name,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_map_to_formats_and_may_name_models() {
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
            ("/v1/responses/compact", Some((Format::Responses, None))),
            ("/v1beta/interactions", Some((Format::Interactions, None))),
            ("/v1/interactions", Some((Format::Interactions, None))),
            ("/v1beta/interactions/1", None),
            (
                "/model/amazon.nova-pro-v1%3A0/converse-stream",
                Some((Format::Converse, Some("amazon.nova-pro-v1:0"))),
            ),
            ("/model/amazon.nova-pro-v1%3A0/count-tokens", None),
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

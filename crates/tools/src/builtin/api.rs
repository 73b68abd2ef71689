//! A tool that an agent file defines as an HTTP request: the toolset `api`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{EffectTarget, EffectTargets, Effects, Secret};
use cachalot_operation::{
    Arguments, OperationMetadata, ResourceAccess, ToolContext, ToolOutput, TypedTool,
};
use cachalot_storage::{
    AllowedHosts, Error, ErrorKind, Method, Url, body, header, masked, success,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

/// The maximum number of bytes of an answer.
const MAX_BYTES: u64 = 1 << 20;

/// The maximum number of characters of an answer that are shown.
const MAX_CHARS: usize = 50_000;

/// An HTTP request that is a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSettings {
    /// The name of the tool.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The address. `${NAME}` is an argument of the call.
    pub endpoint: String,
    /// True to send the arguments as JSON with POST; false for GET.
    pub is_post: bool,
    /// The arguments: names, and the JSON Schemas of their values.
    pub arguments: Vec<(String, Value)>,
    /// The names of the arguments that every call must have.
    pub required: Vec<String>,
    /// Headers of the request.
    pub headers: BTreeMap<String, Secret<String>>,
    /// The timeout of a call.
    pub timeout: Duration,
    /// True to permit private addresses.
    pub allows_private: bool,
}

/// An HTTP request of an agent file as a tool. The guard against private addresses applies, and a redirect
/// to another address is refused.
pub struct ApiTool {
    metadata: OperationMetadata,
    settings: ApiSettings,
}

impl ApiTool {
    /// Creates the tool.
    #[must_use]
    pub fn new(settings: ApiSettings) -> Self {
        let parameters = super::parameters_of_file(&settings.arguments, &settings.required);
        let metadata = OperationMetadata::with_side_effects(
            settings.name.clone(),
            settings.description.clone(),
            parameters,
        );
        Self {
            metadata: OperationMetadata {
                read_only: !settings.is_post,
                ..metadata
            },
            settings,
        }
    }

    /// Returns the address of a call: arguments in the place of their `${NAME}`. Those without a place are
    /// fields of the query, or of the body of a POST.
    fn url(&self, arguments: &Arguments) -> String {
        let mut url = self.settings.endpoint.clone();
        let mut query = Vec::new();
        for (name, value) in arguments.iter().filter(|(_, value)| !value.is_null()) {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let encoded = utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string();
            let place = format!("${{{name}}}");
            if url.contains(&place) {
                url = url.replace(&place, &encoded)
            } else {
                query.push(format!("{name}={encoded}"))
            }
        }
        if !query.is_empty() && !self.settings.is_post {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&query.join("&"));
        }
        url
    }

    async fn send(
        &self,
        url: &str,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> Result<String, Error> {
        let parsed = Url::parse(url).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("`{}`: {error}", masked(url)))
        })?;
        let hosts = AllowedHosts::from_url(&parsed)
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "the address has no host"))?;
        let client = if self.settings.allows_private {
            context
                .http
                .allowing(&["0.0.0.0/0".to_owned(), "::/0".to_owned()])
        } else {
            Ok(context.http.clone())
        };
        let client = client?.redirecting_to(&hosts).guarded();
        let method = if self.settings.is_post {
            Method::POST
        } else {
            Method::GET
        };
        // Rules have judged this address, and the headers are meant for this server.
        let origin = parsed.origin();
        let path = parsed.path().to_owned();
        let stays = move |target: &Url| {
            if target.origin() == origin && target.path() == path {
                Ok(())
            } else {
                Err(Error::new(
                    ErrorKind::Refused,
                    "the server redirects to another address",
                ))
            }
        };
        let client = client.with_redirect_check(Arc::new(stays));
        let mut request = client.request(method, url)?;
        for (name, value) in &self.settings.headers {
            request = request.header(name.as_str(), value.expose());
        }
        if self.settings.is_post {
            request = request
                .header(header::CONTENT_TYPE, "application/json")
                .body(Value::Object(arguments.clone()).to_string());
        }
        let response = client.send(request).await.and_then(success)?;
        let bytes = body(response, MAX_BYTES).await?;
        let text = String::from_utf8_lossy(&bytes);
        let shown = cachalot_core::text::head(&text, MAX_CHARS);
        Ok(if shown.len() < text.len() {
            format!("{shown}\n[… cut after {MAX_CHARS} characters]")
        } else {
            shown.to_owned()
        })
    }
}

#[async_trait]
impl TypedTool for ApiTool {
    type Arguments = Map<String, Value>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &Map<String, Value>, _: &ToolContext) -> Effects {
        if self.settings.is_post {
            Effects::UNKNOWN
        } else {
            Effects {
                reads: EffectTargets::Known(vec![EffectTarget::Named(format!(
                    "url:{}",
                    self.url(arguments)
                ))]),
                writes: EffectTargets::NOTHING,
            }
        }
    }

    fn resource_access(&self, arguments: &Map<String, Value>) -> ResourceAccess {
        ResourceAccess {
            urls: vec![self.url(arguments)],
            remote: true,
            ..ResourceAccess::default()
        }
    }

    async fn run(&self, arguments: Map<String, Value>, context: &ToolContext) -> ToolOutput {
        let url = self.url(&arguments);
        let sent = format!("{url} {}", Value::Object(arguments.clone()));
        if super::web_fetch::holds_secret(&sent, &context.secret_set) {
            return ToolOutput::error(
                "the arguments hold a secret of this run, which must not leave it: leave it out",
            );
        }
        let is_path_step = |(name, value): (&String, &Value)| {
            self.settings.endpoint.contains(&format!("${{{name}}}"))
                && [".", ".."].map(Some).contains(&value.as_str())
        };
        if arguments.iter().any(is_path_step) {
            return ToolOutput::error("`.` and `..` would lead to another address: give a name");
        }
        let timeout = self.settings.timeout;
        let answer = tokio::time::timeout(timeout, self.send(&url, &arguments, context)).await;
        match answer {
            Ok(Ok(text)) => ToolOutput::text(context.secret_set.redact(&text)),
            Ok(Err(error)) => ToolOutput::error(context.secret_set.redact(&error.message)),
            Err(_) => ToolOutput::error(format!(
                "the request took longer than {} seconds",
                timeout.as_secs_f64()
            )),
        }
    }
}

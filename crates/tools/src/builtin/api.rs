//! A tool that an agent file defines as an HTTP request: the toolset `api`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::config::{Parameter, ParameterKind as Kind, Settings, no_effect};
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
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`api`")]
pub struct ApiSettings {
    /// The request: `name`, `endpoint`, `instruction`, `method`, `args`, `required`, `headers`.
    #[setting(key = "api_config")]
    pub request: ApiRequest,
    /// The timeout of a call.
    #[setting(default = "30s")]
    pub timeout: Duration,
    /// Private addresses may be called.
    #[setting(key = "allow_private_ips", default = false)]
    pub allows_private: bool,
}

/// The request.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`api_config`", also = REQUEST_KEYS_OF_OTHERS)]
pub struct ApiRequest {
    /// The name of the tool.
    pub name: String,
    /// The address; `${NAME}` is an argument of the call.
    pub endpoint: String,
    /// What the tool does.
    #[setting(key = "instruction", default)]
    pub description: String,
    /// The method.
    ///
    /// A POST sends the arguments as JSON.
    #[setting(default = "GET")]
    pub method: ApiMethod,
    /// The arguments by name, each with its JSON Schema.
    #[setting(key = "args", kind = Kind::Object, with = super::arguments_of_file)]
    pub arguments: Vec<(String, Value)>,
    /// The arguments that every call must have.
    pub required: Vec<String>,
    /// Headers of the request.
    pub headers: BTreeMap<String, Secret<String>>,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub enum ApiMethod {
    /// GET.
    #[setting(key = "GET")]
    Get,
    /// POST.
    #[setting(key = "POST")]
    Post,
}

const REQUEST_KEYS_OF_OTHERS: &[Parameter] = &[no_effect(
    "output_schema",
    "the model is shown the answer as it is",
)];

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
        let request = &settings.request;
        let metadata = OperationMetadata::with_side_effects(
            request.name.clone(),
            request.description.clone(),
            super::parameters_of_file(&request.arguments, Some(&request.required)),
        );
        Self {
            metadata: OperationMetadata {
                read_only: request.method == ApiMethod::Get,
                ..metadata
            },
            settings,
        }
    }

    fn is_post(&self) -> bool {
        self.settings.request.method == ApiMethod::Post
    }

    /// Returns the address of a call: arguments in the place of their `${NAME}`. Those without a place are
    /// fields of the query, or of the body of a POST.
    fn url(&self, arguments: &Arguments) -> String {
        let mut url = self.settings.request.endpoint.clone();
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
        if !query.is_empty() && !self.is_post() {
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
        let method = if self.is_post() {
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
        for (name, value) in &self.settings.request.headers {
            request = request.header(name.as_str(), value.expose());
        }
        if self.is_post() {
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
        if self.is_post() {
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
        // The arguments, too: those of a POST are not in its address.
        let sent = format!("{url} {}", Value::Object(arguments.clone()));
        if super::web_fetch::holds_secret(&sent, &context.secret_set) {
            return ToolOutput::error(
                "the arguments hold a secret of this run, which must not leave it: leave it out",
            );
        }
        let is_path_step = |(name, value): (&String, &Value)| {
            self.settings
                .request
                .endpoint
                .contains(&format!("${{{name}}}"))
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

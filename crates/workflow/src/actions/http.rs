//! `http.get` and `http.post`.

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use cachalot_storage::is_connection_header;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Url};
use serde_json::Value;

use super::arguments::{
    CheckedArguments, any, declared_by, duration, list, object, required, text,
};
use super::http_response::{self, HttpRequest, TIMEOUT};
use super::order;
use crate::action::argument_checker::ArgumentChecker;
use crate::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, Registry, Runtime,
};

const URL: Parameter = required(text("url", "The URL; `http` or `https`."));
#[rustfmt::skip]
const PARAMS: Parameter = object("params", "Fields of the query, added to those of the URL; a list repeats its field, null leaves it out.");
#[rustfmt::skip]
const HEADERS: Parameter = object("headers", "Headers of the request; null leaves one out. Those of the connection and the framing are refused: `Host`, `Content-Length`, `Transfer-Encoding`, `Connection`, `Keep-Alive`, `TE`, `Trailer`, `Upgrade`, `Expect`, `HTTP2-Settings`, `Alt-Used`, `Proxy-*`.");
#[rustfmt::skip]
const ALLOWED_HOSTS: Parameter = list("allowed_hosts", "The only hosts that are requested, redirects included: names (`*.example.com` for those below one), addresses, networks; written out. By default those that the file, the environment or `--input` names, and public hosts that these redirect to.");
#[rustfmt::skip]
const TIMEOUT_PARAMETER: Parameter = duration("timeout", "The maximum time from connecting to the last byte; `30s` by default.");

static GET: OperationMetadata = OperationMetadata::declared(
    "http.get",
    &["actions.http_get"],
    "Gets a URL; the result is the JSON of the response (whole numbers beyond 64 bits as text), \
          or its text if it is no JSON. A status from 400 up fails the node.",
    &[URL, PARAMS, HEADERS, ALLOWED_HOSTS, TIMEOUT_PARAMETER],
)
.read_only();

static POST: OperationMetadata = OperationMetadata::declared(
    "http.post",
    &["actions.http_post"],
    "Posts to a URL; the result is the JSON of the response (whole numbers beyond 64 bits as \
          text), or its text if it is no JSON. A status from 400 up fails the node.",
    &[
        URL,
        PARAMS,
        HEADERS,
        any("json", "The body, sent as JSON."),
        text("body", "The body, sent as it is."),
        object("form", "The body, sent as the fields of a form."),
        ALLOWED_HOSTS,
        TIMEOUT_PARAMETER,
    ],
);

/// One of the two actions.
pub(super) struct Request {
    about: &'static OperationMetadata,
    method: Method,
    /// The arguments in which the order of mappings changes the request.
    ordered: &'static [&'static str],
}

impl Request {
    pub(super) const GET: Self = Self {
        about: &GET,
        method: Method::GET,
        ordered: &["params", "headers"],
    };

    pub(super) const POST: Self = Self {
        about: &POST,
        method: Method::POST,
        ordered: &["params", "headers", "json", "form"],
    };
}

#[async_trait]
impl Operation for Request {
    declared_by!(self.about);

    fn implicit_inputs(&self, arguments: &Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        Ok(order::implicit_input(arguments, self.ordered))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(self.about, &arguments);
        send(&given, runtime, self.method.clone()).await
    }
}

impl Action for Request {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        let checker = ArgumentChecker::new(self.about, with).hosts("allowed_hosts");
        let checker = checker.keys("headers", "leave it out", |key| {
            let name = HeaderName::try_from(key).ok()?;
            is_connection_header(&name).then(|| refused(key))
        });
        if self.method == Method::POST {
            checker.at_most_one_of(&["json", "body", "form"], "give one of them")
        } else {
            checker
        }
        .problems()
    }
}

async fn send(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    method: Method,
) -> Result<Value, Failure> {
    let mut url = http_response::web_url(given, "url", given.required_text("url")?)?;
    add_query(given, &mut url)?;
    let timeout = given.duration("timeout")?.unwrap_or(TIMEOUT);
    let allowed = given.list("allowed_hosts")?;
    let client = http_response::client(given, runtime, &url, allowed)?;
    let mut request = HttpRequest::new(given, runtime, client, method, &url)?;
    request.builder = with_headers(given, with_body(given, request.builder)?)?;
    request.fetch(timeout, "http_error").await?.into_value()
}

fn add_query(given: &CheckedArguments<'_>, url: &mut Url) -> Result<(), Failure> {
    let fields = fields(given, "params")?;
    if !fields.is_empty() {
        url.query_pairs_mut().extend_pairs(fields);
    }
    Ok(())
}

/// Returns the fields of a mapping in its order; a list repeats its field.
fn fields(given: &CheckedArguments<'_>, name: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut fields = Vec::new();
    for (key, value) in given.object(name)?.into_iter().flatten() {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            single => std::slice::from_ref(single),
        };
        for value in values {
            if let Some(text) = given.scalar(name, value)? {
                fields.push((key.clone(), text));
            }
        }
    }
    Ok(fields)
}

/// The reason why a header is refused; follows the name of the argument.
fn refused(name: &str) -> String {
    format!(
        "holds `{name}`, which belongs to the connection or the framing; only the client sets it"
    )
}

fn with_headers(
    given: &CheckedArguments<'_>,
    request: RequestBuilder,
) -> Result<RequestBuilder, Failure> {
    let mut headers = HeaderMap::new();
    for (key, value) in given.object("headers")?.into_iter().flatten() {
        let Some(text) = given.scalar("headers", value)? else {
            continue;
        };
        let name = HeaderName::try_from(key.as_str()).map_err(|_| {
            given.wrong(
                "headers",
                format_args!("holds `{key}`, which is no name of a header"),
            )
        })?;
        if is_connection_header(&name) {
            return Err(given.wrong("headers", refused(key)));
        }
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            given.wrong(
                "headers",
                format_args!(
                    "gives `{key}` a value with a line break or another control character"
                ),
            )
        })?;
        // The value may be a credential: a sensitive header is hidden from debug output.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(request.headers(headers))
}

fn with_body(
    given: &CheckedArguments<'_>,
    request: RequestBuilder,
) -> Result<RequestBuilder, Failure> {
    let form = given.object("form")?;
    match (given.value_of("json"), given.text("body")?, form) {
        (None, None, None) => Ok(request),
        (Some(json), None, None) => Ok(request.json(json)),
        (None, Some(body), None) => Ok(request.body(body.to_owned())),
        (None, None, Some(_)) => {
            let mut text = url::form_urlencoded::Serializer::new(String::new());
            text.extend_pairs(fields(given, "form")?);
            let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            Ok(request.body(text.finish()))
        }
        _ => Err(given.failure(
            "validation_error",
            "`json`, `body` and `form` exclude each other: give one",
        )),
    }
}

//! Elicitation: questions of a server to the user, as a form or as an address to open.

use std::collections::BTreeMap;

use cachalot_operation::{AnswerField, UserAnswer, UserPrompter, UserQuestion};
use cachalot_tools::builtin::open_address;
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorCode, InputRequests,
    InputRequiredResult,
};
use rmcp::service::ServiceError;
use serde_json::{Map, Value, json};
use url::{Host, Url};

use super::McpDependencies;

/// The only field of a form without fields, and of a question about an address.
const CONSENT: &str = "consent";

/// The answer that opens an address in the browser.
const OPEN: &str = "open";

/// The answer of a user who has opened an address.
const OPENED: &str = "opened";

/// The error of a call that requires the user to open addresses first (2025-11-25).
const ADDRESSES_REQUIRED: ErrorCode = ErrorCode(-32_042);

/// Returns the addresses that an error requires to be opened, as requests for input.
pub(super) fn required(error: &ServiceError) -> Option<InputRequiredResult> {
    let ServiceError::McpError(error) = error else {
        return None;
    };
    if error.code != ADDRESSES_REQUIRED {
        return None;
    }
    let listed = error.data.as_ref()?.get("elicitations")?.as_array()?;
    let requests = listed.iter().enumerate().map(|(number, params)| {
        let request = json!({ "method": "elicitation/create", "params": params });
        (number.to_string(), request)
    });
    let requests = Value::Object(requests.collect());
    let requests: InputRequests = serde_json::from_value(requests).ok()?;
    (!requests.is_empty()).then(|| InputRequiredResult::from_input_requests(requests))
}

/// Asks the user what a server asks. Declines without a user, and what cannot be asked.
pub(super) async fn ask(
    server: &str,
    request: ElicitRequestParams,
    user: Option<&dyn UserPrompter>,
    dependencies: &McpDependencies,
) -> ElicitResult {
    let Some(user) = user else {
        return ElicitResult::new(ElicitationAction::Decline);
    };
    let asked = match request {
        ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } => match serde_json::to_value(&requested_schema) {
            Ok(schema) => ask_form(server, &message, &schema, user).await,
            Err(error) => Err(error.to_string()),
        },
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            ask_address(server, &message, &url, user, dependencies).await
        }
        _ => Err("it is of a kind that is not known here".to_owned()),
    };
    asked.unwrap_or_else(|why| {
        let message = format!(
            "a question of the MCP server `{server}` to you was declined, because it cannot be asked: {why}"
        );
        let message = dependencies.secret_set.redact(&message);
        dependencies.reporter.warning(&message);
        ElicitResult::new(ElicitationAction::Decline)
    })
}

/// Asks for the values of a form.
async fn ask_form(
    server: &str,
    message: &str,
    schema: &Value,
    user: &dyn UserPrompter,
) -> Result<ElicitResult, String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.filter(|properties| !properties.is_empty());
    let consent = consent_schema(json!({ "type": "boolean", "title": "Continue?" }));
    let schema = properties.map_or(&consent, |_| schema);
    let title = format!("The MCP server `{server}` asks (the answer is sent to it)");
    let answer = question(user, &title, message, schema).await?;
    let UserAnswer::Accept(mut content) = answer else {
        return Ok(refusal(&answer));
    };
    let Some(properties) = properties else {
        let continues = content.get(CONSENT) == Some(&Value::Bool(true));
        return Ok(if continues {
            accept(Map::new())
        } else {
            ElicitResult::new(ElicitationAction::Decline)
        });
    };
    // A field that was left empty has its default.
    for (name, property) in properties {
        if let Some(default) = property.get("default")
            && !content.contains_key(name)
        {
            content.insert(name.clone(), default.clone());
        }
    }
    Ok(accept(content))
}

/// Asks whether an address may be opened, and opens it.
async fn ask_address(
    server: &str,
    message: &str,
    address: &str,
    user: &dyn UserPrompter,
    dependencies: &McpDependencies,
) -> Result<ElicitResult, String> {
    let (host, url) = checked_address(address)?;
    let schema = consent_schema(json!({
        "enum": [OPEN, OPENED],
        "title": "Open it?",
        "description": format!("`{OPEN}` opens it in your browser; `{OPENED}` if you have opened it yourself"),
    }));
    let title = format!("The MCP server `{server}` wants you to open an address of {host}");
    let message = format!("{message}\n\nHost: {host}\nAddress: {url}");
    let answer = question(user, &title, &message, &schema).await?;
    let UserAnswer::Accept(content) = answer else {
        return Ok(refusal(&answer));
    };
    if content.get(CONSENT).and_then(Value::as_str) == Some(OPEN)
        && let Err(why) = open(url.as_str(), &dependencies.environment).await
    {
        dependencies.reporter.warning(&why);
    }
    Ok(ElicitResult::new(ElicitationAction::Accept))
}

async fn open(address: &str, environment: &BTreeMap<String, String>) -> Result<(), String> {
    open_address(address, environment)
        .await
        .map_err(|why| format!("{why}; open it yourself: {address}"))
}

/// Returns the host and the address, if it is a web page: encrypted, or on this machine.
fn checked_address(address: &str) -> Result<(String, Url), String> {
    let url = Url::parse(address).map_err(|error| format!("its address is invalid: {error}"))?;
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match (url.scheme(), url.host_str()) {
        ("https", Some(host)) => Ok((host.to_owned(), url)),
        ("http", Some(host)) if is_here => Ok((host.to_owned(), url)),
        _ => Err("its address is neither `https:` nor on this machine".to_owned()),
    }
}

/// The schema of a form with one required field.
fn consent_schema(field: Value) -> Value {
    json!({ "type": "object", "properties": { CONSENT: field }, "required": [CONSENT] })
}

async fn question(
    user: &dyn UserPrompter,
    title: &str,
    message: &str,
    schema: &Value,
) -> Result<UserAnswer, String> {
    let fields = AnswerField::from_schema(Some(schema)).map_err(|error| error.to_string())?;
    let question = UserQuestion {
        title: Some(title),
        message,
        fields: &fields,
    };
    Ok(user.ask(&question).await)
}

fn accept(content: Map<String, Value>) -> ElicitResult {
    ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
}

fn refusal(answer: &UserAnswer) -> ElicitResult {
    ElicitResult::new(match answer {
        UserAnswer::Decline => ElicitationAction::Decline,
        UserAnswer::Accept(_) | UserAnswer::Cancel(_) => ElicitationAction::Cancel,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_pages_are_opened() {
        for (address, host) in [
            ("https://a.example/x?y", Some("a.example")),
            ("https://user@b.example/", Some("b.example")),
            ("http://localhost:1/x", Some("localhost")),
            ("http://127.0.0.1/", Some("127.0.0.1")),
            ("http://a.example/", None),
            ("file:///etc/passwd", None),
            ("javascript:alert(1)", None),
            ("nonsense", None),
        ] {
            let checked = checked_address(address).ok().map(|(host, _)| host);
            assert_eq!(checked.as_deref(), host, "{address}");
        }
    }
}

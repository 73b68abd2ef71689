//! The streamable HTTP transport.

mod client;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cachalot_core::Secret;
use cachalot_storage::{HttpClient, HttpOptions};
use http::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::McpDependencies;
use super::error::McpError;
use super::message_parser::MessageParser;
use super::oauth::ServerAuthorization;
use client::Client;
pub(crate) use client::EventSize;

/// Idle timeout. Long, because calls have timeouts of their own, and the stream of notifications may stay
/// silent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of redirects. Zero if a custom header would be sent to another server: `Authorization` and
/// `Cookie` are dropped on such a redirect, other headers are not.
fn redirects(headers: &BTreeMap<String, Secret<String>>) -> usize {
    let stays = |name: &String| {
        ["authorization", "cookie"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    if headers.keys().all(stays) { 5 } else { 0 }
}

/// Creates a transport. Nothing is sent before the first message.
pub(super) fn transport(
    server: &str,
    url: &Secret<String>,
    headers: &BTreeMap<String, Secret<String>>,
    message_parser: MessageParser,
    authorization: Option<ServerAuthorization>,
    dependencies: &McpDependencies,
) -> Result<StreamableHttpClientTransport<Client>, McpError> {
    let fault = |what: String| McpError::transient(server, format!("cannot be reached: {what}"));
    let client = HttpClient::new(HttpOptions {
        environment: dependencies.environment.as_ref().clone(),
        idle_timeout: IDLE_TIMEOUT,
        redirects: redirects(headers),
        ..HttpOptions::default()
    })
    .and_then(|client| client.for_library(url.expose()))
    .map_err(|error| fault(error.to_string()))?;
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let bad = |what: &str| {
            fault(format!(
                "the header `{name}` has {what} that no header can have"
            ))
        };
        let header = HeaderName::try_from(name.as_str()).map_err(|_| bad("a name"))?;
        if ["accept", "mcp-session-id", "last-event-id"].contains(&header.as_str()) {
            return Err(fault(format!(
                "the header `{name}` belongs to the protocol; leave it out"
            )));
        }
        let mut value =
            HeaderValue::try_from(value.expose().as_str()).map_err(|_| bad("a value"))?;
        value.set_sensitive(true);
        sent.insert(header, value);
    }
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url.expose().as_str()).custom_headers(sent);
    config.max_sse_event_size = message_parser.limit;
    Ok(StreamableHttpClientTransport::with_client(
        Client::new(client, message_parser, authorization),
        config,
    ))
}

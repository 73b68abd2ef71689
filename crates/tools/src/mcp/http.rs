//! Servers that are reached through streamable HTTP.

mod client;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cachalot_core::Secret;
use cachalot_storage::{HttpClient, HttpOptions};
use http::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::McpSurroundings;
use super::incoming::Incoming;
use client::Client;

/// A server may be silent for long: calls have limits of their own, and the stream on which it
/// announces things may never carry anything.
const SILENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// How many redirects are followed. None where a header of the user's would go along to another
/// server: `Authorization` and `Cookie` stay behind then, any other would not.
fn redirects(headers: &BTreeMap<String, Secret<String>>) -> usize {
    let stays = |name: &String| {
        ["authorization", "cookie"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    match headers.keys().all(stays) {
        true => 5,
        false => 0,
    }
}

/// A connection to be: nothing is sent before the first message is.
pub(super) fn transport(
    url: &Secret<String>,
    headers: &BTreeMap<String, Secret<String>>,
    incoming: Incoming,
    surroundings: &McpSurroundings,
) -> Result<StreamableHttpClientTransport<Client>, String> {
    let client = HttpClient::new(HttpOptions {
        environment: surroundings.environment.as_ref().clone(),
        idle_timeout: SILENCE,
        redirects: redirects(headers),
        ..HttpOptions::default()
    })
    .and_then(|client| client.for_library(url.expose()))
    .map_err(|error| format!("cannot be reached: {error}"))?;
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let bad = |what: &str| {
            format!("cannot be reached: the header `{name}` has {what} that no header can have")
        };
        let header = HeaderName::try_from(name.as_str()).map_err(|_| bad("a name"))?;
        if ["accept", "mcp-session-id", "last-event-id"].contains(&header.as_str()) {
            return Err(format!(
                "cannot be reached: the header `{name}` belongs to the protocol; leave it out"
            ));
        }
        let mut value =
            HeaderValue::try_from(value.expose().as_str()).map_err(|_| bad("a value"))?;
        value.set_sensitive(true);
        sent.insert(header, value);
    }
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url.expose().as_str()).custom_headers(sent);
    config.max_sse_event_size = incoming.limit;
    Ok(StreamableHttpClientTransport::with_client(
        Client::new(client, incoming),
        config,
    ))
}

//! Settings of a server, and the trust in its tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::config::Settings;
use cachalot_core::secret::mask_credentials;
use cachalot_core::{Secret, SecretSet};
use serde_json::{Value, json};

use cachalot_tools::builtin::shell::looks_like_a_credential;

use super::McpDependencies;
use super::oauth::{self, ServerAuthorization};

/// Settings of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// The name of the server; part of the names of its tools.
    pub name: String,
    /// The transport.
    pub transport: McpTransport,
    /// Limits of its calls and answers.
    pub limits: McpLimits,
    /// Settings of its resources. Default: offered as tools, no lifetime.
    pub resources: OfferSettings,
    /// Settings of its prompts. Default: offered as tools, no lifetime.
    pub prompts: OfferSettings,
    /// Trust in tools whose names match a pattern; the first match applies. A tool that the server declares
    /// to change things is never treated as read-only.
    pub trust: Vec<(String, ToolTrust)>,
}

/// The transport to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that is started and connected by its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// The arguments.
        arguments: Vec<String>,
        /// Additional environment variables.
        environment: BTreeMap<String, Secret<String>>,
        /// The working directory, relative to [`super::McpDependencies::directory`].
        directory: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL; may contain a credential.
        url: Secret<String>,
        /// Headers of every request.
        headers: BTreeMap<String, Secret<String>>,
    },
}

/// Settings of the resources or the prompts of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferSettings {
    /// True to offer them as tools.
    pub is_offered: bool,
    /// Time for which results may be replayed. `None`: the time that the server states, and never if it
    /// states none.
    pub lifetime: Option<Duration>,
}

impl Default for OfferSettings {
    fn default() -> Self {
        Self {
            is_offered: true,
            lifetime: None,
        }
    }
}

/// Limits of a server.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "limits of a server", default)]
pub struct McpLimits {
    /// The maximum duration of a call. A progress notification of the server restarts it.
    #[setting(default = "60s", alias = "toolTimeout", alias = "tool_timeout")]
    pub timeout: Duration,
    /// The maximum total duration of a call, regardless of progress notifications.
    ///
    /// Never less than `timeout`.
    #[setting(default = "10m", alias = "maxTimeout")]
    pub max_timeout: Duration,
    /// The maximum duration of the start.
    #[setting(default = "60s", alias = "startupTimeout")]
    pub startup_timeout: Duration,
    /// Makes the start of the agent fail if the server does not start; otherwise that causes a warning.
    #[setting(default = false)]
    pub required: bool,
    /// The approximate maximum of text that is shown of an answer, in bytes.
    ///
    /// A longer text is cut at the end.
    #[setting(key = "max_output", alias = "maxOutput", range = 1..=1 << 30, default = 100_000)]
    pub output_limit: usize,
    /// The maximum size of a message from the server in bytes, including pictures; a larger message is dropped, and
    /// the call that it answers fails immediately.
    #[setting(key = "max_message", alias = "maxMessage", range = 1..=1 << 30, default = 16 << 20)]
    pub message_limit: usize,
}

/// The trust in a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
#[settings(name = "a tool of an MCP server", sentence = "")]
pub struct ToolTrust {
    /// Set for a tool that changes nothing.
    #[setting(alias = "readOnly")]
    pub read_only: bool,
    /// How long results may be served from the cache.
    ///
    /// Only if the tool changes nothing.
    #[setting(key = "ttl")]
    pub lifetime: Option<Duration>,
}

impl McpSettings {
    /// Creates settings with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            limits: McpLimits::default(),
            resources: OfferSettings::default(),
            prompts: OfferSettings::default(),
            trust: Vec::new(),
        }
    }

    /// True if the server is a program, or has a loopback address: it sees the files of this machine.
    pub(super) fn is_on_this_machine(&self) -> bool {
        match &self.transport {
            McpTransport::Stdio { .. } => true,
            McpTransport::Http { url, .. } => is_this_machine(url.expose()),
        }
    }

    /// The identity of a server, for keys: servers that could answer differently have different identities.
    /// Secrets are in it as keyed digests.
    #[must_use]
    pub fn identity(&self, secret_set: &SecretSet) -> Value {
        let is_http = matches!(self.transport, McpTransport::Http { .. });
        let given: Vec<Value> = self
            .secrets()
            .into_iter()
            .map(|(name, secret)| {
                let value = secret.expose();
                let shown = match secret_set.key() {
                    Some(key) => Some(key.digest(value.as_bytes()).to_string()),
                    // Secrets are omitted without a digest key; results that depend on credentials are private
                    // anyway.
                    None if is_http || looks_like_a_credential(name, value, secret_set) => None,
                    None => Some(value.clone()),
                };
                json!([name, shown])
            })
            .collect();
        match &self.transport {
            McpTransport::Stdio {
                command,
                arguments,
                directory,
                ..
            } => json!({
                "command": command,
                "arguments": arguments.iter().map(|word| secret_set.redact(word).into_owned()).collect::<Vec<_>>(),
                "directory": directory,
                "given": given,
            }),
            McpTransport::Http { url, .. } => json!({
                "url": secret_set.redact(&mask_credentials(url.expose())),
                "given": given,
            }),
        }
    }

    /// The ID of the user's login at the server, for keys, if its requests use one.
    #[must_use]
    pub fn login(&self, environment: &BTreeMap<String, String>) -> Option<String> {
        let server = oauth::server_url(self.url_of_logins()?).ok()?;
        // A file that cannot be read makes the call itself fail.
        let login = oauth::LoginFile::of_user(environment)?.find(&server);
        Some(login.ok()??.id)
    }

    /// The use of the user's login by connections to the server; `None` if there can be none.
    pub(super) fn authorization(
        &self,
        dependencies: &McpDependencies,
    ) -> Option<ServerAuthorization> {
        let McpDependencies {
            environment,
            secret_set,
            ..
        } = dependencies;
        ServerAuthorization::new(self.url_of_logins()?, environment, secret_set)
    }

    /// The URL of a server whose settings give no credentials of their own.
    fn url_of_logins(&self) -> Option<&str> {
        let McpTransport::Http { url, headers } = &self.transport else {
            return None;
        };
        let is_given = |name: &String| name.eq_ignore_ascii_case("authorization");
        (!headers.keys().any(is_given)).then(|| url.expose().as_str())
    }

    /// Returns every secret that the server gets, with its name.
    pub(super) fn secrets(&self) -> Vec<(&str, &Secret<String>)> {
        match &self.transport {
            McpTransport::Stdio { environment, .. } => {
                let named = environment.iter();
                named.map(|(name, value)| (name.as_str(), value)).collect()
            }
            McpTransport::Http { url, headers } => {
                let named = headers.iter().map(|(name, value)| (name.as_str(), value));
                std::iter::once(("url", url)).chain(named).collect()
            }
        }
    }

    /// Returns the credentials that must be masked everywhere. Excludes values with another meaning, and
    /// values so short that masking them would garble every answer.
    pub(super) fn credentials_to_mask(&self, secret_set: &SecretSet) -> Vec<&str> {
        match &self.transport {
            McpTransport::Stdio { environment, .. } => {
                environment_credentials(environment, secret_set)
            }
            McpTransport::Http { headers, .. } => header_credentials(headers, secret_set),
        }
    }
}

/// True if a URL is that of a loopback address: a request to it does not leave this machine.
pub(super) fn is_this_machine(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else {
        return false;
    };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns the credentials among the environment variables of a program.
pub(crate) fn environment_credentials<'a>(
    environment: &'a BTreeMap<String, Secret<String>>,
    secret_set: &SecretSet,
) -> Vec<&'a str> {
    environment
        .iter()
        .map(|(name, value)| (name, value.expose().as_str()))
        .filter(|(name, value)| {
            value.len() >= MIN_CREDENTIAL_CHARS && looks_like_a_credential(name, value, secret_set)
        })
        .map(|(_, value)| value)
        .collect()
}

/// Returns the credentials among the headers of a request.
pub(crate) fn header_credentials<'a>(
    headers: &'a BTreeMap<String, Secret<String>>,
    secret_set: &SecretSet,
) -> Vec<&'a str> {
    headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), without_scheme(value.expose())))
        .filter(|(name, value)| {
            let said = value.len() >= MIN_CREDENTIAL_CHARS
                && looks_like_a_credential(name, value, secret_set);
            said || (value.len() >= CREDENTIAL_HEADER_CHARS && !is_known_public_header(name))
        })
        .map(|(_, value)| value)
        .collect()
}

/// Minimum length of a credential.
const MIN_CREDENTIAL_CHARS: usize = 4;

/// Length from which a custom header is treated as a credential, regardless of its name.
const CREDENTIAL_HEADER_CHARS: usize = 8;

/// Returns the credentials of an `Authorization` header.
fn without_scheme(value: &str) -> &str {
    let value = value.trim();
    match value.split_once(' ') {
        Some((scheme, rest))
            if ["bearer", "basic", "token"]
                .iter()
                .any(|known| scheme.eq_ignore_ascii_case(known)) =>
        {
            rest.trim()
        }
        _ => value,
    }
}

/// True if a header has a known meaning that is not secret.
fn is_known_public_header(name: &str) -> bool {
    ["accept", "content-", "user-agent", "origin", "referer"]
        .iter()
        .any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_recognized_as_local() {
        for url in [
            "http://localhost:8080/mcp",
            "http://127.0.0.1/mcp",
            "http://127.9.9.9/mcp",
            "http://[::1]:1/mcp",
        ] {
            assert!(is_this_machine(url), "{url}");
        }
        for url in [
            "https://mcp.example/",
            "https://localhost.example/",
            "http://10.0.0.1/",
            "http://127.0.0.1@evil.example/",
            "nonsense",
        ] {
            assert!(!is_this_machine(url), "{url}");
        }
    }

    #[test]
    fn credential_headers_and_variables_are_learned_as_secrets() {
        let secrets = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Secret::new((*value).to_owned())))
                .collect::<BTreeMap<_, _>>()
        };
        let http = McpSettings::new(
            "x",
            McpTransport::Http {
                url: Secret::new("https://x/".to_owned()),
                headers: secrets(&[
                    ("Accept-Language", "en-GB, en-US"),
                    ("Authorization", "Bearer abc.def"),
                    ("X-Key", "long-enough"),
                    ("X-Version", "2"),
                ]),
            },
        );
        let secret_set = SecretSet::empty();
        assert_eq!(
            http.credentials_to_mask(&secret_set),
            ["abc.def", "long-enough"]
        );
        let stdio = McpSettings::new(
            "x",
            McpTransport::Stdio {
                command: "x".to_owned(),
                arguments: Vec::new(),
                environment: secrets(&[
                    ("API_KEY", "abcdef"),
                    ("DEBUG", "everything"),
                    ("OLD_TOKEN", "1"),
                ]),
                directory: None,
            },
        );
        assert_eq!(stdio.credentials_to_mask(&secret_set), ["abcdef"]);
    }
}

//! The domains of the answers of a server: an announcement of the server raises them, so that older answers
//! are not served any more.
//!
//! | domain | raised by |
//! |---|---|
//! | `mcp:NAME:SERVER` | every announcement |
//! | `mcp:NAME:SERVER:tools`, `:prompts`, `:resources` | `list_changed` of that list |
//! | `mcp:NAME:SERVER:resource:XXXX` | `resources/updated` of a resource, or of one below it |
//!
//! SERVER is a digest of the name, and of the program or the host: sessions that share results agree on it,
//! with any credentials. Servers that differ only in arguments expire more than needed. A store keeps a
//! counter for every domain, so resources are mapped to 65,536 domains of a server.

use cachalot_core::{Canonical, Digest};
use cachalot_operation::domains::Domains;
use cachalot_tools::sanitize_name;
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::announcement::Announcement;
use super::server_settings::{McpSettings, McpTransport};
use super::tool_names::ToolSourceKind;

/// Number of hex digits of the digest of a server.
const SERVER_DIGITS: usize = 8;

/// Number of hex digits of the digest of a resource.
const RESOURCE_DIGITS: usize = 4;

/// Maximum number of directories above an updated resource whose domains are raised; one with more raises
/// those of all resources.
const MAX_LEVELS: usize = 64;

/// Names the domains of a server.
#[derive(Debug, Clone)]
pub(super) struct ServerDomains(String);

impl McpSettings {
    /// Returns the domains of everything that depends on the server in an unknown way: any announcement of
    /// the server expires it.
    #[must_use]
    pub fn domains(&self) -> Domains {
        Domains::named([ServerDomains::new(self).0])
    }
}

impl ServerDomains {
    pub(super) fn new(settings: &McpSettings) -> Self {
        let server = match &settings.transport {
            McpTransport::Stdio { command, .. } => json!([settings.name, command]),
            McpTransport::Http { url, headers: _ } => {
                let url = url::Url::parse(url.expose()).ok();
                let host = url.map(|url| url.origin().ascii_serialization());
                json!([settings.name, host])
            }
        };
        let digest = Canonical::value(&server).digest().to_hex();
        let name = sanitize_name(&settings.name);
        Self(format!("mcp:{name}:{}", &digest[..SERVER_DIGITS]))
    }

    /// Creates the domains of a server that has no settings; `base` begins their names.
    pub(super) fn with_base(base: String) -> Self {
        Self(base)
    }

    /// The domain that every announcement raises.
    pub(super) fn base(&self) -> &str {
        &self.0
    }

    /// Returns the domains that the answer to a call joins; `id` is the URI of a resource.
    pub(super) fn joined(&self, kind: ToolSourceKind, id: &str) -> Domains {
        let names = match kind {
            ToolSourceKind::Tool => vec![self.list("tools")],
            ToolSourceKind::Prompt => vec![self.list("prompts")],
            ToolSourceKind::Resource | ToolSourceKind::Template => {
                vec![
                    self.list("resources"),
                    self.resource(normalized(id).as_str()),
                ]
            }
        };
        Domains::named(names)
    }

    /// Returns the domains that an announcement raises.
    pub(super) fn raised(&self, announcement: &Announcement) -> Domains {
        let mut names = vec![self.0.clone()];
        match announcement {
            Announcement::Tools => names.push(self.list("tools")),
            Announcement::Prompts => names.push(self.list("prompts")),
            Announcement::Resources => names.push(self.list("resources")),
            Announcement::Resource(uri) => {
                let uri = normalized(uri);
                let levels = levels(&uri);
                if levels.len() > MAX_LEVELS {
                    names.push(self.list("resources"))
                } else {
                    names.extend(levels.into_iter().map(|level| self.resource(level)))
                }
            }
            Announcement::Unreadable => {
                names.extend(["tools", "prompts", "resources"].map(|list| self.list(list)));
            }
        }
        Domains::named(names)
    }

    fn list(&self, list: &str) -> String {
        format!("{}:{list}", self.0)
    }

    fn resource(&self, uri: &str) -> String {
        let digest = Digest::sha256(uri.as_bytes()).to_hex();
        format!("{}:resource:{}", self.0, &digest[..RESOURCE_DIGITS])
    }
}

/// Returns a form of a URI that is the same for all its spellings. Different URIs may have the same form,
/// which expires more than needed.
fn normalized(uri: &str) -> String {
    let parsed = url::Url::parse(uri).map(String::from);
    let uri = parsed.unwrap_or_else(|_| uri.to_owned());
    let decoded = percent_decode_str(&uri).decode_utf8_lossy();
    decoded.trim_end_matches('/').to_owned()
}

/// Returns a URI and those above it, up to the first `/`, `?` or `#`: they may contain it.
fn levels(uri: &str) -> Vec<&str> {
    let above = uri
        .char_indices()
        .filter(|(_, character)| "/?#".contains(*character));
    let mut levels: Vec<&str> = above
        .map(|(end, _)| uri[..end].trim_end_matches('/'))
        .collect();
    levels.push(uri);
    levels.dedup();
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachalot_core::Secret;
    use cachalot_operation::domains::EngineLifetime;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn domains(url: &str) -> ServerDomains {
        let headers = BTreeMap::new();
        let url = Secret::new(url.to_owned());
        let settings = McpSettings::new("x", McpTransport::Http { url, headers });
        ServerDomains::new(&settings)
    }

    /// True if an announcement expires an answer.
    fn expires(announcement: &Announcement, kind: ToolSourceKind, id: &str) -> bool {
        let server = domains("https://a.example/mcp");
        let engine = EngineLifetime::Persistent;
        let joined = server.joined(kind, id).for_engine(engine);
        let raised = server.raised(announcement).for_engine(engine);
        raised.iter().any(|domain| joined.contains(domain))
    }

    #[test]
    fn an_announcement_expires_what_it_names() {
        use ToolSourceKind::{Prompt, Resource, Template, Tool};
        for (announcement, kinds) in [
            (Announcement::Tools, &[Tool][..]),
            (Announcement::Prompts, &[Prompt]),
            (Announcement::Resources, &[Resource, Template]),
            (
                Announcement::Unreadable,
                &[Tool, Prompt, Resource, Template],
            ),
            (Announcement::Resource("x://other".to_owned()), &[]),
        ] {
            for kind in [Tool, Prompt, Resource, Template] {
                let expires = expires(&announcement, kind, "x://a");
                assert_eq!(expires, kinds.contains(&kind), "{announcement:?} {kind:?}");
            }
        }
    }

    #[test]
    fn an_updated_resource_expires_itself_and_those_that_contain_it() {
        for (updated, read, expected) in [
            ("x://a", "x://a", true),
            ("x://a/b", "x://a", true),
            ("x://a/b", "x://a/", true),
            ("x://a/b/", "x://a/b", true),
            ("file:///p/q/r", "file:///p", true),
            ("x://a?b=1", "x://a", true),
            ("X://A%20b", "x://A b", true),
            ("https://H.example/a", "https://h.example:443/a", true),
            ("x://a", "x://a/b", false),
            ("x://a/b", "x://a/c", false),
            ("x://ab", "x://a", false),
            ("no uri", "no uri", true),
        ] {
            let update = Announcement::Resource(updated.to_owned());
            let expires = expires(&update, ToolSourceKind::Resource, read);
            assert_eq!(expires, expected, "{updated} {read}");
        }
        let deep = format!("x://{}", "a/".repeat(1_000));
        let update = Announcement::Resource(deep.clone());
        assert!(expires(&update, ToolSourceKind::Resource, &deep));
    }

    #[test]
    fn servers_have_domains_of_their_own() {
        let one = domains("https://a.example/mcp?key=1");
        assert_ne!(one.0, domains("https://b.example/mcp?key=1").0);
        assert_eq!(one.0, domains("https://a.example/mcp?key=2").0);
    }

    proptest! {
        #[test]
        fn an_updated_resource_expires_itself(uri in ".{0,80}") {
            let update = Announcement::Resource(uri.clone());
            prop_assert!(expires(&update, ToolSourceKind::Resource, &uri));
        }
    }
}

//! Names of the tools of servers.

use std::collections::BTreeMap;

use cachalot_core::Digest;
use cachalot_tools::{MAX_NAME_BYTES, sanitize_name};

/// The kinds of tools from servers, in the order of naming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ToolSourceKind {
    Tool,
    Resource,
    Template,
    Prompt,
}

impl ToolSourceKind {
    /// The prefix of the name.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Tool => "",
            Self::Resource | Self::Template => "resource_",
            Self::Prompt => "prompt_",
        }
    }
}

/// A tool, resource, template or prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ToolSource {
    pub(super) server: String,
    pub(super) kind: ToolSourceKind,
    /// The server's identifier for it.
    pub(super) id: String,
}

/// The names of the tools of all servers. Each name is assigned once and kept, so that a tool that is listed
/// again gets the same name.
#[derive(Debug, Default)]
pub struct ToolNames {
    assigned: BTreeMap<ToolSource, String>,
    used: BTreeMap<String, ToolSource>,
}

impl ToolNames {
    /// Assigns `mcp_<server>_<name>`, with characters that providers refuse replaced by `_`. If that is too
    /// long or already taken, it is cut and ends in a part of the digest of its source.
    pub(super) fn assign(&mut self, source: ToolSource, name: &str) -> String {
        if let Some(assigned) = self.assigned.get(&source) {
            return assigned.clone();
        }
        let plain = format!(
            "mcp_{}_{}{}",
            sanitize_name(&source.server),
            source.kind.prefix(),
            sanitize_name(name)
        );
        let kind = source.kind.prefix();
        let digest = Digest::sha256_of_parts(&[
            source.server.as_bytes(),
            kind.as_bytes(),
            source.id.as_bytes(),
        ])
        .to_hex();
        let mut name = if plain.len() <= MAX_NAME_BYTES {
            plain.clone()
        } else {
            with_suffix(&plain, &digest[..8])
        };
        let mut length = 8;
        while self.used.contains_key(&name) {
            name = with_suffix(&plain, &digest[..length]);
            length = (length + 8).min(56);
        }
        self.used.insert(name.clone(), source.clone());
        self.assigned.insert(source, name.clone());
        name
    }
}

/// Cuts `name` and appends `_` and `end`, within the maximum length.
fn with_suffix(name: &str, end: &str) -> String {
    // The name is ASCII.
    let start = &name[..name.len().min(MAX_NAME_BYTES - 1 - end.len())];
    format!("{start}_{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(server: &str, kind: ToolSourceKind, id: &str) -> ToolSource {
        ToolSource {
            server: server.to_owned(),
            kind,
            id: id.to_owned(),
        }
    }

    fn tool(names: &mut ToolNames, server: &str, name: &str) -> String {
        names.assign(source(server, ToolSourceKind::Tool, name), name)
    }

    #[test]
    fn tool_names_contain_server_and_kind() {
        let mut names = ToolNames::default();
        assert_eq!(
            tool(&mut names, "git hub", "list.repos"),
            "mcp_git_hub_list_repos"
        );
        let resource = source("docs", ToolSourceKind::Resource, "file:///readme");
        assert_eq!(
            names.assign(resource, "Read me"),
            "mcp_docs_resource_Read_me"
        );
        let prompt = source("docs", ToolSourceKind::Prompt, "review");
        assert_eq!(names.assign(prompt, "review"), "mcp_docs_prompt_review");
    }

    #[test]
    fn colliding_names_are_made_unique_and_stay_stable() {
        let mut names = ToolNames::default();
        let first = tool(&mut names, "a_b", "c");
        let second = tool(&mut names, "a", "b_c");
        assert_eq!(first, "mcp_a_b_c");
        assert!(second.starts_with("mcp_a_b_c_"), "{second}");
        assert_eq!(tool(&mut names, "a", "b_c"), second);
        assert_eq!(tool(&mut names, "a_b", "c"), first);
        let long = "x".repeat(100);
        let long_first = tool(&mut names, "s", &format!("{long}1"));
        let long_second = tool(&mut names, "s", &format!("{long}2"));
        assert_ne!(long_first, long_second);
        assert_eq!(long_first.len(), 64);
    }

    proptest! {
        #[test]
        fn tool_names_are_valid_and_unique(sources in prop::collection::vec((".{0,20}", ".{0,80}"), 1..40)) {
            let mut names = ToolNames::default();
            let mut seen = BTreeMap::new();
            for (server, name) in sources {
                let assigned = tool(&mut names, &server, &name);
                prop_assert!((1..=64).contains(&assigned.len()));
                prop_assert!(assigned.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                let before = seen.insert(assigned, (server.clone(), name.clone()));
                prop_assert!(before.is_none_or(|before| before == (server, name)));
            }
        }
    }
}

//! The settings of tools that all agents of a file share: its MCP servers, and the cache of results.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::tree::Node;
use cachalot_tools::cached::ToolCacheSettings;

use super::servers::{ServerDefinition, read_servers};

/// A part of a file that was read, with the problems that were found in it.
#[derive(Debug, Clone)]
pub struct Parsed<T> {
    /// The settings. Parts with problems are left out.
    pub value: T,
    /// The problems of this part.
    pub problems: Vec<Problem>,
    /// The part as JSON, for digests. Variables are not expanded.
    pub written: String,
}

impl<T> Parsed<T> {
    /// Reads a part of a file.
    pub fn read(node: &Node, read: impl FnOnce(&Node, &mut Vec<Problem>) -> T) -> Self {
        let mut problems = Vec::new();
        Self {
            value: read(node, &mut problems),
            problems,
            written: node.to_value().to_string(),
        }
    }

    /// Returns the problems that are not warnings.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| !problem.is_warning)
    }
}

/// The settings of tools that all agents of a file share.
#[derive(Debug, Clone, Default)]
pub struct SharedTools {
    /// `mcps`: the MCP servers, by name.
    pub servers: Option<Parsed<BTreeMap<String, ServerDefinition>>>,
    /// `tools`: the cache of results.
    pub results: Option<Parsed<ToolCacheSettings>>,
}

impl SharedTools {
    /// Reads `mcps` and `tools` of a file. `root` is its tree, `environment` has the values of variables.
    #[must_use]
    pub fn read(root: &Node, environment: &BTreeMap<String, String>) -> Self {
        let present = |key| root.get(key).filter(|node| !node.is_null());
        let servers =
            |node: &Node, problems: &mut Vec<Problem>| read_servers(node, environment, problems);
        let results = |node: &Node, problems: &mut Vec<Problem>| {
            ToolCacheSettings::read(node, problems).unwrap_or_default()
        };
        Self {
            servers: present("mcps").map(|node| Parsed::read(node, servers)),
            results: present("tools").map(|node| Parsed::read(node, results)),
        }
    }
}

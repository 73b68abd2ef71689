//! The tools of an agent file.

use std::collections::BTreeMap;

use cachalot_core::tree::Node;
use cachalot_mcp::settings::{Parsed, SharedTools, ToolsetSettings, read_toolsets};

use super::groups::Groups;

/// The tools of an agent file. They are read whatever the problems of its other parts.
#[derive(Debug)]
pub struct FileTools {
    /// The settings that all agents share.
    pub shared: SharedTools,
    /// The toolsets of each agent, in the order of the file; `None` for an agent without.
    pub toolsets: Vec<Option<Parsed<ToolsetSettings>>>,
}

impl FileTools {
    /// Reads the tools of a file. `root` is its tree, `environment` has the values of variables.
    #[must_use]
    pub fn read(root: &Node, environment: &BTreeMap<String, String>) -> Self {
        let shared = SharedTools::read(root, environment);
        let none = BTreeMap::new();
        let servers = shared.servers.as_ref();
        let servers = servers.map_or(&none, |servers| &servers.value);
        let groups = Groups::from_root(root);
        let toolsets = |agent: &Node| {
            let toolsets = groups.toolsets(agent)?;
            Some(Parsed::read(&toolsets, |node, problems| {
                read_toolsets(node, servers, environment, problems)
            }))
        };
        let agents = root.get("agents").and_then(Node::as_map);
        let agents = agents.unwrap_or_default().iter();
        Self {
            toolsets: agents.map(|agent| toolsets(&agent.value)).collect(),
            shared,
        }
    }
}

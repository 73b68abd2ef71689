//! Agents with `readonly: true` that give work to an agent that may change something.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::tree::Node;
use cachalot_mcp::settings::{ToolsetKind, ToolsetSettings, writing_tools};
use cachalot_workflow::Registry;

/// The name of a tool of each agent that is known to change something, by agent.
#[derive(Default)]
pub(crate) struct WritingAgents(BTreeMap<String, String>);

impl WritingAgents {
    /// Records the toolsets of an agent. Tools of MCP servers are not known before these start; their agents are
    /// checked when they begin to work.
    pub(crate) fn record(&mut self, agent: &str, toolsets: &ToolsetSettings, actions: &Registry) {
        let of_actions = toolsets
            .toolsets
            .iter()
            .filter(|toolset| !toolset.read_only);
        let mut of_actions = of_actions.flat_map(|toolset| match &toolset.kind {
            ToolsetKind::Actions(names) => names.as_slice(),
            _ => &[],
        });
        let writes = |name: &&String| {
            let action = actions.get(name);
            action.is_some_and(|action| !action.metadata().read_only)
        };
        let tool = writing_tools(toolsets).into_iter().next();
        let tool = tool.or_else(|| of_actions.find(writes).cloned());
        if let Some(tool) = tool {
            self.0.insert(agent.to_owned(), tool);
        }
    }

    /// Returns a problem for each agent that a read-only agent names and that may change something, itself or by
    /// an agent to which it gives work in turn.
    pub(crate) fn problems(&self, root: &Node) -> Vec<Problem> {
        let agents = root.get("agents").and_then(Node::as_map);
        let agents = agents.unwrap_or_default();
        let read_only = agents.iter().filter(|agent| is_read_only(&agent.value));
        let named = read_only.flat_map(|agent| {
            let named = named_agents(&agent.value).into_iter();
            named.map(|(name, place)| (agent.key.as_str(), name, place))
        });
        named
            .filter_map(|(agent, name, place)| {
                let (writer, tool) = self.find_writer(root, name)?;
                let through = if writer == name { String::new() } else { format!(" (through `{name}`)") };
                let message = format!(
                    "agent `{agent}` is `readonly` and gives work to `{writer}`{through}, whose tool `{tool}` may change something"
                );
                let help = format!(
                    "make `{writer}` `readonly`, take it out, or take `readonly` out of `{agent}`"
                );
                let problem = Problem::new("readonly-gives-work", message);
                Some(problem.at(&place.place).help(help))
            })
            .collect()
    }

    /// Returns an agent that may change something, with its tool: `name`, or one that it reaches.
    fn find_writer<'a>(&'a self, root: &'a Node, name: &'a str) -> Option<(&'a str, &'a str)> {
        let mut reached = vec![name];
        let mut at = 0;
        while let Some(name) = reached.get(at).copied() {
            if let Some(tool) = self.0.get(name) {
                return Some((name, tool));
            }
            at += 1;
            let Some(agent) = root.get("agents").and_then(|agents| agents.get(name)) else {
                continue;
            };
            for (other, _) in named_agents(agent) {
                if !reached.contains(&other) {
                    reached.push(other);
                }
            }
        }
        None
    }
}

fn is_read_only(agent: &Node) -> bool {
    agent.get("readonly").and_then(Node::as_boolean) == Some(true)
}

/// Returns the agents to which an agent may give work, with their places.
fn named_agents(agent: &Node) -> Vec<(&str, &Node)> {
    let list = |key| agent.get(key).and_then(Node::as_list).unwrap_or_default();
    let named = list("sub_agents").iter().chain(list("handoffs"));
    let named = named.chain(agent.get("force_handoff"));
    named
        .filter_map(|item| {
            let name = item.as_text().or_else(|| item.get("name")?.as_text())?;
            Some((name, item))
        })
        .collect()
}

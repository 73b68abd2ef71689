//! The tools of the team's MCP servers, for hooks.

use async_trait::async_trait;
use cachalot_hooks::{Fault, HookTools};
use cachalot_mcp::settings::McpServerPool;
use cachalot_model::Block;
use cachalot_tools::ToolContext;
use cachalot_tools::filter::NameFilter;
use serde_json::{Map, Value};

/// Calls tools of the servers that the agents use. The hook was configured by the user, so that no permission is asked
/// for.
pub(super) struct PoolTools {
    pub(super) servers: McpServerPool,
    pub(super) context: ToolContext,
}

#[async_trait]
impl HookTools for PoolTools {
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, Fault> {
        let servers = self.servers.servers();
        let Some(found) = servers.iter().find(|known| known.name() == server) else {
            return Err(Fault::new(format!(
                "no agent uses an MCP server `{server}`: name it in `toolsets`"
            )));
        };
        let found = self.servers.tool(found, tool, &NameFilter::default()).await;
        let found = found.map_err(|error| Fault::new(error.to_string()))?;
        let output = found.run(arguments, &self.context).await;
        let texts = output.content.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect();
        let text = texts.join("\n");
        if output.is_error {
            return Err(Fault::new(format!("`{tool}` failed: {text}")));
        }
        Ok(text)
    }
}

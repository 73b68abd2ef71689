//! `/mcp`: the MCP servers of a chat.

use cachalot_mcp::ServerState;

use crate::render;
use crate::render::visible::on_one_line;
use crate::workbench::ListedServer;

/// Describes servers, their state and their tools.
pub(super) fn describe(servers: &[ListedServer]) -> String {
    if servers.is_empty() {
        return "there are no MCP servers; `toolsets: [{type: mcp, …}]` in an agent file names them"
            .to_owned();
    }
    let mut lines = Vec::new();
    for ListedServer {
        name,
        place,
        state,
        tools,
    } in servers
    {
        let state = match state {
            ServerState::Connected => "connected".to_owned(),
            ServerState::Connecting => "connecting".to_owned(),
            ServerState::NotConnected => "not connected".to_owned(),
            ServerState::Failed(why) => format!("failed: {}", on_one_line(why)),
        };
        let count = render::count(tools.len() as u64, "tool", "tools");
        let (name, place) = (on_one_line(name), on_one_line(place));
        lines.push(format!("{name} ({place}): {state}, {count}"));
        lines.extend(tools.iter().map(|tool| format!("  {}", on_one_line(tool))));
    }
    lines.join("\n")
}

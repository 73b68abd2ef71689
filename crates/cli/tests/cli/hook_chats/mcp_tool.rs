//! Hooks that are tools of MCP servers.

use super::ask;
use crate::provider::{Provider, SCRIPTED_MODEL, SHELL};
use crate::support::Home;

/// A server with a tool `check`, which denies commands with the word `secret`.
const GUARD: &str = r#"
import json, sys
def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "guard", "version": "1"}}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"command": {"type": "string"}}}
        return {"tools": [{"name": "check", "inputSchema": schema}]}
    if method == "tools/call":
        denies = "secret" in params["arguments"]["command"]
        decision = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "secrets stay here"}
        text = json.dumps({"hookSpecificOutput": decision}) if denies else ""
        return {"content": [{"type": "text", "text": text}]}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params") or {})
        member = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **member}), flush=True)
"#;

const HOOKS: &str = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
    {"type": "mcp_tool", "server": "guard", "tool": "check", "input": {"command": "${tool_input.command}"}, "on_error": "block"}
]}]}}"#;

#[test]
fn tool_of_a_server_guards_the_shell() {
    let home = Home::new();
    let provider = Provider::scripted(SCRIPTED_MODEL);
    home.write("guard.py", GUARD);
    home.write(".claude/settings.json", HOOKS);
    let uses = "toolsets: [{type: shell}, {type: mcp, ref: guard}]";
    let servers = "mcps: {guard: {command: python3, args: [guard.py]}}\n";
    let agent = SHELL.replace("toolsets: [{type: shell}]", uses) + servers;
    home.write("agent.yaml", agent);
    let hooks = ".claude/settings.json";
    let ran = ask(&home, &provider, hooks, "run echo a-secret > made").ok();
    assert!(!home.join("made").exists(), "{ran}");
    assert!(ran.stdout.contains("secrets stay here"), "{ran}");
    let ran = ask(&home, &provider, hooks, "run touch made").ok();
    assert!(home.join("made").exists(), "{ran}");
    // An agent that does not use the server has no such guard: it is closed.
    home.write("agent.yaml", SHELL);
    let ran = ask(&home, &provider, hooks, "run touch later").ok();
    assert!(!home.join("later").exists(), "{ran}");
    let all = ran.to_string();
    assert!(all.contains("no agent uses an MCP server `guard`"), "{ran}");
}

//! `cachalot why` for calls through the MCP proxy.
#![cfg(unix)]

use std::fs::File;
use std::process::Stdio;

use serde_json::json;

use crate::mcp_cache::Client;
use crate::support::{CommandOutput, Home};

/// A server whose version is in the file `version`. `announce` announces an update of a resource, `write` may change
/// something.
const SERVER: &str = r#"
import json, sys

def tool(name, annotations):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": annotations}

READ = {"readOnlyHint": True}
TOOLS = [tool("read", READ), tool("announce", READ), tool("write", {})]

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def answer(method, params):
    if method == "initialize":
        info = {"name": "s", "version": open("version").read()}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if params["name"] == "announce":
        send({"method": "notifications/resources/updated", "params": {"uri": "x://a"}})
    return {"content": []}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        send({"id": request["id"], "result": answer(request["method"], request.get("params") or {})})
"#;

const POLICY: &str = "servers: {files: {stateless: true, tools: {read: {ttl: 1h, resources: ['x://a']}, announce: {}}}}\n";

fn home() -> Home {
    let home = Home::new();
    home.write("server.py", SERVER);
    home.write("version", "1.0");
    home.write("policy.yaml", POLICY);
    home
}

/// Calls tools of a server that is started with these arguments and variables, and explains the last call.
fn why_after(
    home: &Home,
    tools: &[&str],
    server: &[&str],
    variables: &[(&str, &str)],
) -> CommandOutput {
    let proxy = [
        "mcp",
        "--policy",
        "policy.yaml",
        "--",
        "python3",
        "server.py",
    ];
    let mut command = home.command(&[&proxy, server].concat());
    command.envs(variables.iter().copied());
    let mut client = Client::spawn(command, Stdio::null());
    for tool in tools {
        client.ask("tools/call", &json!({"name": tool, "arguments": {}}));
    }
    client.end();
    home.run(&["why"]).ok()
}

/// An explanation without what differs from run to run.
fn shown(why: &CommandOutput, home: &Home) -> String {
    let key = regex::Regex::new(r"/[0-9a-f]{10,}\b").unwrap();
    key.replace_all(&why.shown(home), "/[key]").into_owned()
}

#[test]
fn changed_parts_of_the_server_are_named() {
    let home = home();
    why_after(&home, &["read"], &[], &[]);
    home.write("version", "1.1");
    home.write("server.py", format!("{SERVER}# new\n"));
    let why = why_after(&home, &["read"], &[], &[]);
    insta::assert_snapshot!("mcp_server_with_another_version", shown(&why, &home));
    let token = [("FILES_TOKEN", "swordfish")];
    let why = why_after(&home, &["read"], &["--read-only"], &token);
    insta::assert_snapshot!("mcp_server_with_another_command", shown(&why, &home));
    let token = [("FILES_TOKEN", "marlin")];
    let why = why_after(&home, &["read"], &["--read-only"], &token);
    insta::assert_snapshot!("mcp_server_with_another_environment", shown(&why, &home));
    home.write(
        "policy.yaml",
        "servers: {files: {stateless: true, tools: {read: {ttl: 2h}}}}\n",
    );
    let why = why_after(&home, &["read"], &["--read-only"], &token);
    insta::assert_snapshot!("mcp_policy_that_was_changed", shown(&why, &home));
    let ledger = std::fs::read(home.join("data/cachalot/cachalot.db.ledger")).unwrap();
    let holds = |word: &str| {
        let mut found = ledger.windows(word.len());
        found.any(|bytes| bytes == word.as_bytes())
    };
    assert!(holds("FILES_TOKEN") && !holds("swordfish") && !holds("marlin"));
}

#[test]
fn calls_and_announcements_that_invalidate_answers_are_named() {
    let home = home();
    let why = why_after(&home, &["read", "write", "read"], &[], &[]);
    insta::assert_snapshot!("mcp_answer_before_a_write", shown(&why, &home));
    let json = home.run(&["why", "--json"]).ok().json();
    assert_eq!(json["written_by"][0]["name"], "mcp:server/write");
    let why = why_after(&home, &["read", "announce", "read"], &[], &[]);
    insta::assert_snapshot!("mcp_answer_before_an_announcement", shown(&why, &home));
}

#[test]
fn answers_of_one_session_are_explained() {
    let home = home();
    home.write(
        "policy.yaml",
        "servers: {files: {tools: {read: {ttl: 1h}}}}\n",
    );
    why_after(&home, &["read"], &[], &[]);
    let why = why_after(&home, &["read"], &[], &[]);
    insta::assert_snapshot!("mcp_answer_of_another_session", shown(&why, &home));
}

#[test]
fn lines_of_calls_have_the_reason_why_the_cache_did_not_answer() {
    let home = home();
    home.write(
        "policy.yaml",
        "servers: {files: {stateless: true, tools: {read: {ttl: 1h, paths: {path: file}}, announce: {}}}}\n",
    );
    home.write("a.txt", "one");
    let path = home.join("a.txt").to_str().unwrap().to_owned();
    let secret = "ghp_abcdefghijklmnopqrst0123";
    let arguments = [
        "mcp",
        "--policy",
        "policy.yaml",
        "--",
        "python3",
        "server.py",
    ];
    for quiet in [false, true] {
        let mut command = home.command(&arguments[..1]);
        command
            .args(quiet.then_some("--quiet"))
            .args(&arguments[1..]);
        let stderr = File::create(home.join("stderr")).unwrap();
        let mut client = Client::spawn(command, stderr.into());
        for (tool, path) in [
            ("read", path.as_str()),
            ("read", secret),
            ("read", "/no/such/file"),
            ("announce", ""),
            ("write", ""),
        ] {
            client.ask(
                "tools/call",
                &json!({"name": tool, "arguments": {"path": path}}),
            );
        }
        client.end();
        let lines = std::fs::read_to_string(home.join("stderr")).unwrap();
        assert!(!lines.contains(secret), "{lines}");
        let lines: Vec<&str> = lines
            .lines()
            .filter(|it| it.contains("tools/call"))
            .collect();
        if quiet {
            assert!(lines.is_empty(), "{lines:?}");
            continue;
        }
        let count = |parts: &[&str]| {
            let has_all = |line: &&&str| parts.iter().all(|part| line.contains(part));
            lines.iter().filter(has_all).count()
        };
        assert_eq!(lines.len(), 5, "{lines:?}");
        for parts in [
            &["tools/call read ", "miss: not in the cache"][..],
            &[
                "tools/call read ",
                "bypass: the path `[secret]` is relative",
            ],
            &["tools/call read ", "miss: not in the cache; not stored: "],
            &[
                "tools/call announce ",
                "bypass: its entry of the policy has no `ttl`",
            ],
            &[
                "tools/call write ",
                "bypass: no entry of the policy names the tool",
            ],
        ] {
            assert!(count(parts) >= 1, "{parts:?}: {lines:?}");
        }
    }
}

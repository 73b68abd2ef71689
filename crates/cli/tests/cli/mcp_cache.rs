//! `cachalot mcp --policy` and `cachalot mcp suggest`, in front of a server that is a program.
#![cfg(unix)]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::Home;

/// A server with a tool that returns the content of a file. It notes each call in the file `calls`.
const SERVER: &str = r#"
import json, sys

TOOL = {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    path = params["arguments"]["path"]
    with open("calls", "a") as calls:
        calls.write("call\n")
    with open(path) as file:
        return {"content": [{"type": "text", "text": file.read()}]}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

const POLICY: &str = "servers: {files: {stateless: true, tools: {read: {paths: {path: file}}}}}\n";

/// A client of the proxy.
pub(crate) struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        let server = ["--", "python3", "server.py"];
        let command = home.command(&[arguments, &server].concat());
        Self::spawn(command, Stdio::null())
    }

    /// Starts a proxy and its server.
    pub(crate) fn spawn(mut command: Command, stderr: Stdio) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut client = Self {
            process,
            input,
            output,
            next: 1,
        };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        client.ask("initialize", &params);
        client
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// Reads a file; returns its text, and true if the cache has answered.
    fn read(&mut self, path: &Path) -> (String, bool) {
        let params = json!({"name": "read", "arguments": {"path": path}});
        let result = self.ask("tools/call", &params);
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        (text, result["_meta"]["dev.cachalot/cache"].is_object())
    }

    /// Reads a file until the cache answers. A file that was written just before is not stored.
    fn read_until_served(&mut self, path: &Path) -> String {
        for _ in 0..200 {
            if let (text, true) = self.read(path) {
                return text;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the cache never answers");
    }

    pub(crate) fn end(mut self) {
        drop(self.input);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Writes a file whose time of change is always the same.
fn write_old(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    file.set_modified(time).unwrap();
}

#[test]
fn answers_of_a_server_are_served_until_a_declared_file_changes() {
    let home = Home::new();
    home.write("server.py", SERVER);
    home.write("policy.yaml", POLICY);
    let file = home.join("a.txt");
    write_old(&file, "one");
    let arguments = ["mcp", "--quiet", "--policy", "policy.yaml"];
    let mut client = Client::start(&home, &arguments);
    assert_eq!(client.read(&file), ("one".to_owned(), false));
    assert_eq!(client.read_until_served(&file), "one");
    write_old(&file, "two");
    assert_eq!(client.read(&file), ("two".to_owned(), false));
    assert_eq!(client.read_until_served(&file), "two");
    client.end();
    let calls = || std::fs::read_to_string(home.join("calls")).unwrap().len();
    let before = calls();
    let mut next = Client::start(&home, &arguments);
    assert_eq!(next.read(&file), ("two".to_owned(), true));
    next.end();
    assert_eq!(calls(), before);
    let listed = home.run(&["cache", "ls"]).ok();
    assert!(listed.stdout.contains("/read/"), "{}", listed.stdout);
    let reasons = home.run(&["why"]).ok();
    assert!(reasons.stdout.contains("read"), "{}", reasons.stdout);
}

#[test]
fn suggestions_are_a_valid_policy_with_the_repeated_calls() {
    let home = Home::new();
    home.write("server.py", SERVER);
    let file = home.join("a.txt");
    write_old(&file, "one");
    let arguments = ["mcp", "suggest", "--output", "policy.yaml"];
    let mut client = Client::start(&home, &arguments);
    client.ask("tools/list", &json!({}));
    for _ in 0..3 {
        assert_eq!(client.read(&file), ("one".to_owned(), false));
    }
    client.end();
    home.run(&["validate", "policy.yaml"]).ok();
    let policy = std::fs::read_to_string(home.join("policy.yaml")).unwrap();
    assert!(policy.contains("read: {paths: {path: file}}"), "{policy}");
    assert!(policy.contains("2 of 3 calls repeat"), "{policy}");
}

#[test]
fn a_policy_with_a_mistake_ends_the_command_before_the_server_starts() {
    let home = Home::new();
    home.write("policy.yaml", "servers: {a: {tools: {x: {tll: 1h}}}}\n");
    for arguments in [
        &["mcp", "--policy", "policy.yaml", "--", "false"][..],
        &["validate", "policy.yaml"],
    ] {
        let ended = home.run(arguments).fails(2);
        assert!(
            ended.stderr.contains("did you mean `ttl`"),
            "{}",
            ended.stderr
        );
    }
}

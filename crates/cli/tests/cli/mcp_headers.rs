//! `cachalot mcp --url URL --header HEADER`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::mcp_logins::{Double, log_in};
use crate::support::Home;

/// The header that the server wants; the variable is set.
const TOKEN: &str = "Authorization: Bearer ${THE_TOKEN}";

/// Runs the proxy with a handshake and these requests. Returns the responses, and the output to stderr.
fn through_proxy(home: &Home, arguments: &[&str], requests: &[Value]) -> (Vec<Value>, String) {
    let mut command = home.command(&[&["mcp"], arguments].concat());
    command.env("THE_TOKEN", "the-access-token");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let handshake = json!({
        "jsonrpc": "2.0",
        "id": 7,
        "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } },
    });
    let ask = |request: &Value| {
        writeln!(input, "{request}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let responses = [&[handshake], requests].concat().iter().map(ask).collect();
    drop(input);
    assert!(child.wait().unwrap().success());
    let mut shown = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut shown).unwrap();
    (responses, shown)
}

#[test]
fn headers_reach_the_server_and_win_over_a_login() {
    let (home, double) = (Home::new(), Double::start());
    let url = double.url();
    let (answered, shown) = through_proxy(&home, &["--url", &url, "--header", TOKEN], &[]);
    assert_eq!(answered[0]["result"]["serverInfo"]["name"], "double");
    assert!(!shown.contains("the-access-token"), "{shown}");
    log_in(&home, &double).ok();
    let wrong = "authorization: Bearer another-token";
    let (refused, shown) = through_proxy(&home, &["--url", &url, "--header", wrong], &[]);
    let message = refused[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("HTTP 401"), "{message}");
    // Another login would change nothing.
    assert!(!message.contains("cachalot mcp login"), "{message}");
    assert!(!shown.contains("another-token"), "{shown}");
    assert!(!message.contains("another-token"), "{message}");
}

#[test]
fn headers_are_a_part_of_the_key() {
    let (home, double) = (Home::new(), Double::start());
    home.write(
        "policy.yaml",
        "servers: {s: {stateless: true, tools: {read: {ttl: 1h}}}}\n",
    );
    let url = double.url();
    let call = json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": { "name": "read", "arguments": {} } });
    let is_hit = |tenant: &str| {
        let options = ["--policy", "policy.yaml", "--url", &url, "--header", TOKEN];
        let tenant = ["--header", tenant];
        let calls = [call.clone()];
        let (answered, _) = through_proxy(&home, &[&options[..], &tenant].concat(), &calls);
        let result = &answered[1]["result"];
        assert!(result["content"].is_array(), "{answered:?}");
        result["_meta"]["dev.cachalot/cache"]["status"] == "hit"
    };
    assert!(!is_hit("X-Tenant: the-first-tenant"));
    assert!(!is_hit("X-Tenant: the-other-tenant"));
    assert!(is_hit("x-tenant:the-first-tenant"));
    for (file, content) in home.files() {
        for value in ["the-access-token", "the-first-tenant"] {
            let has_value = content
                .windows(value.len())
                .any(|it| it == value.as_bytes());
            assert!(!has_value, "{}", file.display());
        }
    }
}

#[test]
fn wrong_headers_are_named_without_their_values() {
    let home = Home::new();
    let url = ["--url", "http://127.0.0.1:9/mcp"];
    for (header, why) in [
        ("swordfish", "--header: a header has to be `NAME: VALUE`"),
        (
            "X-A: swordfish ${NOT_SET}",
            "the variable `NOT_SET` is not set",
        ),
        ("Accept: swordfish", "`Accept` belongs to the protocol"),
        (
            "X-A: sword\nfish",
            "`X-A` has a value that no header can have",
        ),
    ] {
        let words = [&["mcp"], &url[..], &["--header", header]].concat();
        let ran = home.run(&words).fails(2);
        assert!(ran.unwrapped().contains(why), "{ran}");
        assert!(!ran.to_string().contains("fish"), "{ran}");
    }
    let twice = ["--header", "X-A: 1", "--header", "x-a: 2"];
    let ran = home.run(&[&["mcp"], &url[..], &twice].concat()).fails(2);
    assert!(ran.unwrapped().contains("`x-a` is given twice"), "{ran}");
    // Only for a URL.
    for words in [
        &["mcp", "--header", "X-A: swordfish"][..],
        &["mcp", "--header", "X-A: swordfish", "--", "cat"],
        &["mcp", "--header", "X-A: swordfish", "--servers", "s.json"],
    ] {
        let ran = home.run(words).fails(2);
        assert!(ran.stderr.contains("--header"), "{ran}");
        assert!(!ran.to_string().contains("swordfish"), "{ran}");
    }
}

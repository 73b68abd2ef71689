//! `cachalot mcp login`, `logout` and `ls`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{CommandOutput, Home};

/// A double of an authorization server and of the MCP server that it protects. It accepts everything; what it
/// requires of a client is tested with the double of `cachalot-mcp`.
pub(crate) struct Double {
    origin: String,
}

impl Double {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let own = origin.clone();
        // Ends with the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let own = own.clone();
                std::thread::spawn(move || answer(stream.unwrap(), &own));
            }
        });
        Self { origin }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }
}

fn answer(stream: TcpStream, origin: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let has_token = lower.contains("\r\nauthorization: bearer the-access-token\r\n");
    let (status, answer) = match path {
        "/mcp" if has_token => {
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            let read = json!({
                "name": "read",
                "inputSchema": { "type": "object" },
                "annotations": { "readOnlyHint": true },
            });
            let result = match request["method"].as_str() {
                Some("tools/list") => json!({ "tools": [read] }),
                Some("tools/call") => json!({ "content": [] }),
                _ => json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "serverInfo": { "name": "double", "version": "1" },
                }),
            };
            let response = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
            ("200 OK", response)
        }
        "/mcp" => ("401 Unauthorized", json!({})),
        "/.well-known/oauth-protected-resource/mcp" => (
            "200 OK",
            json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["read"] }),
        ),
        "/.well-known/oauth-authorization-server" => (
            "200 OK",
            json!({
                "issuer": origin,
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "code_challenge_methods_supported": ["S256"],
            }),
        ),
        "/register" => ("201 Created", json!({ "client_id": "c" })),
        "/token" => (
            "200 OK",
            json!({ "access_token": "the-access-token", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "the-refresh-token" }),
        ),
        _ => ("404 Not Found", json!({})),
    };
    let body = answer.to_string();
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// Logs in without a browser: pastes the address that one would be sent to.
pub(crate) fn log_in(home: &Home, double: &Double) -> CommandOutput {
    let url = double.url();
    let mut command = home.command(&["mcp", "login", "--no-browser", &url]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut shown = BufReader::new(child.stderr.take().unwrap());
    let (mut stderr, mut line) = (String::new(), String::new());
    while !line.starts_with("http") {
        line.clear();
        assert_ne!(shown.read_line(&mut line).unwrap(), 0, "{stderr}");
        stderr += &line;
    }
    let parameters = cachalot_storage::Url::parse(line.trim()).unwrap();
    let parameter = |name: &str| {
        let mut pairs = parameters.query_pairs();
        pairs.find(|(key, _)| key == name).unwrap().1.into_owned()
    };
    let (redirect, state) = (parameter("redirect_uri"), parameter("state"));
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{redirect}?code=x&state={state}").unwrap();
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        shown.read_to_string(&mut rest).unwrap();
        rest
    });
    let mut output: CommandOutput = child.wait_with_output().unwrap().into();
    output.stderr = stderr + &rest.join().unwrap();
    output
}

#[test]
fn login_with_a_pasted_address_is_listed_and_ended() {
    let (home, double) = (Home::new(), Double::start());
    let none = home.run(&["mcp", "ls"]).ok();
    assert!(none.stdout.contains("no logins"), "{none}");
    assert_eq!(home.run(&["mcp", "ls", "--json"]).ok().json(), json!([]));
    let ran = log_in(&home, &double).ok();
    assert!(
        ran.stdout
            .starts_with(&format!("logged in at {}", double.url())),
        "{ran}"
    );
    assert!(ran.stdout.contains("with the scopes read"), "{ran}");
    let listed = home.run(&["mcp", "ls", "--json"]).ok();
    let login = &listed.json()[0];
    assert_eq!(login["server"], double.url());
    assert_eq!(login["issuer"], double.origin.as_str());
    assert_eq!(login["client_kind"], "dynamic");
    assert_eq!(
        (&login["scopes"], &login["is_renewable"]),
        (&json!(["read"]), &Value::Bool(true))
    );
    let shown = home.run(&["mcp", "ls"]).ok();
    assert!(shown.stdout.contains("renewed by itself"), "{shown}");
    for output in [&ran, &listed, &shown] {
        assert!(!output.to_string().contains("-token"), "{output}");
    }
    let ended = home.run(&["mcp", "logout", &double.url()]).ok();
    assert!(ended.stdout.contains("logged out of"), "{ended}");
    let again = home.run(&["mcp", "logout", &double.url()]).fails(1);
    assert!(again.stderr.contains("there is no login at"), "{again}");
    assert_eq!(home.run(&["mcp", "ls", "--json"]).ok().json(), json!([]));
}

/// Runs the proxy with a handshake as its whole input, and returns the response.
fn handshake_through_proxy(home: &Home, double: &Double) -> Value {
    let mut command = home.command(&["mcp", "--quiet", "--url", &double.url()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let request = json!({
        "jsonrpc": "2.0",
        "id": 7,
        "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } },
    });
    writeln!(input, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    serde_json::from_str(&line).unwrap()
}

#[test]
fn the_proxy_uses_the_login_of_the_user() {
    let (home, double) = (Home::new(), Double::start());
    let refused = handshake_through_proxy(&home, &double);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("cachalot mcp login"), "{refused}");
    log_in(&home, &double).ok();
    let answered = handshake_through_proxy(&home, &double);
    assert_eq!(answered["id"], 7);
    assert_eq!(answered["result"]["serverInfo"]["name"], "double");
}

#[test]
fn mistakes_have_remedies() {
    let home = Home::new();
    let url = "https://mcp.example/";
    let ran = home.run(&["mcp", "login", "http://mcp.example/"]).fails(2);
    assert!(ran.unwrapped().contains("use https://"), "{ran}");
    let words = [
        "mcp",
        "login",
        url,
        "--client-id",
        "x",
        "--client-secret-env",
        "UNSET",
    ];
    let ran = home.run(&words).fails(2);
    assert!(ran.unwrapped().contains("UNSET is not set"), "{ran}");
    home.run(&["mcp", "login", url, "--client-secret-env", "A"])
        .fails(2);
    let mut command = home.command(&["mcp", "ls"]);
    command.env_remove("HOME").env_remove("XDG_DATA_HOME");
    let ran = CommandOutput::from(command.output().unwrap()).fails(2);
    assert!(ran.unwrapped().contains("HOME is not set"), "{ran}");
}

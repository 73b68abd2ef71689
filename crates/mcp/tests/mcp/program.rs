//! The server as a program: this test binary, started again.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use cachalot_core::Secret;
use cachalot_mcp::{McpSettings, McpTransport};
use serde_json::Value;

use super::server::{SLEEP, Server, ServerBehavior};

/// Says that the test is to be a server, and of what manner.
const BEHAVIOR: &str = "CACHALOT_TEST_SERVER";
/// Where it notes that it began, and what it got.
const NOTES: &str = "CACHALOT_TEST_NOTES";

/// Not a test: what a program does that [`program`] describes.
#[test]
fn serve() {
    let Ok(behavior) = std::env::var(BEHAVIOR) else {
        return;
    };
    let notes = std::env::var(NOTES).map(PathBuf::from).unwrap();
    let note = |line: &str| {
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&notes)
            .unwrap();
        writeln!(file, "{line}").unwrap();
    };
    note("began");
    say("ready to serve");
    match behavior.as_str() {
        "broken" => {
            say("no licence, says swordfish");
            std::process::exit(7);
        }
        "silent" => loop {
            std::thread::sleep(std::time::Duration::from_secs(100));
        },
        _ => {}
    }
    let words: Vec<&str> = behavior.split(' ').collect();
    let discovery = behavior.strip_prefix("discover ");
    if behavior == "modern late" {
        std::thread::sleep(std::time::Duration::from_millis(2_500));
    }
    let mut server = Server::new(ServerBehavior {
        modern: words[0] == "modern"
            || behavior == "modern-asking"
            || (behavior == "switch" && notes.with_extension("modern").exists()),
        asking: behavior.ends_with("asking"),
        refusal: match words[..] {
            ["modern", code] => code.parse().unwrap_or_default(),
            _ => 0,
        },
        malformed: behavior == "malformed",
        restless: behavior == "restless",
        shuffled: behavior == "shuffled",
    });
    let mut out = std::io::stdout();
    // The test harness has written half a line before.
    writeln!(out).unwrap();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        note(&message.to_string());
        if behavior == "fragile"
            && message["method"] != "initialize"
            && message["method"] != "notifications/initialized"
        {
            std::process::exit(9);
        }
        let discovers = message["method"] == "server/discover";
        let answers = match discovery.filter(|_| discovers) {
            Some("exit") => std::process::exit(1),
            Some(kind) => discovered(kind, &message["id"]),
            None => server.answer(&message),
        };
        for answer in answers {
            match (answer[SLEEP].as_u64(), answer.as_str()) {
                (Some(millis), _) => {
                    out.flush().unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(millis));
                }
                (_, Some(noise)) => writeln!(out, "{noise}").unwrap(),
                _ => writeln!(out, "{answer}").unwrap(),
            }
        }
        out.flush().unwrap();
    }
    std::process::exit(0);
}

/// The answer to discovery: an error with this code and the supported versions, a result, or none.
fn discovered(kind: &str, id: &Value) -> Vec<Value> {
    let (code, supported) = match kind.split_once(' ') {
        Some((code, version)) => (code, Some(version)),
        None => (kind, None),
    };
    let answer = match code.parse::<i64>() {
        _ if kind == "silent" => return Vec::new(),
        Ok(code) if code < 0 => {
            let mut error = serde_json::json!({ "code": code, "message": "no" });
            if let Some(supported) = supported {
                error["data"] = serde_json::json!({ "supported": [supported] });
            }
            ("error", error)
        }
        _ => ("result", serde_json::from_str(kind).unwrap()),
    };
    vec![serde_json::json!({ "jsonrpc": "2.0", "id": id, answer.0: answer.1 })]
}

/// Says something on the standard error of the program.
pub(crate) fn say(what: &str) {
    let mut out = std::io::stderr();
    out.write_all(format!("{what}\n").as_bytes()).unwrap();
}

/// A server that is a program, and notes what happens to it in a file.
pub(crate) fn program(name: &str, behavior: &str, notes: &Path) -> McpSettings {
    let environment = BTreeMap::from([
        (BEHAVIOR.to_owned(), behavior.to_owned()),
        (NOTES.to_owned(), notes.display().to_string()),
        ("OWN".to_owned(), "of its own".to_owned()),
        ("SERVICE_TOKEN".to_owned(), "swordfish".to_owned()),
    ]);
    let program = std::env::current_exe().unwrap();
    McpSettings::new(
        name,
        McpTransport::Stdio {
            command: program.display().to_string(),
            arguments: ["program::serve", "--exact", "--nocapture"]
                .map(str::to_owned)
                .into(),
            environment: environment
                .into_iter()
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
            directory: None,
        },
    )
}

/// The lines of the notes.
pub(crate) fn notes(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

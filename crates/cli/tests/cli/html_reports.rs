//! Reports for a browser: `spend --html`, `run --html`, `prefix analyze --html`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use regex::Regex;
use serde_json::{Value, json};

use crate::support::{CommandOutput, Home, MARKING};

/// Text that would be markup, end an attribute or end a script if it were not escaped.
const HOSTILE: &str = "<b>x</b></script><!-- \" ' onload=\"y\" &lt;";

fn run(home: &Home, arguments: &[&str]) -> CommandOutput {
    let mut command = home.command(arguments);
    command.env("TZ", "UTC").output().unwrap().into()
}

fn report(home: &Home, arguments: &[&str]) -> String {
    let written = run(home, arguments).ok();
    assert!(
        written.stderr.contains("report.html is written"),
        "{written}"
    );
    std::fs::read_to_string(home.join("report.html")).unwrap()
}

/// Returns the content of an element with data.
fn data(page: &str, id: &str) -> Value {
    let begin = format!("<script type=\"application/json\" id=\"{id}\">");
    let (_, rest) = page.split_once(&begin).unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(text).unwrap()
}

/// A page loads nothing, runs only the script that its policy names, and is well-formed as far as regular expressions can
/// tell.
fn assert_self_contained(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\" data-report=\"cachalot\">"));
    let policy = Regex::new("Content-Security-Policy\" content=\"([^\"]*)\"").unwrap();
    let policy = policy.captures(page).unwrap()[1].replace("&#x27;", "'");
    let policy = policy.replace("&#x2f;", "/");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let elements = Regex::new("(?s)<(script|style)>(.*?)</").unwrap();
    for element in elements.captures_iter(page) {
        let hash = cachalot_core::Digest::sha256(element[2].as_bytes());
        let hash = format!("'sha256-{}'", BASE64.encode(hash.as_bytes()));
        assert!(policy.contains(&hash), "{}: {policy}", &element[1]);
    }
    for loading in ["src=", "href=", "url(", "@import", "http:", "https:"] {
        let found = page
            .match_indices(loading)
            .map(|(at, _)| &page[at.saturating_sub(40)..at + 40]);
        // The name of a namespace is no address.
        let found: Vec<_> = found
            .filter(|text| !text.contains("www.w3.org/2000/svg"))
            .collect();
        assert!(found.is_empty(), "{found:?}");
    }
    // No handler and no style in an attribute: the policy would refuse them.
    let tags = Regex::new("(?s)<[a-zA-Z][^>]*>").unwrap();
    let body = page.split_once("<body>").unwrap().1;
    let attributes = Regex::new("\\s(on[a-z]+|style)=").unwrap();
    for tag in tags.find_iter(body) {
        let in_tag = attributes.is_match(tag.as_str());
        assert!(!in_tag || tag.as_str().contains("=>"), "{}", tag.as_str());
    }
}

/// An answer of Claude Code with hostile names, at a minute.
fn answer(minute: u64, id: &str, read: u64, written: u64) -> Value {
    json!({"type": "assistant", "uuid": id, "sessionId": format!("s1{HOSTILE}"), "cwd": format!("/home/{HOSTILE}"),
        "timestamp": format!("2026-11-18T09:{minute:02}:00.000Z"), "isSidechain": false, "requestRef": format!("r-{id}"),
        "message": {"id": id, "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
            "content": [{"type": "tool_use", "id": id, "name": HOSTILE, "input": {}}],
            "usage": {"input_tokens": 3, "output_tokens": 90, "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written}}})
}

/// A transcript whose second request has another system text than the first one.
fn transcript() -> String {
    let common = |kind: &str, mut members: Value| {
        members["type"] = kind.into();
        members["sessionId"] = format!("s1{HOSTILE}").into();
        members["isSidechain"] = false.into();
        members
    };
    let hash = |digit: char| digit.to_string().repeat(64);
    let shape = |digit: char, time: &str| {
        let system = format!("You are a coding agent. It is {time} o'clock. {HOSTILE}");
        let shape = json!({"system": [{"type": "text", "text": system}]});
        common(
            "api-request-shape",
            json!({"shapeHash": hash(digit), "shape": shape}),
        )
    };
    let request = |id: &str, shape: char| {
        common(
            "api-request",
            json!({"id": format!("r-{id}"), "shapeHash": hash(shape), "keep": 0, "tail": [hash('1')],
            "thread": {"type": "none"}, "params": {"model": "claude-opus-5-5", "max_tokens": 9},
            "cacheControl": [{"path": ["system", 0], "value": {"type": "ephemeral"}}]}),
        )
    };
    let message = json!({"role": "user", "content": [{"type": "text", "text": "Fix it."}]});
    let lines = [
        shape('a', "09:00"),
        shape('b', "09:07"),
        common(
            "api-request-blob",
            json!({"hash": hash('1'), "message": message}),
        ),
        request("m1", 'a'),
        answer(0, "m1", 0, 20_000),
        request("m2", 'b'),
        answer(1, "m2", 0, 20_000),
        answer(31, "m3", 0, 21_000),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn spend_report_has_sessions_with_pauses_and_breaks() {
    let home = Home::new();
    home.write("logs/s1.jsonl", transcript());
    let page = report(&home, &["spend", "logs", "--html", "report.html"]);
    assert_self_contained(&page);
    assert!(
        !page.contains("<b>x"),
        "markup of a transcript is in the page"
    );
    let names = data(&page, "names");
    assert_eq!(names["clients"], json!(["Claude Code"]));
    assert_eq!(names["projects"], json!([format!("/home/{HOSTILE}")]));
    let index = data(&page, "index");
    assert_eq!(index["id"], json!([format!("s1{HOSTILE}")]));
    assert_eq!(index["time"], json!(["2026-11-18 09:00"]));
    let turns = data(&page, "t0");
    assert_eq!(turns.as_array().unwrap().len(), 3);
    assert_eq!(turns[0][9], HOSTILE);
    let broken = &turns[1][13];
    assert_eq!(broken["cause"], "a time of day in the prefix");
    assert!(
        broken["before"].as_str().unwrap().contains("09:00"),
        "{broken}"
    );
    assert!(
        broken["after"].as_str().unwrap().contains("09:07"),
        "{broken}"
    );
    let cold = &turns[2];
    assert_eq!(
        cold[10],
        "pause of 30 min, longer than the cache lives (5 min)"
    );
    assert_eq!(cold[11], true);
    // The same sum as that of the table.
    let table = run(&home, &["spend", "logs", "--json"]).ok().json();
    let cost = table["total"]["usd"].as_f64().unwrap();
    assert!(
        page.contains(&format!("<span class=\"value\">${cost:.2}</span>")),
        "{cost}"
    );
}

#[test]
fn spend_report_of_all_programs_is_complete() {
    let home = Home::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/transcripts");
    let examples = examples.to_str().unwrap();
    let page = report(&home, &["spend", examples, "--html", "report.html"]);
    assert_self_contained(&page);
    for part in [
        "2026-11-18 to 2026-11-20",
        "/home/ada/shop",
        "gpt-5-codex",
        "<title>2026-11-19: $0.10",
        // A week at least, so that no bar is very wide.
        "<title>2026-11-14: $0.00",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let sessions = data(&page, "index")["id"].as_array().unwrap().len();
    for session in 0..sessions {
        assert!(
            !data(&page, &format!("t{session}"))
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
    // A part of the time and of the projects.
    let options = [
        "--since",
        "2026-11-19",
        "--until",
        "2026-11-19",
        "--project",
        "shop",
    ];
    let arguments = ["spend", examples, "--html", "-"];
    let shown = run(&home, &[arguments.as_slice(), &options].concat()).ok();
    assert_eq!(shown.stderr, "");
    let turns = data(&shown.stdout, "t0");
    assert_eq!(turns.as_array().unwrap().len(), 3);
}

#[test]
fn other_files_are_not_overwritten() {
    let home = Home::new();
    home.write("logs/s1.jsonl", transcript());
    home.write("notes.html", "<!DOCTYPE html>\n<html lang=\"en\">my notes");
    for arguments in [
        ["spend", "logs", "--html", "notes.html"].as_slice(),
        &["prefix", "analyze", "logs", "--html", "notes.html"],
        &["run", "agent.yaml", "--html", "notes.html"],
    ] {
        let refused = run(&home, arguments).fails(2);
        assert!(
            refused
                .stderr
                .contains("`notes.html` exists and is no report of cachalot"),
            "{refused}"
        );
    }
    let kept = std::fs::read_to_string(home.join("notes.html")).unwrap();
    assert!(kept.ends_with("my notes"));
    // An earlier report, and an empty file.
    home.write("report.html", "");
    report(&home, &["spend", "logs", "--html", "report.html"]);
    report(
        &home,
        &["prefix", "analyze", "logs", "--html", "report.html"],
    );
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn analyze_report_has_the_texts_side_by_side() {
    let home = Home::new();
    home.write("logs/s1.jsonl", transcript());
    let page = report(
        &home,
        &["prefix", "analyze", "logs", "--html", "report.html"],
    );
    assert_self_contained(&page);
    assert!(!page.contains("<script"), "the page needs no script");
    assert!(
        !page.contains("<b>x"),
        "markup of a transcript is in the page"
    );
    let texts = Regex::new("(?s)<h4>before</h4><pre class=\"text\">(.*?)</pre>.*?<h4>after</h4><pre class=\"text\">(.*?)</pre>").unwrap();
    let texts = texts.captures(&page).unwrap();
    assert!(
        texts[1].contains("09:00") && texts[1].contains("&lt;b&gt;x&lt;&#x2f;b&gt;"),
        "{}",
        &texts[1]
    );
    assert!(texts[2].contains("09:07"), "{}", &texts[2]);
    for part in [
        "a time of day in the prefix",
        "Remove the time from the prefix",
        "expired",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let strict = run(
        &home,
        &[
            "prefix",
            "analyze",
            "logs",
            "--strict",
            "--html",
            "report.html",
        ],
    );
    strict.fails(1);
}

#[test]
fn run_report_has_hits_misses_and_savings() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let arguments = [
        "run",
        "agent.yaml",
        "-i",
        "text=hello",
        "--html",
        "report.html",
    ];
    let page = report(&home, &arguments);
    assert_self_contained(&page);
    assert!(
        page.contains("<span class=\"tag good\">completed</span>"),
        "{page}"
    );
    assert!(
        page.contains("<span class=\"tag warn\">miss</span>"),
        "{page}"
    );
    let page = report(&home, &arguments);
    assert!(
        page.contains("<span class=\"tag good\">hit</span>"),
        "{page}"
    );
    assert!(page.contains("of 1 memoized step<"), "{page}");
    assert_eq!(home.runs(), 1);
}

#[test]
fn report_of_a_failed_run_says_why() {
    let home = Home::new();
    let command = json!([
        "sh",
        "-c",
        format!("echo '{}' >&2; exit 3", HOSTILE.replace('\'', ""))
    ]);
    let with = json!({"command": command});
    home.write(
        "agent.yaml",
        format!("nodes:\n  - {{name: work, uses: shell.run, with: {with}}}\n"),
    );
    let failed = run(&home, &["run", "agent.yaml", "--html", "report.html"]).fails(1);
    assert!(failed.stderr.contains("report.html is written"), "{failed}");
    let page = std::fs::read_to_string(home.join("report.html")).unwrap();
    assert_self_contained(&page);
    assert!(
        page.contains("<span class=\"tag bad\">failed</span>"),
        "{page}"
    );
    assert!(!page.contains("<b>x"), "{page}");
    let stdout = run(&home, &["run", "agent.yaml", "--html", "-"]).fails(2);
    assert!(
        stdout.stderr.contains("stdout has the state of the run"),
        "{stdout}"
    );
}

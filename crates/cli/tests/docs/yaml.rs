//! Every YAML in the documents is valid and runs, or is wrong in the way that the document says.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::blocks::{self, Block, Language, Marker};
use crate::home::{self, Home};
use crate::transcript;

/// Keys that only agents have.
const OF_AGENTS: [&str; 3] = ["mcps", "permissions", "tools"];

/// A block as an agent file.
pub(crate) fn agent_file(block: &Block) -> String {
    let text = &block.text;
    let indented = |by: &str| {
        text.lines()
            .map(|line| format!("{by}{line}\n"))
            .collect::<String>()
    };
    let has = |key: &str| {
        text.lines()
            .any(|line| line.starts_with(&format!("{key}:")))
    };
    match block.marker(Marker::Fragment) {
        None | Some("mcp") => text.clone(),
        Some("node") => format!("name: example\nnodes:\n{}", indented("  ")),
        Some("file") => {
            let needs_agents = OF_AGENTS.iter().any(|key| has(key)) && !has("agents");
            let agents = if needs_agents {
                "agents: {root: {model: gpt-4o-mini}}\n"
            } else {
                ""
            };
            let nodes = if block.is_team() {
                ""
            } else {
                "nodes:\n  - name: nothing\n"
            };
            format!("{text}\n{agents}{nodes}")
        }
        Some("agent" | "hooks") => {
            let model = if has("model") {
                ""
            } else {
                "    model: gpt-4o-mini\n"
            };
            format!("agents:\n  root:\n{model}{}", indented("    "))
        }
        Some(other) => panic!("{}: there is no fragment={other}", block.place()),
    }
}

/// The problem of a block, if any. Its final state is left in `state`.
fn problem(block: &Block, home: &Home, state: &mut Option<Value>) -> Option<String> {
    if block.marker(Marker::Fragment) == Some("sandbox") {
        return of_sandbox(block, home);
    }
    let path = home.write("block.yaml", &agent_file(block));
    if let Some(code) = block.marker(Marker::Wrong) {
        return refused(home, &path, code);
    }
    let validated = home.cachalot(["validate".as_ref(), path.as_os_str()]);
    if validated.code != 0 {
        return Some(format!("it is not valid:\n{}", validated.stderr));
    }
    if block.is_team() && !validated.stderr.contains(" agent") {
        return Some(format!("it is no team:\n{}", validated.stderr));
    }
    if !runs(block) {
        return None;
    }
    let mut arguments = vec!["run".to_owned(), path.to_string_lossy().into_owned()];
    for input in block.all(Marker::Input) {
        arguments.extend(["--input".to_owned(), input.to_owned()]);
    }
    arguments.extend(["--secrets-env".to_owned(), "SECRET".to_owned()]);
    let ended = home.cachalot(arguments);
    if ended.code != block.exit() {
        return Some(format!(
            "the run ended with {}, not with {}:\n{}",
            ended.code,
            block.exit(),
            ended.stderr
        ));
    }
    if let Some(path) = home.leak() {
        return Some(format!("a secret of the run is in {}", path.display()));
    }
    if ended.code == 0 {
        *state = Some(home::state(&ended));
    }
    None
}

/// The problem of settings of the sandbox, which a run reads.
fn of_sandbox(block: &Block, home: &Home) -> Option<String> {
    let settings = home.configuration().join("sandbox.yaml");
    std::fs::create_dir_all(home.configuration()).unwrap();
    std::fs::write(&settings, &block.text).unwrap();
    let path = home.write("block.yaml", "name: example\nnodes:\n  - name: nothing\n");
    let ended = home.cachalot(["run".as_ref(), path.as_os_str()]);
    // A key that is none: the file is read.
    std::fs::write(&settings, "none: 1\n").unwrap();
    let wrong = home.cachalot(["run".as_ref(), path.as_os_str()]);
    std::fs::remove_file(&settings).unwrap();
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    (ended.code != 0).then_some(ended.stderr)
}

/// Returns whether a valid block is run here.
fn runs(block: &Block) -> bool {
    !block.is_team()
        && block.marker(Marker::Fragment) != Some("mcp")
        && block.marker(Marker::NoRun).is_none()
        && block.all(Marker::Needs).all(Home::has)
}

/// Returns whether `validate` refuses a file with only `code`.
fn refused(home: &Home, path: &std::path::Path, code: &str) -> Option<String> {
    let validated = home.cachalot(["validate".as_ref(), "--json".as_ref(), path.as_os_str()]);
    let found = home::state(&validated);
    let codes: Vec<&str> = found["problems"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|problem| problem["code"].as_str())
        .collect();
    if validated.code == 2 && !codes.is_empty() && codes.iter().all(|found| *found == code) {
        return None;
    }
    Some(format!(
        "`validate` ended with {} and found {codes:?}, not {code}",
        validated.code
    ))
}

/// The place at which a value differs from the document.
fn difference(expected: &Value, actual: &Value, at: &str) -> Option<String> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            expected.iter().find_map(|(key, expected)| {
                let actual = actual.get(key).unwrap_or(&Value::Null);
                difference(expected, actual, &format!("{at}/{key}"))
            })
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let pairs = expected.iter().zip(actual).enumerate();
            pairs.into_iter().find_map(|(index, (expected, actual))| {
                difference(expected, actual, &format!("{at}/{index}"))
            })
        }
        (Value::String(expected), _) if expected == "…" => None,
        (Value::String(expected), Value::String(actual))
            if transcript::line_matches(expected, actual) =>
        {
            None
        }
        (expected, actual) if expected == actual => None,
        _ => Some(format!("{at} is {actual}, not {expected}")),
    }
}

#[test]
fn every_yaml_block_is_valid_and_runs_as_documented() {
    let mut problems = Vec::new();
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut state = None;
    for block in blocks::all() {
        let (kind, problem) = match block.language {
            Language::Yaml => {
                state = None;
                let kind = match block.marker(Marker::Wrong) {
                    Some(_) => "refused as the document says",
                    None if runs(&block) => "valid and run",
                    None if block.is_team() => "a valid team",
                    None => "valid, not run",
                };
                // Each in a home of its own: what an example stores must not make another a hit.
                (kind, problem(&block, &Home::new(), &mut state))
            }
            Language::Json => ("json", check_json(&block, state.as_ref())),
            _ => continue,
        };
        *counted.entry(kind).or_default() += 1;
        problems.extend(problem.map(|problem| format!("{}: {problem}", block.place())));
    }
    println!("{counted:?}");
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(
        counted
            .get("valid and run")
            .is_some_and(|count| *count > 20),
        "too little is run: {counted:?}"
    );
}

fn check_json(block: &Block, state: Option<&Value>) -> Option<String> {
    let expected: Value = match serde_json::from_str(&block.text) {
        Ok(expected) => expected,
        Err(error) => return Some(format!("it is not JSON: {error}")),
    };
    block.marker(Marker::State)?;
    match state {
        None => Some("the YAML before it gave no state".to_owned()),
        Some(state) => difference(&expected, state, ""),
    }
}

#[test]
fn check_finds_a_difference() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let actual = value(r#"{"a": {"b": [1, "x-123"]}, "c": true}"#);
    for same in [
        r#"{"a": {"b": [1, "x-…"]}}"#,
        r#"{"a": "…", "c": true}"#,
        "{}",
    ] {
        assert_eq!(difference(&value(same), &actual, ""), None, "{same}");
    }
    for (other, place) in [
        (r#"{"a": {"b": [2, "…"]}}"#, "/a/b/0"),
        (r#"{"a": {"b": [1]}}"#, "/a/b"),
        (r#"{"d": 1}"#, "/d"),
    ] {
        assert!(
            difference(&value(other), &actual, "").is_some_and(|found| found.starts_with(place)),
            "{other}"
        );
    }
}

#[test]
fn check_finds_a_block_that_differs_from_its_markers() {
    let home = Home::new();
    let check = |text: &str| problem(&blocks::read("x.md", text).remove(0), &home, &mut None);
    for wrong in [
        "```yaml\nname: x\nnodes: []\n```\n",
        "```yaml fragment=node\n- name: a\n  uses: json.prase\n```\n",
        "```yaml fragment=node\n- name: a\n  run: raise ValueError()\n```\n",
        "```yaml fragment=node exit=1\n- name: a\n  run: return 1\n```\n",
        "```yaml fragment=node wrong=unknown-key\n- name: a\n  uses: json.prase\n```\n",
        "```yaml fragment=node wrong=unknown-action\n- name: a\n```\n",
        "```yaml team\nagents: {root: {modle: gpt-4o}}\n```\n",
        "```yaml team\nagents: {root: {model: gpt-4o, toolsets: [{type: filesytem}]}}\n```\n",
        "```yaml team\nagents: {root: {model: nothing}}\n```\n",
        "```yaml team\nnodes: [{name: a}]\n```\n",
        "```yaml fragment=agent\ntoolsets: [{type: filesystem, tools: [raed_file]}]\n```\n",
        "```yaml fragment=hooks\nhooks: {stopp: {type: command, command: ls}}\n```\n",
        "```yaml fragment=file\ntools: {cacheToolResult: true}\n```\n",
    ] {
        assert!(check(wrong).is_some(), "{wrong}");
    }
    for right in [
        "```yaml fragment=node exit=1\n- name: a\n  run: raise ValueError()\n```\n",
        "```yaml fragment=node wrong=unknown-action\n- name: a\n  uses: json.prase\n```\n",
        "```yaml fragment=node no-run=it-would-fail\n- name: a\n  run: raise ValueError()\n```\n",
        "```yaml team\nagents: {root: {model: gpt-4o, toolsets: [{type: filesystem}]}}\n```\n",
        "```yaml team wrong=unknown-toolset\nagents: {root: {model: gpt-4o, toolsets: [{type: filesytem}]}}\n```\n",
        "```yaml fragment=agent\ntoolsets: [{type: filesystem, tools: [read_file]}]\n```\n",
        "```yaml fragment=hooks\nhooks: {stop: {type: command, command: ls}}\n```\n",
        "```yaml fragment=file\ntools: {cacheToolResults: true}\n```\n",
        "```yaml fragment=file team\nbudget: {max_cost: 1}\nagents: {root: {model: gpt-4o}}\n```\n",
        "```yaml fragment=node\n- name: a\n  uses: llm.call\n  with: {model: claude-sonnet-5, prompt: Hi}\n```\n",
    ] {
        assert_eq!(check(right), None, "{right}");
    }
}

//! The reference leaves nothing out and invents nothing: actions and their parameters, filters,
//! tests, codes of problems, keys, commands and flags are those that there are.

use std::collections::BTreeSet;

use cachalot_workflow::{actions, codes, format, template};
use serde_json::{Value, json};

use crate::blocks::{self, Language};
use crate::files;
use crate::home::{Home, state};
use crate::transcript;

const REFERENCE: &str = "docs/YAML_REFERENCE.md";
const HOOKS: &str = "docs/HOOKS.md";
const TEMPLATES: &str = "examples/templates.md";

/// The part of a document under a heading, up to the next one of the same or a higher level.
pub(crate) fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = text
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("there is no heading `{heading}`"));
    let body = &text[start + heading.len() + 2..];
    let level = heading.chars().take_while(|c| *c == '#').count();
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let depth = line.chars().take_while(|c| *c == '#').count();
        if (1..=level).contains(&depth) && line[depth..].starts_with(' ') {
            return &body[..at];
        }
        at += line.len();
    }
    body
}

/// The rows of the tables in a text, their first cell without its backticks.
fn rows(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let line = line.trim().trim_matches('|').replace("\\|", "\u{1}");
        line.split('|')
            .map(|cell| cell.trim().trim_matches('`').replace('\u{1}', "|"))
            .collect()
    })
    .collect()
}

/// The names in the first column of the tables in a text.
fn named(text: &str) -> BTreeSet<String> {
    rows(text)
        .into_iter()
        .filter_map(|row| row.into_iter().next())
        .collect()
}

/// `cachalot-docs` generates the rows of their parameters, and its test compares them.
#[test]
fn every_action_is_documented_and_named_by_rule() {
    let reference = files::text(REFERENCE);
    let registry = actions::builtin();
    let mut problems = Vec::new();
    let mut described = BTreeSet::new();
    for name in registry.names() {
        let about = registry.get(name).unwrap().metadata();
        if !described.insert(about.name.to_string()) {
            continue;
        }
        let section = section(&reference, &format!("### `{}`", about.name));
        if !section.contains(&format!("<!-- generated: {} -->", about.name)) {
            problems.push(format!("{}: its parameters are not generated", about.name));
        }
        let second = format!("actions.{}", about.name.replace('.', "_"));
        for alias in about.names().filter(|alias| *alias != about.name) {
            if alias != second && !section.contains(&format!("`{alias}`")) {
                problems.push(format!("{alias} is not named"));
            }
        }
        if !about.has_name(&second) {
            problems.push(format!("{} has not the name {second}", about.name));
        }
    }
    let actions = section(&reference, "## Actions");
    for heading in actions
        .lines()
        .filter_map(|line| line.strip_prefix("### `"))
    {
        if !described.contains(heading.trim_end_matches('`')) {
            problems.push(format!("there is no action `{heading}`"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_action_has_an_example_that_runs() {
    let used: String = blocks::all()
        .iter()
        .filter(|block| {
            block.language == Language::Yaml
                && block
                    .markers
                    .iter()
                    .all(|(marker, _)| *marker != blocks::Marker::Wrong)
        })
        .map(|block| block.text.as_str())
        .collect();
    for name in actions::builtin()
        .names()
        .filter(|name| !name.starts_with("actions."))
    {
        let is_used = ["uses: ", "action: "].iter().any(|key| {
            let call = format!("{key}{name}");
            used.lines()
                .any(|line| line.contains(&call) && !line.contains(&format!("{call}_")))
        });
        let alias = format!("actions.{}", name.replace('.', "_"));
        assert!(is_used || used.contains(&alias), "no example calls {name}");
    }
}

/// Evaluates the examples of a table of filters or tests.
fn check_examples(heading: &str, known: &[&str]) {
    let document = files::text(TEMPLATES);
    let rows: Vec<Vec<String>> = rows(section(&document, heading))
        .into_iter()
        .filter(|row| row.len() == 3)
        .collect();
    let described: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(described, known.iter().copied().collect::<BTreeSet<_>>());
    let blocks = blocks::read(TEMPLATES, &document);
    let head = blocks
        .iter()
        .find(|block| block.text.starts_with("name: filters\n"))
        .expect("the state of the examples");
    let mut problems = Vec::new();
    for row in &rows {
        let node = json!([{
            "name": "try", "uses": "json.stringify", "with": { "data": { "value": row[1] } }, "output": "tried"
        }]);
        let home = Home::new();
        let path = home.write("try.yaml", &format!("{}nodes: {node}\n", head.text));
        let ended = home.cachalot(["run".as_ref(), path.as_os_str()]);
        if ended.code != 0 {
            problems.push(format!("{}: {}", row[1], ended.stderr));
            continue;
        }
        let text = state(&ended)["tried"]["text"].as_str().unwrap().to_owned();
        let found = serde_json::from_str::<Value>(&text).unwrap()["value"].clone();
        let expected: Value =
            serde_json::from_str(&row[2]).unwrap_or_else(|error| panic!("{}: {error}", row[2]));
        let alike = match (&expected, &found) {
            (Value::String(expected), Value::String(found)) => {
                transcript::line_matches(expected, found)
            }
            (expected, found) => expected == found,
        };
        if !alike {
            problems.push(format!("{} gives {found}, not {expected}", row[1]));
        }
        if !row[1].contains(&row[0]) {
            problems.push(format!("{} does not use `{}`", row[1], row[0]));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_documented_filter_example_is_true() {
    check_examples("## Filters", template::FILTERS);
}

#[test]
fn every_documented_test_example_is_true() {
    check_examples("## Tests", template::TESTS);
}

#[test]
fn every_problem_code_is_documented() {
    let reference = files::text(REFERENCE);
    let described = named(section(&reference, "## Problems"));
    for (code, _) in codes::ALL {
        assert!(described.contains(*code), "{code} is not described");
    }
    let of_hooks = files::text(HOOKS);
    let of_hooks = named(section(&of_hooks, "## Problems in a file"));
    let of_hooks = of_hooks.iter().flat_map(|codes| codes.split("`, `"));
    let described: BTreeSet<&str> = described
        .iter()
        .map(String::as_str)
        .chain(of_hooks)
        .collect();
    // What the documents say that a file is refused for.
    for block in blocks::all() {
        if let Some(code) = block.marker(blocks::Marker::Wrong) {
            assert!(
                described.contains(code),
                "{}: {code} is not described",
                block.place()
            );
        }
    }
}

/// The JSON Schema of agent files, which is what the loader knows.
fn schema() -> Value {
    format::schema(&actions::builtin())
}

/// The names of the properties of an object in a schema.
fn properties(schema: &Value) -> BTreeSet<String> {
    schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

#[test]
fn every_key_of_a_file_is_documented() {
    let reference = files::text(REFERENCE);
    let schema = schema();
    assert_eq!(
        named(section(&reference, "## The file")),
        properties(&schema)
    );
    let edges = section(&reference, "## What comes after a node");
    for name in properties(&schema["properties"]["edges"]["items"]) {
        assert!(
            edges.contains(&format!("`{name}`")),
            "`{name}` of an edge is not described"
        );
    }
    for name in properties(&schema["$defs"]["rule"]) {
        assert!(
            edges.contains(&format!("`{name}`")),
            "`{name}` of a rule is not described"
        );
    }
    let nodes = section(&reference, "## Nodes");
    for part in ["node", "step"] {
        for name in properties(&schema["$defs"][part]) {
            let is_named =
                nodes.contains(&format!("`{name}`")) || nodes.contains(&format!("`{name}: "));
            assert!(is_named, "`{name}` of a {part} is not described");
        }
    }
}

#[test]
fn every_command_and_flag_is_documented() {
    let home = Home::new();
    let document = files::text("docs/cli.md");
    let help = |command: &[&str]| {
        let ended = home.cachalot(command.iter().chain(&["--help"]));
        assert_eq!(ended.code, 0, "{command:?}: {}", ended.stderr);
        ended.stdout
    };
    let subcommands = |text: &str| -> Vec<String> {
        let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = listed
            .take_while(|line| line.starts_with("  "))
            // A long description goes on in further lines, indented deeper.
            .filter(|line| !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next());
        names
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect()
    };
    let mut commands: Vec<Vec<String>> = Vec::new();
    for command in subcommands(&help(&[])) {
        let below = subcommands(&help(&[&command]));
        if below.is_empty() {
            commands.push(vec![command]);
        } else {
            commands.extend(below.into_iter().map(|name| vec![command.clone(), name]));
        }
    }
    assert!(commands.len() > 10, "{commands:?}");
    let mut problems = Vec::new();
    for command in &commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let section = section(&document, &format!("## `cachalot {}`", words.join(" ")));
        let text = help(&words);
        let options = text
            .lines()
            .filter(|line| line.trim_start().starts_with('-'));
        let flags: BTreeSet<&str> = options
            .flat_map(|line| line.split_whitespace().take(2))
            // The value of `--sandbox[=<MODE>]` may be left out.
            .filter_map(|word| word.split('[').next())
            .filter(|word| word.starts_with("--") && *word != "--help")
            .collect();
        for flag in &flags {
            let written = [" ", "`", "["].map(|before| format!("{before}{flag}"));
            if !written.iter().any(|flag| section.contains(flag)) {
                problems.push(format!(
                    "cachalot {}: {flag} is not described",
                    words.join(" ")
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Relative links lead to files and headings that there are.
#[test]
fn every_link_has_a_target() {
    let mut problems = Vec::new();
    for document in files::documents() {
        let text = files::text(&document);
        let folder = std::path::Path::new(&document).parent().unwrap().to_owned();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if link.starts_with("http") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                document.clone()
            } else {
                folder.join(path).to_string_lossy().into_owned()
            };
            let found = files::root().join(&target);
            if !found.exists() {
                problems.push(format!("{document}: {link} leads nowhere"));
            } else if !anchor.is_empty()
                && !anchors(&std::fs::read_to_string(&found).unwrap()).contains(anchor)
            {
                problems.push(format!("{document}: {link} has no such heading"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The anchors that a forge gives to headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let name = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = name
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

//! Expressions and texts as users write them, with the results that Jinja2 gives.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use cachalot_core::tree;
use cachalot_workflow::template::{Scope, State, TemplateContext, TemplateUse, Templates};
use serde_json::{Map, Value, json};

use crate::rendering::{object, quoted, run};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the state and the cases of the table, in its order.
fn table() -> (Map<String, Value>, Vec<Map<String, Value>>) {
    let text = include_str!("jinja2.yaml");
    let parse = |json: &str| object(serde_json::from_str(json).expect(json));
    let state = text.lines().find_map(|line| line.strip_prefix("state: "));
    let cases = text.lines().filter_map(|line| line.strip_prefix("- "));
    (parse(state.unwrap()), cases.map(parse).collect())
}

/// Returns the result of a case here, or the message with its place.
fn evaluate(case: &Map<String, Value>, state: &State) -> Result<Value, String> {
    let (kind, source) = case.iter().next().unwrap();
    let source = source.as_str().unwrap();
    let written = match kind.as_str() {
        "value" => format!("{{{{ {source} }}}}"),
        _ => source.to_owned(),
    };
    let file = format!("value: {}\n", quoted(&written));
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let node = tree.get("value").unwrap();
    let templates = Templates::new(&file, []);
    let scope = Scope::new(
        &TemplateContext::new(&Map::new(), json!({}), Map::new()),
        state,
    );
    let mut problems = Vec::new();
    let result = match kind.as_str() {
        "if" => {
            let condition = templates.condition(node, TemplateUse::PLAIN, &mut problems);
            match problems.first() {
                None => run(templates.holds(&condition, &scope)).map(Value::from),
                Some(problem) => return Err(problem.to_string()),
            }
        }
        _ => {
            let prepared = templates.prepare(node, TemplateUse::PLAIN, &mut problems);
            match problems.first() {
                None => run(templates.render(&prepared, &scope)),
                Some(problem) => return Err(problem.to_string()),
            }
        }
    };
    result.map_err(|failure| format!("{}: {failure}", failure.place))
}

/// Returns what is wrong with a case; `None` if it is as the table says.
fn difference(case: &Map<String, Value>, state: &State, deviations: &str) -> Option<String> {
    let here = evaluate(case, state);
    if let Some(deviation) = case.get("deviation").map(|text| text.as_str().unwrap()) {
        if !deviations.contains(deviation) {
            return Some(format!("docs/deviations.md does not say {deviation:?}"));
        }
    } else if case.contains_key("here") {
        return Some("`here` needs a `deviation`".to_owned());
    }
    if let Err(message) = &here
        && !message.starts_with("agent.yaml:1:")
    {
        return Some(format!("the message has no place: {message}"));
    }
    let expected = case.get("here").or_else(|| case.get("gives"));
    match (&here, case.get("refused"), expected) {
        (Err(message), Some(part), _) if message.contains(part.as_str().unwrap()) => None,
        (Err(_), None, None) => None,
        (Ok(value), None, Some(expected)) if value == expected => None,
        _ => Some(format!("here it is {here:?}")),
    }
}

#[test]
fn templates_give_what_jinja2_gives_or_are_refused_or_documented() {
    let (state, cases) = table();
    let state = State::new(state);
    let deviations = std::fs::read_to_string(repository().join("docs/deviations.md")).unwrap();
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let difference = difference(case, &state, &deviations)?;
            Some(format!("{}\n    {difference}", json!(case)))
        })
        .collect();
    assert!(cases.len() > 400, "{} cases", cases.len());
    assert!(
        differences.is_empty(),
        "{} of {} cases:\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

/// Compares the recorded results, also those of Lua, with those of the Python that `CACHALOT_TEST_REFERENCE_PYTHON`
/// names.
#[test]
fn recorded_results_are_those_of_jinja2_and_lua() {
    let Ok(python) = std::env::var("CACHALOT_TEST_REFERENCE_PYTHON") else {
        let notice = "skipped: CACHALOT_TEST_REFERENCE_PYTHON names no Python with jinja2 and lupa";
        return writeln!(std::io::stderr(), "{notice}").unwrap();
    };
    let output = Command::new(python)
        .arg(repository().join("scripts/reference_results.py"))
        .arg("--check")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}");
}

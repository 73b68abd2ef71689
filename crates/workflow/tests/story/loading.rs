//! Problems of `cache.*` nodes, reported when the file is loaded.

use std::collections::BTreeMap;

use cachalot_core::{Problem, tree};
use cachalot_workflow::Registry;
use cachalot_workflow::actions::builtin;
use serde_json::Value;

use crate::test_actions::TestAction;

fn registry() -> Registry {
    let mut registry = builtin();
    registry.register(TestAction::new());
    registry
}

/// The problems of a `with` mapping, as `Action::check` tells them.
fn problems(with: &str) -> Vec<Problem> {
    let tree = tree::parse("agent.yaml", with).unwrap();
    let registry = registry();
    registry
        .get("cache.wrap")
        .unwrap()
        .check(Some(&tree), &registry)
}

/// The text at the place of a problem.
fn pointed_at<'a>(text: &'a str, problem: &Problem) -> &'a str {
    let place = problem
        .place
        .as_ref()
        .unwrap_or_else(|| panic!("no place: {problem}"));
    assert_eq!(&*place.file, "agent.yaml");
    &text[place.start..place.start + place.len]
}

#[track_caller]
fn is_problem(with: &str, code: &str, at: &str, says: &str) {
    let problems = problems(with);
    let [problem] = problems.as_slice() else {
        panic!("{with}: {problems:?}")
    };
    assert_eq!(problem.code, code, "{problem}");
    assert_eq!(pointed_at(with, problem), at, "{problem}");
    assert!(problem.to_string().contains(says), "{problem}");
}

#[track_caller]
fn is_fine(with: &str) {
    assert_eq!(problems(with), [], "{with}");
}

#[test]
fn the_examples_of_the_story_load() {
    is_fine("action: test.act\nargs: {}");
    is_fine(
        "action: test.act\nkey_strategy: file_content\nkey_source: file\nttl_days: 60\nargs: {file: a}",
    );
    is_fine("action: test.act\nkey_strategy: file_content\nargs: {file: a}");
    is_fine(
        "action: test.act\nkey_strategy: custom\nkey: \"search:{{ state.q }}\"\nttl_hours: 24\nargs: {}",
    );
    is_fine("action: \"{{ state.action }}\"\nargs: \"{{ state.args }}\"");
    is_fine("action: test.act\nargs: \"{{ state.args }}\"\nkey_strategy: sha256\nkey_source: x");
    is_fine(
        "action: test.act\nargs: {}\nttl_days: \"{{ state.days }}\"\nttl_seconds: \"30\"\nttl_hours: 0.5",
    );
    is_fine("action: test.act\nargs: {}\nkey_strategy: \"{{ state.strategy }}\"");
    is_fine("action: test.act\nargs: {}\nscope: \"${scope}\"");
    is_fine("action: actions.json_parse\nargs: {text: '1'}");
    is_fine("action: cache.wrap\nargs:\n  action: test.act\n  args: {x: 1}");
}

#[test]
fn unknown_strategy_is_a_problem() {
    let with = "action: test.act\nargs: {}\nkey_strategy: file_contnet";
    is_problem(
        with,
        "bad-value",
        "file_contnet",
        "did you mean `file_content`",
    );
}

#[test]
fn unknown_scope_and_on_error_are_problems() {
    is_problem(
        "action: test.act\nargs: {}\nscope: globl",
        "bad-value",
        "globl",
        "did you mean `global`",
    );
    let with = "action: test.act\nargs: {}\non_error: returns";
    is_problem(with, "bad-value", "returns", "did you mean `return`");
}

#[test]
fn custom_strategy_without_key_is_a_problem() {
    let with = "action: test.act\nargs: {}\nkey_strategy: custom";
    is_problem(with, "missing-key", "custom", "needs `key`");
    let with = "action: test.act\nargs: {}\nkey_strategy: custom\nkey: \"\"";
    is_problem(with, "missing-key", "custom", "needs `key`");
    let with = "action: test.act\nargs: {}\nkey_strategy: custom\nkey:";
    is_problem(with, "missing-key", "custom", "needs `key`");
}

#[test]
fn key_source_without_such_an_argument_is_a_problem() {
    let with = "action: test.act\nargs: {file: a}\nkey_strategy: file_content\nkey_source: fil";
    is_problem(with, "bad-value", "fil", "did you mean `file`");
    let with = "action: test.act\nargs: {x: 1}\nkey_strategy: sha256\nkey_source: gone";
    is_problem(with, "bad-value", "gone", "not among `args`");
    let with = "action: test.act\nargs: {x: a}\nkey_strategy: file_content";
    is_problem(with, "bad-value", "file_content", "`file`");
    let with = "action: test.act\nargs: {x: a}\nkey_strategy: sha256";
    is_problem(with, "missing-key", "sha256", "needs `key_source`");
}

#[test]
fn non_positive_ttl_is_a_problem() {
    for name in ["ttl_days", "ttl_hours", "ttl_seconds"] {
        for wrong in ["0", "-1", "-0.5", "0.0", ".inf", ".nan", "\"0\"", "\"-3\""] {
            let with = format!("action: test.act\nargs: {{}}\n{name}: {wrong}");
            is_problem(&with, "bad-value", wrong, name);
        }
    }
    let with = "action: test.act\nargs: {}\nttl_days: 0";
    is_problem(with, "bad-value", "0", "cache_enabled: false");
}

#[test]
fn probability_or_limit_out_of_range_is_a_problem() {
    for wrong in ["1.5", "-0.1", "5", "\"2\""] {
        let with = format!("action: test.act\nargs: {{}}\ncleanup_probability: {wrong}");
        is_problem(&with, "bad-value", wrong, "0 to 1");
    }
    let with = "action: test.act\nargs: {}\ncleanup_limit: -1";
    is_problem(with, "bad-value", "-1", "cleanup_limit");
}

#[test]
fn unknown_wrapped_action_is_a_problem() {
    let with = "action: file.raed\nargs: {}";
    is_problem(
        with,
        "unknown-action",
        "file.raed",
        "did you mean `file.read`",
    );
    is_problem(
        "action: zzz\nargs: {}",
        "unknown-action",
        "zzz",
        "no action `zzz`",
    );
}

#[test]
fn effect_only_action_cannot_be_wrapped() {
    for action in [
        "ltm.store",
        "ltm.delete",
        "file.write",
        "cache.invalidate",
        "actions.ltm_store",
    ] {
        let with = format!("action: {action}\nargs: {{}}");
        is_problem(&with, "effect-only-wrapped", action, "only has an effect");
    }
}

#[test]
fn arguments_of_the_wrapped_action_are_checked() {
    let with = "action: test.act\nargs: {modle: gpt}";
    is_problem(with, "unknown-key", "modle", "did you mean `model`");
    let with = "action: json.parse\nargs: {}";
    is_problem(with, "missing-key", "{}", "needs `text`");
    let with = "action: http.get\nargs: {url: u, timeout: long}";
    is_problem(with, "bad-value", "long", "timeout");
}

#[test]
fn problems_of_a_nested_wrap_are_reported() {
    let with = "action: cache.wrap\nargs:\n  action: test.act\n  args: {zz: 1}\n  ttl_days: 0";
    let problems = problems(with);
    let mut reported: Vec<(&str, &str)> = problems
        .iter()
        .map(|problem| (problem.code, pointed_at(with, problem)))
        .collect();
    reported.sort_unstable();
    assert_eq!(reported, [("bad-value", "0"), ("unknown-key", "zz")]);
}

#[test]
fn problems_are_reported_together() {
    let with = "action: file.raed\nargs: {}\nkey_strategy: x\nscope: y\nttl_days: 0\ncleanup_probability: 7";
    let codes: Vec<&str> = problems(with).iter().map(|problem| problem.code).collect();
    assert_eq!(
        codes,
        [
            "unknown-action",
            "bad-value",
            "bad-value",
            "bad-value",
            "bad-value"
        ]
    );
}

/// Loads a whole file with one node, and tells where its problems are.
fn loaded(node: &str) -> Vec<(String, &'static str, u32)> {
    let text = format!("name: agent\nnodes:\n  - name: n\n{node}");
    match cachalot_workflow::format::load(
        "agent.yaml",
        &text,
        &registry(),
        &BTreeMap::new(),
        &cachalot_agent::definition::Builtins::default(),
    ) {
        Ok(_) => Vec::new(),
        Err(problems) => {
            let reported = problems.iter().map(|problem| {
                let line = problem.place.as_ref().map_or(0, |place| place.line);
                (problem.to_string(), problem.code, line)
            });
            reported.collect()
        }
    }
}

#[test]
fn file_with_a_problem_is_refused_with_line_and_suggestion() {
    let node = "    uses: cache.wrap\n    with:\n      action: test.act\n      args: {x: 1}\n";
    assert_eq!(loaded(node), []);
    for (line, code, says) in [
        (
            "      ttl_second: 5\n",
            "unknown-key",
            "did you mean `ttl_seconds`",
        ),
        ("      ttl_seconds: 0\n", "bad-value", "positive"),
        (
            "      key_strategy: customs\n",
            "bad-value",
            "did you mean `custom`",
        ),
        (
            "      skip_cache: maybe\n",
            "wrong-type",
            "`true` or `false`",
        ),
    ] {
        let problems = loaded(&format!("{node}{line}"));
        let [(text, found, at)] = problems.as_slice() else {
            panic!("{line}: {problems:?}")
        };
        assert_eq!((*found, *at), (code, 8), "{text}");
        assert!(text.contains(says), "{text}");
    }
    let invalidate = "    uses: cache.invalidate\n    with: {patern: x}\n";
    assert_eq!(loaded(invalidate)[0].1, "unknown-key");
    let get = "    uses: cache.get\n    with: {}\n";
    assert_eq!(loaded(get)[0].1, "missing-key");
    let nothing = "    uses: cache.wrap\n";
    assert!(
        !loaded(nothing).is_empty(),
        "`action` and `args` are needed"
    );
}

#[test]
fn non_text_keys_of_mappings_become_text() {
    let tree = tree::parse("agent.yaml", "{1: one, true: two, a: three}").unwrap();
    let value: Value = tree.to_value();
    assert_eq!(
        value,
        serde_json::json!({"1": "one", "true": "two", "a": "three"})
    );
}

#[test]
fn invalid_dependencies_and_scopes_are_reported() {
    let base = "action: test.act\nargs: {}\n";
    is_problem(&format!("{base}tags: 3"), "wrong-type", "3", "`tags`");
    is_problem(
        &format!("{base}depends_on: {{a: 1}}"),
        "wrong-type",
        "{a",
        "`depends_on`",
    );
    is_problem(
        &format!("{base}depends_on: [1]"),
        "wrong-type",
        "1",
        "`depends_on`",
    );
    for wrong in ["https://example.org/x", "src/*.rs", "~/notes"] {
        is_problem(
            &format!("{base}depends_on: [{wrong}]"),
            "bad-value",
            wrong,
            wrong,
        );
    }
    is_problem(
        &format!("{base}key_prefix: false\nscope: agent"),
        "bad-value",
        "agent",
        "`scope: agent`",
    );
}

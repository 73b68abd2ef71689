//! What blocks do to their state, and how they see the results of branches: the same in both runners,
//! and as in the reference implementation.

use cachalot_workflow::script::{ScriptFailure, ScriptResult, ScriptRunner};
use serde_json::{Value, json};

use crate::harness::{python, python3, tests, wait, with_state};

tests!(
    state_changes_of_a_block_are_returned,
    unserializable_field_fails_the_block_by_name,
    failed_block_changes_no_state,
    results_have_attributes_items_and_state_fields,
    results_under_another_name_behave_equally,
    returned_results_are_unchanged,
    copies_of_results_are_plain_dicts,
    results_are_defined_only_at_a_fan_in,
);

fn runners() -> Vec<(&'static str, Box<dyn ScriptRunner>)> {
    let mut runners: Vec<(&str, Box<dyn ScriptRunner>)> = vec![("embedded", Box::new(python()))];
    if let Some(python3) = python3() {
        runners.push(("python3", Box::new(python3)));
    }
    runners
}

/// Runs a block in every runner.
fn each(source: &str, state: &Value, check: impl Fn(&str, Result<ScriptResult, ScriptFailure>)) {
    for (name, runner) in runners() {
        let ended = wait(with_state(&*runner, source, state.clone()));
        check(&format!("{name}:\n{source}"), ended);
    }
}

fn given() -> Value {
    json!({"x": 1, "d": {"a": 1, "l": [1, 2]}, "gone": 5, "big": 1.0})
}

/// Two results of a fan-out per item, the second one of a failed branch, and what was there before.
fn with_results() -> Value {
    json!({
        "base": 7, "shared": {"k": [1]},
        "parallel_results": [
            {"branch": "each[0]", "index": 0, "success": true,
             "state": {"n": 3, "index": 0, "half": 1.5, "base": 7}, "result": {"half": 1.5}},
            {"branch": "each[1]", "index": 1, "success": false, "state": {"n": 0, "index": 1},
             "error": "ZeroDivisionError: division by zero", "error_type": "script_error"},
        ],
    })
}

fn state_changes_of_a_block_are_returned() {
    let cases = [
        ("return {'r': state['x']}", json!({}), json!([])),
        (
            "state['x'] = 2\nstate['new'] = [1]\nreturn {'r': 1}",
            json!({"x": 2, "new": [1]}),
            json!([]),
        ),
        (
            "state['d']['b'] = 7",
            json!({"d": {"a": 1, "l": [1, 2], "b": 7}}),
            json!([]),
        ),
        (
            "state.pop('gone')\nstate.pop('x')\nreturn {}",
            json!({}),
            json!(["x", "gone"]),
        ),
        (
            "def f(s):\n    s['deep'] = {'q': 1}\n    state['d']['l'].append(3)\nf(state)\nstate.update({'u': 1}, v=2)\nreturn {}",
            json!({"d": {"a": 1, "l": [1, 2, 3]}, "deep": {"q": 1}, "u": 1, "v": 2}),
            json!([]),
        ),
        (
            "state.clear()\nstate['only'] = 1\nreturn {}",
            json!({"only": 1}),
            json!(["x", "d", "gone", "big"]),
        ),
        (
            "state.setdefault('sd', []).append(1)\nreturn {}",
            json!({"sd": [1]}),
            json!([]),
        ),
        (
            "l = state['d']['l']\nl += [9]\nreturn {}",
            json!({"d": {"a": 1, "l": [1, 2, 9]}}),
            json!([]),
        ),
        (
            "state['x'] = 1\nstate['d'] = {'a': 1, 'l': [1, 2]}",
            json!({}),
            json!([]),
        ),
        (
            "state['big'] = 1\nstate['t'] = (1, 2)\nreturn {}",
            json!({"big": 1, "t": [1, 2]}),
            json!([]),
        ),
        ("state[5] = 1\nreturn {}", json!({"5": 1}), json!([])),
        // What a block calls `state` afterwards is something else.
        (
            "state['x'] = 2\nstate = {'z': 1}",
            json!({"x": 2}),
            json!([]),
        ),
    ];
    for (source, set, removed) in cases {
        each(source, &given(), |what, ended| {
            let changes = ended
                .unwrap_or_else(|failure| panic!("{failure} in {what}"))
                .changes;
            assert_eq!(Value::Object(changes.set), set, "{what}");
            assert_eq!(json!(changes.removed), removed, "{what}");
        });
    }
}

fn unserializable_field_fails_the_block_by_name() {
    for (source, message) in [
        (
            "state['f'] = 9223372036854775807 * 4\nreturn {}",
            "state['f'] is an integer beyond 64 bits, which JSON readers round; return it as text: str(value); the state keeps what a block puts into it",
        ),
        (
            "state['d']['l'].append(1e300 * 1e300)\nreturn {}",
            "state['d']['l'][2] is the float inf, which JSON does not have; return None or text instead; the state keeps what a block puts into it",
        ),
    ] {
        each(source, &given(), |what, ended| {
            assert_eq!(ended.unwrap_err().message, message, "{what}");
        });
    }
}

fn failed_block_changes_no_state() {
    each(
        "state['x'] = 2\nraise ValueError('no')",
        &given(),
        |what, ended| {
            let failure = ended.unwrap_err();
            assert_eq!(
                (failure.kind, failure.line),
                ("script_error", Some(2)),
                "{what}"
            );
        },
    );
}

fn results_have_attributes_items_and_state_fields() {
    for (source, returned) in [
        (
            "return [r.success for r in parallel_results]",
            json!([true, false]),
        ),
        (
            "a, b = parallel_results\nreturn [a.branch, a.state['n'], a.error, b.error, b.error_type]",
            json!([
                "each[0]",
                3,
                null,
                "ZeroDivisionError: division by zero",
                "script_error"
            ]),
        ),
        (
            "a, b = parallel_results\nreturn [a['state']['half'], a['half'], a.get('half'), b.get('half'), b.get('half', 0), a['success'], 'half' in a, 'half' in b]",
            json!([1.5, 1.5, 1.5, null, 0, true, true, false]),
        ),
        // The state of a branch has what was there before it, and what it has set.
        (
            "a, b = parallel_results\nreturn [a.state['base'], a.state['shared'], a['base'], 'parallel_results' in a.state, 'base' in b.state]",
            json!([7, {"k": [1]}, 7, false, false]),
        ),
        (
            "b = parallel_results[1]\nreturn [b.traceback, b.timeout, b.retry_count, b.circuit_state, b.attempt_errors, b.exit_code]",
            json!([null, false, 0, null, [], null]),
        ),
        (
            "return [r.result['half'] for r in parallel_results if r.success]",
            json!([1.5]),
        ),
        (
            "return [r.state for r in state['parallel_results']][1]['n']",
            json!(0),
        ),
        (
            "return sorted(parallel_results[1].to_dict())",
            json!([
                "attempt_errors",
                "branch",
                "circuit_state",
                "error",
                "error_type",
                "exit_code",
                "index",
                "retry_count",
                "state",
                "success",
                "timeout",
                "traceback"
            ]),
        ),
        (
            "r = parallel_results[0]\nreturn f\"{r.branch} {r.state['n']:>3} {'ok' if r.success else r.error}\"",
            json!("each[0]   3 ok"),
        ),
        // Attributes of the same names elsewhere are what they were.
        (
            "xs = [1, 2]\nreturn [xs.index(2), len(parallel_results)]",
            json!([1, 2]),
        ),
    ] {
        each(source, &with_results(), |what, ended| {
            let ended = ended.unwrap_or_else(|failure| panic!("{failure} in {what}"));
            assert_eq!(ended.returned, returned, "{what}");
            assert_eq!(ended.changes, Default::default(), "{what}");
        });
    }
    // The time of a branch is no part of the state, which every run would make another one.
    each(
        "x = 1\nreturn parallel_results[0].timing_ms",
        &with_results(),
        |what, ended| {
            let failure = ended.unwrap_err();
            assert!(failure.message.contains("timing_ms"), "{failure} in {what}");
            assert_eq!(failure.line, Some(2), "{what}");
        },
    );
}

fn results_under_another_name_behave_equally() {
    let mut state = with_results();
    state["saved"] = state["parallel_results"].clone();
    let source = "first = state['saved'][0]\nreturn [first.success, first.state['n'], first['half'], first.state.get('shared'), 'saved' in first.state, [r.error_type for r in state.get('saved', [])]]";
    each(source, &state, |what, ended| {
        let ended = ended.unwrap_or_else(|failure| panic!("{failure} in {what}"));
        let expected = json!([true, 3, 1.5, {"k": [1]}, false, [null, "script_error"]]);
        assert_eq!(ended.returned, expected, "{what}");
        assert_eq!(ended.changes, Default::default(), "{what}");
    });
    // The block mentions nothing of results.
    let source =
        "return [it['state'].get('base') for it in state['saved']] + [state['saved'][0]['half']]";
    each(source, &state, |what, ended| {
        let ended = ended.unwrap_or_else(|failure| panic!("{failure} in {what}"));
        assert_eq!(ended.returned, json!([7, null, 1.5]), "{what}");
    });
    each(
        "return [state['saved'], state['saved'][0].index]",
        &state,
        |what, ended| {
            let ended = ended.unwrap_or_else(|failure| panic!("{failure} in {what}"));
            assert_eq!(ended.returned, json!([state["saved"], 0]), "{what}");
        },
    );
}

fn returned_results_are_unchanged() {
    let state = with_results();
    let results = &state["parallel_results"];
    for source in [
        "return [parallel_results]",
        "_x = parallel_results[0].state\n_y = 1\n_x['x'] = 1\n_x.pop('x')\nout = [parallel_results]",
    ] {
        each(source, &state, |what, ended| {
            let ended = ended.unwrap_or_else(|failure| panic!("{failure} in {what}"));
            let out = match &ended.returned {
                Value::Object(names) => &names["out"],
                returned => returned,
            };
            assert_eq!(out[0], *results, "{what}");
            assert_eq!(ended.changes, Default::default(), "{what}");
        });
    }
    each(
        "parallel_results[1].state['late'] = True\nstate['base'] = 8",
        &state,
        |what, ended| {
            let changes = ended.unwrap().changes;
            let mut changed = results.clone();
            changed[1]["state"]["late"] = json!(true);
            assert_eq!(changes.set["parallel_results"], changed, "{what}");
            assert_eq!(changes.set["base"], json!(8), "{what}");
        },
    );
    each(
        "state['parallel_results'] = 'none'\nreturn {}",
        &state,
        |what, ended| {
            assert_eq!(
                ended.unwrap().changes.set["parallel_results"],
                json!("none"),
                "{what}"
            );
        },
    );
}

fn copies_of_results_are_plain_dicts() {
    let mut expected = json!({
        "branch": "each[0]", "index": 0, "success": true, "result": {"half": 1.5}, "n": 3, "half": 1.5,
        "base": 7, "error": null, "error_type": null, "traceback": null, "timeout": false,
        "retry_count": 0, "circuit_state": null, "attempt_errors": [], "exit_code": null,
        "shared": {"k": [1]},
    });
    expected["state"] = json!({"n": 3, "index": 0, "half": 1.5, "base": 7, "shared": {"k": [1]}});
    for source in [
        "return dict(parallel_results[0])",
        "return {**parallel_results[0]}",
        "return parallel_results[0].copy()",
    ] {
        each(source, &with_results(), |what, ended| {
            let ended = ended.unwrap_or_else(|failure| panic!("{failure} in {what}"));
            assert_eq!(ended.returned, expected, "{what}");
        });
    }
}

fn results_are_defined_only_at_a_fan_in() {
    each(
        "return 'parallel_results' in state",
        &given(),
        |what, ended| {
            assert_eq!(ended.unwrap().returned, json!(false), "{what}");
        },
    );
    each("x = 1\nreturn parallel_results", &given(), |what, ended| {
        let failure = ended.unwrap_err();
        assert_eq!(
            failure.message, "NameError: name 'parallel_results' is not defined",
            "{what}"
        );
        assert_eq!(failure.line, Some(2), "{what}");
    });
    let own = json!({"parallel_results": [1, {"branch": "x"}]});
    each("return parallel_results", &own, |what, ended| {
        assert_eq!(ended.unwrap().returned, own["parallel_results"], "{what}");
    });
}

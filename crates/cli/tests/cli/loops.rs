//! `reflection.loop` and `retry.loop` in a whole run. The states are those of the reference, except
//! where `docs/deviations.md` says otherwise.

use serde_json::{Value, json};

use crate::support::Home;

/// Runs a file; returns the final state.
fn state(file: &str) -> Value {
    let home = Home::new();
    home.write("agent.yaml", file);
    home.run(&["run", "agent.yaml"]).ok().json()
}

/// A loop whose rounds are scored 0.9, 0.5 and 0.2, and none of which is valid.
fn exhausted(on_failure: &str, output: &str) -> String {
    format!(
        r#"
name: exhausted
nodes:
  - name: make
    uses: reflection.loop
    with:
      generator:
        run: |
          result = {{"n": state["reflection_iteration"]}}
      evaluator:
        type: custom
        run: |
          result = {{"valid": False, "score": [0, 0.9, 0.5, 0.2][output["n"]], "errors": [{{"message": "no"}}]}}
      max_iterations: 3
      on_failure: {on_failure}
    {output}
"#
    )
}

#[test]
fn loop_corrects_an_output_until_it_matches_the_schema() {
    let state = state(
        r#"
name: corrected
variables: {rounds: 4}
nodes:
  - name: make
    uses: reflection.loop
    with:
      generator:
        run: |
          n = state.get("reflection_iteration", 1)
          result = {"title": "x"} if n < 2 else {"title": "xx", "age": "7", "hint": state.get("hint")}
      evaluator:
        type: schema
        schema:
          type: object
          required: [title, age]
          properties:
            title: {type: string}
            age: {type: integer}
      corrector:
        run: |
          result = {"hint": len(reflection_errors), "inside": True}
      max_iterations: "{{ variables.rounds }}"
  - name: after
    run: |
      return {"seen": state["reflection_iteration"], "leaked": "inside" in state}
"#,
    );
    let first = json!({ "title": "x" });
    let second = json!({ "title": "xx", "age": "7", "hint": 1 });
    assert_eq!(
        state,
        json!({
            "reflection_iteration": 2,
            "reflection_output": second,
            "reflection_errors": [],
            "reflection_history": [
                {
                    "iteration": 1, "output": first, "score": 0.0, "valid": false,
                    "errors": [{ "message": "'age' is a required property", "path": "", "schema_path": ["required"] }],
                },
                { "iteration": 2, "output": second, "score": 1.0, "valid": true, "errors": [] },
            ],
            "reflection_best": second,
            "reflection_best_score": 1.0,
            "success": true,
            "valid": true,
            "title": "xx",
            "age": "7",
            "hint": 1,
            "seen": 2,
            "leaked": false,
        })
    );
}

#[test]
fn on_exhausted_decides_the_result_without_a_valid_round() {
    let best = state(&exhausted("return_best", ""));
    assert_eq!(
        (&best["n"], &best["reflection_output"], &best["exhausted"]),
        (&json!(1), &json!({ "n": 1 }), &json!(true))
    );
    assert_eq!(best["reflection_best_score"], 0.9);
    assert_eq!(best["reflection_iteration"], 3);
    assert_eq!(best["reflection_errors"], json!([{ "message": "no" }]));
    let last = state(&exhausted("return_last", "output: got"));
    assert_eq!(last["got"]["n"], 3);
    assert_eq!(last["got"]["reflection_best"], json!({ "n": 1 }));
    assert_eq!(last.as_object().unwrap().len(), 1);
    let home = Home::new();
    home.write("agent.yaml", exhausted("raise", ""));
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    assert!(
        ran.stderr.contains("no output was valid after 3 rounds"),
        "{ran}"
    );
}

#[test]
fn loop_tolerates_a_failing_round_and_accepts_lua_blocks() {
    let state = state(
        r#"
name: failing
nodes:
  - name: make
    uses: reflection.loop
    with:
      generator:
        run: |
          n = state["reflection_iteration"]
          if n == 1:
              raise KeyError("first")
          output = [n, n]
      evaluator:
        type: custom
        language: lua
        run: |
          return output[1] / 6
      corrector:
        run: x = 1 / 0
      max_iterations: 5
"#,
    );
    assert_eq!(state["result"], json!([3, 3]));
    assert_eq!(state["reflection_iteration"], 3);
    let history = state["reflection_history"].as_array().unwrap();
    assert_eq!(history[0]["output"], Value::Null);
    let first = history[0]["errors"][0]["message"].as_str().unwrap();
    assert!(first.starts_with("Generator failed: KeyError"), "{first}");
    assert_eq!(history[2]["valid"], true);
}

#[test]
fn refused_block_of_a_loop_names_its_line() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "name: line\nnodes:\n  - name: make\n    uses: reflection.loop\n    with:\n      generator:\n        run: |\n          x = 1\n          open('x')\n      evaluator: {type: schema, schema: {}}\n",
    );
    let ran = home
        .run(&["run", "agent.yaml", "--python", "embedded"])
        .fails(2);
    assert!(ran.stderr.contains("agent.yaml:9"), "{ran}");
}

#[test]
fn node_corrects_a_failed_validation() {
    let file = |retries: u32| {
        format!(
            r#"
name: retried
initial_state: {{data: {{a: 1}}}}
nodes:
  - name: check
    uses: retry.loop
    with:
      validate: reflection.evaluate
      validate_args:
        data: "{{{{ state.data }}}}"
        schema: {{type: object, required: [a, b]}}
      correct: fix
      max_retries: {retries}
    goto: __end__
  - name: fix
    run: |
      return {{"data": {{**state["data"], ("c" if state["_retry_count"] == 0 else "b"): len(state["_retry_errors"])}}}}
"#
        )
    };
    let corrected = state(&file(2));
    assert_eq!(corrected["data"], json!({ "a": 1, "c": 1, "b": 1 }));
    assert_eq!(corrected["_retry_count"], 2);
    assert_eq!(corrected["_retry_errors"], json!([]));
    assert_eq!(corrected["_retry_exhausted"], false);
    assert_eq!(corrected["valid"], true);
    let exhausted = state(&file(1));
    assert_eq!(exhausted["data"], json!({ "a": 1, "c": 1 }));
    assert_eq!(exhausted["_retry_exhausted"], true);
    assert_eq!(exhausted["valid"], false);
    assert_eq!(
        exhausted["_retry_errors"],
        json!([{ "message": "'b' is a required property", "path": "", "schema_path": ["required"] }])
    );
}

/// Runs `retry.loop` over `validate.extraction`. `fix` is the body of the node that corrects.
fn extraction(initial_state: &str, validate_args: &str, fix: &str) -> Value {
    state(&format!(
        r#"
name: extraction
initial_state: {initial_state}
extraction_schema:
  entities: {{required_fields: [name, type]}}
  relationships: {{types: [knows, works_at], required_fields: [type, subject, object]}}
nodes:
  - name: check
    uses: retry.loop
    with: {{validate: validate.extraction, validate_args: {validate_args}, correct: fix, max_retries: 1}}
    goto: __end__
  - name: fix
    run: |
      {fix}
"#
    ))
}

#[test]
fn node_corrects_a_failed_extraction() {
    let initial = "{entities: [{name: Ada}], relationships: [{type: friends, subject: Ada, object: Charles}]}";
    let errors = json!([
        {
            "type": "missing_required_field", "path": "entities[0].type", "entity": { "name": "Ada" },
            "expected": "type", "actual": null, "message": "Entity missing required field 'type'",
        },
        {
            "type": "invalid_relationship_type", "path": "relationships[0].type",
            "relationship": { "type": "friends", "subject": "Ada", "object": "Charles" },
            "expected": ["knows", "works_at"], "actual": "friends",
            "message": "Invalid relationship type 'friends', expected one of ['knows', 'works_at']",
        },
    ]);
    let corrected = extraction(
        initial,
        "{}",
        "return {'entities': [{'name': 'Ada', 'type': 'Person'}], 'relationships': [], 'seen': state['_retry_errors']}",
    );
    assert_eq!(
        corrected,
        json!({
            "entities": [{ "name": "Ada", "type": "Person" }],
            "relationships": [],
            "seen": errors,
            "_retry_count": 1,
            "_retry_errors": [],
            "_retry_result": { "valid": true, "errors": [] },
            "_retry_exhausted": false,
            "valid": true,
            "errors": [],
        })
    );
    let exhausted = extraction(initial, "{}", "return {}");
    assert_eq!(exhausted["_retry_exhausted"], true);
    assert_eq!(
        exhausted["_retry_result"],
        json!({ "valid": false, "errors": errors })
    );
    assert_eq!(exhausted["_retry_errors"], errors);
}

/// An extraction that cannot be read counts as a round that is not valid.
#[test]
fn node_corrects_an_unreadable_extraction() {
    let corrected = extraction(
        "{relationships: 'Ada knows Charles'}",
        "{relationships: '{{ state.relationships }}', source_text: ''}",
        "return {'relationships': [], 'seen': state['_retry_errors']}",
    );
    assert_eq!(corrected["valid"], true);
    assert_eq!(
        corrected["seen"],
        json!([{
            "message": "validate.extraction: `relationships[0]` is text: expected a mapping",
            "type": "validation_error",
        }])
    );
}

/// Null arguments are taken from the state, as if they were left out.
#[test]
fn null_is_replaced_by_the_state() {
    for arguments in [
        "{entities: null}",
        "{entities: '{{ state.absent }}'}",
        "{entities: '{{- state.nothing -}}'}",
    ] {
        let state = extraction("{entities: [{}], nothing: null}", arguments, "return {}");
        assert_eq!(state["errors"].as_array().unwrap().len(), 2, "{arguments}");
    }
    for arguments in ["{entities: '{{ [] }}'}", "{entities: []}"] {
        let state = extraction("{entities: [{}]}", arguments, "return {}");
        assert_eq!(state["valid"], true, "{arguments}");
    }
}

/// The schema of the file is part of the key of a wrapped validation.
#[test]
fn a_wrapped_validation_is_keyed_by_the_schema() {
    let home = Home::new();
    let run = |field: &str| {
        let file = format!(
            "name: wrapped\nextraction_schema: {{entities: {{required_fields: [{field}]}}}}\nnodes:\n  - name: check\n    uses: cache.wrap\n    with: {{action: validate.extraction, args: {{entities: [{{name: Ada}}]}}}}\n    output: checked\n"
        );
        home.write("agent.yaml", file);
        let state = home.run(&["run", "agent.yaml"]).ok().json();
        let checked = &state["checked"];
        (
            checked["_cache_hit"].clone(),
            checked["result"]["valid"].clone(),
        )
    };
    assert_eq!(run("name"), (json!(false), json!(true)));
    assert_eq!(run("type"), (json!(false), json!(false)));
    assert_eq!(run("name"), (json!(true), json!(true)));
}

#[test]
fn loop_problems_are_reported_at_load() {
    let home = Home::new();
    for (with, part) in [
        ("{generator: {run: x}}", "needs `evaluator`"),
        (
            "{generator: {}, evaluator: {schema: {}}}",
            "not exactly one of `action` and `run`",
        ),
        (
            "{generator: {action: llm.cal, prompt: x}, evaluator: {schema: {}}}",
            "did you mean `llm.call`?",
        ),
        (
            "{generator: {action: llm.call, prmpt: x}, evaluator: {schema: {}}}",
            "did you mean `prompt`?",
        ),
        (
            "{generator: {run: x, langage: lua}, evaluator: {schema: {}}}",
            "did you mean `language`?",
        ),
        (
            "{generator: {run: 'x =', language: lua}, evaluator: {schema: {}}}",
            "not Lua",
        ),
        (
            "{generator: {run: x}, evaluator: {type: shema}}",
            "did you mean `schema`?",
        ),
        (
            "{generator: {run: x}, evaluator: {type: custom, run: x, language: prolog}}",
            "there is no prolog here",
        ),
        (
            "{generator: {run: x}, evaluator: {type: custom}}",
            "needs `run`",
        ),
    ] {
        home.write(
            "agent.yaml",
            format!(
                "name: slip\nnodes:\n  - {{name: make, uses: reflection.loop, with: {with}}}\n"
            ),
        );
        let ran = home.run(&["validate", "agent.yaml"]).fails(2);
        assert!(ran.stderr.contains(part), "{with}: {ran}");
    }
    for (with, part) in [
        (
            "{validate: reflection.evaluate, correct: nobody}",
            "names `nobody`",
        ),
        (
            "{validate: validate.answer, correct: check}",
            "there is no action `validate.answer`",
        ),
    ] {
        home.write(
            "agent.yaml",
            format!("name: slip\nnodes:\n  - {{name: check, uses: retry.loop, with: {with}}}\n"),
        );
        let ran = home.run(&["validate", "agent.yaml"]).fails(2);
        assert!(ran.stderr.contains(part), "{with}: {ran}");
    }
    home.write(
        "agent.yaml",
        "name: slip\nnodes:\n  - {name: a, uses: cache.wrap, with: {action: reflection.loop, args: {generator: {run: x}, evaluator: {schema: {}}}}}\n",
    );
    home.run(&["validate", "agent.yaml"]).fails(2);
}

/// A model judges, and a budget of calls ends the loop.
#[test]
fn model_evaluator_judges_within_a_budget() {
    let home = Home::new();
    let file = |answer: &str| {
        format!(
            r#"
name: judged
settings:
  shell_providers:
    writer: {{command: cat}}
    judge: {{command: printf, args: ['%s', '{answer}']}}
nodes:
  - name: make
    uses: reflection.loop
    with:
      generator:
        action: llm.call
        provider: shell
        shell_provider: writer
        prompt: "round {{{{ state.reflection_iteration }}}}"
      evaluator:
        type: llm
        model: shell/judge
        prompt: "Is this good? {{{{ state.reflection_output.content }}}}"
      max_iterations: 2
"#
        )
    };
    home.write("agent.yaml", file(r#"{"valid": true, "score": 0.8}"#));
    let state = home.run(&["run", "agent.yaml"]).ok().json();
    assert_eq!(state["content"], "round 1");
    assert_eq!(
        (&state["valid"], &state["reflection_best_score"]),
        (&json!(true), &json!(0.8))
    );
    home.write(
        "agent.yaml",
        file(r#"{"valid": false, "score": 0.1, "reason": "dull"}"#),
    );
    let state = home.run(&["run", "agent.yaml"]).ok().json();
    assert_eq!(state["reflection_errors"], json!([{ "message": "dull" }]));
    assert_eq!(
        (&state["content"], &state["exhausted"]),
        (&json!("round 1"), &json!(true))
    );
    home.write("agent.yaml", file("That is invalid."));
    let state = home.run(&["run", "agent.yaml"]).ok().json();
    assert_eq!(
        state["reflection_errors"],
        json!([{ "message": "the judge did not answer with a JSON object: That is invalid." }])
    );
    // A failure that no round can mend ends the loop.
    let refused = file("{}") + "budget: {max_cost: 1}\n";
    home.write("agent.yaml", refused);
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    assert!(ran.stderr.contains("max_cost"), "{ran}");
}

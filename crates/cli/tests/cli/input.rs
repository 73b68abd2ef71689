//! `--input`, in every form and with every slip.

use serde_json::json;

use crate::support::Home;

const ECHO: &str = "name: echo\nnodes:\n  - name: nothing\n";

#[test]
fn inputs_are_merged_in_order() {
    let home = Home::new();
    home.write("agent.yaml", ECHO);
    home.write("input.json", r#"{"a": 1, "b": 2}"#);
    home.write("input.yaml", "c: [1, two]\n");
    let ran = home.run(&[
        "run",
        "agent.yaml",
        "-i",
        "@input.json",
        "-i",
        "@input.yaml",
        "-i",
        "b=text",
        "-i",
        "d:=1.5",
        "--input",
        r#"{"e": null}"#,
    ]);
    assert_eq!(
        ran.ok().json(),
        json!({"a": 1, "b": "text", "c": [1, "two"], "d": 1.5, "e": null})
    );
}

#[test]
fn input_errors_are_reported_with_a_remedy_and_exit_code_2() {
    let home = Home::new();
    home.write("agent.yaml", ECHO);
    for (input, expected) in [
        ("oops", "KEY=TEXT"),
        ("@missing.json", "missing.json"),
        ("a:=18446744073709551616", "put it in quotes"),
        (r#"{"a": 1, "a": 2}"#, "twice"),
    ] {
        let ran = home.run(&["run", "agent.yaml", "-i", input]).fails(2);
        assert!(ran.stderr.contains(expected), "{input}: {ran}");
    }
}

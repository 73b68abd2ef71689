//! Problems of an input, a file or a hook.

use super::{RM, with_the_examples, words};
use crate::support::Home;

#[test]
fn hook_problems_are_reported_with_their_place_and_exit_code_2() {
    let home = with_the_examples();
    let ran = home.try_hooks("pre_tol_use", &[], RM).fails(2);
    assert!(ran.stderr.contains("did you mean `pre_tool_use`?"), "{ran}");
    for (input, expected) in [
        (
            "{\"tool_name\": \"shell\",\n \"tool_input\": }",
            &["stdin", "line 2"][..],
        ),
        (r#"{"tool_name": 3}"#, &["stdin", "`tool_name`"]),
        ("[]", &["stdin", "object"]),
        (
            r#"{"stop_response": "x"}"#,
            &["the input of `pre_tool_use` has no `stop_response`"],
        ),
        ("", &["stdin", "JSON"]),
    ] {
        let ran = home.try_hooks("pre_tool_use", &[], input).fails(2);
        assert_eq!(ran.stdout, "");
        let said = words(&ran.stderr);
        for expected in expected {
            assert!(said.contains(expected), "{expected}: {ran}");
        }
    }
    let ran = home.try_hooks("stop", &[], b"\xff\xfe").fails(2);
    assert!(words(&ran.stderr).contains("stdin is not UTF-8"), "{ran}");
    let missing = |arguments: &[&str], name: &str| {
        let ran = home.run(&[&["hooks", "test", "stop"], arguments].concat());
        let ran = ran.fails(2);
        assert!(words(&ran.stderr).contains(name), "{name}: {ran}");
    };
    missing(&["--input", "nope.json"], "nope.json: No such file");
    home.write("none.json", "{}");
    let input = ["--input", "none.json"];
    missing(&[&input[..], &["--hooks", "nope.yml"]].concat(), "nope.yml");
    missing(
        &[&input[..], &["--file", "nope.yaml"]].concat(),
        "nope.yaml",
    );
    missing(&[], "--input");

    home.write("bad.yml", "hooks:\n  pre_tool_use:\n    - matcher: '('\n      hooks: [{type: command, command: 'true'}]\n  stopp: []\n");
    let ran = home
        .try_hooks("pre_tool_use", &["--hooks", "bad.yml"], RM)
        .fails(2);
    let said = words(&ran.stderr);
    for expected in ["bad.yml:3:", "stopp", "bad.yml:5:", "did you mean `stop`?"] {
        assert!(said.contains(expected), "{expected}: {ran}");
    }
}

#[test]
fn failing_guard_is_reported_and_denies_by_default() {
    let home = Home::new();
    home.write(
        "hooks.yaml",
        "
hooks:
  pre_tool_use: [{hooks: [{name: slow, type: command, command: sleep 300, timeout: 1}]}]
  post_tool_use: [{hooks: [{name: gone, type: command, command: ./not_there.sh}]}]
  stop: [{name: silent, type: command, command: exit 7}]
",
    );
    let hooks = ["--hooks", "hooks.yaml"];
    let begun = std::time::Instant::now();
    let ran = home.try_hooks("pre_tool_use", &hooks, RM).ok();
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(120),
        "{ran}"
    );
    assert!(ran.stdout.contains("\nslow  "), "{ran}");
    assert!(ran.stdout.contains("pre_tool_use: deny: "), "{ran}");
    assert!(
        ran.stdout.contains("within 1s"),
        "the limit is named: {ran}"
    );
    assert_eq!(ran.stdout.matches("within 1s").count(), 1, "once: {ran}");
    let ran = home.try_hooks("post_tool_use", &hooks, RM).ok();
    assert!(
        ran.stdout.contains("not_there.sh")
            && ran.stdout.starts_with("post_tool_use: goes ahead\n"),
        "{ran}"
    );
    let reported = home
        .try_hooks("stop", &["--hooks", "hooks.yaml", "--json"], "{}")
        .ok()
        .json();
    let fault = reported["handlers"][0]["fault"].as_str().unwrap();
    assert!(fault.contains('7'), "{reported}");
    assert!(reported["decision"].is_null(), "{reported}");
}

//! `cachalot run --approve`: a run does not begin without the approvals that its file asks for.

use crate::support::Home;

/// Each node leaves a file behind.
const FILE: &str = "
name: approvals
interrupt_before: [second, third]
nodes:
  - name: first
    uses: file.write
    with: {path: first.txt, content: x}
  - name: second
    uses: file.write
    with: {path: second.txt, content: x}
  - name: third
    uses: file.write
    with: {path: third.txt, content: x}
";

#[track_caller]
fn refused(home: &Home, arguments: &[&str], expected: &[&str]) {
    let ran = home.run(arguments).fails(2);
    if arguments.iter().any(|argument| argument.ends_with("json")) {
        assert_eq!(ran.json()["error"]["code"], "needs-approval")
    } else {
        assert_eq!(ran.stdout, "", "{ran}")
    }
    let reported = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in expected {
        assert!(reported.contains(expected), "{expected} in {ran}");
    }
    assert!(!home.join("first.txt").exists(), "{ran}");
}

#[test]
fn run_without_all_approvals_is_refused_before_any_step() {
    let home = Home::new();
    home.write("agent.yaml", FILE);
    refused(
        &home,
        &["run", "agent.yaml"],
        &[
            "needs-approval",
            "`second` and `third` need approval before they run",
            "add `--approve second --approve third` to `cachalot run`",
            "agent.yaml:3:20",
        ],
    );
    for arguments in [
        &[
            "run",
            "agent.yaml",
            "--approve",
            "third",
            "--approve",
            "first",
        ][..],
        &["run", "agent.yaml", "--approve", "third", "--json"],
        &["run", "agent.yaml", "--approve", "third", "--ndjson", "-q"],
        &["run", "agent.yaml", "--approve", "third", "--no-cache"],
    ] {
        refused(
            &home,
            arguments,
            &[
                "`second` needs approval before it runs",
                "add `--approve second` to",
            ],
        );
    }
    refused(
        &home,
        &[
            "run",
            "agent.yaml",
            "--approve",
            "secnd",
            "--approve",
            "all",
        ],
        &["approval-undefined", "did you mean `second`?"],
    );
}

#[test]
fn approved_run_succeeds_without_warnings() {
    for approvals in [
        &["--approve", "second", "--approve", "third"][..],
        &["--approve", "all"],
    ] {
        let home = Home::new();
        home.write("agent.yaml", FILE);
        let ran = home.run(&[&["run", "agent.yaml"], approvals].concat()).ok();
        assert!(!ran.stderr.contains("approv"), "{ran}");
        assert!(home.join("third.txt").exists());
    }
}

#[test]
fn plan_and_validate_warn_of_needed_approvals() {
    let home = Home::new();
    home.write("agent.yaml", FILE);
    let plan = home.run(&["run", "agent.yaml", "--plan"]).ok();
    assert!(plan.stdout.contains("third"), "{plan}");
    assert!(plan.stderr.contains("needs-approval"), "{plan}");
    assert!(!home.join("first.txt").exists());
    let valid = home.run(&["validate", "agent.yaml", "--json"]).ok().json();
    assert_eq!(valid["warnings"][0]["code"], "needs-approval");
    assert_eq!(valid["warnings"].as_array().unwrap().len(), 1, "{valid}");
}

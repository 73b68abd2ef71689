//! The pattern that "always" approves.

use cachalot_operation::{AccessRequest, Permissions, ResourceAccess};
use serde_json::{Value, json};

use crate::rules::{Rules, shell};

fn remembered(tool: &str, arguments: &Value, resource_access: &ResourceAccess) -> Option<String> {
    let rules = Rules::of("{}");
    let operation = AccessRequest {
        tool,
        read_only: false,
        arguments: arguments.as_object().unwrap(),
        resource_access,
        sandboxed: false,
    };
    Permissions::derive_grant(&operation, &rules.workspace).map(|rule| rule.rule().to_owned())
}

fn of_command(command: impl Into<Value>) -> String {
    let command = command.into();
    remembered("shell", &json!({"command": command}), &shell(&command)).unwrap_or_default()
}

/// Returns whether "always" for one command covers another.
fn covers(first: &str, second: &str) -> bool {
    let rules = Rules::of("{}");
    let calls = [first, second].map(|line| (json!({"command": line}), shell(&json!(line))));
    let operation = |index: usize| AccessRequest {
        tool: "shell",
        read_only: false,
        arguments: calls[index].0.as_object().unwrap(),
        resource_access: &calls[index].1,
        sandboxed: false,
    };
    Permissions::derive_grant(&operation(0), &rules.workspace)
        .is_some_and(|rule| rule.covers(&operation(1), &rules.workspace))
}

#[test]
fn remembered_command_covers_its_prefix() {
    for (line, expected) in [
        ("git push origin main", "shell:command=git push *"),
        ("git push", "shell:command=git push"),
        ("cargo test --workspace", "shell:command=cargo test *"),
        ("ls -l", "shell:command=ls *"),
        // What runs other programs, or is hard to take back, is remembered as it is.
        ("rm -rf target", "shell:command=rm -rf target"),
        ("npm run build", "shell:command=npm run build"),
        ("python -c 'x'", "shell:command=python -c 'x'"),
        ("sh -c 'ls'", "shell:command=sh -c 'ls'"),
        ("git log | head", "shell:command=git log | head"),
        ("ls *.rs > a?", r"shell:command=ls \*.rs > a\?"),
        ("a:b c", r"shell:command=a\:b c"),
        ("git -C x push", "shell:command=git -C x push"),
        ("/bin/ls x", "shell:command=/bin/ls x"),
    ] {
        assert_eq!(of_command(line), expected, "{line}");
    }
    assert_eq!(
        of_command(json!(["git", "push", "x"])),
        "shell:command=git push *"
    );
    assert_eq!(of_command(json!(["sh", "-c", "rm x"])), "");
}

#[test]
fn remembered_prefix_covers_no_other_command() {
    assert!(covers("git push origin", "git push other --tags"));
    for (first, second) in [
        ("git push x", "git push x; rm -rf ."),
        ("git push x", "git push x && ls"),
        ("git push x", "git push x | sh"),
        ("git push x", "git push x > y"),
        ("git push x", "git push $(ls)"),
        ("git push x", "git push `ls`"),
        ("git push x", "git push x\nls"),
        ("git push x", "git push x & ls"),
        ("git push x", "git push --receive-pack='rm x' y"),
        ("git push x", "git pull"),
        ("git push x", "git pushx y"),
        ("ls x", "lsof x"),
        ("ls | head", "ls | head -5"),
        ("rm x", "rm y"),
        ("rm *", "rm y"),
        ("echo a?", "echo ab"),
    ] {
        assert!(!covers(first, second), "{first} / {second}");
    }
    for line in [
        "rm *",
        "echo 'a b' c",
        "git log | head",
        "ls x y",
        "cat <<E\nx\nE",
    ] {
        assert!(covers(line, line), "{line}");
    }
}

#[test]
fn other_calls_are_remembered_by_their_resources() {
    let rule = |tool: &str, arguments: Value, resource_access: ResourceAccess| {
        remembered(tool, &arguments, &resource_access)
    };
    assert_eq!(
        rule(
            "write_file",
            json!({"path": "./b:c"}),
            ResourceAccess::writing(["./b:c"])
        )
        .as_deref(),
        Some(r"write_file:path=b\:c")
    );
    let fetch = ResourceAccess {
        urls: vec!["https://DOCS.rs/x".to_owned()],
        remote: true,
        ..ResourceAccess::default()
    };
    assert_eq!(
        rule("web_fetch", json!({"url": "https://DOCS.rs/x"}), fetch).as_deref(),
        Some("web_fetch:host=docs.rs")
    );
    assert_eq!(
        rule(
            "memory",
            json!({"action": "store", "key": "a"}),
            ResourceAccess::default()
        )
        .as_deref(),
        Some("memory:action=store")
    );
    assert_eq!(
        rule("deploy", json!({}), ResourceAccess::default()).as_deref(),
        Some("deploy")
    );
    // No one pattern stands for two files and nothing else.
    assert_eq!(
        rule(
            "apply_patch",
            json!({"patch": "…"}),
            ResourceAccess::writing(["a", "b"])
        ),
        None
    );
}

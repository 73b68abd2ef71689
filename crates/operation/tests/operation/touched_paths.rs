//! Path rules apply to everything that a call touches.

use cachalot_core::tree;
use cachalot_operation::{Arguments, Decision, Operation, Permissions, Touches, Workspace};
use serde_json::{Value, json};

fn judge(rules: &str, tool: &str, arguments: &Value, touches: &Touches) -> Decision {
    let root = tempfile::tempdir().unwrap();
    let mut problems = Vec::new();
    let node = tree::parse("rules.yaml", rules).unwrap();
    let permissions = Permissions::read(&node, &mut problems);
    assert_eq!(problems, []);
    let arguments: &Arguments = arguments.as_object().unwrap();
    let operation = Operation {
        tool,
        read_only: true,
        arguments,
        touches,
    };
    permissions.judge(&operation, &Workspace::open(root.path()).unwrap())
}

#[test]
fn a_path_rule_finds_paths_whatever_their_arguments_are_called() {
    let rules = "deny: ['*:path=**/.env*']";
    let denied = |arguments: Value| {
        let touches = Touches::declared(&Value::Null, arguments.as_object().unwrap(), true);
        let decision = judge(rules, "mcp_fs_read", &arguments, &touches);
        matches!(decision, Decision::Deny(_))
    };
    for arguments in [
        json!({"path": ".env"}),
        json!({"paths": ["a", "b/.env.local"]}),
        json!({"source": "a", "destination": "x/../.env"}),
        json!({"uri": "file:///home/me/.env"}),
        json!({"edits": [{"filePath": ".env"}]}),
    ] {
        assert!(denied(arguments.clone()), "{arguments}");
    }
    for arguments in [json!({"path": "env"}), json!({"text": ".env"})] {
        assert!(!denied(arguments.clone()), "{arguments}");
    }
}

#[test]
fn a_permission_needs_every_path_that_a_call_touches() {
    let rules = "ask: ['x']\nallow: ['mv:path=src/**']";
    let allowed = |arguments: Value| {
        let arguments = arguments.as_object().unwrap();
        let touches = Touches::declared(&Value::Null, arguments, false);
        let root = tempfile::tempdir().unwrap();
        let node = tree::parse("rules.yaml", rules).unwrap();
        let permissions = Permissions::read(&node, &mut Vec::new());
        let operation = Operation {
            tool: "mv",
            read_only: false,
            arguments,
            touches: &touches,
        };
        permissions.judge(&operation, &Workspace::open(root.path()).unwrap()) == Decision::Allow
    };
    assert!(allowed(json!({"source": "src/a", "destination": "src/b"})));
    assert!(!allowed(json!({"source": "src/a", "destination": "b"})));
}

//! Path rules apply to everything that a call touches.

use cachalot_core::tree;
use cachalot_operation::{
    AccessRequest, Arguments, PermissionDecision, Permissions, ResourceAccess, Workspace,
};
use serde_json::{Value, json};

fn judge(
    rules: &str,
    tool: &str,
    arguments: &Value,
    resource_access: &ResourceAccess,
) -> PermissionDecision {
    let root = tempfile::tempdir().unwrap();
    let mut problems = Vec::new();
    let node = tree::parse("rules.yaml", rules).unwrap();
    let permissions = Permissions::read(&node, &mut problems);
    assert_eq!(problems, []);
    let arguments: &Arguments = arguments.as_object().unwrap();
    let operation = AccessRequest {
        tool,
        read_only: true,
        arguments,
        resource_access,
        sandboxed: false,
    };
    permissions.judge(&operation, &Workspace::open(root.path()).unwrap())
}

#[test]
fn path_rule_applies_to_every_path_argument() {
    let rules = "deny: ['*:path=**/.env*']";
    let denied = |arguments: Value| {
        let resource_access =
            ResourceAccess::declared(&Value::Null, arguments.as_object().unwrap(), true);
        let decision = judge(rules, "mcp_fs_read", &arguments, &resource_access);
        matches!(decision, PermissionDecision::Deny(_))
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
fn permission_requires_every_touched_path() {
    let rules = "ask: ['x']\nallow: ['mv:path=src/**']";
    let allowed = |arguments: Value| {
        let arguments = arguments.as_object().unwrap();
        let resource_access = ResourceAccess::declared(&Value::Null, arguments, false);
        let root = tempfile::tempdir().unwrap();
        let node = tree::parse("rules.yaml", rules).unwrap();
        let permissions = Permissions::read(&node, &mut Vec::new());
        let operation = AccessRequest {
            tool: "mv",
            read_only: false,
            arguments,
            resource_access: &resource_access,
            sandboxed: false,
        };
        permissions.judge(&operation, &Workspace::open(root.path()).unwrap())
            == PermissionDecision::Allow
    };
    assert!(allowed(json!({"source": "src/a", "destination": "src/b"})));
    assert!(!allowed(json!({"source": "src/a", "destination": "b"})));
}

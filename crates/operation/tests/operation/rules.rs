//! Rules over a workspace, for tests.

use cachalot_core::tree;
use cachalot_operation::{
    AccessRequest, Arguments, Command, CommandText, PermissionDecision, Permissions,
    ResourceAccess, Workspace,
};
use serde_json::{Value, json};

/// Rules over a workspace of their own.
pub(crate) struct Rules {
    pub(crate) permissions: Permissions,
    pub(crate) root: tempfile::TempDir,
    pub(crate) workspace: Workspace,
}

/// The resources of `shell`.
pub(crate) fn shell(command: &Value) -> ResourceAccess {
    let text = match command {
        Value::String(line) => CommandText::Line(line.clone()),
        words => CommandText::Program(serde_json::from_value(words.clone()).unwrap()),
    };
    ResourceAccess {
        commands: vec![Command {
            text,
            directory: None,
        }],
        ..ResourceAccess::default()
    }
}

impl Rules {
    pub(crate) fn of(yaml: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut problems = Vec::new();
        let node = tree::parse("rules.yaml", yaml).unwrap();
        let permissions = Permissions::read(&node, &mut problems);
        assert_eq!(problems, []);
        Self {
            permissions,
            workspace: Workspace::open(root.path()).unwrap(),
            root,
        }
    }

    pub(crate) fn judge(
        &self,
        tool: &str,
        arguments: &Value,
        resource_access: &ResourceAccess,
        read_only: bool,
    ) -> PermissionDecision {
        let arguments: &Arguments = arguments.as_object().unwrap();
        let operation = AccessRequest {
            tool,
            read_only,
            arguments,
            resource_access,
            sandboxed: false,
        };
        self.permissions.judge(&operation, &self.workspace)
    }

    /// A call of `shell`.
    pub(crate) fn command(&self, command: impl Into<Value>) -> PermissionDecision {
        let command = command.into();
        let resource_access = shell(&command);
        self.judge(
            "shell",
            &json!({"command": command}),
            &resource_access,
            false,
        )
    }

    /// A file in the workspace.
    pub(crate) fn file(&self, path: &str) {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
}

/// Returns whether a call is denied, or needs approval because it may be denied.
pub(crate) fn is_stopped(decision: &PermissionDecision) -> bool {
    matches!(
        decision,
        PermissionDecision::Deny(_) | PermissionDecision::Unclear { .. }
    )
}

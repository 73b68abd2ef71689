//! Any text as a command line, judged by rules that deny commands and paths: no panic, no hang, and a
//! wrapper never turns a denial into an allowance.

use std::sync::OnceLock;

use cachalot_core::tree;
use cachalot_operation::{
    AccessRequest, Arguments, Command, CommandText, PermissionDecision, Permissions,
    ResourceAccess, Workspace,
};

fn rules() -> &'static (Permissions, Workspace) {
    static RULES: OnceLock<(Permissions, Workspace)> = OnceLock::new();
    RULES.get_or_init(|| {
        let yaml = "allow: [shell]\ndeny: ['shell:command=rm *', '*:path=**/.env*']";
        let node = tree::parse("rules.yaml", yaml).expect("the rules are YAML");
        let permissions = Permissions::read(&node, &mut Vec::new());
        let root = std::env::temp_dir();
        (
            permissions,
            Workspace::open(root).expect("there is a directory"),
        )
    })
}

fn judge(line: String) -> PermissionDecision {
    let (permissions, workspace) = rules();
    let arguments = Arguments::from_iter([("command".to_owned(), line.clone().into())]);
    let resource_access = ResourceAccess {
        commands: vec![Command {
            text: CommandText::Line(line),
            directory: None,
        }],
        ..ResourceAccess::default()
    };
    let operation = AccessRequest {
        tool: "shell",
        read_only: false,
        arguments: &arguments,
        resource_access: &resource_access,
        sandboxed: false,
    };
    permissions.judge(&operation, workspace)
}

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let line = crate::text(bytes);
    let decision = judge(line.to_owned());
    // A rule is compared with the text of a line, too, which is another one once its quotes are quoted.
    if decision == PermissionDecision::Allow || line.contains('\'') {
        return;
    }
    let quoted = format!("'{}'", line.replace('\'', r"'\''"));
    for wrapped in [
        format!("sh -c {quoted}"),
        format!("env sh -c {quoted}"),
        format!("eval {quoted}"),
    ] {
        assert_ne!(
            judge(wrapped.clone()),
            PermissionDecision::Allow,
            "{wrapped}"
        );
    }
}

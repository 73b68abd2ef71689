//! Rules in the format of docker-agent.

use cachalot_operation::PermissionDecision;
use cachalot_operation::permissions::ToolSignature;
use serde_json::json;

use crate::rules::{Rules, shell};

#[test]
fn names_of_tools_are_compared_without_letter_case_and_by_both_names() {
    let rules = Rules::of("allow: [SHELL]\ndeny: [List_Directory, 'Fetch']\n");
    let decide = |tool: &str, command: &str| {
        let arguments = json!({"command": command});
        rules.judge(tool, &arguments, &shell(&arguments["command"]), false)
    };
    assert_eq!(decide("shell", "ls"), PermissionDecision::Allow);
    for tool in ["list_dir", "web_fetch"] {
        assert!(
            matches!(decide(tool, "x"), PermissionDecision::Deny(_)),
            "{tool}"
        );
    }
}

#[test]
fn bare_names_apply_to_tools_of_servers_and_misspelled_ones_do_not() {
    let mut rules = Rules::of("deny: [go_test, shel]\n");
    let known = [ToolSignature {
        name: "shell".to_owned(),
        arguments: vec!["command".to_owned()],
    }];
    rules
        .permissions
        .name_server_tools(&["mcp_gopls_".to_owned()], &known);
    let found = rules.permissions.check(&known, true);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.contains("`shel`"));
    let decision = rules.judge("mcp_gopls_go_test", &json!({}), &Default::default(), false);
    assert!(matches!(decision, PermissionDecision::Deny(_)));
}

#[test]
fn order_that_differs_is_a_warning_where_it_decides() {
    let overlapping = Rules::of("allow: ['shell:cmd=git status*', read_file]\nask: [shell]\n");
    let warnings = overlapping.permissions.order_warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].is_warning && warnings[0].message.contains("git status"));
    let apart = Rules::of("allow: ['shell:cmd=ls*']\nask: ['shell:cmd=git *', write_file]\n");
    assert_eq!(apart.permissions.order_warnings(), []);
}

#[test]
fn denied_folder_is_denied_to_all_tools() {
    let mut rules = Rules::of("allow: [read_file]\n");
    let place = cachalot_core::tree::parse("x", "x").unwrap().place;
    let folder = std::path::Path::new("private");
    rules.permissions.deny_folder(folder, &place).unwrap();
    for (path, is_denied) in [
        ("private", true),
        ("private/a/b", true),
        ("privately", false),
    ] {
        let access = cachalot_operation::ResourceAccess::reading([path]);
        let decision = rules.judge("read_file", &json!({"path": path}), &access, true);
        let denied = matches!(decision, PermissionDecision::Deny(_));
        assert_eq!(denied, is_denied, "{path}: {decision:?}");
    }
}

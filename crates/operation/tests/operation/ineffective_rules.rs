//! Rules that are about nothing.

use cachalot_operation::permissions::ToolSignature;

use crate::rules::Rules;

fn tools() -> Vec<ToolSignature> {
    let tool = |name: &str, arguments: &[&str]| ToolSignature {
        name: name.to_owned(),
        arguments: arguments.iter().map(|name| (*name).to_owned()).collect(),
    };
    vec![
        tool("shell", &["command", "timeout", "working_directory"]),
        tool("read_file", &["path", "offset"]),
        tool("apply_patch", &["patch"]),
        tool("web_fetch", &["url", "raw"]),
        tool("memory", &["action", "key"]),
    ]
}

fn problems(rule: &str, has_servers: bool) -> Vec<String> {
    let rules = Rules::of(&format!("deny: ['{rule}']"));
    let problems = rules.permissions.check(&tools(), has_servers);
    problems
        .iter()
        .map(|problem| {
            assert_eq!(problem.code, "void-rule");
            assert!(problem.place.is_some());
            format!(
                "{} {}",
                problem.message,
                problem.help.as_deref().unwrap_or_default()
            )
        })
        .collect()
}

#[test]
fn rule_for_an_unknown_tool_or_argument_is_a_problem() {
    for (rule, meant) in [
        ("shel", "`shell`"),
        ("shell:comand=rm *", "`command`"),
        ("read_file:pth=x", "`path`"),
        ("*:comand=rm *", "`command`"),
        ("shel*:x=y", "there is"),
        ("memory:path=x", "no argument `path`"),
        ("web_fetch:command=x", "no argument `command`"),
    ] {
        let found = problems(rule, false);
        if rule == "shel*:x=y" {
            assert_eq!(found.len(), 1, "{rule}");
            continue;
        }
        assert!(
            found.len() == 1 && found[0].contains(meant),
            "{rule}: {found:?}"
        );
    }
    for rule in [
        "shell",
        "*",
        "shell:cmd=rm *",
        "shell:command=rm *",
        "*:path=x",
        "apply_patch:path=x",
        "shell:path=x",
        "web_fetch:host=x",
        "read_*",
        "mcp_github_*",
        "mcp_github_create:title=x",
        "m*",
    ] {
        assert_eq!(problems(rule, false), [""; 0], "{rule}");
    }
    // An argument of a tool of a server, which is not known yet.
    assert_eq!(problems("*:title=x", true), [""; 0]);
}

#[test]
fn rule_for_a_server_is_checked_after_connecting() {
    let mut known = tools();
    known.push(ToolSignature {
        name: "mcp_github_create_issue".to_owned(),
        arguments: vec!["title".to_owned()],
    });
    let warnings = |rule: &str| {
        let rules = Rules::of(&format!("deny: ['{rule}']"));
        rules.permissions.check_server("mcp_github_", &known)
    };
    assert!(
        warnings("mcp_github_create_isue")[0].contains("did you mean `mcp_github_create_issue`")
    );
    assert!(warnings("mcp_github_*:titel=x")[0].contains("did you mean `title`"));
    for rule in [
        "mcp_github_*",
        "mcp_github_create_issue:title=x",
        "mcp_other_x",
        "shell",
    ] {
        assert_eq!(warnings(rule), [""; 0], "{rule}");
    }
}

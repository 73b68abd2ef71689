//! Hooks of plugins.

use std::path::Path;

use cachalot_hooks::{Dialect, Event};
use serde_json::json;

use super::Project;
use crate::program_file::make_executable;

const SCRIPT: &str = "#!/bin/sh\necho \"$0 $CLAUDE_PLUGIN_ROOT $*\" >&2\nexit 2\n";

fn plugin(folder: &str) -> Project {
    let project = Project::new();
    project.write(
        &format!("{folder}/.claude-plugin/plugin.json"),
        "{\"name\": \"p\"}",
    );
    let script = project.write(&format!("{folder}/scripts/guard.sh"), SCRIPT);
    make_executable(&script);
    project
}

#[cfg(unix)]
#[tokio::test]
async fn plugin_hooks_receive_the_plugin_root() {
    for folder in ["plugin", "a plugin of $mine"] {
        let project = plugin(folder);
        let root = project.handler_fixture.root().join(folder);
        for hook in [
            json!({"type": "command", "command": "\"${CLAUDE_PLUGIN_ROOT}/scripts/guard.sh\" a"}),
            json!({"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/scripts/guard.sh", "args": ["a"]}),
        ] {
            let events = json!({"PreToolUse": [{"hooks": [hook]}]});
            let hooks = project.hooks_of(&format!("{folder}/hooks/hooks.json"), &events);
            let verdict = project.shell(&hooks, "ls").await;
            let root = root.display();
            let reported = format!("{root}/scripts/guard.sh {root} a");
            assert_eq!(verdict.denial(), Some(reported.as_str()), "{hook}");
        }
    }
}

#[tokio::test]
async fn plugin_root_is_expanded_where_a_shell_would_not() {
    let project = plugin("plugin");
    let line = "echo '${CLAUDE_PLUGIN_ROOT}' >&2; exit 2";
    let events = json!({"PreToolUse": super::command(line)});
    let hooks = project.hooks_of("plugin/hooks/hooks.json", &events);
    let root = project.handler_fixture.root().join("plugin");
    let verdict = project.shell(&hooks, "ls").await;
    assert_eq!(verdict.denial().map(Path::new), Some(root.as_path()));
}

#[test]
fn hooks_json_is_a_plugin_only_beside_its_manifest() {
    let project = plugin("plugin");
    let text = json!({"hooks": {"SessionStart": super::command("${CLAUDE_PLUGIN_ROOT}/x.sh")}});
    let root = |path: &str| {
        let (read, problems) = project.read(path, &text.to_string());
        assert_eq!(problems, []);
        assert_eq!(read.entries[0].dialect, Dialect::Claude);
        read.entries[0]
            .definition
            .env
            .contains_key("CLAUDE_PLUGIN_ROOT")
    };
    assert!(root("plugin/hooks/hooks.json"));
    assert!(!root("mine/hooks/hooks.json"));
}

#[tokio::test]
async fn gemini_extension_hooks_receive_the_extension_path() {
    let project = plugin("plugin");
    for folder in ["extension", "an extension of $mine"] {
        project.write(&format!("{folder}/gemini-extension.json"), "{}");
        let line = r#"echo "${extensionPath}${/}guard.sh ${workspacePath}" >&2; exit 2"#;
        let events = json!({"BeforeTool": super::command(line)});
        let hooks = project.hooks_of(&format!("{folder}/hooks/hooks.json"), &events);
        let verdict = project.shell(&hooks, "ls").await;
        let root = project.handler_fixture.root();
        let reported = format!(
            "{}/guard.sh {}",
            root.join(folder).display(),
            root.display()
        );
        assert_eq!(verdict.denial(), Some(reported.as_str()));
    }
}

/// A folder may be both: each runtime then reads its own manifest and the same hooks.
#[test]
fn dialect_of_a_plugin_and_extension_is_detected_by_its_events() {
    let project = plugin("both");
    project.write("both/gemini-extension.json", "{}");
    for (event, dialect) in [
        ("PreToolUse", Dialect::Claude),
        ("BeforeTool", Dialect::Gemini),
    ] {
        let text =
            json!({"hooks": {event: super::command("x"), "SessionStart": super::command("y")}});
        let (read, problems) = project.read("both/hooks/hooks.json", &text.to_string());
        assert_eq!(problems, []);
        assert!(read.entries.iter().all(|entry| entry.dialect == dialect));
    }
    let mixed =
        json!({"hooks": {"PreToolUse": super::command("x"), "BeforeTool": super::command("y")}});
    let (read, problems) = project.read("both/hooks/hooks.json", &mixed.to_string());
    assert_eq!(
        (read.entries.len(), problems[0].code),
        (0, "ambiguous-dialect")
    );
}

#[test]
fn two_plugins_with_the_same_line_are_two_hooks() {
    let project = plugin("one");
    project.write("two/.claude-plugin/plugin.json", "{}");
    let text = json!({"hooks": {"Stop": super::command("\"$CLAUDE_PLUGIN_ROOT\"/x.sh")}});
    let mut entries = Vec::new();
    for folder in ["one", "two"] {
        let (read, _) = project.read(&format!("{folder}/hooks/hooks.json"), &text.to_string());
        entries.extend(read.entries);
    }
    assert_eq!(entries[0].event, Event::Stop);
    assert_ne!(entries[0].definition, entries[1].definition);
}

//! Writes of files, as write guards of other runtimes are told of them.

use std::path::Path;

use cachalot_hooks::{Dialect, Event, Hooks, Input, source};
use cachalot_operation::ResourceAccess;
use serde_json::{Value, json};

use super::Project;

const PATCH: &str = "*** Begin Patch
*** Add File: new.txt
+a line
*** Update File: src/a.rs
*** Move to: src/b.rs
@@
-old
+token = 1
*** Delete File: old.txt
*** End Patch";

const FILES: [&str; 4] = ["new.txt", "src/a.rs", "src/b.rs", "old.txt"];

impl Project {
    /// The hooks of settings, in this dialect, with `line` for these tools.
    fn guarding(&self, dialect: Dialect, event: &str, matcher: &str, line: &str) -> Hooks {
        let group = json!([{"matcher": matcher, "hooks": [{"type": "command", "command": line}]}]);
        let path = self.write("guard.json", &json!({"hooks": {event: group}}).to_string());
        let (mut problems, builtins) = (Vec::new(), cachalot_hooks::Builtins::default());
        let read = source::read_file(&path, Some(dialect), &builtins, &mut problems);
        assert_eq!(problems, []);
        self.handler_fixture.hooks(read.entries).unwrap()
    }

    /// A call that writes these files.
    fn writing(&self, event: Event, tool: &str, arguments: &Value, files: &[&str]) -> Input {
        let mut input = self.calling(event, tool, arguments);
        input.tool.as_mut().unwrap().resource_access =
            ResourceAccess::writing(files.iter().copied());
        input
    }

    fn patching(&self) -> Input {
        self.writing(
            Event::PreToolUse,
            "apply_patch",
            &json!({"patch": PATCH}),
            &FILES,
        )
    }

    /// What a hook that notes everything was told, in the order of the files.
    fn noted(&self) -> Vec<Value> {
        let text = self.handler_fixture.read("noted");
        std::fs::remove_file(self.handler_fixture.root().join("noted")).unwrap();
        let mut noted: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        noted.sort_by_key(|reported| reported["tool_input"]["file_path"].to_string());
        noted
    }

    fn absolute(&self, files: &[&str]) -> Vec<String> {
        let mut files: Vec<String> = files
            .iter()
            .map(|file| self.handler_fixture.root().join(file).display().to_string())
            .collect();
        files.sort();
        files
    }
}

/// One line for each event, written at once.
const NOTE: &str = "told=$(cat); printf '%s\\n' \"$told\" >> noted";

fn names(noted: &[Value]) -> Vec<&str> {
    noted
        .iter()
        .map(|reported| reported["tool_name"].as_str().unwrap())
        .collect()
}

fn paths(noted: &[Value]) -> Vec<String> {
    let path = |reported: &Value| {
        reported["tool_input"]["file_path"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    noted.iter().map(path).collect()
}

#[tokio::test]
async fn patch_is_reported_as_one_write_per_file() {
    for (dialect, event, matcher, name) in [
        (
            Dialect::Claude,
            "PreToolUse",
            "Edit|Write|MultiEdit",
            "Edit",
        ),
        (Dialect::Claude, "PreToolUse", "Write", "Write"),
        (Dialect::Claude, "PreToolUse", "MultiEdit", "Edit"),
        (Dialect::Claude, "PreToolUse", "", "Edit"),
        (
            Dialect::Gemini,
            "BeforeTool",
            "write_file|replace",
            "replace",
        ),
        (Dialect::Gemini, "BeforeTool", "write_file", "write_file"),
        (Dialect::Gemini, "BeforeTool", "*", "replace"),
    ] {
        let project = Project::new();
        let hooks = project.guarding(dialect, event, matcher, NOTE);
        assert!(
            hooks.handles_tool(Event::PreToolUse, "apply_patch"),
            "{matcher}"
        );
        let verdict = hooks.fire(project.patching()).await;
        assert_eq!((verdict.decision, verdict.messages), (None, vec![]));
        assert_eq!(verdict.reports.len(), 1, "it is one hook");
        let noted = project.noted();
        assert_eq!(names(&noted), [name; 4], "{dialect} {matcher}");
        assert_eq!(
            paths(&noted),
            project.absolute(&FILES),
            "{dialect} {matcher}"
        );
        // Guards that look at what is written see it.
        assert!(
            noted
                .iter()
                .all(|reported| reported["tool_input"].to_string().contains("token = 1"))
        );
    }
}

#[tokio::test]
async fn a_denial_of_one_file_denies_the_call() {
    for line in [
        "grep -q src/b.rs && { echo not there >&2; exit 2; }; exit 0",
        r#"grep -q src/b.rs && echo '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not there"}}'; exit 0"#,
        // It fails for the others.
        "grep -q src/b.rs && { echo not there >&2; exit 2; }; exit 1",
    ] {
        let project = Project::new();
        let hooks = project.guarding(Dialect::Claude, "PreToolUse", "Write|Edit", line);
        let verdict = hooks.fire(project.patching()).await;
        assert_eq!(verdict.denial(), Some("not there"), "{line}");
    }
}

#[tokio::test]
async fn call_is_allowed_if_all_its_files_are() {
    let allows = r#"echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'"#;
    for (line, allowed) in [
        (allows.to_owned(), true),
        (
            format!(r#"if grep -q '"file_path":"[^"]*/src/'; then {allows}; fi"#),
            false,
        ),
    ] {
        let project = Project::new();
        let hooks = project.guarding(Dialect::Claude, "PreToolUse", "Edit", &line);
        let verdict = hooks.fire(project.patching()).await;
        assert_eq!(verdict.decision.is_some(), allowed, "{line}");
    }
}

/// A corrected path of the guard would not be applied to the patch.
#[tokio::test]
async fn rewritten_file_of_a_patch_is_denied() {
    let project = Project::new();
    let line = r#"echo '{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"file_path": "/x"}}}'"#;
    let hooks = project.guarding(Dialect::Claude, "PreToolUse", "Edit", line);
    let verdict = hooks.fire(project.patching()).await;
    assert!(verdict.denial().unwrap().contains("cannot be done"));
    assert_eq!(verdict.updated_input, None);
}

#[tokio::test]
async fn condition_matches_files_of_a_patch() {
    let project = Project::new();
    let hook = json!({"type": "command", "command": NOTE, "if": "Edit(src/**)"});
    let hooks = project.hooks(&json!({"PreToolUse": [{"matcher": "Edit", "hooks": [hook]}]}));
    hooks.fire(project.patching()).await;
    let noted = paths(&project.noted());
    assert_eq!(noted, project.absolute(&["src/a.rs", "src/b.rs"]));
}

#[tokio::test]
async fn skills_and_declared_writes_of_servers_reach_write_guards() {
    let skill = |project: &Project| {
        let arguments = json!({"action": "create", "name": "a", "content": "token = 1"});
        project.writing(
            Event::PreToolUse,
            "skill_manage",
            &arguments,
            &["skills/a/SKILL.md"],
        )
    };
    let server = |project: &Project| {
        let arguments = json!({"destination": "out.txt", "body": "token = 1"});
        let mut input =
            project.writing(Event::PreToolUse, "mcp_files_put", &arguments, &["out.txt"]);
        let tool = input.tool.as_mut().unwrap();
        tool.mcp = Some(("files".to_owned(), "put".to_owned()));
        input
    };
    type Make<'a> = &'a dyn Fn(&Project) -> Input;
    let makes = [
        (&skill as Make<'_>, "skills/a/SKILL.md"),
        (&server, "out.txt"),
    ];
    for (make, file) in makes {
        for (dialect, event, matcher, name) in [
            (
                Dialect::Claude,
                "PreToolUse",
                "Write|Edit|MultiEdit",
                "Write",
            ),
            (Dialect::Claude, "PreToolUse", "Edit", "Edit"),
            (
                Dialect::Gemini,
                "BeforeTool",
                "write_file|replace",
                "write_file",
            ),
            (Dialect::Codex, "PreToolUse", "Edit|Write", "apply_patch"),
        ] {
            let project = Project::new();
            let hooks = project.guarding(dialect, event, matcher, NOTE);
            let input = make(&project);
            assert!(hooks.handles_tool(Event::PreToolUse, &input.tool.as_ref().unwrap().name));
            hooks.fire(input).await;
            let noted = project.noted();
            assert_eq!(names(&noted), [name], "{dialect} {matcher}");
            let reported = noted[0]["tool_input"].to_string();
            assert!(reported.contains(file), "{dialect}: {reported}");
            let is_codex = dialect == Dialect::Codex;
            assert!(
                is_codex || reported.contains("token = 1"),
                "{dialect}: {reported}"
            );
        }
    }
    // By its own name, or with all calls, a tool of a server is told as what it is.
    for matcher in ["mcp__files__.*", ""] {
        let project = Project::new();
        let hooks = project.guarding(Dialect::Claude, "PreToolUse", matcher, NOTE);
        hooks.fire(server(&project)).await;
        assert_eq!(names(&project.noted()), ["mcp__files__put"], "{matcher}");
    }
}

#[tokio::test]
async fn the_codex_dialect_receives_its_own_patch_format() {
    for matcher in ["apply_patch", "Edit|Write", ""] {
        let project = Project::new();
        let hooks = project.guarding(Dialect::Codex, "PreToolUse", matcher, NOTE);
        hooks.fire(project.patching()).await;
        let noted = project.noted();
        assert_eq!(names(&noted), ["apply_patch"], "{matcher}");
        assert_eq!(
            noted[0]["tool_input"],
            json!({"command": PATCH}),
            "{matcher}"
        );
    }
}

#[tokio::test]
async fn results_of_writes_are_reported_per_file() {
    let project = Project::new();
    let hooks = project.guarding(Dialect::Claude, "PostToolUse", "Edit|Write", NOTE);
    let mut input = project.patching();
    input.event = Event::PostToolUse;
    input.tool_response = Some(cachalot_hooks::input::ToolResponse {
        text: "done".to_owned(),
        is_error: false,
    });
    hooks.fire(input).await;
    let noted = project.noted();
    assert_eq!(paths(&noted), project.absolute(&FILES));
    let response = |reported: &Value| {
        reported["tool_response"]["filePath"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        noted
            .iter()
            .all(|reported| Path::new(&response(reported)).is_absolute())
    );
}

#[tokio::test]
async fn write_guard_is_not_run_for_reads() {
    let project = Project::new();
    let hooks = project.guarding(Dialect::Claude, "PreToolUse", "Write|Edit", NOTE);
    for (tool, arguments) in [
        ("shell", json!({"command": "ls"})),
        ("read_file", json!({"path": "a"})),
    ] {
        let verdict = hooks
            .fire(project.calling(Event::PreToolUse, tool, &arguments))
            .await;
        assert_eq!(verdict.reports, [], "{tool}");
    }
    // What is no patch names no files, and may still be one to another reader.
    let broken = project.calling(Event::PreToolUse, "apply_patch", &json!({"patch": "?"}));
    assert_eq!(hooks.fire(broken).await.reports.len(), 1);
}

//! Unit tests of `src/dialect/condition.rs`.

use serde_json::json;

use super::*;
use crate::Event;

fn applies(rule: &str, tool: &str, arguments: &Value) -> bool {
    let tool = ToolUse {
        name: tool.to_owned(),
        input: arguments.as_object().unwrap().clone(),
        ..ToolUse::default()
    };
    let input = Input {
        event: Event::PreToolUse,
        cwd: "/work".into(),
        ..Input::default()
    };
    let condition = Condition::parse(rule).unwrap();
    condition.applies(Dialect::Claude, &tool, &input)
}

#[test]
fn command_rule_matches_any_command_of_a_line() {
    for (rule, line, is_for) in [
        ("Bash", "ls", true),
        ("Bash(*)", "ls", true),
        ("Bash(git *)", "git status", true),
        ("Bash(git *)", "git", true),
        ("Bash(git *)", "gitk", false),
        ("Bash(git*)", "gitk", true),
        ("Bash(git:*)", "git push", true),
        ("Bash(git push *)", "npm test && git push origin", true),
        ("Bash(rm *)", "cd a; X=1 Y=2 rm -rf b", true),
        ("Bash(rm *)", "if true; then rm b; fi", true),
        ("Bash(rm *)", "echo 'a; rm b'", false),
        ("Bash(rm *)", "echo rm b", false),
        ("Bash(rm *)", "echo \"$(rm b)\"", true),
        ("Bash(rm *)", "echo 'not closed", true),
        ("Bash(npm run build)", "npm run build", true),
        ("Bash(npm run build)", "npm run", false),
        ("Bash(* --force)", "git push --force", true),
        ("Edit(*.rs)", "git status", false),
    ] {
        let is = applies(rule, "shell", &json!({"command": line}));
        assert_eq!(is, is_for, "{rule}: {line}");
    }
    assert!(applies(
        "Bash(rm *)",
        "shell",
        &json!({"command": ["rm", "a"]})
    ));
}

#[test]
fn guard_of_the_shell_guards_background_jobs() {
    for (rule, is_for) in [("Bash", true), ("Bash(rm *)", true), ("Bash(git *)", false)] {
        let is = applies(rule, "run_background_job", &json!({"cmd": "cd a; rm b"}));
        assert_eq!(is, is_for, "{rule}");
    }
    let job = ToolUse {
        name: "run_background_job".to_owned(),
        ..ToolUse::default()
    };
    for (dialect, name) in [
        (Dialect::DockerAgent, "shell"),
        (Dialect::Claude, "Bash"),
        (Dialect::Codex, "Bash"),
        (Dialect::Gemini, "run_shell_command"),
    ] {
        let matcher = dialect.matcher(name).unwrap();
        assert!(dialect.matches(&matcher, &job), "{dialect:?}");
    }
}

#[test]
fn file_rule_matches_like_gitignore() {
    for (rule, tool, path, is_for) in [
        ("Edit(*.ts)", "edit_file", "src/a.ts", true),
        ("Edit(*.ts)", "write_file", "/work/a.ts", true),
        ("Edit(*.ts)", "edit_file", "a.rs", false),
        ("Edit(.env)", "edit_file", ".ENV", true),
        ("Edit(src/**)", "edit_file", "src/a/b.rs", true),
        ("Edit(src/**)", "edit_file", "lib/src/b.rs", false),
        ("Edit(/src/**)", "edit_file", "src/b.rs", true),
        ("Edit(./src/**)", "edit_file", "lib/../src/b.rs", true),
        ("Edit(src/**)", "edit_file", "src/../b.rs", false),
        ("Edit(//etc/**)", "edit_file", "/etc/passwd", true),
        ("Edit(//etc/**)", "edit_file", "etc/passwd", false),
        ("Read(~/.ssh/**)", "read_file", "/home/a/.ssh/id", true),
        ("Read(.env)", "grep", ".env", true),
        ("Write(*.ts)", "edit_file", "a.ts", false),
        ("Edit(*.ts)", "apply_patch", "a.rs", true),
    ] {
        let is = applies(rule, tool, &json!({"path": path}));
        assert_eq!(is, is_for, "{rule}: {tool} {path}");
    }
}

#[test]
fn rules_match_web_and_mcp_tools_by_their_claude_names() {
    let fetch = |rule, url| applies(rule, "web_fetch", &json!({"url": url}));
    assert!(fetch(
        "WebFetch(domain:example.com)",
        "https://a@example.com:443/x"
    ));
    assert!(fetch(
        "WebFetch(domain:*.example.com)",
        "https://b.example.com"
    ));
    assert!(!fetch(
        "WebFetch(domain:example.com)",
        "https://other.com/example.com"
    ));
    let task = |rule| applies(rule, "transfer_task", &json!({"agent": "reviewer"}));
    assert!(task("Agent(reviewer)"));
    assert!(!task("Agent(writer)"));
    for rule in ["", "Bash(git", "(git)", "Bash (x)", "Bash(x) y"] {
        assert!(Condition::parse(rule).is_none(), "{rule}");
    }
    let tool = ToolUse {
        name: "mcp_github_create".to_owned(),
        mcp: Some(("github".to_owned(), "create".to_owned())),
        ..ToolUse::default()
    };
    let of_server = |rule| {
        let condition = Condition::parse(rule).unwrap();
        condition.applies(Dialect::Claude, &tool, &Input::default())
    };
    for rule in ["mcp__github", "mcp__github__create", "mcp__github__*"] {
        assert!(of_server(rule), "{rule}");
    }
    assert!(!of_server("mcp__git"));
}

#[test]
fn condition_applies_where_a_shell_could_build_the_command() {
    let of = |rule: &str, line: &str| applies(rule, "shell", &json!({"command": line}));
    for line in [
        "X='1' rm -rf b",
        "{ rm -rf b; }",
        "\\rm -rf b",
        "\"rm\" -rf b",
        ">/dev/null rm -rf b",
        "R=rm; $R -rf b",
        "eval 'rm b'",
        "bash -c 'rm b'",
        "sudo rm b",
        "timeout 5 rm b",
        "/bin/rm b",
        "env -i rm b",
        "find . -exec rm {} +",
        "ls | xargs rm",
        "busybox rm b",
        "git -c alias.x='!rm b' x",
        "sh <<E\nrm b\nE",
        "python -c 'import os'",
        "r''m b",
    ] {
        assert!(of("Bash(rm *)", line), "{line}");
    }
    assert!(of("Bash(git push *)", "git  push origin"));
    assert!(of("Bash(npm run build)", "npm run build 2>&1"));
    for (rule, line) in [
        ("Bash(rm *)", "ls -la; git status"),
        ("Bash(rm *)", "grep -r 'rm x' ."),
        ("Bash(git push *)", "git status"),
        ("Bash(npm run build)", "npm run test"),
    ] {
        assert!(!of(rule, line), "{rule} {line}");
    }
    let fetch = |url: &str| {
        applies(
            "WebFetch(domain:evil.com)",
            "web_fetch",
            &json!({"url": url}),
        )
    };
    for url in [
        "https://EVIL.com/",
        "https://evil.com./",
        "https://evil.com\\.ok.org/",
    ] {
        assert!(fetch(url), "{url}");
    }
    assert!(!fetch("https://good.org/evil.com"));
    assert!(applies(
        "Read(.env)",
        "grep",
        &json!({"pattern": "KEY", "path": "."})
    ));
}

#[test]
fn condition_normalizes_directories() {
    for place in ["/work/", "/work/./", "/other/../work"] {
        for (path, is_meant) in [("a.env", true), (".", false), ("b.txt", false)] {
            let applies = matches_path("*.env", path, Path::new(place));
            assert_eq!(applies, is_meant, "{place} {path}");
        }
    }
}

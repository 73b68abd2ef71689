//! Files of hooks: ours and other runtimes', folders, flags.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_hooks::definition::ResultFilter;
use cachalot_hooks::source::{self, ParsedHooks};
use cachalot_hooks::{Action, Dialect, Event};
use tempfile::TempDir;

use crate::configuration::builtins;

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn read(path: &Path) -> (ParsedHooks, Vec<Problem>) {
    let mut problems = Vec::new();
    let read = source::read_file(path, None, &builtins(), &mut problems);
    (read, problems)
}

fn codes(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.code).collect()
}

const CLAUDE: &str = r#"{
	"model": "opus",
	"hooks": {
		"PreToolUse": [
			{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "a", "timeout": 5}]},
			{"matcher": "mcp__.*", "hooks": [{"type": "command", "command": "b"}]}
		],
		"PostToolUse": [{"hooks": [{"type": "command", "command": "c"}]}],
		"PostToolUseFailure": [{"hooks": [{"type": "command", "command": "d"}]}],
		"SessionStart": [{"matcher": "compact", "hooks": [{"type": "command", "command": "e"}]}]
	}
}"#;

#[test]
fn claude_code_settings_are_recognized_by_path() {
    let files = Files::new();
    for name in [".claude/settings.json", ".claude/settings.local.json"] {
        let (read, problems) = read(&files.write(name, CLAUDE));
        assert_eq!((codes(&problems), codes(&read.warnings)), (vec![], vec![]));
        assert!(
            read.entries
                .iter()
                .all(|entry| entry.dialect == Dialect::Claude)
        );
        let said: Vec<(Event, &str, Option<ResultFilter>)> = read
            .entries
            .iter()
            .map(|entry| (entry.event, &*entry.event_name, entry.only))
            .collect();
        assert_eq!(
            said,
            [
                (Event::PreToolUse, "PreToolUse", None),
                (Event::PreToolUse, "PreToolUse", None),
                (
                    Event::PostToolUse,
                    "PostToolUse",
                    Some(ResultFilter::Successes)
                ),
                (
                    Event::PostToolUse,
                    "PostToolUseFailure",
                    Some(ResultFilter::Failures)
                ),
                (Event::SessionStart, "SessionStart", None),
            ]
        );
        assert_eq!(read.entries[0].definition.timeout, Duration::from_secs(5));
        assert_eq!(read.entries[4].matcher.pattern(), "compact");
    }
}

#[test]
fn gemini_settings_have_millisecond_timeouts_and_sequential() {
    let files = Files::new();
    let path = files.write(
        ".gemini/settings.json",
        r#"{"hooks": {"enabled": true, "disabled": ["off"],
            "BeforeTool": [{"matcher": "run_shell_command", "sequential": true,
                "hooks": [{"name": "on", "type": "command", "command": "a", "timeout": 1500},
                          {"name": "off", "type": "command", "command": "b"}]}]}}"#,
    );
    let (read, problems) = read(&path);
    assert_eq!((codes(&problems), codes(&read.warnings)), (vec![], vec![]));
    let [entry] = read.entries.as_slice() else {
        panic!("{:?}", read.entries)
    };
    assert_eq!(entry.dialect, Dialect::Gemini);
    assert_eq!(
        (entry.event, &*entry.event_name),
        (Event::PreToolUse, "BeforeTool")
    );
    assert_eq!(entry.definition.timeout, Duration::from_millis(1500));
    assert!(entry.definition.sequential);
}

#[test]
fn codex_hooks_are_read_from_json_and_not_from_toml() {
    let files = Files::new();
    let hooks = r#"{"hooks": {"PreToolUse": [{"matcher": "^Bash$", "hooks": [{"type": "command", "command": "a"}]}]}}"#;
    let (codex, problems) = read(&files.write(".codex/hooks.json", hooks));
    assert_eq!(codes(&problems), [""; 0]);
    assert_eq!(codex.entries[0].dialect, Dialect::Codex);
    assert!(codex.entries[0].matcher.matches("Bash"));
    assert!(!codex.entries[0].matcher.matches("BashOutput"));
    let toml = r#"
model = "gpt"
[hooks.state]
"a:b" = { trusted_hash = "x" }
[[hooks.PreToolUse]]
matcher = "^Bash$"
[[hooks.PreToolUse.hooks]]
type = "command"
command = '/bin/guard "$(pwd)"'
timeout = 30
statusMessage = "guarding"
[[hooks.Stop]]
[[hooks.Stop.hooks]]
type = "command"
comand = "x"
command = "y"
"#;
    let (toml_read, problems) = read(&files.write(".codex/config.toml", toml));
    assert_eq!(codes(&problems), [""; 0]);
    let [guard, stop] = toml_read.entries.as_slice() else {
        panic!("{:?}", toml_read.entries)
    };
    assert_eq!(
        (guard.dialect, guard.event),
        (Dialect::Codex, Event::PreToolUse)
    );
    assert_eq!(guard.matcher.pattern(), "(?s:.*)(?:^Bash$)(?s:.*)");
    assert_eq!(guard.definition.title(), r#"/bin/guard "$(pwd)""#);
    assert_eq!(guard.definition.timeout, Duration::from_secs(30));
    assert_eq!(stop.definition.timeout, Duration::from_secs(600));
    assert_eq!(codes(&toml_read.warnings), ["unsupported-option"]);
    let place = toml_read.warnings[0].place.as_ref().unwrap();
    assert_eq!(&toml[place.start..place.start + place.len], "comand");
    assert_eq!((place.line, place.column), (15, 1));
    let off = "[features]\nhooks = false\n[[hooks.Stop]]\nhooks = []\n";
    let (off, _) = read(&files.write(".codex/config.toml", off));
    assert_eq!(codes(&off.warnings), ["hooks-switched-off"]);
    let (_, wrong) = read(&files.write(".codex/config.toml", "[hooks\n"));
    assert_eq!(codes(&wrong), ["toml-syntax"]);
}

#[test]
fn other_files_use_the_own_dialect_by_default() {
    let files = Files::new();
    for (name, text) in [
        ("a.yaml", "stop: {type: command, command: a}"),
        ("b.yaml", "hooks:\n  stop: {type: command, command: a}"),
        (
            "c.json",
            "{\n\t\"stop\": {\"type\": \"command\", \"command\": \"a\"}\n}",
        ),
        (
            "hooks.json",
            r#"{"hooks": {"stop": [{"type": "command", "command": "a"}]}}"#,
        ),
    ] {
        let (read, problems) = read(&files.write(name, text));
        assert_eq!(codes(&problems), [""; 0], "{name}");
        assert_eq!(read.entries[0].dialect, Dialect::DockerAgent, "{name}");
        assert_eq!(read.entries[0].event, Event::Stop, "{name}");
    }
    let path = files.write("mine.json", CLAUDE);
    let mut problems = Vec::new();
    let ours = source::read_file(
        &path,
        Some(Dialect::DockerAgent),
        &builtins(),
        &mut problems,
    );
    assert!(ours.entries.is_empty() && codes(&problems).contains(&"unknown-key"));
    let named = files.write(
        "named.yaml",
        "dialect: claude\nhooks:\n  Stop: [{hooks: [{type: command, command: a}]}]",
    );
    let (read, problems) = read(&named);
    assert_eq!(codes(&problems), [""; 0]);
    assert_eq!(read.entries[0].dialect, Dialect::Claude);
}

#[test]
fn unsupported_features_of_other_dialects_are_warnings() {
    let files = Files::new();
    let path = files.write(
        ".claude/settings.json",
        r#"{"hooks": {
            "Stop": [{"hooks": [
                {"type": "agent", "prompt": "Look."},
                {"type": "mcp_tool", "server": "a", "tool": "b"},
                {"type": "command", "command": "never", "if": "Bash(rm *)"},
                {"type": "command", "command": "a", "brandNew": true, "statusMessage": "…"},
                {"type": "command", "command": "b", "async": false}]}],
            "SessionStart": [{"hooks": [{"type": "prompt", "prompt": "Who?"}]}],
            "WorktreeCreate": [{"hooks": [{"type": "command", "command": "c"}]}],
            "SomethingNew": [{"hooks": [{"type": "command", "command": "d"}]}]}}"#,
    );
    let (read, problems) = read(&path);
    assert_eq!(codes(&problems), [""; 0]);
    assert_eq!(
        codes(&read.warnings),
        [
            "without-tools",
            "unsupported-option",
            "unsupported-option",
            "unsupported-handler",
            "unsupported-event",
            "unknown-event"
        ]
    );
    let said: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    for (index, word) in ["`agent`", "never runs", "`brandNew`", "`session_start`"]
        .iter()
        .enumerate()
    {
        assert!(said[index].contains(word), "{}", said[index]);
    }
    let lines: Vec<_> = read
        .entries
        .iter()
        .map(|entry| entry.definition.title())
        .collect();
    assert_eq!(lines, ["Look.", "a.b", "a", "b"]);
}

#[test]
fn claude_code_arguments_and_headers_are_converted() {
    let files = Files::new();
    let path = files.write(
        ".claude/settings.json",
        r#"{"hooks": {"Stop": [{"hooks": [
            {"type": "command", "command": "./my script", "args": ["a b", "it's", "$HOME", "x ${CLAUDE_PROJECT_DIR}/y z"]},
            {"type": "http", "url": "https://example.com", "allowedEnvVars": ["TOKEN"],
             "headers": {"a": "Bearer $TOKEN", "b": "${TOKEN}!", "c": "$OTHER-", "d": "costs $ 5"}}]}]}}"#,
    );
    let (read, problems) = read(&path);
    assert_eq!((codes(&problems), codes(&read.warnings)), (vec![], vec![]));
    let line =
        r#"'./my script' 'a b' 'it'\''s' '$HOME' 'x '"${CLAUDE_PROJECT_DIR}"'/y z'"#.to_owned();
    assert_eq!(read.entries[0].definition.action, Action::Command { line });
    let Action::Http { headers, .. } = &read.entries[1].definition.action else {
        panic!()
    };
    let values: Vec<&str> = headers.values().map(String::as_str).collect();
    assert_eq!(
        values,
        ["Bearer ${env.TOKEN}", "${env.TOKEN}!", "-", "costs $ 5"]
    );
}

#[test]
fn disabled_hooks_do_not_run() {
    let files = Files::new();
    let text = r#"{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}}"#;
    let (read, problems) = read(&files.write(".claude/settings.json", text));
    assert!(read.entries.is_empty() && problems.is_empty());
    assert_eq!(codes(&read.warnings), ["hooks-switched-off"]);
}

#[test]
fn named_invalid_file_is_an_error() {
    let files = Files::new();
    let (_, missing) = read(&files.0.path().join("missing.yaml"));
    assert_eq!(codes(&missing), ["unreadable-file"]);
    assert!(missing[0].message.contains("missing.yaml"));
    let (_, folder) = read(files.0.path());
    assert_eq!(codes(&folder), ["unreadable-file"]);
    let (_, syntax) = read(&files.write(".claude/settings.json", "{\"hooks\": {"));
    assert_eq!(codes(&syntax), ["yaml-syntax"]);
    let twice = r#"{"hooks": {"Stop": [], "Stop": []}}"#;
    let (_, twice) = read(&files.write(".claude/settings.json", twice));
    assert_eq!(codes(&twice), ["duplicate-key"]);
    let unknown = "hook:\n  stop: {type: command, command: a}";
    let (_, unknown) = read(&files.write("a.yaml", unknown));
    assert_eq!(codes(&unknown), ["unknown-event"]);
}

#[test]
fn json_accepts_tabs_and_surrogate_escapes() {
    let files = Files::new();
    let text = "{\"hooks\": {\"Stop\": [{\"hooks\": [\n\t{\"type\": \"command\", \"command\": \"echo \\ud83d\\udc33 \\/\"}]}]}}";
    let (read, problems) = read(&files.write(".claude/settings.json", text));
    assert_eq!(codes(&problems), [""; 0]);
    assert_eq!(read.entries[0].definition.title(), "echo 🐳 /");
}

#[test]
fn comments_in_json_settings_are_skipped() {
    let files = Files::new();
    let text = r#"{
  // what runs, "quoted" or not: https://example.com
  "hooks": { /* äö
    "BeforeAgent": [] */ "AfterAgent": [{"hooks": [{"type": "command", "command": "curl \"http://a/*b*/\" // c", "comand": 1}]}]
  }
}"#;
    let (read, problems) = read(&files.write(".gemini/settings.json", text));
    assert_eq!(codes(&problems), [""; 0]);
    let title = read.entries[0].definition.title();
    assert_eq!(title, r#"curl "http://a/*b*/" // c"#);
    let place = read.warnings[0].place.as_ref().unwrap();
    assert_eq!(&text[place.start..place.start + place.len], r#""comand""#);
}

/// The dialect of all hooks that a text of this name holds.
fn recognized(name: &str, text: &str) -> Result<Dialect, Vec<Problem>> {
    let files = Files::new();
    let (read, problems) = read(&files.write(name, text));
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut dialects = read.entries.iter().map(|entry| entry.dialect);
    let first = dialects.next().expect("it has hooks");
    assert!(dialects.all(|dialect| dialect == first), "{name}");
    Ok(first)
}

/// One event with one command.
fn hook(event: &str, line: &str) -> String {
    format!(r#""{event}": [{{"hooks": [{{"type": "command", "command": "{line}"}}]}}]"#)
}

#[test]
fn dialect_is_detected_by_content_at_any_path() {
    let start = hook("SessionStart", "a");
    let file = |events: &[&str]| {
        let events: Vec<String> = events.iter().map(|event| hook(event, "a")).collect();
        format!(
            r#"{{"permissions": {{"deny": []}}, "hooks": {{{}}}}}"#,
            events.join(",")
        )
    };
    for (name, text, dialect) in [
        ("managed-settings.json", CLAUDE.to_owned(), Dialect::Claude),
        ("settings.json", CLAUDE.to_owned(), Dialect::Claude),
        (
            "dotfiles/claude.jsonc.json",
            file(&["SessionStart", "Stop"]),
            Dialect::Claude,
        ),
        (
            "a.json",
            file(&["FileChanged", "SessionEnd", "Notification"]),
            Dialect::Claude,
        ),
        (
            "events.json",
            format!("{{{}, {start}}}", hook("PreToolUse", "a")),
            Dialect::Claude,
        ),
        (
            "claude.yaml",
            format!("hooks: {{{}}}", hook("Stop", "a")),
            Dialect::Claude,
        ),
        (
            "start.json",
            format!(r#"{{"hooks": {{{start}}}}}"#),
            Dialect::Claude,
        ),
        (
            "gemini.json",
            file(&["BeforeTool", "SessionStart"]),
            Dialect::Gemini,
        ),
        (
            "hooks.json",
            file(&["SessionStart", "AfterModel", "Notification"]),
            Dialect::Gemini,
        ),
        (
            "start.json",
            format!(
                r#"{{"hooks": {{{}}}}}"#,
                hook("SessionStart", "$GEMINI_PROJECT_DIR/a")
            ),
            Dialect::Gemini,
        ),
        (
            "start.json",
            format!(
                r#"{{"hooks": {{{}}}}}"#,
                hook("SessionStart", "$CLAUDE_PROJECT_DIR/a")
            ),
            Dialect::Claude,
        ),
        (
            "hooks.json",
            format!(
                r#"{{"features": {{"hooks": true}}, "hooks": {{{start}, {}}}}}"#,
                hook("Stop", "a")
            ),
            Dialect::Codex,
        ),
        (
            "codex.toml",
            "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\ncommand = 'a'\n".to_owned(),
            Dialect::Codex,
        ),
        (
            "ours.json",
            r#"{"hooks": {"stop": {"type": "command", "command": "a"}}}"#.to_owned(),
            Dialect::DockerAgent,
        ),
        // What a file says of its dialect counts.
        (
            "named.yaml",
            format!("dialect: codex\nhooks: {{{}}}", hook("Stop", "a")),
            Dialect::Codex,
        ),
    ] {
        assert_eq!(recognized(name, &text), Ok(dialect), "{name}: {text}");
    }
    let schema =
        r#"{"$schema": "https://json.schemastore.org/claude-code-settings.json", "model": "opus"}"#;
    let files = Files::new();
    for (name, text) in [
        ("claude.json", schema),
        ("settings.json", r#"{"permissions": {"deny": []}}"#),
        ("settings.local.json", r#"{"permissions": {}, "hooks": {}}"#),
        (
            "managed-settings.json",
            r#"{"allowManagedHooksOnly": true}"#,
        ),
    ] {
        let (none, problems) = read(&files.write(name, text));
        assert_eq!(
            (none.entries.len(), codes(&problems)),
            (0, vec![]),
            "{name}"
        );
    }
    // What hides the hooks of settings is wrong.
    for text in [
        r#"{"hooks": {"PreToolUsee": []}}"#,
        r#"{"hoks": {"Stop": []}}"#,
    ] {
        let (_, problems) = read(&files.write("settings.json", text));
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    }
}

#[test]
fn named_dialect_overrides_detection() {
    let files = Files::new();
    let path = files.write(
        "a.json",
        &format!(r#"{{"hooks": {{{}}}}}"#, hook("SessionStart", "a")),
    );
    for dialect in [Dialect::Claude, Dialect::Codex, Dialect::Gemini] {
        let mut problems = Vec::new();
        let read = source::read_file(&path, Some(dialect), &builtins(), &mut problems);
        assert_eq!((read.entries[0].dialect, problems), (dialect, vec![]));
    }
}

/// Whatever is guessed, a guard would be lost.
#[test]
fn a_file_with_an_ambiguous_dialect_is_a_problem() {
    let both = format!(
        r#"{{"hooks": {{{}, {}}}}}"#,
        hook("PreToolUse", "a"),
        hook("BeforeTool", "a")
    );
    let problems = recognized("hooks.json", &both).unwrap_err();
    assert_eq!(codes(&problems), ["ambiguous-dialect"]);
    assert!(
        problems[0].to_string().contains("--dialect"),
        "{}",
        problems[0]
    );
    let mixed = format!(
        "hooks: {{{}, {}}}",
        hook("pre_tool_use", "a"),
        hook("PreToolUse", "a")
    );
    let problems = recognized("mixed.yaml", &mixed).unwrap_err();
    assert_eq!(codes(&problems), ["unknown-event"]);
}

#[test]
fn unknown_keys_in_settings_of_other_dialects_are_reported() {
    for (name, event) in [
        (".claude/settings.json", "PreToolUsee"),
        (".claude/settings.json", "preToolUse"),
        (".claude/settings.json", "PreTooluse"),
        ("settings.json", "PreTolUse"),
        (".codex/hooks.json", "UserPromptSubmt"),
        (".gemini/settings.json", "BeforTool"),
    ] {
        let text = format!(
            r#"{{"hooks": {{{}, {}}}}}"#,
            hook("SessionStart", "a"),
            hook(event, "a")
        );
        let problems = recognized(name, &text).unwrap_err();
        assert_eq!(codes(&problems), ["unknown-event"], "{event}");
        assert!(
            problems[0].to_string().contains("did you mean"),
            "{}",
            problems[0]
        );
    }
    let text = format!(r#"{{"Hooks": {{{}}}}}"#, hook("SessionStart", "a"));
    let problems = recognized(".claude/settings.json", &text).unwrap_err();
    assert_eq!(codes(&problems), ["unknown-key"]);
    // What comes near to nothing may be new there.
    let text = format!(
        r#"{{"hooks": {{{}, {}}}}}"#,
        hook("Stop", "a"),
        hook("AfterLunch", "a")
    );
    assert_eq!(
        recognized(".claude/settings.json", &text),
        Ok(Dialect::Claude)
    );
}

#[test]
fn files_of_a_folder_are_read_in_name_order() {
    let files = Files::new();
    for name in [
        "20-b.yml",
        "10-a.yaml",
        "30-c.json",
        "readme.txt",
        "more/40.yaml",
    ] {
        files.write(&format!("hooks.d/{name}"), "");
    }
    let folder = files.0.path().join("hooks.d");
    let names = || {
        let found = source::list_hook_files(&folder).unwrap();
        let names = found
            .iter()
            .map(|path| path.file_name().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(), ["10-a.yaml", "20-b.yml", "30-c.json"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("gone.yaml", folder.join("15-link.yaml")).unwrap();
        assert_eq!(names()[1], "15-link.yaml");
        let (_, problems) = read(&folder.join("15-link.yaml"));
        assert_eq!(codes(&problems), ["unreadable-file"]);
    }
    assert_eq!(
        source::list_hook_files(&files.0.path().join("none")),
        Ok(Vec::new())
    );
    let file = files.write("file", "");
    assert_eq!(
        source::list_hook_files(&file).unwrap_err().code,
        "unreadable-file"
    );
}

#[test]
fn hooks_from_cli() {
    let entry = source::from_flag("--hook-pre-tool-use", Event::PreToolUse, " ./a.sh ").unwrap();
    assert_eq!(entry.definition.title(), "./a.sh");
    assert_eq!(&*entry.source, "--hook-pre-tool-use");
    assert!(entry.matcher.matches("anything"));
    assert!(source::from_flag("--hook-stop", Event::Stop, "  ").is_none());
}

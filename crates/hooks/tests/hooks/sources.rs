//! Files of hooks: ours and other runtimes', folders, flags.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_hooks::definition::Only;
use cachalot_hooks::source::{self, Read};
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

fn read(path: &Path) -> (Read, Vec<Problem>) {
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
fn settings_of_claude_code_are_known_by_where_they_are() {
    let files = Files::new();
    for name in [".claude/settings.json", ".claude/settings.local.json"] {
        let (read, problems) = read(&files.write(name, CLAUDE));
        assert_eq!((codes(&problems), codes(&read.warnings)), (vec![], vec![]));
        assert!(
            read.entries
                .iter()
                .all(|entry| entry.dialect == Dialect::Claude)
        );
        let said: Vec<(Event, &str, Option<Only>)> = read
            .entries
            .iter()
            .map(|entry| (entry.event, &*entry.spoken, entry.only))
            .collect();
        assert_eq!(
            said,
            [
                (Event::PreToolUse, "PreToolUse", None),
                (Event::PreToolUse, "PreToolUse", None),
                (Event::PostToolUse, "PostToolUse", Some(Only::Successes)),
                (
                    Event::PostToolUse,
                    "PostToolUseFailure",
                    Some(Only::Failures)
                ),
                (Event::SessionStart, "SessionStart", None),
            ]
        );
        assert_eq!(read.entries[0].definition.timeout, Duration::from_secs(5));
        assert_eq!(read.entries[4].matcher.pattern(), "compact");
    }
}

#[test]
fn a_file_of_gemini_counts_in_milliseconds_and_may_want_an_order() {
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
        (entry.event, &*entry.spoken),
        (Event::PreToolUse, "BeforeTool")
    );
    assert_eq!(entry.definition.timeout, Duration::from_millis(1500));
    assert!(entry.definition.sequential);
}

#[test]
fn hooks_of_codex_are_read_out_of_json_and_not_out_of_toml() {
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
fn every_other_file_is_ours_unless_somebody_says_so() {
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
    let (_, problems) = read(&path);
    assert!(codes(&problems).contains(&"unknown-event"));
    let mut problems = Vec::new();
    let claude = source::read_file(&path, Some(Dialect::Claude), &builtins(), &mut problems);
    assert_eq!(claude.entries.len(), 5);
    let named = files.write(
        "named.yaml",
        "dialect: claude\nhooks:\n  Stop: [{hooks: [{type: command, command: a}]}]",
    );
    let (read, problems) = read(&named);
    assert_eq!(codes(&problems), [""; 0]);
    assert_eq!(read.entries[0].dialect, Dialect::Claude);
}

#[test]
fn what_others_have_and_we_have_not_is_a_warning() {
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
            "unsupported-handler",
            "unsupported-option",
            "unsupported-option",
            "unsupported-handler",
            "unsupported-event",
            "unknown-event"
        ]
    );
    let said: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    for (index, word) in [
        "`agent`",
        "`mcp_tool`",
        "never runs",
        "`brandNew`",
        "`session_start`",
    ]
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
    assert_eq!(lines, ["Look.", "a", "b"]);
}

#[test]
fn arguments_and_headers_of_claude_code_mean_what_they_mean_there() {
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
fn hooks_that_are_switched_off_do_not_run() {
    let files = Files::new();
    let text = r#"{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}}"#;
    let (read, problems) = read(&files.write(".claude/settings.json", text));
    assert!(read.entries.is_empty() && problems.is_empty());
    assert_eq!(codes(&read.warnings), ["hooks-switched-off"]);
}

#[test]
fn a_file_that_is_wrong_is_an_error_when_it_is_named() {
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
fn json_may_hold_what_yaml_does_not() {
    let files = Files::new();
    let text = "{\"hooks\": {\"Stop\": [{\"hooks\": [\n\t{\"type\": \"command\", \"command\": \"echo \\ud83d\\udc33 \\/\"}]}]}}";
    let (read, problems) = read(&files.write(".claude/settings.json", text));
    assert_eq!(codes(&problems), [""; 0]);
    assert_eq!(read.entries[0].definition.title(), "echo 🐳 /");
}

#[test]
fn comments_in_settings_are_no_part_of_them() {
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

#[test]
fn a_folder_is_read_in_the_order_of_names_and_a_malformed_file_is_left_out() {
    let files = Files::new();
    files.write("hooks.d/20-b.yml", "stop: {type: command, command: b}");
    files.write("hooks.d/10-a.yaml", "stop: {type: command, command: a}");
    files.write(
        "hooks.d/30-c.json",
        r#"{"turn_end": {"type": "command", "command": "c"}}"#,
    );
    files.write("hooks.d/15-broken.yaml", "stop: [");
    files.write(
        "hooks.d/16-half.yaml",
        "stop:\n  - {type: command, command: x}\n  - {type: nothing}",
    );
    files.write("hooks.d/readme.txt", "stop: {type: command, command: d}");
    files.write("hooks.d/more/40.yaml", "stop: {type: command, command: e}");
    let read = source::read_directory(&files.0.path().join("hooks.d"), &builtins());
    let lines: Vec<_> = read
        .entries
        .iter()
        .map(|entry| entry.definition.title())
        .collect();
    assert_eq!(lines, ["a", "b", "c"]);
    let left_out: Vec<&str> = read
        .warnings
        .iter()
        .filter(|warning| warning.code == "left-out")
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(left_out.len(), 2);
    assert!(left_out[0].contains("15-broken.yaml") && left_out[1].contains("16-half.yaml"));
    assert!(
        read.warnings
            .iter()
            .any(|warning| warning.code == "yaml-syntax")
    );
}

#[test]
fn a_folder_that_is_not_there_holds_nothing() {
    let files = Files::new();
    let read = source::read_directory(&files.0.path().join("hooks.d"), &builtins());
    assert!(read.entries.is_empty() && read.warnings.is_empty());
    let file = files.write("file", "");
    assert_eq!(
        codes(&source::read_directory(&file, &builtins()).warnings),
        ["unreadable-file"]
    );
}

#[test]
fn hooks_from_cli() {
    let entry = source::of_flag("--hook-pre-tool-use", Event::PreToolUse, " ./a.sh ").unwrap();
    assert_eq!(entry.definition.title(), "./a.sh");
    assert_eq!(&*entry.source, "--hook-pre-tool-use");
    assert!(entry.matcher.matches("anything"));
    assert!(source::of_flag("--hook-stop", Event::Stop, "  ").is_none());
}

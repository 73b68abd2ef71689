//! The `hooks:` section of an agent: what is read, and what is wrong with it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{Problem, tree};
use cachalot_hooks::definition::{self, Judgement, OnError};
use cachalot_hooks::{
    Action, ArgumentsError, Builtin, Builtins, Dialect, Event, Fault, HookEntry, Input, Output,
};

struct Counting;

#[async_trait]
impl Builtin for Counting {
    fn name(&self) -> &'static str {
        "count_to"
    }

    fn about(&self) -> &'static str {
        "Counts."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::Stop, Event::TurnEnd]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        match arguments {
            [number] if number.parse::<u32>().is_ok() => Ok(()),
            _ => Err(ArgumentsError("it takes one number".to_owned())),
        }
    }

    async fn run(&self, _: &[String], _: &Input) -> Result<Output, Fault> {
        Ok(Output::default())
    }
}

pub(crate) fn builtins() -> Builtins {
    let mut builtins = Builtins::default();
    builtins.register(Arc::new(Counting)).unwrap();
    builtins
}

fn read(text: &str) -> (Vec<HookEntry>, Vec<Problem>) {
    let node = tree::parse("agent.yaml", text).unwrap();
    let mut problems = Vec::new();
    let read = definition::read(&node, "agent.yaml", &builtins(), &mut problems);
    (read.entries, problems)
}

fn good(text: &str) -> Vec<HookEntry> {
    let (entries, problems) = read(text);
    assert_eq!(problems, []);
    entries
}

/// The only problem: code, line, and the whole of it.
fn problem(text: &str) -> (&'static str, u32, String) {
    let (entries, problems) = read(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        entries.is_empty(),
        "what is wrong does not run: {entries:?}"
    );
    let problem = &problems[0];
    let line = problem.place.as_ref().unwrap().line;
    (problem.code, line, problem.to_string())
}

#[test]
fn every_key_of_a_hook_is_read() {
    let entries = good(
        "pre_tool_use:
  - matcher: shell|edit_.*
    preempt_yolo: true
    hooks:
      - name: guard
        type: command
        command: ./guard.sh
        timeout: 10
        env: {TOKEN: '${env.SECRET}', LEVEL: 3}
        working_dir: ~/hooks
        on_error: block
        strict_output: true
        sequential: true
",
    );
    let [entry] = entries.as_slice() else {
        panic!()
    };
    assert_eq!(entry.event, Event::PreToolUse);
    assert_eq!(&*entry.event_name, "pre_tool_use");
    assert_eq!(entry.matcher.pattern(), "shell|edit_.*");
    assert_eq!(entry.dialect, Dialect::DockerAgent);
    assert_eq!(&*entry.source, "agent.yaml");
    assert_eq!(entry.place.as_ref().unwrap().line, 5);
    let definition = &entry.definition;
    assert_eq!(definition.name.as_deref(), Some("guard"));
    assert_eq!(definition.title(), "guard");
    assert_eq!(definition.timeout, Duration::from_secs(10));
    assert_eq!(definition.env["TOKEN"], "${env.SECRET}");
    assert_eq!(definition.env["LEVEL"], "3");
    assert_eq!(definition.working_dir.as_deref(), Some("~/hooks"));
    assert_eq!(definition.on_error, Some(OnError::Block));
    assert!(definition.strict_output && definition.sequential);
    let line = "./guard.sh".to_owned();
    assert_eq!(definition.action, Action::Command { line });
}

#[test]
fn every_handler_type_is_read() {
    let entries = good(
        "stop:
  - {type: builtin, command: count_to, args: ['3']}
  - {type: model, model: openai/gpt-4o-mini, prompt: 'Is it right?', system_prompt: Judge., schema: guard_decision}
  - {type: http, url: 'https://example.com/hook', headers: {authorization: 'Bearer ${env.T}'}}
",
    );
    let actions: Vec<&Action> = entries
        .iter()
        .map(|entry| &entry.definition.action)
        .collect();
    assert!(matches!(actions[0], Action::Builtin { name, arguments }
        if name == "count_to" && arguments == &["3"]));
    assert!(
        matches!(actions[1], Action::Model { model, prompt, system_prompt: Some(system), schema: Some(Judgement::Guard) }
        if model == "openai/gpt-4o-mini" && prompt == "Is it right?" && system == "Judge.")
    );
    assert!(matches!(actions[2], Action::Http { url, headers }
        if url == "https://example.com/hook" && headers["authorization"] == "Bearer ${env.T}"));
}

#[test]
fn timeout_default() {
    for timeout in ["", ", timeout: 0", ", timeout: -5"] {
        let entries = good(&format!("stop: {{type: command, command: a{timeout}}}"));
        assert_eq!(entries[0].definition.timeout, Duration::from_secs(60));
    }
    let (code, _, message) = problem("stop: {type: command, command: a, timeout: 1.5}");
    assert_eq!(code, "wrong-type", "{message}");
    let entries = good("stop: {type: command, command: a, timeout: 1.5s}");
    assert_eq!(entries[0].definition.timeout, Duration::from_millis(1_500));
    let (code, _, message) = problem("stop: {type: command, command: a, timeout: 5 minutes}");
    assert_eq!(code, "bad-value", "{message}");
    assert!(message.ends_with("write `5m`"), "{message}");
    // The unit of a number is that of the dialect, whose files have no durations.
    let (code, _, message) =
        problem("PreToolUse: {type: command, command: a, timeout: 5s}\ndialect: claude");
    assert_eq!(code, "wrong-type", "{message}");
}

#[test]
fn template_in_a_command_is_a_warning() {
    let warnings = |hook: &str| {
        let node = tree::parse("agent.yaml", &format!("stop: {hook}")).unwrap();
        let mut problems = Vec::new();
        let read = definition::read(&node, "agent.yaml", &builtins(), &mut problems);
        assert_eq!((read.entries.len(), problems), (1, vec![]));
        let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
        warnings
    };
    assert_eq!(
        warnings("{type: command, command: 'echo {{ .ToolName }}'}"),
        [
            "agent.yaml:1:32: the template with `tool_name` in a command is not rendered [no-effect]; read the value from the input on stdin: `jq -r .tool_name`"
        ]
    );
    for quiet in ["docker ps --format {{.Names}}", "jq -r .tool_name"] {
        let hook = format!("{{type: command, command: '{quiet}'}}");
        assert_eq!(warnings(&hook), [""; 0], "{quiet}");
    }
}

#[test]
fn single_mapping_vs_list() {
    let single = good("stop: {type: command, command: a}");
    let list = good("stop:\n  - {type: command, command: a}");
    assert_eq!(single.len(), 1);
    assert_eq!(single[0].definition, list[0].definition);
    let both = good("pre_tool_use: {matcher: shell, hooks: {type: command, command: a}}");
    assert_eq!(both[0].matcher.pattern(), "shell");
    let json =
        good(r#"{"pre_tool_use": {"matcher": "*", "hooks": {"type": "command", "command": "a"}}}"#);
    assert_eq!(json[0].matcher.pattern(), "");
}

#[test]
fn tool_event_hook_without_matcher_matches_all_tools() {
    let entries = good("post_tool_use:\n  - {type: command, command: a}");
    assert_eq!(entries[0].matcher.pattern(), "");
    assert!(entries[0].matcher.matches("anything"));
}

#[test]
fn is_empty() {
    assert!(good("stop:\n").is_empty());
    assert!(good("stop: []").is_empty());
    assert!(good("{}").is_empty());
    assert!(good("~").is_empty());
}

#[test]
fn matcher_table() {
    let matches = |pattern: &str, tool: &str| {
        let entries = good(&format!(
            "pre_tool_use: {{matcher: '{pattern}', hooks: [{{type: command, command: a}}]}}"
        ));
        entries[0].matcher.matches(tool)
    };
    for (pattern, tool, expected) in [
        ("", "shell", true),
        ("*", "shell", true),
        ("shell", "shell", true),
        ("shell", "shell_two", false),
        ("shell", "Shell", false),
        ("shell|edit_.*", "edit_file", true),
        ("shell|edit_.*", "my_edit_file", false),
        ("a|b", "ab", false),
    ] {
        assert_eq!(matches(pattern, tool), expected, "{pattern} {tool}");
    }
}

#[test]
fn invalid_matcher_is_a_problem() {
    let (code, line, message) =
        problem("pre_tool_use:\n  - matcher: 'shell('\n    hooks: [{type: command, command: a}]");
    assert_eq!((code, line), ("bad-matcher", 2));
    assert!(
        message.contains("`shell(`") && message.contains('*'),
        "{message}"
    );
}

#[test]
fn matcher_that_is_written_like_a_rule_is_a_warning() {
    for (dialect, event, written, rule, help) in [
        (
            "claude",
            "PreToolUse",
            "Bash(rm *)",
            "Bash(rm *)",
            "if: \"Bash(rm *)\"",
        ),
        (
            "claude",
            "PreToolUse",
            "Write|Bash(git push:*)",
            "Bash(git push:*)",
            "`matcher: Bash`",
        ),
        (
            "codex",
            "PreToolUse",
            "Bash(rm *)",
            "Bash(rm *)",
            "write `Bash`",
        ),
        (
            "docker-agent",
            "pre_tool_use",
            "shell(rm *)",
            "shell(rm *)",
            "write `shell`",
        ),
    ] {
        let text = format!(
            "dialect: {dialect}\n{event}:\n  - matcher: '{written}'\n    hooks: [{{type: command, command: a}}]"
        );
        let node = tree::parse("a.yaml", &text).unwrap();
        let mut problems = Vec::new();
        let read =
            cachalot_hooks::definition::read(&node, "a.yaml", &Builtins::default(), &mut problems);
        assert_eq!(problems, []);
        let [warning] = read.warnings.as_slice() else {
            panic!("{written}: {:?}", read.warnings);
        };
        assert_eq!(warning.code, "void-matcher");
        let said = warning.to_string();
        assert!(
            said.contains(&format!("`{rule}` matches no tool")) && said.contains(help),
            "{said}"
        );
        assert_eq!(read.entries.len(), 1);
    }
}

#[test]
fn an_unknown_event_is_reported_with_the_nearest_name() {
    let (code, line, message) = problem("\npre_tool_uses:\n  - {type: command, command: a}");
    assert_eq!((code, line), ("unknown-event", 2));
    assert!(
        message.contains("did you mean `pre_tool_use`?"),
        "{message}"
    );
}

#[test]
fn events_of_claude_code_propose_its_dialect() {
    let text = "PreToolUse:\n  - {matcher: Bash, hooks: [{type: command, command: a}]}";
    let (code, line, message) = problem(text);
    assert_eq!((code, line), ("unknown-event", 1));
    assert!(
        message.contains("dialect: claude") && message.contains("`pre_tool_use`"),
        "{message}"
    );
    let entries = good(&format!("dialect: claude\n{text}"));
    assert_eq!(entries[0].dialect, Dialect::Claude);
    assert_eq!(&*entries[0].event_name, "PreToolUse");
    let (_, _, message) = problem("BeforeModel: {type: command, command: a}");
    assert!(message.contains("dialect: gemini"), "{message}");
}

#[test]
fn dialect_of_a_single_hook_overrides_the_default() {
    let entries = good(
        "pre_tool_use:
  - matcher: shell
    hooks:
      - {type: command, command: ours}
      - {type: command, command: theirs, dialect: claude}
",
    );
    assert_eq!(entries[0].dialect, Dialect::DockerAgent);
    assert_eq!(entries[1].dialect, Dialect::Claude);
    assert_eq!(&*entries[1].event_name, "PreToolUse");
    let group = good(
        "post_tool_use: {dialect: codex, matcher: ^Bash$, hooks: {type: command, command: a}}",
    );
    assert_eq!(
        (group[0].dialect, &*group[0].event_name),
        (Dialect::Codex, "PostToolUse")
    );
    for text in [
        "stop: {type: command, command: a, dialect: claud}",
        "pre_tool_use: {dialect: claud, hooks: {type: command, command: a}}",
        "dialect: claud\nstop: {type: command, command: a}",
    ] {
        let (code, _, message) = problem(text);
        assert_eq!(code, "unknown-dialect");
        assert!(message.contains("did you mean `claude`?"), "{message}");
    }
}

#[test]
fn problems_of_hooks_are_reported_with_their_place() {
    for (text, code, expected) in [
        (
            "stop: {type: command, comand: a, command: b}",
            "unknown-key",
            "`command`",
        ),
        ("stop: {command: a}", "missing-key", "`type`"),
        ("stop: {type: command}", "missing-key", "`command`"),
        (
            "stop: {type: command, command: '  '}",
            "missing-key",
            "blank",
        ),
        (
            "stop: {type: comand, command: a}",
            "unknown-handler",
            "did you mean `command`?",
        ),
        (
            "stop: {type: evaluator, evaluator: a}",
            "unsupported-handler",
            "guard_decision",
        ),
        (
            "stop: {type: builtin, command: count_too}",
            "unknown-builtin",
            "did you mean `count_to`?",
        ),
        (
            "stop: {type: builtin, command: count_to, args: [x]}",
            "bad-arguments",
            "it takes one number",
        ),
        (
            "turn_start: {type: builtin, command: count_to, args: ['1']}",
            "wrong-event",
            "it is for stop, turn_end",
        ),
        (
            "stop: {type: command, command: a, args: [b]}",
            "bad-arguments",
            "builtins",
        ),
        ("stop: {type: model, prompt: a}", "missing-key", "`model`"),
        ("stop: {type: model, model: a}", "missing-key", "`prompt`"),
        (
            "stop: {type: model, model: a, prompt: b, schema: guard}",
            "bad-value",
            "guard_decision",
        ),
        ("stop: {type: http}", "missing-key", "`url`"),
        (
            "stop: {type: http, url: 'ftp://a'}",
            "bad-value",
            "https://",
        ),
        (
            "stop: {type: command, command: a, on_error: block}",
            "nothing-to-block",
            "`warn`",
        ),
        (
            "stop: {type: command, command: a, on_error: blok}",
            "bad-value",
            "did you mean `block`?",
        ),
        (
            "stop: {type: command, command: a, env: [b]}",
            "wrong-type",
            "`env`",
        ),
        (
            "stop: {type: command, command: a, url: b}",
            "unknown-key",
            "`url`",
        ),
        (
            "stop: {matcher: shell, hooks: [{type: command, command: a}]}",
            "unknown-key",
            "`matcher`",
        ),
        ("stop: 3", "wrong-type", "a hook"),
        ("[stop]", "wrong-type", "`hooks`"),
    ] {
        let (entries, problems) = read(text);
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let is_there = problems.iter().any(|problem| problem.code == code);
        assert!(is_there, "{text}: {found:?}");
        assert!(found.join("\n").contains(expected), "{text}: {found:?}");
        assert!(
            problems.iter().all(|problem| problem.place.is_some()),
            "{text}: {found:?}"
        );
        assert!(entries.is_empty(), "{text}");
    }
}

#[test]
fn invalid_hook_does_not_remove_others() {
    let (entries, problems) = read(
        "stop:
  - {type: command, command: first}
  - {type: command, command: second, on_error: block}
  - {type: command, command: third}
",
    );
    assert_eq!(problems.len(), 1);
    let titles: Vec<_> = entries
        .iter()
        .map(|entry| entry.definition.title())
        .collect();
    assert_eq!(titles, ["first", "third"]);
}

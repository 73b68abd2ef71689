//! Whom a hook is for.

use cachalot_hooks::definition::ResultFilter;
use cachalot_hooks::input::{Notification, ToolResponse, ToolUse};
use cachalot_hooks::{Dialect, Event, Hooks, Input, Matcher, Output};

use crate::hook_builder::HookBuilder;

fn tool(name: &str, failed: bool) -> Input {
    Input {
        tool: Some(ToolUse {
            name: name.to_owned(),
            ..ToolUse::default()
        }),
        tool_response: Some(ToolResponse {
            text: String::new(),
            is_error: failed,
        }),
        ..Input::default()
    }
}

fn for_tools(event: Event, pattern: &str) -> HookBuilder {
    HookBuilder::of(event)
        .says(Output::default())
        .but(|entry| entry.matcher = Matcher::new(pattern).unwrap())
}

async fn is_told(made: HookBuilder, input: Input) -> bool {
    !made.fire(input).await.reports.is_empty()
}

#[tokio::test]
async fn matcher_matches_whole_names_case_sensitively() {
    for (pattern, name, matches) in [
        ("", "shell", true),
        ("*", "shell", true),
        ("shell", "shell", true),
        ("shell", "shells", false),
        ("shell", "my_shell", false),
        ("Shell", "shell", false),
        ("(?i)SHELL", "shell", true),
        ("shell|edit_.*", "edit_file", true),
        ("shell|edit_.*", "edit", false),
        ("shell|edit_.*", "shellx", false),
        (".*", "anything", true),
    ] {
        assert_eq!(
            Matcher::new(pattern).unwrap().matches(name),
            matches,
            "{pattern} {name}"
        );
        let reported = is_told(for_tools(Event::PreToolUse, pattern), tool(name, false)).await;
        assert_eq!(reported, matches, "{pattern} {name}");
        let wanted = for_tools(Event::PreToolUse, pattern)
            .hooks()
            .handles_tool(Event::PreToolUse, name);
        assert_eq!(wanted, matches, "{pattern} {name}");
    }
}

#[test]
fn invalid_matcher_is_an_error() {
    for pattern in ["[", "a)|(b", "(", "?"] {
        assert!(Matcher::new(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn a_matcher_is_shown_as_written() {
    assert_eq!(Matcher::new("shell|grep").unwrap().pattern(), "shell|grep");
    assert_eq!(Matcher::new("*").unwrap(), Matcher::ALL);
    assert_ne!(Matcher::new("shell").unwrap(), Matcher::ALL);
}

#[tokio::test]
async fn matchers_accept_names_of_the_dialect() {
    let made = || for_tools(Event::PreToolUse, "Bash").but(|entry| entry.dialect = Dialect::Claude);
    assert!(is_told(made(), tool("shell", false)).await);
    assert!(!is_told(made(), tool("grep", false)).await);
    assert!(made().hooks().handles_tool(Event::PreToolUse, "shell"));
    assert!(!made().hooks().handles_tool(Event::PreToolUse, "grep"));
    assert!(!is_told(for_tools(Event::PreToolUse, "Bash"), tool("shell", false)).await);
}

#[tokio::test]
async fn mcp_tool_matcher_applies_until_the_server_is_known() {
    let made = || {
        for_tools(Event::PreToolUse, "mcp__git__.*").but(|entry| entry.dialect = Dialect::Claude)
    };
    assert!(
        made()
            .hooks()
            .handles_tool(Event::PreToolUse, "mcp_git_status")
    );
    let of = |server: &str| {
        let mut input = tool("mcp_git_status", false);
        let mcp = Some((server.to_owned(), "status".to_owned()));
        input.tool.as_mut().unwrap().mcp = mcp;
        input
    };
    assert!(is_told(made(), of("git")).await);
    assert!(!is_told(made(), of("github")).await);
}

#[tokio::test]
async fn result_filter_selects_failures_or_successes() {
    for (only, failed, reported) in [
        (ResultFilter::Failures, true, true),
        (ResultFilter::Failures, false, false),
        (ResultFilter::Successes, true, false),
        (ResultFilter::Successes, false, true),
    ] {
        let made = for_tools(Event::PostToolUse, "").but(|entry| entry.only = Some(only));
        assert_eq!(is_told(made, tool("shell", failed)).await, reported);
    }
}

#[tokio::test]
async fn matcher_of_other_events_matches_their_kind() {
    let source = |source: &str| Input {
        source: Some(source.to_owned()),
        ..Input::default()
    };
    let notification = |kind| Input {
        notification: Some(Notification {
            kind,
            ..Notification::default()
        }),
        ..Input::default()
    };
    let ended = Input {
        reason: Some("clear".to_owned()),
        ..Input::default()
    };
    for (event, pattern, input, reported) in [
        (
            Event::SessionStart,
            "startup|resume",
            source("resume"),
            true,
        ),
        (
            Event::SessionStart,
            "startup|resume",
            source("compact"),
            false,
        ),
        (Event::SessionStart, "startup", Input::default(), false),
        (Event::SessionStart, "", Input::default(), true),
        (Event::PreCompact, "auto", source("manual"), false),
        (Event::SessionEnd, "clear", ended, true),
        (
            Event::Notification,
            "idle_prompt",
            notification(Some("idle_prompt")),
            true,
        ),
        (
            Event::Notification,
            "idle_prompt",
            notification(None),
            false,
        ),
        (Event::Stop, "anything", Input::default(), true),
    ] {
        let made = for_tools(event, pattern).but(|entry| entry.dialect = Dialect::Claude);
        assert_eq!(is_told(made, input).await, reported, "{event} {pattern}");
    }
}

#[tokio::test]
async fn events_without_hooks_run_nothing() {
    let hooks = HookBuilder::of(Event::Stop).says(Output::default()).hooks();
    for event in Event::all() {
        assert_eq!(hooks.handles(event), event == Event::Stop);
    }
    assert!(!hooks.handles_tool(Event::PreToolUse, "shell"));
    assert!(!Hooks::default().handles(Event::Stop));
    let verdict = hooks.fire(tool("shell", false)).await;
    assert_eq!(verdict, cachalot_hooks::Verdict::default());
}

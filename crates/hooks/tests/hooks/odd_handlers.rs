//! Handlers that do whatever they should not, on every event: each ends within its limit, what it
//! says instead of a verdict is a fault that says so, and none of its processes is left.

use std::sync::Arc;
use std::time::Duration;

use cachalot_hooks::contract::FailureEffect;
use cachalot_hooks::input::{Prompt, ToolUse};
use cachalot_hooks::{Action, Event, Input, Verdict};
use cachalot_model::Message;
use futures_util::future::join_all;

use crate::handler_fixture::{HandlerFixture, TIMEOUT, command, entry, until_gone};

/// The expected result of a faulty handler.
#[derive(Debug, Clone, Copy)]
enum ExpectedResult {
    /// It is a fault with this in its message.
    ToFault(&'static str),
    /// It does no harm.
    ToNothing,
}
use ExpectedResult::{ToFault, ToNothing};

/// An input that is larger than a pipe.
fn large(event: Event) -> Input {
    Input {
        event,
        last_user_message: Some("x".repeat(100_000)),
        prompt: Some(Prompt {
            text: "y".to_owned(),
            ..Prompt::default()
        }),
        messages: vec![Arc::new(Message::user("z"))],
        unsent: 1,
        tool: Some(ToolUse {
            name: "shell".to_owned(),
            ..ToolUse::default()
        }),
        ..Input::default()
    }
}

/// Runs the line on every event, all at once.
async fn on_every_event(line: &str, limit: Duration, comes: ExpectedResult) {
    let handler_fixture = HandlerFixture::new();
    let reported = Event::all().map(|event| {
        let line = format!("echo $$ > group-{event}\n{line}");
        let mut entry = command(event, line);
        entry.definition.timeout = limit;
        handler_fixture.verdict(entry, large(event))
    });
    let verdicts = join_all(reported).await;
    for (event, verdict) in Event::all().zip(&verdicts) {
        check(event, verdict, limit, comes);
    }
    // What hangs may not have come so far as to write it.
    let groups: Vec<String> = Event::all()
        .filter_map(|event| {
            std::fs::read_to_string(handler_fixture.root().join(format!("group-{event}"))).ok()
        })
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    assert!(limit < TIMEOUT || groups.len() == verdicts.len());
    until_gone(&groups).await;
}

fn check(event: Event, verdict: &Verdict, limit: Duration, comes: ExpectedResult) {
    let report = &verdict.reports[0];
    // The machine may be busy.
    assert!(
        report.elapsed < limit + Duration::from_secs(20),
        "{event}: {:?}",
        report.elapsed
    );
    match (comes, &report.result) {
        (ToNothing, Ok(_)) => assert_eq!(verdict.denial(), None, "{event}"),
        (ToFault(part), Err(fault)) => {
            assert!(fault.message.contains(part), "{event}: {fault}");
            assert!(fault.message.len() < 1_000, "{event}: {fault}");
            assert!(!fault.is_cancelled, "{event}");
            let denies = event.contract().failure != FailureEffect::Warning;
            assert_eq!(verdict.denial().is_some(), denies, "{event}");
            assert!(
                denies || !verdict.messages.is_empty(),
                "{event}: a silent failure"
            );
        }
        (comes, said) => panic!("{event}: {comes:?}, but {said:?}"),
    }
}

#[tokio::test]
async fn hanging_handler_is_killed() {
    let limit = Duration::from_millis(200);
    on_every_event("sleep 1000", limit, ToFault("within")).await;
    let stubborn = "trap '' TERM INT HUP; sleep 1000 & while :; do sleep 1; done";
    on_every_event(stubborn, limit, ToFault("within")).await;
    let mute = "exec > /dev/null 2>&1; sleep 1000";
    on_every_event(mute, limit, ToFault("within")).await;
}

#[tokio::test]
async fn crashing_handler_is_a_fault() {
    on_every_event("kill -SEGV $$", TIMEOUT, ToFault("signal 11")).await;
    on_every_event("echo '{}'; kill -KILL $$", TIMEOUT, ToFault("signal 9")).await;
    on_every_event("sleep 1000 & kill -ABRT $$", TIMEOUT, ToFault("signal 6")).await;
}

#[tokio::test]
async fn handler_with_endless_output_is_killed() {
    on_every_event("yes", TIMEOUT, ToFault("64 MiB to stdout and was killed")).await;
    on_every_event(
        "yes >&2",
        TIMEOUT,
        ToFault("64 MiB to stderr and was killed"),
    )
    .await;
    let slowly = "while :; do echo again; sleep 0.02; done";
    on_every_event(slowly, Duration::from_millis(200), ToFault("within")).await;
}

#[tokio::test]
async fn too_large_handler_output_is_a_fault() {
    let huge =
        r#"printf '{"system_message": "'; head -c 2000000 /dev/zero | tr '\0' x; printf '"}'"#;
    on_every_event(huge, TIMEOUT, ToFault("1 MiB to stdout")).await;
}

#[tokio::test]
async fn invalid_json_of_a_handler_is_a_fault() {
    on_every_event(
        r#"cat > /dev/null; echo '{"continue": '"#,
        TIMEOUT,
        ToFault("JSON"),
    )
    .await;
    on_every_event(
        r#"echo '{"continue": true} and more'"#,
        TIMEOUT,
        ToFault("JSON"),
    )
    .await;
}

#[tokio::test]
async fn invalid_utf_8_of_a_handler_is_a_fault() {
    let bytes = r#"printf '{"system_message": "\377\376"}'"#;
    on_every_event(bytes, TIMEOUT, ToFault("UTF-8")).await;
}

#[tokio::test]
async fn handler_may_ignore_its_input() {
    on_every_event("exec <&-; echo '{}'", TIMEOUT, ToNothing).await;
    on_every_event("head -c 10 > /dev/null; echo '{}'", TIMEOUT, ToNothing).await;
    on_every_event("exit 0", TIMEOUT, ToNothing).await;
}

#[tokio::test]
async fn background_processes_of_a_handler_are_killed() {
    on_every_event("sleep 1000 &\necho '{}'", TIMEOUT, ToNothing).await;
    on_every_event(
        "(sleep 1000; echo late) <&0 &\necho '{}'",
        TIMEOUT,
        ToNothing,
    )
    .await;
    on_every_event(
        "yes >&2 &\nsleep 1000",
        TIMEOUT,
        ToFault("64 MiB to stderr and was killed"),
    )
    .await;
}

#[tokio::test]
async fn unknown_builtin_is_a_problem() {
    let handler_fixture = HandlerFixture::new();
    for (name, message) in [
        ("no_such_builtin", "there is no builtin `no_such_builtin`"),
        ("", "a builtin without a name"),
    ] {
        let action = Action::Builtin {
            name: name.to_owned(),
            arguments: Vec::new(),
        };
        let problem = handler_fixture.problem(entry(Event::TurnStart, action));
        assert_eq!(problem.code, "unknown-builtin");
        assert_eq!(problem.message, message);
    }
}

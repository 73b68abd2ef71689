//! Outputs of guards of other runtimes that are not read completely: they may deny, so they deny.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::routing::post;
use cachalot_hooks::input::{Prompt, ToolUse};
use cachalot_hooks::{Action, Dialect, Event, HookEntry, Input, Verdict};
use futures_util::future::join_all;
use serde_json::json;

use crate::handler_fixture::{HandlerFixture, TIMEOUT};

/// The dialects whose handlers do not deny if they fail.
const OTHERS: [Dialect; 3] = [Dialect::Claude, Dialect::Codex, Dialect::Gemini];

/// More than is read of an output.
const LARGE: usize = 1_200_000;

fn guard(dialect: Dialect, event: Event, action: Action) -> HookEntry {
    let mut entry = crate::dialects::entry(dialect, event);
    entry.definition.action = action;
    entry.definition.timeout = TIMEOUT;
    entry
}

/// A call that writes as much.
fn large_write() -> Input {
    let content = "x".repeat(LARGE);
    Input {
        prompt: Some(Prompt {
            text: content.clone(),
            ..Prompt::default()
        }),
        tool: Some(ToolUse {
            name: "write_file".to_owned(),
            input: json!({ "path": "a.txt", "content": content })
                .as_object()
                .unwrap()
                .clone(),
            ..ToolUse::default()
        }),
        ..Input::default()
    }
}

async fn verdict(entry: HookEntry) -> Verdict {
    HandlerFixture::new().verdict(entry, large_write()).await
}

/// Runs a command as a guard of calls and of prompts, in all other dialects at the same time.
async fn check_command(line: &str, limit: Duration, denial: Option<&str>) {
    let events = [Event::PreToolUse, Event::UserPromptSubmit];
    let guards = OTHERS
        .into_iter()
        .flat_map(|dialect| events.map(|event| (dialect, event)));
    let checks = guards.map(|(dialect, event)| async move {
        let action = Action::Command {
            line: line.to_owned(),
        };
        let mut entry = guard(dialect, event, action);
        entry.definition.timeout = limit;
        let verdict = verdict(entry).await;
        let is = verdict.denial();
        match denial {
            Some(part) => assert!(
                is.is_some_and(|is| is.contains(part)),
                "{dialect} {event} {line}: {is:?}"
            ),
            None => assert_eq!(is, None, "{dialect} {event} {line}"),
        }
    });
    join_all(checks).await;
}

#[tokio::test]
async fn exit_code_decides_however_long_the_output_is() {
    check_command("cat >&2; exit 2", TIMEOUT, Some("xxxx")).await;
    check_command("cat; exit 2", TIMEOUT, Some("xxxx")).await;
    check_command("cat; exit 1", TIMEOUT, None).await;
    check_command("cat >&2; exit 1", TIMEOUT, None).await;
    // Nothing is read of stderr.
    check_command("cat >&2; exit 0", TIMEOUT, None).await;
}

#[tokio::test]
async fn too_long_answer_of_a_guard_denies() {
    let json = r#"printf '{"decision": "block", "reason": "'; head -c 1200000 /dev/zero | tr '\0' x; printf '"}'"#;
    check_command(json, TIMEOUT, Some("than 1 MiB to stdout;")).await;
    check_command("cat", TIMEOUT, Some("than 1 MiB to stdout;")).await;
    check_command("yes", TIMEOUT, Some("64 MiB to stdout and was killed")).await;
    check_command("yes >&2", TIMEOUT, Some("64 MiB to stderr and was killed")).await;
}

#[tokio::test]
async fn answer_of_a_guard_that_the_timeout_interrupts_denies() {
    // Long enough for the output to begin on a busy machine.
    let limit = Duration::from_secs(10);
    tokio::join!(
        check_command(
            "printf '{\"decision\": '; exec sleep 1000",
            limit,
            Some("no answer within 10s")
        ),
        check_command("echo no >&2; exec sleep 1000", limit, Some("within 10s")),
        check_command("exec sleep 1000", Duration::from_millis(50), None),
    );
}

#[tokio::test]
async fn answer_of_a_guard_that_a_signal_interrupts_denies() {
    check_command(
        "printf '{\"decision\": '; kill -9 $$",
        TIMEOUT,
        Some("signal 9"),
    )
    .await;
    check_command("kill -9 $$", TIMEOUT, None).await;
}

#[tokio::test]
async fn unparsable_denial_of_a_guard_denies() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (rest, part) in [
        ("\"reason\": \"\\377\"", "UTF-8"),
        ("\"reason\": \"\\\\ud800\"", "JSON"),
        ("\"quoted\": 1e999", "JSON"),
        ("\"reason\": \"a\"b\"", "JSON"),
        (&*format!("\"quoted\": {deep}"), "JSON"),
    ] {
        let denies = format!("printf '{{\"decision\": \"block\", {rest}}}'");
        check_command(&denies, TIMEOUT, Some(part)).await;
        // Without a denial in it, it has the meaning of the original program: a warning.
        let other = format!("printf '{{\"systemMessage\": \"block\", {rest}}}'");
        check_command(&other, TIMEOUT, None).await;
    }
    for denial in [
        r#"{"hookSpecificOutput": {"permissionDecision" : "deny", "x": 1e999}}"#,
        r#"{"hookSpecificOutput": {"decision": {"behavior": "deny"}, "x": 1e999}}"#,
        r#"{"continue": false, "x": 1e999}"#,
        "Welcome!\\n{\"decision\": \"block\",",
    ] {
        let line = format!("printf '{denial}'");
        check_command(&line, TIMEOUT, Some("JSON")).await;
    }
}

/// The verdicts on responses of a server.
async fn check_server(
    status: StatusCode,
    chunks: &[&'static [u8]],
    breaks_off: bool,
    denies: bool,
) {
    let chunks: Vec<Bytes> = chunks.iter().copied().map(Bytes::from_static).collect();
    let answer = move |_: Bytes| {
        let chunks = chunks.clone().into_iter().map(Ok);
        let end = breaks_off.then(|| Err(std::io::Error::other("broken")));
        let body = Body::from_stream(futures_util::stream::iter(chunks.chain(end)));
        async move { (status, body) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/hook", post(answer))
        .layer(axum::extract::DefaultBodyLimit::disable());
    tokio::spawn(async move { axum::serve(listener, router).await });
    for dialect in OTHERS {
        let action = Action::Http {
            url: url.clone(),
            headers: Default::default(),
        };
        let verdict = verdict(guard(dialect, Event::PreToolUse, action)).await;
        let denial = verdict.denial();
        assert_eq!(denial.is_some(), denies, "{dialect} {status}: {denial:?}");
    }
}

#[tokio::test]
async fn response_of_a_guard_that_is_not_read_completely_denies() {
    const LONG: &[u8] = &[b' '; (1 << 20) + 1];
    check_server(StatusCode::OK, &[b"{", LONG], false, true).await;
    check_server(StatusCode::OK, &[b"{\"decision\": "], true, true).await;
    check_server(StatusCode::PAYLOAD_TOO_LARGE, &[], false, true).await;
    check_server(StatusCode::INTERNAL_SERVER_ERROR, &[LONG], false, false).await;
    check_server(StatusCode::OK, &[b"{}"], false, false).await;
}

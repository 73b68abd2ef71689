//! Runs: recordings of a command, and sessions that clients name.

use cachalot_core::Secret;
use cachalot_gateway::CommandRun;
use serde_json::Value;

use crate::support::{Answer, Setup, chat, read};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn command(recording: Option<&str>) -> CommandRun {
    CommandRun {
        secret: Secret::new("secret".to_owned()),
        recording: recording.map(str::to_owned),
        is_fresh: false,
    }
}

fn sampled(text: &str) -> Value {
    let mut body = chat(text);
    body.as_object_mut().unwrap().remove("temperature");
    body
}

#[tokio::test]
async fn a_recording_answers_without_credentials_and_without_an_upstream() {
    let setup = Setup::new().await;
    let mut recording = setup.restarted(Some(command(Some("fix"))), false).await;
    let ask = async |setup: &Setup, credential: &str, body: &Value| -> Answer {
        let path = format!("/x/secret{CHAT}");
        read(setup.post(&path, body).bearer_auth(credential)).await
    };
    let body = sampled("hello");
    let first = ask(&recording, "one", &body).await;
    let second = ask(&recording, "one", &body).await;
    assert_eq!((first.source(), second.source()), ("miss", "miss"));
    assert!(
        second.cache_status().contains("sample 2 of this run"),
        "{}",
        second.cache_status()
    );
    let repeatable = ask(&recording, "one", &chat("hello")).await;
    assert_eq!(recording.paid(), 3);
    // A day later, in another process, with another credential, and frozen.
    recording
        .clock
        .advance(std::time::Duration::from_secs(30 * 24 * 60 * 60));
    recording = recording.restarted(Some(command(Some("fix"))), true).await;
    for (body, expected) in [
        (&body, &first),
        (&body, &second),
        (&chat("hello"), &repeatable),
    ] {
        let again = ask(&recording, "other", body).await;
        assert_eq!((again.source(), &again.body), ("hit", &expected.body));
    }
    assert_eq!(recording.paid(), 3);
    let missing = ask(&recording, "other", &body).await;
    assert_eq!(missing.status, 504);
    assert!(
        missing.body.contains("sample 3 of this run"),
        "{}",
        missing.body
    );
    // Another recording, and a gateway without one, have other answers.
    for command in [command(Some("other")), command(None)] {
        recording = recording.restarted(Some(command), true).await;
        assert_eq!(ask(&recording, "one", &body).await.status, 504);
    }
}

#[tokio::test]
async fn a_fresh_recording_replaces_the_answers() {
    let script = "rules:\n  - user: x\n    steps: [{text: a}, {text: b}]\n";
    let setup = Setup::scripted(script).await;
    let mut setup = setup.restarted(Some(command(Some("fix"))), false).await;
    let path = format!("/x/secret{CHAT}");
    let first = setup.ask(&path, &sampled("x")).await;
    let fresh = CommandRun {
        is_fresh: true,
        ..command(Some("fix"))
    };
    setup = setup.restarted(Some(fresh), false).await;
    let second = setup.ask(&path, &sampled("x")).await;
    assert_eq!((second.source(), setup.paid()), ("miss", 2));
    assert_ne!(first.json()["id"], second.json()["id"]);
    setup = setup.restarted(Some(command(Some("fix"))), true).await;
    let replayed = read(setup.post(&path, &sampled("x"))).await;
    assert_eq!((replayed.source(), replayed.body), ("hit", second.body));
}

#[tokio::test]
async fn a_gateway_of_a_command_answers_to_its_secret_only() {
    let setup = Setup::new().await;
    let setup = setup.restarted(Some(command(Some("fix"))), false).await;
    for path in [CHAT, "/x/other/v1/chat/completions", "/healthz", "/metrics"] {
        let refused = read(setup.post(path, &chat("hello"))).await;
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.body.contains("not_of_command"), "{}", refused.body);
    }
    assert_eq!(setup.paid(), 0);
    let answered = setup.ask(&format!("/x/secret{CHAT}"), &chat("hello")).await;
    assert_eq!(answered.status, 200);
    let reports = setup.reports.lock();
    assert!(
        reports.iter().all(|report| !report.path.contains("secret")),
        "{reports:?}"
    );
    drop(reports);
    // A WebSocket would be neither recorded nor counted.
    let socket = setup
        .client
        .get(format!("{}/x/secret{RESPONSES}", setup.gateway.url()));
    let socket = socket
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
    assert_eq!(read(socket.bearer_auth("one")).await.status, 426);
}

#[tokio::test]
async fn a_session_is_a_run() {
    let setup = Setup::new().await;
    let body = sampled("hello");
    let ask = async |session: &str| -> Answer {
        let request = setup.post("/p/claude-code/v1/chat/completions", &body);
        let request = request.header("x-claude-code-session-id", session);
        let answer = read(request).await;
        setup.settled(answer).await
    };
    let (first, second) = (ask("a").await, ask("a").await);
    assert_eq!((first.source(), second.source()), ("miss", "miss"));
    // The next session replays, however soon it follows, and both go on at the same time.
    for expected in [&first, &second] {
        let again = ask("b").await;
        assert_eq!((again.source(), &again.body), ("hit", &expected.body));
    }
    let third = ask("a").await;
    assert!(third.cache_status().contains("sample 3 of this run"));
    assert_eq!(ask("b").await.body, third.body);
}

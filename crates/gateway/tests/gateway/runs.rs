//! Runs: recordings of a command, and sessions that clients name.

use cachalot_core::Secret;
use cachalot_gateway::CommandRun;
use serde_json::{Value, json};

use crate::support::{Answer, Setup, chat, read, until};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn command(recording: Option<&str>) -> CommandRun {
    CommandRun {
        secret: Secret::new("secret".to_owned()),
        recording: recording.map(str::to_owned),
        client: None,
        is_fresh: false,
        ignored_texts: Vec::new(),
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
    assert_eq!(missing.status, 400);
    assert!(
        missing.body.contains("sample 3 of this run"),
        "{}",
        missing.body
    );
    // Another recording, and a gateway without one, have other answers.
    for command in [command(Some("other")), command(None)] {
        recording = recording.restarted(Some(command), true).await;
        assert_eq!(ask(&recording, "one", &body).await.status, 400);
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
    let paths: Vec<String> = {
        let reports = setup.reports.lock();
        reports.iter().map(|report| report.path.clone()).collect()
    };
    assert!(
        paths.iter().all(|path| !path.contains("secret")),
        "{paths:?}"
    );
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

/// A request of Messages whose last message is the result of a call.
fn with_result(id: &str, said: &str) -> Value {
    json!({
        "model": "claude-3-5-haiku-20241022", "max_tokens": 100,
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": said},
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "r"}]},
        ],
    })
}

#[tokio::test]
async fn ids_of_calls_are_in_no_key_of_a_run() {
    let setup = Setup::new().await;
    let ask = async |run: &str, body: &Value| {
        setup
            .ask(&format!("/p/coder/r/{run}/v1/messages"), body)
            .await
    };
    let first = ask("1", &with_result("toolu_a", "x")).await;
    let again = ask("2", &with_result("toolu_b", "x")).await;
    assert_eq!(
        (first.source(), again.source()),
        ("miss", "hit"),
        "{}",
        again.cache_status()
    );
    assert_eq!(first.body, again.body);
    // Without a run, IDs are in the key.
    let mut fixed = with_result("toolu_a", "x");
    fixed["temperature"] = json!(0);
    assert_eq!(setup.ask("/v1/messages", &fixed).await.source(), "miss");
    let mut fixed = with_result("toolu_b", "x");
    fixed["temperature"] = json!(0);
    assert_eq!(setup.ask("/v1/messages", &fixed).await.source(), "miss");
}

#[tokio::test]
async fn an_answer_with_the_id_of_a_call_of_the_request_is_a_miss() {
    let script = "rules:\n  - user: x\n    steps: [{text: a}, {text: see toolu_b}]\n";
    let setup = Setup::scripted(script).await;
    let path = |run: &str| format!("/p/coder/r/{run}/v1/messages");
    let first = setup.ask(&path("1"), &with_result("toolu_a", "x")).await;
    assert!(first.body.contains("see toolu_b"), "{}", first.body);
    let frozen = setup.post(&path("2"), &with_result("toolu_b", "x"));
    let frozen = read(frozen.header("x-cachalot-mode", "frozen")).await;
    assert_eq!(frozen.status, 504);
    assert!(frozen.body.contains("ID of a call"), "{}", frozen.body);
    let second = setup.ask(&path("3"), &with_result("toolu_b", "x")).await;
    assert_eq!(
        (second.source(), setup.paid()),
        ("miss", 2),
        "{}",
        second.cache_status()
    );
    let third = setup.ask(&path("4"), &with_result("toolu_c", "x")).await;
    // The second one has the ID of a call of its request, and is not stored.
    assert_eq!((third.source(), third.body), ("hit", first.body));
}

#[tokio::test]
async fn the_operator_may_replay_a_client_and_leave_out_what_its_model_reads() {
    let file = "upstreams:\n  anthropic: {url: '{url}'}\nclients:\n  claude-code: {replay: true, ignore: [date]}\n";
    let setup = Setup::configured(file).await;
    let ask = async |client: &str, session: &str, date: &str| {
        let mut body = crate::support::messages("hello");
        body["temperature"] = json!(1);
        body["metadata"] = json!({ "user_id": session });
        body["system"] = json!(format!("You code.\nToday's date is {date}."));
        let request = setup.post("/v1/messages", &body);
        let answer = read(request.header(format!("x-{client}-session-id"), session)).await;
        setup.settled(answer).await
    };
    let first = ask("claude-code", "a", "2026-11-28").await;
    let again = ask("claude-code", "b", "2026-11-29").await;
    assert_eq!(
        (first.source(), again.source()),
        ("miss", "hit"),
        "{}",
        again.cache_status()
    );
    // Another client, and the same one without the wish of the operator.
    assert_eq!(ask("other", "c", "2026-11-28").await.source(), "bypass");
    let url = setup.simulator.url();
    for (clients, expected, reason) in [
        ("", "bypass", "sampled"),
        (
            "clients: {claude-code: {replay: true}}\n",
            "miss",
            "not in the cache; its `date` may differ from that of the recorded run (ignore: [date])",
        ),
    ] {
        let file = format!("upstreams:\n  anthropic: {{url: '{url}'}}\n{clients}");
        setup.gateway.reload(crate::support::settings(&file, &url));
        let answer = ask("claude-code", "d", "2026-11-30").await;
        assert_eq!(answer.source(), expected, "{}", answer.cache_status());
        assert!(
            answer.cache_status().contains(reason),
            "{}",
            answer.cache_status()
        );
    }
}

#[tokio::test]
async fn a_refusal_is_a_part_of_a_recording_and_is_asked_for_again_while_recording() {
    let script = "rules:\n  - user: x\n    steps: [{text: a, fault: {status: 400, times: 1}}]\n";
    let setup = Setup::scripted(script).await;
    let mut setup = setup.restarted(Some(command(Some("fix"))), false).await;
    let path = format!("/x/secret{CHAT}");
    let refused = read(setup.post(&path, &sampled("x"))).await;
    assert_eq!(refused.status, 400);
    until(async || setup.misses().await == 1).await;
    setup = setup.restarted(Some(command(Some("fix"))), true).await;
    let replayed = read(setup.post(&path, &sampled("x"))).await;
    assert_eq!(
        (replayed.status, replayed.source(), &replayed.body),
        (400, "hit", &refused.body)
    );
    // Its cause may be gone.
    setup = setup.restarted(Some(command(Some("fix"))), false).await;
    let answered = setup.ask(&path, &sampled("x")).await;
    assert_eq!((answered.status, answered.source()), (200, "miss"));
    setup = setup.restarted(Some(command(Some("fix"))), true).await;
    let replayed = read(setup.post(&path, &sampled("x"))).await;
    assert_eq!((replayed.status, replayed.body), (200, answered.body));
}

#[tokio::test]
async fn a_run_has_answers_that_the_provider_keeps_and_what_refers_to_them() {
    let setup = Setup::new().await;
    let kept = json!({"model": "gpt-4o-mini", "input": [{"role": "user", "content": "hello"}]});
    let named = |id: &str| {
        let mut body = kept.clone();
        body["input"] =
            json!([{"type": "item_reference", "id": id}, {"role": "user", "content": "go on"}]);
        body
    };
    for (path, expected) in [
        ("/v1/responses", "bypass"),
        ("/p/coder/v1/responses", "bypass"),
    ] {
        let answer = setup.ask(path, &kept).await;
        assert_eq!(answer.source(), expected, "{path}");
        assert!(
            answer.cache_status().contains("stored at the provider"),
            "{}",
            answer.cache_status()
        );
    }
    let mut bodies = Vec::new();
    for run in ["1", "2"] {
        let path = format!("/p/coder/r/{run}/v1/responses");
        let first = setup.ask(&path, &kept).await;
        let id = first.json()["output"][0]["id"].as_str().unwrap().to_owned();
        let second = setup.ask(&path, &named(&id)).await;
        let expected = if run == "1" { "miss" } else { "hit" };
        assert_eq!((first.source(), second.source()), (expected, expected));
        bodies.push((first.body, second.body));
    }
    assert_eq!(bodies[0], bodies[1]);
    let mut continued = kept.clone();
    continued["previous_response_id"] = json!("resp_1");
    let answer = setup.ask("/p/coder/r/3/v1/responses", &continued).await;
    assert_eq!(answer.source(), "bypass", "{}", answer.cache_status());
}

#[tokio::test]
async fn what_another_account_has_recorded_is_sent_to_none() {
    const PATH: &str = "/x/secret/v1/responses";
    let mut setup = Setup::new()
        .await
        .restarted(Some(command(Some("fix"))), false)
        .await;
    let kept = json!({"model": "gpt-4o-mini", "input": [{"role": "user", "content": "hello"}]});
    let ask = async |setup: &Setup, credential: &str, body: &Value| {
        let url = format!("{}{PATH}", setup.gateway.url());
        let request = setup
            .client
            .post(url)
            .bearer_auth(credential)
            .body(body.to_string());
        setup
            .settled(read(request.header("content-type", "application/json")).await)
            .await
    };
    let first = ask(&setup, "one", &kept).await;
    let id = first.json()["output"][0]["id"].as_str().unwrap().to_owned();
    let named = |text: &str| {
        let mut body = kept.clone();
        body["input"] =
            json!([{"type": "item_reference", "id": id}, {"role": "user", "content": text}]);
        body
    };
    assert_eq!(ask(&setup, "one", &named("go on")).await.source(), "miss");
    // A credential that has changed within the process is one of the same client: the provider decides.
    assert_eq!(ask(&setup, "changed", &named("else")).await.status, 404);
    setup = setup.restarted(Some(command(Some("fix"))), false).await;
    assert_eq!(ask(&setup, "two", &kept).await.source(), "hit");
    assert_eq!(ask(&setup, "two", &named("go on")).await.source(), "hit");
    let refused = ask(&setup, "two", &named("something else")).await;
    assert_eq!(refused.status, 400);
    let error = refused.json()["error"].clone();
    assert_eq!(error["code"], "foreign_reference");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains(&id) && message.contains("--fresh"),
        "{message}"
    );
    let own = ask(&setup, "one", &named("something else")).await;
    assert_eq!((own.status, own.source()), (200, "miss"), "{}", own.body);
}

#[tokio::test]
async fn a_run_has_answers_that_do_not_use_the_search_that_was_offered() {
    let script = "rules:\n  - user: x\n    steps: [{text: a}]\n";
    let setup = Setup::scripted(script).await;
    let body = json!({
        "model": "gpt-4o-mini", "store": false, "tools": [{"type": "web_search"}],
        "input": [{"role": "user", "content": "x"}],
    });
    let offered = setup.ask("/v1/responses", &body).await;
    assert_eq!(offered.source(), "bypass");
    assert!(
        offered
            .cache_status()
            .contains("the provider runs the tool"),
        "{}",
        offered.cache_status()
    );
    for expected in ["miss", "hit"] {
        let run = format!("/p/coder/r/{expected}/v1/responses");
        let answer = setup.ask(&run, &body).await;
        assert_eq!(answer.source(), expected, "{}", answer.cache_status());
    }
}

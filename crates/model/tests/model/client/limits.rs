//! Timeouts, and connections whose call was dropped.

use std::time::{Duration, Instant};

use cachalot_model::{ErrorKind, Models};
use cachalot_storage::HttpOptions;

use super::server::TIMEOUT;
use super::{
    Answer, Server, ask, body, configured, events, model, model_dependencies, model_with, says,
    stream,
};

#[tokio::test]
async fn first_byte_timeout_applies() {
    for answer in [
        Answer::nothing().hang(),
        Answer::head("text/event-stream").hang(),
        Answer::head("application/json").hang(),
    ] {
        let server = Server::start([answer]).await;
        let (model, pauses) = model_with(&server, "timeouts: {first_byte: 300ms}");
        let error = stream(&model).await.0.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut);
        for part in ["within 300ms", "`timeouts.first_byte`", "may still charge"] {
            assert!(error.message.contains(part), "{error}");
        }
        // It may be paid for already.
        assert_eq!((server.asked().len(), pauses.waited().len()), (1, 0));
        server.until_gone().await;
    }
}

#[tokio::test]
async fn idle_timeout_applies() {
    let begun = Answer::head("text/event-stream").chunks(&events(&["Deep"])[..1]);
    let server = Server::start([begun.hang()]).await;
    let (model, _) = model_with(&server, "timeouts: {idle: 50ms}");
    let (reply, deltas) = stream(&model).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert!(error.message.contains("`timeouts.idle`"), "{error}");
    assert_eq!(error.request_id.as_deref(), Some("req-7"));
    assert_eq!((server.asked().len(), deltas.len()), (1, 1));
    server.until_gone().await;
    let begun = Answer::head("application/json").chunks(&["{"]);
    let server = Server::start([begun.hang()]).await;
    let error = ask(&model_with(&server, "timeouts: {idle: 50ms}").0)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
}

#[tokio::test]
async fn total_timeout_applies() {
    let begun = || Answer::head("text/event-stream").chunks(&events(&["Deep"])[..1]);
    let server = Server::start([begun().hang()]).await;
    let (model, _) = model_with(&server, "timeouts: {total: 300ms}");
    let (reply, _) = stream(&model).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
    for part in ["within 300ms", "`timeouts.total`", "may still charge"] {
        assert!(error.message.contains(part), "{error}");
    }
    server.until_gone().await;
    // Only a number of retries that is configured repeats what may be charged.
    for (settings, asked) in [
        ("timeouts: {total: 100ms}", 1),
        ("timeouts: {total: 100ms}, retries: 1", 2),
    ] {
        let answers = [Answer::nothing().hang(), Answer::nothing().hang()];
        let server = Server::start(answers).await;
        let (model, _) = model_with(&server, settings);
        let error = ask(&model).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut);
        assert_eq!(server.asked().len(), asked, "{settings}");
    }
}

#[tokio::test]
async fn connect_timeout_applies() {
    // The listener does not accept: the connection is open, and the handshake is never answered.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let yaml = format!(
        "models: {{m: {{provider: vllm, model: x, retries: 0, timeouts: {{connect: 50ms}}, base_url: 'https://{}/v1'}}}}",
        listener.local_addr().unwrap()
    );
    let models = Models::new(model_dependencies(&[]), configured(&yaml));
    let start = Instant::now();
    let error = ask(&models.find("m").unwrap()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut, "{error}");
    assert!(error.message.contains("`timeouts.connect`"), "{error}");
    assert!(start.elapsed() < TIMEOUT);
}

#[tokio::test]
async fn timeouts_of_the_storage_client_do_not_apply() {
    let mut model_dependencies = model_dependencies(&[]);
    model_dependencies.http = HttpOptions {
        idle_timeout: Duration::from_millis(1),
        ..HttpOptions::default()
    };
    let slow = Answer::dawdle(60)
        .then(Answer::head("text/event-stream"))
        .then(Answer::dawdle(60))
        .chunks(&events(&["Deep"]))
        .end();
    let server = Server::start([slow]).await;
    let yaml = format!(
        "models: {{m: {{provider: vllm, model: x, base_url: '{}'}}}}",
        server.url()
    );
    let models = Models::new(model_dependencies, configured(&yaml));
    let (reply, _) = stream(&models.find("m").unwrap()).await;
    assert_eq!(reply.unwrap().message.text(), "Deep");
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    let begun = Answer::head("text/event-stream").chunks(&events(&["Deep"])[..1]);
    for answer in [Answer::nothing().hang(), begun.hang()] {
        let server = Server::start([answer]).await;
        let model = model(&server);
        let body = body(&model, true);
        let asking = tokio::spawn(async move { model.stream(body, &mut |_| {}).await });
        server.until_asked(1).await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        server.until_gone().await;
    }
}

#[tokio::test]
async fn dropping_the_call_during_a_pause_sends_no_retry() {
    let server = Server::start([Answer::of(503, &[("retry-after", "30")], "{}"), says("x")]).await;
    let yaml = format!(
        "models: {{m: {{provider: vllm, model: x, base_url: '{}'}}}}",
        server.url()
    );
    let models = Models::new(model_dependencies(&[]), configured(&yaml));
    let model = models.find("m").unwrap();
    let asking = tokio::spawn(async move { ask(&model).await });
    server.until_asked(1).await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert_eq!(server.asked().len(), 1);
}

//! `/readyz`, and the statistics of the store.

use std::sync::atomic::Ordering;

use cachalot_store::intercepted::StoreOperation;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Answer, Setup, chat, read, until};
use crate::switched_store::Behavior;

const CHAT: &str = "/v1/chat/completions";

async fn get(setup: &Setup, path: &str) -> Answer {
    read(setup.client.get(format!("{}{path}", setup.gateway.url()))).await
}

/// Waits for a state that is newer than the last one.
async fn until_ready_is(setup: &Setup, status: u16, text: &str) {
    until(async || {
        let answer = get(setup, "/readyz").await;
        (answer.status, &*answer.body) == (status, text)
    })
    .await;
}

#[tokio::test]
async fn the_gateway_is_ready_while_its_store_answers() {
    let setup = Setup::new().await;
    until_ready_is(&setup, 200, "ok\n").await;
    for (behavior, reason) in [
        (
            Behavior::Unreachable,
            "the store does not answer: unavailable\n",
        ),
        (Behavior::Hangs, "the store does not answer: timed out\n"),
    ] {
        setup.store.now(behavior);
        until_ready_is(&setup, 503, reason).await;
        let live = get(&setup, "/healthz").await;
        assert_eq!((live.status, &*live.body), (200, "ok\n"));
        let metrics = setup.metrics().await;
        assert!(metrics.contains("cachalot_store_up 0\n"), "{metrics}");
        setup.store.now(Behavior::Answers);
        until_ready_is(&setup, 200, "ok\n").await;
    }
    setup.is_other_key.store(true, Ordering::SeqCst);
    let reason =
        "the digest key is not that of the store: answers are not shared with other machines\n";
    until_ready_is(&setup, 503, reason).await;
    let metrics = setup.metrics().await;
    for line in ["cachalot_digest_key_mismatch 1\n", "cachalot_store_up 1\n"] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn many_clients_ask_the_store_once() {
    let setup = Setup::new().await;
    let before = setup.store.count(StoreOperation::Get);
    let began = std::time::Instant::now();
    let answers = futures_util::future::join_all((0..40).map(|_| get(&setup, "/readyz"))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let asked = setup.store.count(StoreOperation::Get) - before;
    let permitted = 1 + began.elapsed().as_secs() as usize;
    assert!((1..=permitted).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_gateway_that_stops_is_not_ready() {
    let setup = Setup::new().await;
    let address = setup.gateway.address();
    let mut early = TcpStream::connect(address).await.unwrap();
    early.write_all(b"GET /readyz HTTP/1.1\r\n").await.unwrap();
    // Connections are accepted in the order in which they are made.
    assert_eq!(get(&setup, "/readyz").await.status, 200);
    let stopping = tokio::spawn(setup.gateway.stop());
    until(async || TcpStream::connect(address).await.is_err()).await;
    let rest = format!("Host: {address}\r\n\r\n");
    early.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = String::new();
    early.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.ends_with("the gateway is stopping\n"),
        "{answer}"
    );
    assert!(stopping.await.unwrap());
}

#[tokio::test]
async fn operations_of_the_store_are_measured() {
    let setup = Setup::new().await;
    assert_eq!(setup.ask(CHAT, &chat("x")).await.source(), "miss");
    let metrics = setup.metrics().await;
    for line in [
        "cachalot_store_operation_seconds_count{operation=\"put\"} 1\n",
        "cachalot_store_left_out{access=\"read\"} 0\n",
        "cachalot_store_left_out{access=\"write\"} 0\n",
        "cachalot_store_copies_waiting 0\n",
        "cachalot_store_copy_answers_total 0\n",
        "cachalot_digest_key_mismatch 0\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(
        !metrics.contains("cachalot_store_errors_total{"),
        "{metrics}"
    );
    // A hit from the process's memory asks the store nothing.
    let of_hits = |metrics: &str| {
        let lines = metrics.lines();
        let counts =
            lines.filter(|line| line.starts_with("cachalot_store_operation_seconds_count"));
        let other = counts.filter(|line| !line.contains("\"touch\""));
        other.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(setup.ask(CHAT, &chat("x")).await.source(), "hit");
    // The state of the store is asked for by the statistics themselves.
    let before = of_hits(&setup.metrics().await);
    for _ in 0..3 {
        assert_eq!(setup.ask(CHAT, &chat("x")).await.source(), "hit");
    }
    let after = of_hits(&setup.metrics().await);
    let gets = |lines: &[String]| {
        let other = lines.iter().filter(|line| !line.contains("\"get\""));
        other.cloned().collect::<Vec<_>>()
    };
    assert_eq!(gets(&before), gets(&after));

    setup.store.now(Behavior::Unreachable);
    for text in ["a", "b", "c", "d", "e"] {
        let answer = setup.ask(CHAT, &chat(text)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    setup.store.now(Behavior::Hangs);
    until(async || {
        let metrics = setup.metrics().await;
        let has = |part: &str| metrics.contains(part);
        has("cachalot_store_left_out{access=\"read\"} 1\n")
            && has("error=\"unavailable\"")
            && has("error=\"abandoned\"")
    })
    .await;
    setup.store.now(Behavior::Answers);
    until(async || {
        let metrics = setup.metrics().await;
        metrics.contains("cachalot_store_left_out{access=\"read\"} 0\n")
    })
    .await;
}

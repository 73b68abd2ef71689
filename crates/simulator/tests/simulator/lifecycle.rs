//! Starting and stopping.

use std::time::Duration;

use cachalot_simulator::{Fault, Script, ScriptedReply, Simulator, SimulatorOptions};
use futures_util::StreamExt;
use serde_json::json;

use crate::{CHAT, client, post, smallest, start, until, with};

#[tokio::test]
async fn simulator_listens_on_loopback_and_records_requests() {
    let running = start(Script::built_in()).await;
    assert!(running.address().ip().is_loopback() && running.address().port() != 0);
    assert_eq!(running.url(), format!("http://{}", running.address()));
    let request = smallest(CHAT, "Hello");
    post(&running, CHAT, &request).await;
    let received = running.received();
    assert_eq!(received.len(), 1);
    assert_eq!(
        (received[0].method.as_str(), received[0].path.as_str()),
        ("POST", CHAT)
    );
    assert_eq!(received[0].body, request.to_string());
    assert_eq!(received[0].json(), request);
    assert_eq!((received[0].status, received[0].disconnected), (200, false));
}

#[tokio::test]
async fn stopped_simulator_releases_its_port() {
    let running = start(Script::built_in()).await;
    let (address, url) = (running.address(), running.url());
    running.stop().await;
    assert!(client().get(&url).send().await.unwrap_err().is_connect());
    let again = Simulator::start(SimulatorOptions {
        address,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap();
    assert_eq!(
        client().get(again.url()).send().await.unwrap().status(),
        200
    );
    // The address is taken now.
    let second = Simulator::start(SimulatorOptions {
        address,
        ..SimulatorOptions::default()
    });
    assert!(second.await.is_err());
}

#[tokio::test]
async fn dropping_the_simulator_closes_connections() {
    let slow = Fault::slow(Duration::ZERO, Duration::from_secs(60));
    let running = start(Script::replies(vec![
        ScriptedReply::text("slow").with_fault(slow),
    ]))
    .await;
    let request = client()
        .post(format!("{}{CHAT}", running.url()))
        .body(with(smallest(CHAT, "x"), json!({"stream": true})).to_string());
    let mut stream = request.send().await.unwrap().bytes_stream();
    assert!(stream.next().await.unwrap().is_ok());
    let url = running.url();
    drop(running);
    assert!(stream.next().await.unwrap().is_err());
    let mut refused = false;
    for _ in 0..6_000 {
        refused = client().get(&url).send().await.is_err();
        if refused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(refused);
}

#[tokio::test]
async fn waiters_are_notified_when_the_simulator_ends() {
    let running = std::sync::Arc::new(start(Script::built_in()).await);
    let waiting = {
        let running = std::sync::Arc::clone(&running);
        tokio::spawn(async move {
            tokio::time::timeout(Duration::from_millis(50), running.stopped()).await
        })
    };
    assert!(waiting.await.unwrap().is_err(), "it runs");
    let running = std::sync::Arc::into_inner(running).unwrap();
    running.stop().await;
}

#[tokio::test]
async fn concurrent_clients_are_served() {
    let running = start(Script::built_in()).await;
    let requests = (0..50).map(|at| {
        let running = &running;
        async move {
            let text = format!("Translate to French: {at}");
            let got = post(running, CHAT, &smallest(CHAT, &text)).await;
            assert!(
                got.text.contains(&format!("[simulated French] {at}")),
                "{}",
                got.text
            );
        }
    });
    futures_util::future::join_all(requests).await;
    until(|| running.received().len() == 50).await;
}

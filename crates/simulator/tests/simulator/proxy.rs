//! The proxy that makes a wire fail.

use std::time::{Duration, Instant};

use cachalot_simulator::fault::{FaultProxy, ProxyMode};
use cachalot_simulator::{RunningSimulator, Script};
use futures_util::StreamExt;
use serde_json::json;

use crate::{CHAT, client, smallest, start, with};

async fn behind_proxy() -> (RunningSimulator, FaultProxy) {
    let running = start(Script::built_in()).await;
    let proxy = FaultProxy::start(running.address()).await.unwrap();
    (running, proxy)
}

fn ask(client: &reqwest::Client, proxy: &FaultProxy) -> reqwest::RequestBuilder {
    let body = smallest(CHAT, &"Translate to French: sea. ".repeat(40));
    client
        .post(format!("{}{CHAT}", proxy.url()))
        .body(body.to_string())
}

#[tokio::test]
async fn proxy_forwards_until_it_refuses_connections() {
    let (running, proxy) = behind_proxy().await;
    let client = client();
    assert_eq!(ask(&client, &proxy).send().await.unwrap().status(), 200);
    assert_eq!(proxy.connections(), 1);
    proxy.set(ProxyMode::Refuse).await.unwrap();
    assert!(ask(&client, &proxy).send().await.unwrap_err().is_connect());
    proxy.set(ProxyMode::Pass).await.unwrap();
    assert_eq!(ask(&client, &proxy).send().await.unwrap().status(), 200);
    assert_eq!(running.received().len(), 2);
    let url = proxy.url();
    drop(proxy);
    let mut is_gone = false;
    for _ in 0..100 {
        is_gone = client.get(&url).send().await.is_err();
        if is_gone {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_gone);
}

#[tokio::test]
async fn proxy_answers_a_number_of_requests_and_then_forwards() {
    let (running, proxy) = behind_proxy().await;
    let client = client();
    let wire = ProxyMode::Answer {
        status: 429,
        retry_after: Some(7),
        times: 2,
    };
    proxy.set(wire).await.unwrap();
    for _ in 0..2 {
        let response = ask(&client, &proxy).send().await.unwrap();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "7");
    }
    assert_eq!(running.received().len(), 0);
    assert_eq!(ask(&client, &proxy).send().await.unwrap().status(), 200);
    assert_eq!(running.received().len(), 1);
}

#[tokio::test]
async fn proxy_cuts_an_answer_after_a_number_of_bytes() {
    let (_running, proxy) = behind_proxy().await;
    proxy.set(ProxyMode::CutAfter(600)).await.unwrap();
    let response = ask(&client(), &proxy).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.bytes().await.is_err());
    proxy.set(ProxyMode::CutAfter(0)).await.unwrap();
    assert!(ask(&client(), &proxy).send().await.is_err());
}

#[tokio::test]
async fn proxy_delays_connections_and_bytes() {
    let (_running, proxy) = behind_proxy().await;
    proxy
        .set(ProxyMode::Delay(Duration::from_millis(100)))
        .await
        .unwrap();
    let begun = Instant::now();
    assert_eq!(ask(&client(), &proxy).send().await.unwrap().status(), 200);
    assert!(begun.elapsed() >= Duration::from_millis(100));

    let every = Duration::from_millis(1);
    proxy
        .set(ProxyMode::Drip { bytes: 7, every })
        .await
        .unwrap();
    let text = with(
        smallest(CHAT, "Translate to Greek: äöü θάλασσα"),
        json!({"stream": true}),
    );
    let request = client()
        .post(format!("{}{CHAT}", proxy.url()))
        .body(text.to_string());
    let mut stream = request.send().await.unwrap().bytes_stream();
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece.unwrap());
        pieces += 1;
    }
    assert!(pieces > 10);
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.contains("[simulated Greek]") && text.ends_with("[DONE]\n\n"),
        "{text}"
    );
}

#[tokio::test]
async fn proxy_mode_change_closes_connections() {
    let (running, proxy) = behind_proxy().await;
    let client = client();
    ask(&client, &proxy)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    ask(&client, &proxy)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_eq!(proxy.connections(), 1, "the client keeps its connection");
    proxy
        .set(ProxyMode::Answer {
            status: 500,
            retry_after: None,
            times: 1,
        })
        .await
        .unwrap();
    // Not over the connection that was open.
    let status = ask(&client, &proxy)
        .send()
        .await
        .map(|response| response.status().as_u16());
    assert!(status.is_err() || status.unwrap() == 500);
    assert_eq!(running.received().len(), 2);
}

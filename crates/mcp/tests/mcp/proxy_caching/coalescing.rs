//! Identical calls at the same time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cachalot_mcp::relay::{Exchange, Frame, FrameKind, RequestContext, Upstream as _};
use tokio::sync::Semaphore;

use super::fake::{
    FakeServer, Proxy, is_served, meta, read_only, response, status, tools, until, with_headers,
};

const POLICY: &str = "{tools: {read: {ttl: 1h}}}";

/// A server that reports progress once, and answers for a permit of the gate.
fn server(gate: &Arc<Semaphore>, asks: bool) -> Arc<FakeServer> {
    let gate = Arc::clone(gate);
    FakeServer::new(
        tools(&[("read", read_only())]),
        move |request, _, sender| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                if let Some(token) = request.progress_token() {
                    let params = format!("{{\"progressToken\":{token},\"progress\":1.0}}");
                    sender.send(Frame::notification("notifications/progress", &params));
                }
                gate.acquire().await.unwrap().forget();
                if asks {
                    sender.send(Frame::request("\"e\"", "elicitation/create", "{}"));
                }
                let response = Frame::response(request.id().unwrap(), r#"{"content":[]}"#);
                sender.send(response);
            })
        },
    )
}

async fn begin(proxy: &Proxy, id: usize, context: &RequestContext) -> Exchange {
    let meta = meta(&format!(",\"progressToken\":\"p{id}\""));
    let params = format!("{{\"name\":\"read\",\"arguments\":{{}},\"_meta\":{meta}}}");
    let request = Frame::request(&id.to_string(), "tools/call", &params);
    proxy.begin(request, context).await
}

async fn progress(exchange: &mut Exchange, id: usize) {
    let frame = exchange.next().await.unwrap();
    assert_eq!(frame.method(), "notifications/progress");
    assert_eq!(frame.progress_token(), Some(format!("\"p{id}\"").as_str()));
}

#[tokio::test]
async fn identical_calls_share_one_request_and_each_gets_its_progress() {
    for cancelled in [0, 2] {
        let gate = Arc::new(Semaphore::new(0));
        let server = server(&gate, false);
        let proxy = Proxy::new(&server, POLICY);
        let context = RequestContext::default();
        let mut exchanges = Vec::new();
        for id in 0..5 {
            let mut exchange = begin(&proxy, id, &context).await;
            progress(&mut exchange, id).await;
            exchanges.push((id, exchange));
        }
        // The caller that leads, or another one.
        drop(exchanges.remove(cancelled));
        tokio::task::yield_now().await;
        gate.add_permits(1);
        for (id, exchange) in &mut exchanges {
            let answer = response(exchange).await;
            assert_eq!(answer.id(), Some(id.to_string().as_str()));
            assert_eq!(status(&answer) == "coalesced", *id != 0, "{id}");
        }
        assert_eq!(server.count("tools/call"), 1);
        assert_eq!(server.cancelled.load(Ordering::SeqCst), 0);
        assert!(is_served(&proxy.call("read", "{}").await));
    }
}

#[tokio::test]
async fn the_server_is_told_when_the_last_caller_has_left() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate, false);
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext::default();
    let (mut one, mut two) = (
        begin(&proxy, 1, &context).await,
        begin(&proxy, 2, &context).await,
    );
    progress(&mut one, 1).await;
    progress(&mut two, 2).await;
    drop(one);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(server.cancelled.load(Ordering::SeqCst), 0);
    drop(two);
    until("the request is cancelled", || {
        server.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
    gate.add_permits(1);
    assert!(!is_served(&proxy.call("read", "{}").await));
}

/// The server has the call under the id of the caller that leads.
#[tokio::test]
async fn a_cancellation_of_one_caller_does_not_reach_the_server_while_others_wait() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate, false);
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext::default();
    let cancel = |id: usize| {
        let params = format!("{{\"requestId\":{id}}}");
        let message = Frame::notification("notifications/cancelled", &params);
        proxy.upstream.notify(message, RequestContext::default())
    };
    let (mut one, mut two) = (
        begin(&proxy, 1, &context).await,
        begin(&proxy, 2, &context).await,
    );
    progress(&mut one, 1).await;
    progress(&mut two, 2).await;
    cancel(1).await;
    gate.add_permits(1);
    assert_eq!(status(&response(&mut two).await), "coalesced");
    assert_eq!(server.count("tools/call"), 1);
    // The caller that has cancelled gets nothing, although it led.
    assert!(one.next().await.is_none());
    // A call of its own, whose only caller cancels it.
    server.ends.fetch_add(1, Ordering::SeqCst);
    let mut three = begin(&proxy, 3, &context).await;
    progress(&mut three, 3).await;
    cancel(3).await;
    assert!(three.next().await.is_none());
    until("the request is cancelled", || {
        server.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
    assert!(server.notified.lock().unwrap().is_empty());
    cancel(99).await;
    assert_eq!(server.notified.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn callers_with_other_credentials_do_not_share_a_request() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate, false);
    let proxy = Proxy::new(&server, POLICY);
    let mut exchanges = Vec::new();
    for (id, token) in ["a", "b"].into_iter().enumerate() {
        let context = with_headers(&[("authorization", token)]);
        exchanges.push(begin(&proxy, id, &context).await);
    }
    until("both reach the server", || server.count("tools/call") == 2).await;
    gate.add_permits(2);
    for exchange in &mut exchanges {
        assert_eq!(status(&response(exchange).await), "");
    }
}

#[tokio::test]
async fn a_question_of_the_server_reaches_the_caller_that_leads_and_the_others_ask_for_themselves()
{
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate, true);
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext::default();
    let (mut one, mut two) = (
        begin(&proxy, 1, &context).await,
        begin(&proxy, 2, &context).await,
    );
    progress(&mut one, 1).await;
    progress(&mut two, 2).await;
    assert_eq!(server.count("tools/call"), 1);
    gate.add_permits(2);
    for exchange in [&mut one, &mut two] {
        let mut questions = 0;
        let answer = loop {
            let frame = exchange.next().await.unwrap();
            match frame.kind() {
                FrameKind::Response => break frame,
                FrameKind::Request => questions += 1,
                FrameKind::Notification => {}
            }
        };
        assert_eq!((questions, status(&answer).as_str()), (1, ""));
    }
    assert_eq!(server.count("tools/call"), 2);
}

//! Clients that leave at every stage: others get whole answers, nothing waits for those that have left, and no half
//! answer is stored.

use std::time::Duration;

use cachalot_gateway::Limits;
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::ask::Ask;
use crate::fake_upstream::{FakeUpstream, Received, Step, answer, chunked, head, media};
use crate::formats::{APIS, Api};
use crate::support::{Setup, until};

const CHAT: &str = "/v1/chat/completions";

/// Sends a request, reads this number of bytes of the response, and closes the connection. Returns the number of
/// bytes that were read.
async fn leave_after(setup: &Setup, request: &[u8], bytes: usize) -> usize {
    let mut stream = TcpStream::connect(setup.gateway.address()).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut read = 0;
    let mut buffer = vec![0; bytes.max(1)];
    while read < bytes {
        match stream.read(&mut buffer[read..bytes]).await {
            Ok(count) if count > 0 => read += count,
            _ => break,
        }
    }
    read
}

/// An answer in pieces, with the number of its request in its text.
fn in_pieces(request: &Received, length: usize, pause: Duration) -> Vec<Step> {
    let is_streamed = request.json()["stream"] == true;
    let text = format!("answer {:05} of many words", request.number);
    let body = Api::Chat.answer(&text, is_streamed);
    let lines = "Transfer-Encoding: chunked\r\n";
    let mut steps = vec![Step::Send(
        head("200 OK", media(is_streamed), lines).into_bytes(),
    )];
    for piece in body.as_bytes().chunks(length) {
        steps.push(Step::Pause(pause));
        steps.push(Step::Send(chunked(&[piece], false)));
    }
    steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
    steps
}

async fn slow_upstream() -> FakeUpstream {
    FakeUpstream::start(|request| in_pieces(request, 40, Duration::from_millis(1))).await
}

async fn all<F: Future<Output = ()>>(checks: impl Iterator<Item = F>) -> usize {
    let checks = futures_util::stream::iter(checks).buffer_unordered(16);
    let checks: Vec<()> = checks.collect().await;
    checks.len()
}

#[tokio::test]
async fn clients_that_leave_within_their_request_take_no_room() {
    let upstream = slow_upstream().await;
    // Room for two connections, and for two bodies.
    let limits = Limits {
        connections: 2,
        body_bytes: 1_000,
        all_bodies_bytes: 2_048,
        body_timeout: Duration::from_secs(5),
        ..Limits::default()
    };
    let setup = Setup::in_front_of(upstream.address, limits).await;
    let sampled = r#"{"model": "m", "messages": [{"role": "user", "content": "x"}]}"#;
    let asks = [
        Ask::new(CHAT, Api::Chat.request("x", false)),
        Ask::new(CHAT, sampled),
        Ask::new("/p/coder/v1/chat/completions", sampled),
        Ask::new("/v1/files", "{}"),
    ];
    for ask in &asks {
        let request = ask.bytes(&setup);
        let before = upstream.count();
        for at in 0..request.len() {
            leave_after(&setup, &request[..at], 0).await;
        }
        // At once, and with its own answer.
        let got = tokio::time::timeout(Duration::from_secs(60), ask.send(&setup)).await;
        assert_eq!(got.unwrap().status, 200, "{ask:?}");
        assert_eq!(upstream.count() - before, 1, "{ask:?}");
    }
}

#[tokio::test]
async fn clients_that_leave_at_any_byte_do_not_harm_those_that_stay() {
    let upstream = slow_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    for is_streamed in [false, true] {
        let ask = |number: usize| {
            let text = format!("{is_streamed} {number:05}");
            Ask::new(CHAT, Api::Chat.request(&text, is_streamed))
        };
        let before = upstream.count();
        let length = {
            let request = ask(99_999).with("connection", "close").bytes(&setup);
            leave_after(&setup, &request, 100_000).await
        };
        assert!(length > 300, "{length}");
        let (setup, upstream) = (&setup, &upstream);
        let checked = all((0..length).map(|at| async move {
            let request = ask(at).with("connection", "close").bytes(setup);
            let leave = leave_after(setup, &request, at);
            let stay = async {
                let received = upstream.count();
                while upstream.count() == received {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
                ask(at).receive(setup).await
            };
            let (_, got) = tokio::join!(leave, stay);
            assert!(got.status == 200 && got.is_whole, "{at}");
            let text = Api::Chat.text(is_streamed, &got.text());
            assert!(text.ends_with(" of many words"), "{at}: {text}");
            ask(at).stored(setup).await;
            let again = ask(at).receive(setup).await;
            assert_eq!((again.source(), &again.bytes), ("hit", &got.bytes), "{at}");
        }))
        .await;
        assert_eq!(upstream.count() - before, checked + 1);
    }
}

/// Many clients of one run leave, each at a byte of its own; the last one gets everything.
#[tokio::test]
async fn last_client_of_a_run_gets_the_whole_answer() {
    for is_streamed in [false, true] {
        let upstream =
            FakeUpstream::start(|request| in_pieces(request, 7, Duration::from_millis(1))).await;
        let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
        let ask = Ask::new(CHAT, Api::Chat.request("x", is_streamed));
        let request = ask.clone().with("connection", "close").bytes(&setup);
        let leaving = (0..60).map(|at| leave_after(&setup, &request, at * 12));
        let leaving = futures_util::future::join_all(leaving);
        let (_, got) = tokio::join!(leaving, ask.receive(&setup));
        assert!(got.is_whole);
        let text = Api::Chat.text(is_streamed, &got.text());
        assert_eq!(text, "answer 00000 of many words");
        assert_eq!(upstream.count(), 1);
        ask.stored(&setup).await;
    }
}

/// The client whose request is sent leaves before the answer begins; those that wait for it get it.
#[tokio::test]
async fn followers_get_the_answer_of_a_client_that_has_left() {
    for api in APIS {
        for is_streamed in [false, true] {
            let (open, opened) = watch::channel(false);
            let upstream = FakeUpstream::start(move |_| {
                let mut steps = vec![Step::Until(opened.clone())];
                let body = api.answer("a b c d", is_streamed);
                steps.extend(answer("200 OK", media(is_streamed), &body));
                steps
            })
            .await;
            let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
            let ask = Ask::new(api.path(is_streamed), api.request("x", is_streamed));
            let mut leader = TcpStream::connect(setup.gateway.address()).await.unwrap();
            leader.write_all(&ask.bytes(&setup)).await.unwrap();
            while upstream.count() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let following = futures_util::future::join_all((0..5).map(|_| ask.send(&setup)));
            let leaving = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(leader);
                tokio::time::sleep(Duration::from_millis(20)).await;
                open.send_replace(true);
            };
            let (answers, ()) = tokio::join!(following, leaving);
            for got in answers {
                assert_eq!((got.status, got.source()), (200, "collapsed"), "{api:?}");
                assert_eq!(api.text(is_streamed, &got.body), "a b c d");
            }
            assert_eq!(upstream.count(), 1, "{api:?} {is_streamed}");
        }
    }
}

/// A sampled answer that its client did not get completely goes to one retry; an answer is never given twice to
/// clients that got it.
#[tokio::test]
async fn sampled_answers_that_were_left_at_any_byte_go_to_one_retry() {
    let upstream = slow_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let ask = |number: usize, is_streamed: bool| {
        let body = format!(
            r#"{{"model": "m", "stream": {is_streamed}, "messages": [{{"role": "user", "content": "{number:05}"}}]}}"#
        );
        Ask::new(CHAT, body)
    };
    for is_streamed in [false, true] {
        let length = {
            let request = ask(99_999, is_streamed).with("connection", "close");
            leave_after(&setup, &request.bytes(&setup), 100_000).await
        };
        let setup = &setup;
        all((0..=length)
            .step_by(3)
            .chain([length])
            .enumerate()
            .map(|(number, at)| async move {
                let ask = ask(number, is_streamed);
                let request = ask.clone().with("connection", "close").bytes(setup);
                let read = leave_after(setup, &request, at).await;
                assert_eq!(read, at);
                let mut texts = Vec::new();
                for _ in 0..3 {
                    let got = ask.receive(setup).await;
                    assert!(got.status == 200 && got.is_whole, "{at}");
                    texts.push(Api::Chat.text(is_streamed, &got.text()));
                }
                assert!(
                    texts.iter().all(|text| text.ends_with(" of many words")),
                    "{texts:?}"
                );
                texts.sort();
                texts.dedup();
                assert_eq!(texts.len(), 3, "{at}: {texts:?}");
            }))
        .await;
    }
}

/// A client that leaves an answer of its agent's run gets the same one when it asks again, whichever byte it left at.
#[tokio::test]
async fn samples_of_an_agent_keep_their_order_when_clients_leave() {
    let upstream = slow_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let ask = |run: usize, number: usize| {
        let body = format!(
            r#"{{"model": "m", "stream": true, "messages": [{{"role": "user", "content": "{number:05}"}}]}}"#
        );
        Ask::new(&format!("/p/coder/r/{run}/v1/chat/completions"), body)
    };
    let setup = &setup;
    all((0..600).step_by(20).map(|at| async move {
        let mut samples = Vec::new();
        for _ in 0..2 {
            let request = ask(1, at).with("connection", "close").bytes(setup);
            leave_after(setup, &request, at).await;
            let got = ask(1, at).receive(setup).await;
            assert!(got.status == 200 && got.is_whole, "{at}");
            samples.push(got.bytes);
        }
        assert_ne!(samples[0], samples[1], "{at}");
        // A second run: its samples are those of the first one, in their order.
        let mut again = Vec::new();
        for _ in 0..4 {
            again.push(ask(2, at).receive(setup).await.bytes);
        }
        let at_first = again.iter().position(|sample| *sample == samples[0]);
        let at_second = again.iter().position(|sample| *sample == samples[1]);
        assert!(at_first.is_some() && at_first < at_second, "{at}");
        again.sort();
        again.dedup();
        assert_eq!(again.len(), 4, "{at}");
    }))
    .await;
}

/// A request whose answer is never stored ends with its client, at every stage.
#[tokio::test]
async fn requests_that_are_never_stored_end_with_their_clients() {
    let upstream = FakeUpstream::start(|_| {
        let event = Api::Chat.events("a b c d")[0].clone();
        vec![
            Step::Pause(Duration::from_millis(5)),
            Step::Send(head("200 OK", media(true), "").into_bytes()),
            Step::Forever(event.into_bytes()),
        ]
    })
    .await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let never = r#"{"model": "m", "stream": true, "messages": [], "unknown_member": 1}"#;
    for ask in [Ask::new(CHAT, never), Ask::new("/v1/files", "{}")] {
        let request = ask.bytes(&setup);
        for at in [0, 1, 10, 100, 300, 1_000, 5_000] {
            leave_after(&setup, &request, at).await;
        }
        until(async || upstream.open() == 0).await;
    }
}

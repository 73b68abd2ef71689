//! Answers that are broken in every way: the client sees what it would see without the gateway, and nothing of them is
//! stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_gateway::Limits;
use futures_util::StreamExt as _;
use serde_json::json;

use crate::ask::{Arrived, Ask};
use crate::fake_upstream::{FakeUpstream, Step, answer, chunked, head, media};
use crate::formats::{APIS, Api};
use crate::support::{Setup, until};

/// An upstream that plays the answers of a list: the text of a request is the number of its answer.
async fn with_answers(answers: Vec<Vec<Step>>) -> (FakeUpstream, Setup) {
    let upstream = FakeUpstream::start(move |request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let number = body.split("answer ").nth(1).unwrap();
        let number: usize = number.split('"').next().unwrap().parse().unwrap();
        answers[number].clone()
    })
    .await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    (upstream, setup)
}

fn numbered(api: Api, is_streamed: bool, number: usize) -> Ask {
    let request = api.request(&format!("answer {number}"), is_streamed);
    Ask::new(api.path(is_streamed), request)
}

/// Checks that an answer through the gateway is the one without it.
fn assert_same(through: &Arrived, direct: &Arrived, name: &str) {
    assert_eq!(through.status, direct.status, "{name}: {}", through.text());
    assert_eq!(
        through.is_whole,
        direct.is_whole,
        "{name}: {}",
        through.text()
    );
    assert_eq!(through.text(), direct.text(), "{name}");
    for (wanted, value) in &direct.headers {
        if !matches!(wanted.as_str(), "connection" | "transfer-encoding") {
            assert_eq!(through.headers.get(wanted), Some(value), "{name}: {wanted}");
        }
    }
}

/// Asks twice for each answer: nothing is stored, and both responses are those of the upstream.
async fn assert_never_stored(api: Api, is_streamed: bool, answers: Vec<(String, Vec<Step>)>) {
    let (names, answers): (Vec<String>, Vec<Vec<Step>>) = answers.into_iter().unzip();
    let (upstream, setup) = with_answers(answers).await;
    let (upstream, setup) = (Arc::new(upstream), Arc::new(setup));
    let checks = names.into_iter().enumerate().map(|(number, name)| {
        let (upstream, setup) = (Arc::clone(&upstream), Arc::clone(&setup));
        async move {
            let name = format!("{api:?}, streamed: {is_streamed}: {name}");
            let ask = numbered(api, is_streamed, number);
            let direct = ask.receive_from(&setup, upstream.address).await;
            for _ in 0..2 {
                let through = ask.receive(&setup).await;
                assert_eq!(through.source(), "miss", "{name}: {:?}", through.headers);
                assert_same(&through, &direct, &name);
            }
            assert!(!ask.is_stored(&setup).await, "{name}");
        }
    });
    let checks: Vec<()> = futures_util::stream::iter(checks)
        .buffer_unordered(16)
        .collect()
        .await;
    // Directly, and twice through the gateway.
    assert_eq!(upstream.count(), checks.len() * 3);
}

/// The ways in which an answer ends too early.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// Within a chunk: the client sees that something is missing.
    InChunks,
    /// With the connection, as of a proxy that gave up: the client sees an end.
    Ended,
    /// With a last chunk.
    LastChunk,
    /// Before the announced length.
    Short,
}

impl Cut {
    fn answer(self, media: &str, body: &[u8], at: usize) -> Vec<Step> {
        let (one, two) = body[..at].split_at(at / 2);
        let chunks = "Transfer-Encoding: chunked\r\n";
        let length = format!("Content-Length: {}\r\n", body.len());
        let (lines, body) = match self {
            Self::InChunks => (chunks, chunked(&[one, two], false)),
            Self::Ended => ("", body[..at].to_vec()),
            Self::LastChunk => (chunks, chunked(&[one, two], true)),
            Self::Short => (&*length, body[..at].to_vec()),
        };
        let mut bytes = head("200 OK", media, lines).into_bytes();
        bytes.extend_from_slice(&body);
        vec![Step::Send(bytes)]
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Ended | Self::LastChunk)
    }
}

/// Cuts the answers of an API at every byte; twice each, so that a stored half would be served.
async fn cut_everywhere(api: Api) {
    for is_streamed in [false, true] {
        let body = api.answer("ab", is_streamed).into_bytes();
        let cuts = [Cut::InChunks, Cut::Ended, Cut::LastChunk, Cut::Short];
        let cuts: Vec<(usize, Cut)> = (0..body.len())
            .flat_map(|at| {
                let selected: &[Cut] = match at {
                    // All ways at the first bytes and at the last ones, one at each of the others.
                    at if at < 4 || at + 8 > body.len() => &cuts,
                    at => &cuts[at % 4..=at % 4],
                };
                selected.iter().map(move |cut| (at, *cut))
            })
            .collect();
        let media = media(is_streamed);
        let answers = cuts.iter().map(|(at, cut)| cut.answer(media, &body, *at));
        let (upstream, setup) = with_answers(answers.collect()).await;
        let checks = cuts.iter().enumerate().map(|(number, (at, cut))| {
            let (setup, body) = (&setup, &body);
            async move {
                let name = format!("{api:?}, streamed: {is_streamed}: {cut:?} at {at}");
                for _ in 0..2 {
                    let got = numbered(api, is_streamed, number).receive(setup).await;
                    assert_eq!((got.status, got.source()), (200, "miss"), "{name}");
                    assert_eq!(got.is_whole, cut.is_whole(), "{name}");
                    assert_eq!(got.text(), String::from_utf8_lossy(&body[..*at]), "{name}");
                }
            }
        });
        let checks: Vec<()> = futures_util::stream::iter(checks)
            .buffer_unordered(16)
            .collect()
            .await;
        assert_eq!(upstream.count(), checks.len() * 2);
    }
}

#[tokio::test]
async fn chat_answers_that_are_cut_off_at_any_byte_are_not_stored() {
    cut_everywhere(Api::Chat).await;
}

#[tokio::test]
async fn responses_that_are_cut_off_at_any_byte_are_not_stored() {
    cut_everywhere(Api::Responses).await;
}

#[tokio::test]
async fn messages_that_are_cut_off_at_any_byte_are_not_stored() {
    cut_everywhere(Api::Messages).await;
}

#[tokio::test]
async fn gemini_answers_that_are_cut_off_at_any_byte_are_not_stored() {
    cut_everywhere(Api::Gemini).await;
}

#[tokio::test]
async fn interactions_that_are_cut_off_at_any_byte_are_not_stored() {
    cut_everywhere(Api::Interactions).await;
}

/// The bytes of an answer with the status, the media type and the length that belong to it.
fn plain(api_body: &str, is_streamed: bool) -> Vec<Step> {
    answer("200 OK", media(is_streamed), api_body)
}

#[tokio::test]
async fn documents_that_are_no_answers_are_not_stored() {
    for api in APIS {
        let document = api.document("ab");
        let mut with_error = document.clone();
        with_error["error"] = api.error()["error"].clone();
        let mut answers = vec![
            ("error".to_owned(), api.error().to_string()),
            ("answer with an error".to_owned(), with_error.to_string()),
            ("null".to_owned(), "null".to_owned()),
            ("empty object".to_owned(), "{}".to_owned()),
            ("empty list".to_owned(), "[]".to_owned()),
            ("text".to_owned(), "\"ab\"".to_owned()),
            ("nothing".to_owned(), String::new()),
            ("page".to_owned(), "<html>Bad Gateway</html>".to_owned()),
            ("list of one".to_owned(), json!([document]).to_string()),
            ("two documents".to_owned(), format!("{document}{document}")),
            ("more behind it".to_owned(), format!("{document} x")),
            ("events".to_owned(), api.answer("ab", true)),
            (
                "a stray sign".to_owned(),
                document.to_string().replacen(':', "::", 1),
            ),
        ];
        for (member, _) in document.as_object().unwrap() {
            if matches!(
                (api, member.as_str()),
                (Api::Chat, "choices")
                    | (Api::Responses, "status" | "output")
                    | (Api::Messages, "content" | "stop_reason")
                    | (Api::Gemini, "candidates")
                    | (Api::Interactions, "status" | "steps")
            ) {
                let mut without = document.clone();
                without.as_object_mut().unwrap().remove(member);
                answers.push((format!("without {member}"), without.to_string()));
            }
        }
        let ends = match api {
            Api::Chat => (
                "/choices/0/finish_reason",
                ["length", "content_filter", "surprise"],
            ),
            Api::Responses | Api::Interactions => {
                ("/status", ["incomplete", "failed", "in_progress"])
            }
            Api::Messages => ("/stop_reason", ["max_tokens", "refusal", "pause_turn"]),
            Api::Gemini => (
                "/candidates/0/finishReason",
                ["MAX_TOKENS", "SAFETY", "OTHER"],
            ),
        };
        for end in ends.1 {
            let mut document = document.clone();
            *document.pointer_mut(ends.0).unwrap() = json!(end);
            answers.push((format!("ended with {end}"), document.to_string()));
        }
        let answers = answers
            .into_iter()
            .map(|(name, body)| (name, plain(&body, false)));
        assert_never_stored(api, false, answers.collect()).await;
    }
}

#[tokio::test]
async fn documents_with_another_status_or_form_are_not_stored() {
    for api in APIS {
        for is_streamed in [false, true] {
            let body = api.answer("ab", is_streamed);
            let media = media(is_streamed);
            let mut answers = Vec::new();
            for status in [
                "201 Created",
                "202 Accepted",
                "203 Non-Authoritative Information",
                "206 Partial Content",
                "226 IM Used",
                "300 Multiple Choices",
                "400 Bad Request",
                "401 Unauthorized",
                "403 Forbidden",
                "404 Not Found",
                "408 Request Timeout",
                "429 Too Many Requests",
                "500 Internal Server Error",
                "503 Service Unavailable",
                "529 Overloaded",
                "599 x",
            ] {
                answers.push((status.to_owned(), answer(status, media, &body)));
            }
            for other in ["text/html", "text/plain", "application/octet-stream", "x"] {
                answers.push((other.to_owned(), answer("200 OK", other, &body)));
            }
            for coding in ["gzip", "br", "zstd", "deflate"] {
                let length = body.len();
                let lines = format!("Content-Encoding: {coding}\r\nContent-Length: {length}\r\n");
                let bytes = format!("{}{body}", head("200 OK", media, &lines)).into_bytes();
                // A client without a decoder, as that of this test.
                answers.push((coding.to_owned(), vec![Step::Send(bytes)]));
            }
            let lines = format!(
                "Content-Range: bytes 0-9/100\r\nContent-Length: {}\r\n",
                body.len()
            );
            let partial = format!("{}{body}", head("206 Partial Content", media, &lines));
            answers.push(("a range".to_owned(), vec![Step::Send(partial.into_bytes())]));
            assert_never_stored(api, is_streamed, answers).await;
        }
    }
}

#[tokio::test]
async fn streams_with_errors_or_without_an_end_are_not_stored() {
    for api in APIS {
        let events = api.events("a b c d");
        let mut answers = Vec::new();
        // An error at every place, the last one included.
        for at in 0..=events.len() {
            let mut with_error = events.clone();
            with_error.insert(at, api.error_event());
            answers.push((format!("error as event {at}"), with_error.concat()));
            answers.push((
                format!("error after {at} events"),
                format!("{}{}", events[..at].concat(), api.error_event()),
            ));
        }
        // Without the event that ends it, and those before.
        for at in 0..events.len() {
            answers.push((format!("only {at} events"), events[..at].concat()));
        }
        for (name, body) in [
            ("nothing", String::new()),
            ("comments", ": ping\n\n: ping\n\n".to_owned()),
            ("a document", api.document("ab").to_string()),
            ("an error as a document", api.error().to_string()),
            ("a page", "<html>Bad Gateway</html>".to_owned()),
            (
                "malformed JSON in an event",
                events.concat().replacen("data: {", "data: {{", 1),
            ),
            (
                "a last event without its blank line",
                events.concat().trim_end().to_owned(),
            ),
            (
                "NUL in an event",
                events.concat().replacen("data: {", "data: {\0", 1),
            ),
        ] {
            answers.push((name.to_owned(), body));
        }
        let mut ends = match api {
            Api::Chat => ("\"stop\"", vec!["\"length\"", "\"content_filter\"", "null"]),
            Api::Responses => ("", Vec::new()),
            Api::Messages => (
                "\"end_turn\"",
                vec!["\"max_tokens\"", "\"refusal\"", "\"pause_turn\""],
            ),
            Api::Interactions => (
                "\"completed\"",
                vec!["\"incomplete\"", "\"failed\"", "\"budget_exceeded\""],
            ),
            Api::Gemini => (
                "\"STOP\"",
                vec!["\"MAX_TOKENS\"", "\"SAFETY\"", "\"OTHER\""],
            ),
        };
        for end in ends.1.drain(..) {
            let body = events.concat().replace(ends.0, end);
            answers.push((format!("ended with {end}"), body));
        }
        let answers = answers
            .into_iter()
            .map(|(name, body)| (name, plain(&body, true)));
        assert_never_stored(api, true, answers.collect()).await;
    }
}

/// Unusual lines that the format of events permits: the bytes are passed on and replayed as they are.
#[tokio::test]
async fn unusual_but_valid_streams_are_replayed_byte_for_byte() {
    for api in APIS {
        let events = api.events("a b c d");
        let all = events.concat();
        let between = |text: &str| events.join(text);
        let answers: Vec<(&str, String)> = vec![
            ("comments", between(": ping\n\n")),
            ("comments in events", all.replace("data: ", ":x\ndata: ")),
            ("ids", all.replace("data: ", "id: 1\ndata: ")),
            ("retries", all.replace("data: ", "retry: 10\ndata: ")),
            (
                "unknown fields",
                all.replace("data: ", "unknown: 1\nx\ndata: "),
            ),
            (
                "no space",
                all.replace("data: ", "data:").replace("event: ", "event:"),
            ),
            ("carriage returns", all.replace('\n', "\r\n")),
            ("carriage returns alone", all.replace('\n', "\r")),
            ("blank lines", between("\n\n\n\n")),
            ("byte order mark", format!("\u{feff}{all}")),
            ("two data lines", all.replace("data: {", "data: {\ndata: ")),
            ("comments at the end", format!("{all}: end\n\n")),
        ];
        let steps = answers.iter().map(|(_, body)| plain(body, true));
        let (upstream, setup) = with_answers(steps.collect()).await;
        for (number, (name, body)) in answers.iter().enumerate() {
            let name = format!("{api:?}: {name}");
            let ask = numbered(api, true, number);
            let direct = ask.receive_from(&setup, upstream.address).await;
            assert_eq!(direct.bytes, body.as_bytes(), "{name}");
            let through = ask.receive(&setup).await;
            assert_same(&through, &direct, &name);
            // Storing is permitted, and demanded where servers do so.
            let must_be_stored = !name.contains("alone") && !name.contains("mark");
            if must_be_stored {
                ask.stored(&setup).await;
            }
            let again = ask.receive(&setup).await;
            assert_eq!(again.bytes, direct.bytes, "{name}");
            assert!(!must_be_stored || again.source() == "hit", "{name}");
        }
    }
}

/// Bytes that are no UTF-8 reach the client.
#[tokio::test]
async fn bytes_that_are_no_text_are_passed_on() {
    for api in APIS {
        for is_streamed in [false, true] {
            let mut bytes = api.answer("ab#cd", is_streamed).into_bytes();
            for byte in &mut bytes {
                if *byte == b'#' {
                    *byte = 0xff;
                }
            }
            let mut sent = head("200 OK", media(is_streamed), "").into_bytes();
            sent.extend_from_slice(&bytes);
            let (upstream, setup) = with_answers(vec![vec![Step::Send(sent)]]).await;
            let ask = numbered(api, is_streamed, 0);
            for _ in 0..3 {
                let got = ask.receive(&setup).await;
                assert_eq!(
                    (got.status, &got.bytes),
                    (200, &bytes),
                    "{api:?} {is_streamed}"
                );
            }
            drop(upstream);
        }
    }
}

/// Answers that are no HTTP, or whose length is unclear: an error of the gateway, or what the upstream sent.
#[tokio::test]
async fn answers_that_are_no_http_are_errors() {
    let body = Api::Chat.answer("ab", false);
    let length = body.len();
    let json = "Content-Type: application/json";
    let answers = [
        "HTTP/1.1".to_owned(),
        "HTTP/1.1 abc OK\r\n\r\n".to_owned(),
        "HTTP/1.1 99 OK\r\n\r\n".to_owned(),
        "SSH-2.0-OpenSSH_9.0\r\n".to_owned(),
        "\0\0\0\0".to_owned(),
        String::new(),
        body.clone(),
        format!(
            "HTTP/1.1 200 OK\r\n{json}\r\nContent-Length: {length}\r\nContent-Length: 5\r\n\r\n{body}"
        ),
        format!("HTTP/1.1 200 OK\r\n{json}\r\nContent-Length: -1\r\n\r\n{body}"),
        format!("HTTP/1.1 200 OK\r\n{json}\r\nContent-Length: 99999999999999999999\r\n\r\n{body}"),
        format!("HTTP/1.1 200 OK\r\n{json}\r\nbad header\0: x\r\n\r\n{body}"),
        format!(
            "HTTP/1.1 200 OK\r\n{}\r\n{body}",
            "x-header: x\r\n".repeat(200)
        ),
    ];
    let steps = answers
        .iter()
        .map(|answer| vec![Step::Send(answer.clone().into_bytes())]);
    let (upstream, setup) = with_answers(steps.collect()).await;
    for (number, sent) in answers.iter().enumerate() {
        let ask = numbered(Api::Chat, false, number);
        for _ in 0..2 {
            let before = upstream.count();
            let got = ask.receive(&setup).await;
            assert_eq!(got.status, 502, "{sent:?}: {}", got.text());
            let error: serde_json::Value = serde_json::from_slice(&got.bytes).unwrap();
            assert_eq!(error["error"]["code"], "upstream_disconnected", "{sent:?}");
            assert_eq!(upstream.count() - before, 1, "{sent:?}: sent again");
        }
        assert!(!ask.is_stored(&setup).await, "{sent:?}");
    }
}

/// A body that is longer than announced: the announced part counts.
#[tokio::test]
async fn bytes_after_the_announced_length_reach_nobody() {
    let body = Api::Chat.answer("ab", false);
    let smuggled = answer(
        "200 OK",
        "application/json",
        &Api::Chat.answer("smuggled", false),
    );
    let Step::Send(smuggled) = &smuggled[0] else {
        panic!()
    };
    let mut sent = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes();
    sent.extend_from_slice(smuggled);
    let plain_answer = answer(
        "200 OK",
        "application/json",
        &Api::Chat.answer("own", false),
    );
    let (_upstream, setup) = with_answers(vec![vec![Step::Send(sent)], plain_answer]).await;
    for round in 0..20 {
        let got = numbered(Api::Chat, false, 0).receive(&setup).await;
        assert_eq!(got.text(), body, "{round}");
        let next = numbered(Api::Chat, false, 1).with("cache-control", "no-store");
        let next = next.receive(&setup).await;
        assert_eq!(Api::Chat.text(false, &next.text()), "own", "{round}");
    }
}

/// Every client of a storm sees its error with the time to wait; the gateway adds no requests of its own.
#[tokio::test]
async fn clients_see_each_refusal_of_a_storm() {
    for (api, is_streamed) in [(Api::Chat, false), (Api::Messages, true)] {
        let upstream = FakeUpstream::start(move |request| {
            let mut steps = vec![Step::Pause(Duration::from_millis(20))];
            if request.number < 60 {
                let body = api.error().to_string();
                let lines = format!(
                    "Retry-After: 7\r\nx-ratelimit-remaining: 0\r\nContent-Length: {}\r\n",
                    body.len()
                );
                let head = head("429 Too Many Requests", "application/json", &lines);
                steps.push(Step::Send(format!("{head}{body}").into_bytes()));
            } else {
                steps.extend(plain(&api.answer("ab", is_streamed), is_streamed));
            }
            steps
        })
        .await;
        let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
        let ask = Ask::new(api.path(is_streamed), api.request("x", is_streamed));
        for round in 1..=3 {
            let asking = futures_util::future::join_all((0..20).map(|_| ask.send(&setup)));
            for got in asking.await {
                assert_eq!(got.status, 429);
                assert_eq!(got.headers["retry-after"], "7");
                assert_eq!(got.headers["x-ratelimit-remaining"], "0");
                assert_eq!(got.body, api.error().to_string());
                assert!(!got.headers.contains_key("age"));
            }
            assert_eq!(upstream.count(), 20 * round);
        }
        let asking = futures_util::future::join_all((0..20).map(|_| ask.send(&setup)));
        assert!(asking.await.iter().all(|got| got.status == 200));
        assert_eq!(upstream.count(), 61);
        ask.stored(&setup).await;
    }
}

/// A follower sees the error of its own request, never half of the answer of another one.
#[tokio::test]
async fn followers_of_a_stream_that_is_cut_off_get_no_answer_as_complete() {
    for api in APIS {
        let upstream = FakeUpstream::start(move |request| {
            let events = api.events("a b c d");
            let head = head("200 OK", media(true), "Transfer-Encoding: chunked\r\n");
            let mut steps = vec![
                Step::Pause(Duration::from_millis(30)),
                Step::Send(head.into_bytes()),
                Step::Send(chunked(&[events[0].as_bytes()], false)),
                Step::Pause(Duration::from_millis(20)),
            ];
            if request.number > 0 {
                let rest = events[1..].concat();
                steps.push(Step::Send(chunked(&[rest.as_bytes()], true)));
            }
            steps
        })
        .await;
        let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
        let ask = Ask::new(api.path(true), api.request("x", true));
        let asking = futures_util::future::join_all((0..10).map(|_| ask.receive(&setup)));
        let mut outcomes: BTreeMap<bool, usize> = BTreeMap::new();
        for got in asking.await {
            assert_eq!(got.status, 200, "{api:?}");
            let expected = api.answer("a b c d", true);
            assert_eq!(
                got.is_whole,
                got.text() == expected,
                "{api:?}: {}",
                got.text()
            );
            assert!(expected.starts_with(&got.text()));
            *outcomes.entry(got.is_whole).or_default() += 1;
        }
        // Those that joined before the cut have seen its beginning.
        assert!(outcomes.contains_key(&false), "{api:?}");
        let again = ask.receive(&setup).await;
        assert!(again.is_whole, "{api:?}");
        assert_eq!(api.text(true, &again.text()), "a b c d");
    }
}

/// A slow answer is one call; the head arrives when the upstream sends it, and each event at once.
#[tokio::test]
async fn slow_answers_are_passed_on_as_they_arrive() {
    let (open, opened) = tokio::sync::watch::channel(false);
    let upstream = FakeUpstream::start(move |_| {
        let mut steps = vec![
            Step::Pause(Duration::from_millis(100)),
            Step::Send(head("200 OK", media(true), "").into_bytes()),
        ];
        let events = Api::Chat.events("a b c d");
        steps.push(Step::Send(events[0].clone().into_bytes()));
        steps.push(Step::Until(opened.clone()));
        steps.push(Step::Send(events[1..].concat().into_bytes()));
        steps
    })
    .await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let ask = Ask::new(Api::Chat.path(true), Api::Chat.request("x", true));
    let mut responses = Vec::new();
    for _ in 0..3 {
        let mut response = ask.request(&setup).send().await.unwrap();
        let first = response.chunk().await.unwrap().unwrap();
        assert_eq!(first, Api::Chat.events("a b c d")[0]);
        responses.push(response);
    }
    open.send_replace(true);
    for response in responses {
        let rest = response.text().await.unwrap();
        assert_eq!(rest, Api::Chat.events("a b c d")[1..].concat());
    }
    assert_eq!(upstream.count(), 1);
}

/// An endless stream ends with its client if its answer is never stored, and at the limit otherwise.
#[tokio::test]
async fn endless_streams_end() {
    let upstream = FakeUpstream::start(|_| {
        let event = Api::Chat.events("a b c d")[0].clone();
        vec![
            Step::Send(head("200 OK", media(true), "").into_bytes()),
            Step::Forever(event.repeat(20).into_bytes()),
        ]
    })
    .await;
    let limits = Limits {
        answer_bytes: 200_000,
        ..Limits::default()
    };
    let setup = Setup::in_front_of(upstream.address, limits).await;
    let never = r#"{"model": "m", "stream": true, "messages": [], "unknown_member": 1}"#;
    for (body, maximum) in [
        (never.to_owned(), 100_000_000),
        (Api::Chat.request("x", true).to_string(), 1_000_000),
    ] {
        let before = upstream.sent();
        let mut response = Ask::new(Api::Chat.path(true), body)
            .request(&setup)
            .send()
            .await
            .unwrap();
        assert!(response.chunk().await.unwrap().is_some());
        assert_eq!(upstream.open(), 1);
        drop(response);
        until(async || upstream.open() == 0).await;
        assert!(upstream.sent() - before < maximum);
    }
}

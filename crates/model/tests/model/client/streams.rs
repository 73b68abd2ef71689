//! Answers that come in pieces, and those that do not come as they were asked for.

use cachalot_model::{Block, Delta, ErrorKind, StopReason};
use proptest::prelude::*;

use super::{Answer, Server, ask, events, model, stream, whole};

fn text(pieces: &[Delta]) -> String {
    pieces
        .iter()
        .map(|delta| match delta {
            Delta::Text(text) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn stream_emits_deltas_and_the_complete_answer() {
    let server = Server::start([Answer::stream(&events(&["Two ", "thousand."]))]).await;
    let model = model(&server);
    let (reply, deltas) = stream(&model).await;
    let reply = reply.unwrap();
    assert_eq!(
        deltas,
        [Delta::Text("Two ".into()), Delta::Text("thousand.".into())]
    );
    assert_eq!(
        (reply.message.text().as_str(), reply.stop),
        ("Two thousand.", StopReason::End)
    );
    let usage = reply.usage.unwrap();
    assert_eq!((usage.total_input(), usage.output), (12, 3));
    let asked = server.only();
    assert_eq!(asked.header("accept"), Some("text/event-stream"));
    assert_eq!(asked.json()["stream"], true);
}

#[tokio::test]
async fn connection_of_a_stream_is_reused() {
    let server = Server::start([Answer::stream(&events(&["x"]))]).await;
    let model = model(&server);
    for _ in 0..3 {
        stream(&model).await.0.unwrap();
    }
    assert_eq!((server.asked().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn stream_left_open_after_its_end_is_complete() {
    let open = Answer::head("text/event-stream").chunks(&events(&["Deep"]));
    let server = Server::start([open.hang()]).await;
    assert_eq!(
        stream(&model(&server)).await.0.unwrap().message.text(),
        "Deep"
    );
    server.until_gone().await;
}

#[tokio::test]
async fn whole_answer_is_accepted_for_a_stream_request() {
    let calls = r#"{"choices":[{"message":{"role":"assistant","content":"Let me see.","tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a\"}"}},
        {"id":"call_2","type":"function","function":{"name":"list_dir","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let server = Server::start([Answer::json(200, calls)]).await;
    let (reply, deltas) = stream(&model(&server)).await;
    let reply = reply.unwrap();
    let is_call = |block: &&Block| matches!(block, Block::ToolUse(_));
    assert_eq!(reply.message.content.iter().filter(is_call).count(), 2);
    let tool = |index, id: &str, name: &str| Delta::ToolUse {
        index,
        id: id.into(),
        name: name.into(),
    };
    let arguments = |index, text: &str| Delta::Arguments {
        index,
        text: text.into(),
    };
    assert_eq!(
        deltas,
        [
            Delta::Text("Let me see.".into()),
            tool(0, "call_1", "read_file"),
            arguments(0, r#"{"path":"a"}"#),
            tool(1, "call_2", "list_dir"),
            arguments(1, "{}"),
        ]
    );
}

#[tokio::test]
async fn stream_is_accepted_for_a_whole_request() {
    let server = Server::start([Answer::stream(&events(&["Two ", "thousand."]))]).await;
    assert_eq!(
        ask(&model(&server)).await.unwrap().message.text(),
        "Two thousand."
    );
}

#[tokio::test]
async fn content_type_of_the_response_is_ignored() {
    for content_type in ["text/plain", "application/json", "application/octet-stream"] {
        let answer = Answer::head(content_type).chunks(&events(&["Deep"])).end();
        let server = Server::start([answer]).await;
        assert_eq!(
            text(&stream(&model(&server)).await.1),
            "Deep",
            "{content_type}"
        );
    }
    let body = format!(" \r\n{}", whole("Deep"));
    let server = Server::start([Answer::of(
        200,
        &[("content-type", "text/event-stream")],
        &body,
    )])
    .await;
    assert_eq!(text(&stream(&model(&server)).await.1), "Deep");
}

#[tokio::test]
async fn truncated_stream_is_an_error() {
    let pieces = &events(&["Deep", "er"])[..2];
    let begun = Answer::head("text/event-stream").chunks(pieces);
    for cut in [begun.clone().end(), begun.clone().close(), begun.reset()] {
        let server = Server::start([cut]).await;
        let (reply, deltas) = stream(&model(&server)).await;
        let error = reply.unwrap_err();
        assert_eq!(error.kind, ErrorKind::CutOff);
        assert_eq!(error.provider.as_deref(), Some("openai"));
        assert_eq!(error.request_id.as_deref(), Some("req-7"));
        assert!(deltas.len() <= 2 && server.asked().len() == 1);
    }
}

#[tokio::test]
async fn error_event_in_a_stream_is_a_provider_error() {
    let mut pieces = events(&["Deep"]);
    pieces.truncate(1);
    pieces.push("data: {\"error\":{\"message\":\"The server is overloaded\",\"type\":\"server_error\",\"code\":null}}\n\n".into());
    let server = Server::start([Answer::stream(&pieces)]).await;
    let (reply, deltas) = stream(&model(&server)).await;
    let error = reply.unwrap_err();
    assert_eq!(text(&deltas), "Deep");
    assert!(
        error.to_string().contains("The server is overloaded"),
        "{error}"
    );
    assert_eq!(error.provider.as_deref(), Some("openai"));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn error_body_with_status_200_is_an_error() {
    let body = r#"{"error":{"code":429,"message":"Provider is busy"}}"#;
    for asked_for_a_stream in [true, false] {
        let server = Server::start([Answer::json(200, body)]).await;
        let (model, _) = super::model_with(&server, "retries: 0");
        let error = if asked_for_a_stream {
            stream(&model).await.0.unwrap_err()
        } else {
            ask(&model).await.unwrap_err()
        };
        assert_eq!((error.kind, error.status), (ErrorKind::Limited, Some(429)));
        assert!(error.message.contains("Provider is busy"));
    }
}

#[tokio::test]
async fn malformed_responses_are_reported_with_an_excerpt() {
    for (answer, part) in [
        (Answer::json(200, "{\"choices\": oops}"), "oops"),
        (Answer::json(200, "{\"status\":\"fine\"}"), ""),
        (
            Answer::of(200, &[], "<html><title>Sign in</title></html>"),
            "a web page",
        ),
        (Answer::stream(&["data: {\"choices\": oops}\n\n"]), "oops"),
        (Answer::json(200, "[1, 2]"), ""),
    ] {
        for asked_for_a_stream in [true, false] {
            let server = Server::start([answer.clone()]).await;
            let model = model(&server);
            let error = if asked_for_a_stream {
                stream(&model).await.0.unwrap_err()
            } else {
                ask(&model).await.unwrap_err()
            };
            assert_eq!(error.kind, ErrorKind::Malformed, "{error}");
            assert!(error.message.contains(part), "{error}");
            assert!(!error.retryable());
            assert_eq!(server.asked().len(), 1);
        }
    }
}

#[tokio::test]
async fn empty_response_is_cut_off() {
    for answer in [
        Answer::of(200, &[], ""),
        Answer::stream::<&str>(&[]),
        Answer::of(200, &[], " \n"),
    ] {
        let server = Server::start([answer]).await;
        let error = ask(&model(&server)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::CutOff, "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Wherever the bytes are cut into pieces, the answer is the same.
    #[test]
    fn answer_is_independent_of_byte_chunk_boundaries(cuts in proptest::collection::vec(0_usize..600, 0..12)) {
        let bytes = events(&["Tief", "see \u{1F40B}", "."]).concat();
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| bytes.is_char_boundary(*at)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1].min(bytes.len())]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start([Answer::stream(&pieces)]).await;
            let (reply, deltas) = stream(&model(&server)).await;
            assert_eq!(reply.unwrap().message.text(), "Tiefsee \u{1F40B}.");
            assert_eq!(text(&deltas), "Tiefsee \u{1F40B}.");
        });
    }
}

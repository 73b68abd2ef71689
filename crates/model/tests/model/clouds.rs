//! Anthropic's Messages in clouds: addresses, bodies, credentials, and streams in frames.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as FrameMessage};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cachalot_core::{Cost, ManualClock};
use cachalot_model::wire::event_stream::Decoder;
use cachalot_model::{
    Delta, Error, ErrorKind, Message, Model, ModelDependencies, Models, Request, Usage,
};
use cachalot_simulator::{RunningSimulator, Simulator, SimulatorOptions, cloud};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{Answer, NOW, Server, configured, model_dependencies};

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn find(yaml: &str, environment: &[(&str, &str)]) -> Result<Model, Error> {
    Models::new(model_dependencies(environment), configured(yaml)).find("m")
}

fn body(model: &Model) -> bytes::Bytes {
    let request = Request {
        system: Some("Be brief.".to_owned()),
        messages: vec![Message::user("How deep?")],
        parameters: model.parameters().clone(),
        ..Request::default()
    };
    request.body(model.wire(), true).unwrap()
}

fn said() -> String {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Deep"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    })
    .to_string()
}

#[tokio::test]
async fn bedrock_requests_are_signed() {
    let server = Server::start([Answer::json(200, &said())]).await;
    let model = "anthropic.claude-sonnet-4-5-20250929-v1:0";
    let yaml = format!("models: {{m: 'bedrock/{model}'}}");
    let environment = [
        ("ANTHROPIC_BEDROCK_BASE_URL", server.url()),
        ("AWS_ACCESS_KEY_ID", ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "a-session"),
        ("AWS_REGION", "eu-west-1"),
    ];
    let model = find(&yaml, &environment).unwrap();
    let reply = model.ask(body(&model)).await.unwrap();
    assert_eq!(reply.message.text(), "Deep");
    let asked = server.only();
    assert_eq!(
        asked.line,
        "POST /model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke HTTP/1.1"
    );
    let sent = asked.json();
    assert_eq!(sent["anthropic_version"], "bedrock-2023-05-31");
    assert!(sent.get("model").is_none() && sent.get("stream").is_none());
    assert_eq!(sent["messages"][0]["content"][0]["text"], "How deep?");
    let authorization = asked.header("authorization").unwrap();
    let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261121/eu-west-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
    assert!(authorization.starts_with(expected), "{authorization}");
    assert_eq!(asked.header("x-amz-date"), Some("20261121T024200Z"));
    assert_eq!(asked.header("x-amz-security-token"), Some("a-session"));
    // Neither in the identity nor in what is shown.
    let identity = model.identity().to_string();
    assert!(
        !identity.contains(SECRET) && !identity.contains(ID),
        "{identity}"
    );
}

#[test]
fn credentials_are_sent_to_the_official_address_only() {
    let environment = [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let own = "models: {m: {provider: bedrock, model: x}}";
    let model = find(own, &environment).unwrap();
    assert_eq!(
        model.base_url(),
        "https://bedrock-runtime.us-east-1.amazonaws.com/"
    );
    model.ready().unwrap();
    assert!(!format!("{model:?}").contains(SECRET));
    let project = "models: {m: {provider: vertex, model: x}}";
    let error = find(project, &[]).unwrap_err();
    assert!(error.message.contains("GOOGLE_CLOUD_PROJECT"), "{error}");
    let environment = [
        ("ANTHROPIC_VERTEX_PROJECT_ID", "p"),
        ("CLOUD_ML_REGION", "us-east5"),
    ];
    let model = find(project, &environment).unwrap();
    assert_eq!(
        model.base_url(),
        "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5"
    );
    for (model, names) in [
        (model, "GOOGLE_APPLICATION_CREDENTIALS"),
        (find(own, &[]).unwrap(), "AWS_SECRET_ACCESS_KEY"),
    ] {
        let error = model.ready().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        assert!(error.message.contains(names), "{error}");
    }
}

#[tokio::test]
async fn other_address_gets_no_credentials_unless_configured() {
    let environment = [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    for (more, is_signed) in [("", false), (", token_key: AWS_SECRET_ACCESS_KEY", true)] {
        let server = Server::start([Answer::json(200, &said())]).await;
        let url = server.url();
        let yaml =
            format!("models: {{m: {{provider: bedrock, model: x, base_url: '{url}'{more}}}}}");
        let model = find(&yaml, &environment).unwrap();
        model.ask(body(&model)).await.unwrap();
        let authorization = server.only().header("authorization").map(str::to_owned);
        assert_eq!(authorization.is_some(), is_signed, "{authorization:?}");
        assert!(!authorization.unwrap_or_default().contains(SECRET));
    }
}

#[tokio::test]
async fn access_keys_of_profiles_are_used() {
    let server = Server::start([Answer::json(200, &said())]).await;
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let text = format!("[work]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n");
    std::fs::write(home.path().join(".aws/credentials"), text).unwrap();
    let environment = [
        ("ANTHROPIC_BEDROCK_BASE_URL", server.url()),
        ("HOME", home.path().to_str().unwrap()),
        ("AWS_PROFILE", "work"),
    ];
    let model = find("models: {m: bedrock/x}", &environment).unwrap();
    model.ask(body(&model)).await.unwrap();
    let asked = server.only();
    let authorization = asked.header("authorization").unwrap();
    assert!(authorization.contains(ID), "{authorization}");
}

#[tokio::test]
async fn secrets_in_provider_answers_are_masked() {
    let message = format!("no {SECRET} and no a-long-session-token-0123456789");
    let server = Server::start([Answer::json(403, &json!({"message": message}).to_string())]).await;
    let environment = [
        ("ANTHROPIC_BEDROCK_BASE_URL", server.url()),
        ("AWS_ACCESS_KEY_ID", ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "a-long-session-token-0123456789"),
    ];
    let model = find("models: {m: bedrock/x}", &environment).unwrap();
    let error = model.ask(body(&model)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    let text = error.to_string();
    assert!(!text.contains(SECRET), "{text}");
    assert!(!text.contains("a-long-session"), "{text}");
    assert!(text.contains("check the AWS access key"), "{text}");
}

/// The file of a service account whose tokens come from `server`.
fn account(folder: &Path, server: &Server) -> String {
    let file = folder.join("account.json");
    let account = json!({
        "type": "service_account", "client_email": "me@example.com", "private_key_id": "k1",
        "private_key": include_str!("../../../simulator/data/service_account.pem"),
        "token_uri": format!("{}/token", server.url()),
    });
    std::fs::write(&file, account.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn one_access_token_is_shared_until_it_expires() {
    let google = Server::start([
        Answer::json(200, r#"{"access_token": "ya29.first", "expires_in": 3599}"#),
        Answer::json(200, &said()),
        Answer::json(200, &said()),
        Answer::json(
            200,
            r#"{"access_token": "ya29.second", "expires_in": 3599}"#,
        ),
        Answer::json(200, &said()),
        // A token that is refused is not used again.
        Answer::json(401, r#"{"error": {"code": 401, "message": "Request had invalid authentication credentials."}}"#),
        Answer::json(200, r#"{"access_token": "ya29.third", "expires_in": 3599}"#),
        Answer::json(200, &said()),
    ])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = account(folder.path(), &google);
    let environment = [
        ("GOOGLE_APPLICATION_CREDENTIALS", file.as_str()),
        ("ANTHROPIC_VERTEX_BASE_URL", google.url()),
        ("GOOGLE_CLOUD_PROJECT", "p"),
    ];
    let clock = Arc::new(ManualClock::at(NOW));
    let model_dependencies = ModelDependencies {
        clock: clock.clone(),
        ..model_dependencies(&environment)
    };
    let yaml = "models: {m: 'vertex/claude-sonnet-4-5@20250929'}";
    let models = Models::new(model_dependencies, configured(yaml));
    for _ in 0..2 {
        let model = models.find("m").unwrap();
        let reply = model.ask(body(&model)).await.unwrap();
        assert_eq!(reply.message.text(), "Deep");
    }
    clock.advance(Duration::from_secs(3_600));
    let model = models.find("m").unwrap();
    model.ask(body(&model)).await.unwrap();
    let error = model.ask(body(&model)).await.unwrap_err();
    assert!(
        error.to_string().contains("check the service account"),
        "{error}"
    );
    model.ask(body(&model)).await.unwrap();
    let asked = google.asked();
    let lines: Vec<&str> = asked.iter().map(|request| request.line.as_str()).collect();
    let path = "POST /v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict HTTP/1.1";
    let token = "POST /token HTTP/1.1";
    assert_eq!(lines, [token, path, path, token, path, path, token, path]);
    let form = String::from_utf8(asked[0].body.to_vec()).unwrap();
    let claims = form.split('.').nth(1).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["iss"], "me@example.com");
    assert_eq!(claims["aud"], format!("{}/token", google.url()));
    assert_eq!(claims["iat"], NOW / 1_000);
    let bearer = |at: usize| asked[at].header("authorization");
    assert_eq!(bearer(2), Some("Bearer ya29.first"));
    assert_eq!(bearer(4), Some("Bearer ya29.second"));
    assert_eq!(bearer(7), Some("Bearer ya29.third"));
    let sent = asked[1].json();
    assert_eq!(sent["anthropic_version"], "vertex-2023-10-16");
    assert!(sent.get("model").is_none());
    // Its address alone does not ask for a stream.
    assert_eq!(sent["stream"], true);
}

#[tokio::test]
async fn refused_token_is_reported_with_a_remedy() {
    let google = Server::start([Answer::json(
        400,
        r#"{"error": "invalid_grant", "error_description": "account not found"}"#,
    )])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let ask = async |file: &str| {
        let environment = [
            ("GOOGLE_APPLICATION_CREDENTIALS", file),
            ("GOOGLE_CLOUD_PROJECT", "p"),
            ("ANTHROPIC_VERTEX_BASE_URL", google.url()),
        ];
        let model = find("models: {m: vertex/claude-sonnet-4-5}", &environment).unwrap();
        model.ask(body(&model)).await.unwrap_err()
    };
    let file = account(folder.path(), &google);
    let error = ask(&file).await;
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    for part in ["me@example.com", "account not found", "vertex: "] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // What is wrong with a file is reported without its content.
    for (content, part) in [
        (None, "cannot be read"),
        (Some("private_key: hunter2"), "is not JSON"),
        (Some(r#"{"type": "authorized_user"}"#), "`authorized_user`"),
        (Some(r#"{"private_key": "hunter2"}"#), "has a `private_key`"),
        (
            Some(r#"{"token_uri": "http://example.com"}"#),
            "`token_uri` that does not begin with https://",
        ),
    ] {
        let file = folder.path().join("wrong.json");
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let error = ask(file.to_str().unwrap()).await;
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        let text = error.to_string();
        assert!(text.contains(part) && !text.contains("hunter2"), "{text}");
        assert!(text.contains("GOOGLE_APPLICATION_CREDENTIALS"), "{text}");
    }
    assert_eq!(google.asked().len(), 1);
}

#[tokio::test]
async fn bedrock_streams_are_read_from_frames() {
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Deep"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let whole: Vec<u8> = events
        .iter()
        .flat_map(|event| chunk(&event.to_string()))
        .collect();
    let throttled = frame(
        &[
            (":exception-type", "throttlingException"),
            (":message-type", "exception"),
        ],
        &json!({"message": "Too many tokens"}),
    );
    let content_type = ("content-type", "application/vnd.amazon.eventstream");
    let server = Server::start([
        Answer::binary(200, &[content_type], &throttled),
        Answer::binary(200, &[content_type], &whole),
    ])
    .await;
    let environment = [
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url()),
        ("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-1"),
        // A bearer token wins.
        ("AWS_ACCESS_KEY_ID", ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ];
    let model = find(
        "models: {m: bedrock/anthropic.claude-opus-4-8}",
        &environment,
    )
    .unwrap();
    let mut deltas = Vec::new();
    let mut on = |delta| deltas.push(delta);
    let reply = model.stream(body(&model), &mut on).await.unwrap();
    assert_eq!(reply.message.text(), "Deep");
    assert_eq!(reply.usage.unwrap().output, 2);
    assert_eq!(deltas, [Delta::Text("Deep".to_owned())]);
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "the throttled request is sent again");
    assert_eq!(
        asked[0].line,
        "POST /model/anthropic.claude-opus-4-8/invoke-with-response-stream HTTP/1.1"
    );
    let authorization = asked[0].header("authorization");
    assert_eq!(authorization, Some("Bearer bedrock-api-key-1"));
}

#[test]
fn capabilities_of_a_model_are_known_on_every_platform() {
    let environment = [("GOOGLE_CLOUD_PROJECT", "p")];
    for name in [
        "bedrock/us.anthropic.claude-opus-4-8",
        "vertex/claude-opus-4-8@default",
    ] {
        let yaml =
            format!("models: {{m: {{model: '{name}', reasoning_effort: high, temperature: 0.5}}}}");
        let model = find(&yaml, &environment).unwrap();
        assert_eq!(model.limits().context, Some(1_000_000));
        assert_eq!(model.limits().minimum_cacheable, Some(1_024));
        let tail = model.wire().tail(model.parameters(), true);
        let tail = String::from_utf8(tail.to_vec()).unwrap();
        assert!(tail.contains(r#""thinking":{"type":"adaptive""#), "{tail}");
        assert!(!tail.contains("temperature"), "{tail}");
        // Entries of other platforms are never found under this identity.
        let direct = yaml.replace(name, "anthropic/claude-opus-4-8");
        let direct = find(&direct, &environment).unwrap();
        assert_ne!(model.identity(), direct.identity());
    }
}

#[test]
fn prices_depend_on_platform_and_region() {
    let environment = [("GOOGLE_CLOUD_PROJECT", "p")];
    let usage = Usage {
        uncached_input: 1_000_000,
        cache_read: 1_000_000,
        ..Usage::default()
    };
    for (name, dollars) in [
        ("bedrock/anthropic.claude-opus-4-8", Some("5.5")),
        ("bedrock/us.anthropic.claude-opus-4-8", Some("6.05")),
        (
            "bedrock/arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-8",
            Some("6.05"),
        ),
        ("vertex/claude-opus-4-8@default", Some("5.5")),
        ("vertex/claude-haiku-4-5@20251001", Some("1.1")),
        // Nothing is known of its price, which must not be that of Anthropic.
        (
            "bedrock/arn:aws:bedrock:us-east-1:1:application-inference-profile/a1",
            None,
        ),
        ("bedrock/xx.anthropic.claude-opus-4-8", None),
    ] {
        let yaml = format!("models: {{m: '{name}'}}");
        let cost = find(&yaml, &environment).unwrap().cost(&usage);
        let expected = dollars.map(|dollars| dollars.parse::<f64>().unwrap() * 1e12);
        let expected = expected.map_or(Cost::UNPRICED, |picodollars| {
            Cost::from_picodollars(picodollars as u64)
        });
        assert_eq!(cost, expected, "{name}");
    }
}

#[test]
fn regional_endpoints_cost_more_unless_the_price_is_configured() {
    let usage = Usage {
        uncached_input: 1_000_000,
        ..Usage::default()
    };
    for (region, name, cost, dollars) in [
        ("global", "claude-opus-4-8@default", "", 5_000),
        ("us-east5", "claude-opus-4-8@default", "", 5_500),
        ("eu", "claude-haiku-4-5@20251001", "", 1_100),
        ("us-east5", "claude-3-haiku@20240307", "", 250),
        (
            "us-east5",
            "claude-opus-4-8@default",
            ", cost: {input: 5.5, output: 27.5}",
            5_500,
        ),
    ] {
        let environment = [("GOOGLE_CLOUD_PROJECT", "p"), ("CLOUD_ML_REGION", region)];
        let yaml = format!("models: {{m: {{provider: vertex, model: '{name}'{cost}}}}}");
        let found = find(&yaml, &environment).unwrap().cost(&usage);
        let expected = Cost::from_picodollars(dollars * 1_000_000_000);
        assert_eq!(found, expected, "{region} {name}");
    }
}

/// A frame with these headers, as AWS's own library writes it.
fn frame(headers: &[(&str, &str)], payload: &Value) -> Vec<u8> {
    let mut message = FrameMessage::new(payload.to_string());
    for (name, value) in headers {
        let value = HeaderValue::String((*value).to_owned().into());
        message = message.add_header(Header::new((*name).to_owned(), value));
    }
    let mut frame = Vec::new();
    write_message_to(&message, &mut frame).unwrap();
    frame
}

fn chunk(text: &str) -> Vec<u8> {
    let bytes = base64::engine::general_purpose::STANDARD.encode(text);
    frame(
        &[(":event-type", "chunk"), (":message-type", "event")],
        &json!({"bytes": bytes, "p": "abc"}),
    )
}

#[test]
fn stream_exceptions_are_provider_errors() {
    for (code, kind) in [
        ("throttlingException", ErrorKind::Limited),
        ("modelStreamErrorException", ErrorKind::Unavailable),
        ("internalServerException", ErrorKind::Unavailable),
        ("modelTimeoutException", ErrorKind::TimedOut),
        ("validationException", ErrorKind::Rejected),
    ] {
        let headers = [(":exception-type", code), (":message-type", "exception")];
        let frame = frame(&headers, &json!({"message": "Too many"}));
        let error = Decoder::default().push(&frame).unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (kind, Some(code)));
        assert_eq!(error.message, "Too many");
    }
}

#[test]
fn events_before_an_error_are_kept() {
    let failed = frame(
        &[
            (":exception-type", "modelStreamErrorException"),
            (":message-type", "exception"),
        ],
        &json!({"message": "Gone"}),
    );
    let bytes = [chunk("shown"), failed].concat();
    let mut decoder = Decoder::default();
    let events = decoder.push(&bytes).unwrap();
    assert_eq!((events.len(), events[0].data.as_str()), (1, "shown"));
    assert_eq!(decoder.check().unwrap_err().message, "Gone");
    assert!(decoder.push(&chunk("more")).is_err());
}

#[test]
fn damaged_frames_are_detected() {
    let whole = chunk("{}");
    for at in [0, 5, 9, 14, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        let mut decoder = Decoder::default();
        let decoded = decoder.push(&damaged);
        let is_told = decoded
            .as_ref()
            .is_err_and(|error| error.kind == ErrorKind::Malformed);
        // A length that is too long waits for the rest.
        let waits = at < 4 && decoded.is_ok_and(|events| events.is_empty());
        assert!(is_told || waits, "{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn frames_are_read_with_any_chunk_boundaries(
        texts in proptest::collection::vec(".{0,40}", 0..6),
        size in 1_usize..64,
    ) {
        let bytes: Vec<u8> = texts.iter().flat_map(|text| chunk(text)).collect();
        let mut decoder = Decoder::default();
        let mut read = Vec::new();
        for piece in bytes.chunks(size) {
            read.extend(decoder.push(piece).unwrap().into_iter().map(|event| event.data));
        }
        prop_assert_eq!(read, texts);
    }

    #[test]
    fn arbitrary_input_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Decoder::default().push(&bytes);
    }
}

/// A model of the simulator, which checks signatures and tokens by its own means.
async fn simulated(name: &str, secret: &str) -> (RunningSimulator, Model, tempfile::TempDir) {
    let simulator = Simulator::start(SimulatorOptions {
        clock: Arc::new(ManualClock::at(NOW)),
        ..SimulatorOptions::default()
    });
    let simulator = simulator.await.unwrap();
    let url = simulator.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("account.json");
    std::fs::write(&file, cloud::service_account(&url).to_string()).unwrap();
    let environment = [
        ("ANTHROPIC_BEDROCK_BASE_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", cloud::ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", "a-session"),
        ("ANTHROPIC_VERTEX_BASE_URL", url.as_str()),
        ("GOOGLE_CLOUD_PROJECT", "p"),
        ("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap()),
    ];
    let model = find(&format!("models: {{m: '{name}'}}"), &environment).unwrap();
    (simulator, model, folder)
}

#[tokio::test]
async fn the_simulator_accepts_signatures_and_tokens() {
    for name in [
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "vertex/claude-sonnet-4-5@20250929",
    ] {
        let (simulator, model, _folder) = simulated(name, cloud::SECRET_KEY).await;
        let reply = |stream| {
            let request = Request {
                messages: vec![Message::user("Translate to French: good morning")],
                parameters: model.parameters().clone(),
                ..Request::default()
            };
            request.body(model.wire(), stream).unwrap()
        };
        let whole = model.ask(reply(false)).await.unwrap();
        let mut deltas = 0;
        let mut on = |_| deltas += 1;
        let streamed = model.stream(reply(true), &mut on).await.unwrap();
        assert!(deltas > 0, "{name}");
        let text = "[simulated French] good morning";
        assert_eq!(whole.message.text(), text, "{name}");
        assert_eq!(streamed.message.text(), text, "{name}");
        assert_eq!(simulator.violations(), [] as [String; 0]);
    }
    let name = "bedrock/anthropic.claude-opus-4-8";
    let (_simulator, model, _folder) = simulated(name, "another secret").await;
    let error = model.ask(body(&model)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert_eq!(error.code.as_deref(), Some("InvalidSignatureException"));
}

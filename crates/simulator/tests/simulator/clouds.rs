//! Anthropic's Messages on cloud platforms: credentials, and what a body may and must say.

use cachalot_simulator::Script;
use cachalot_simulator::cloud::{ACCESS_KEY, service_account};
use serde_json::{Value, json};

use crate::{START, client, post, start, timed};

const VERTEX: &str =
    "/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929";
const BEDROCK: &str = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0";

fn smallest(version: &str) -> Value {
    json!({
        "anthropic_version": version, "max_tokens": 10,
        "messages": [{"role": "user", "content": "hello"}],
    })
}

#[tokio::test]
async fn vertex_accepts_issued_tokens() {
    let running = start(Script::answers(["yes"])).await;
    let path = format!("{VERTEX}:rawPredict");
    // The key that `post` sends.
    let got = post(&running, &path, &smallest("vertex-2023-10-16")).await;
    assert_eq!(got.status, 401, "{}", got.text);
    assert_eq!(got.json()["error"]["status"], "UNAUTHENTICATED");
    let url = running.url();
    let account = client().get(format!("{url}/service-account.json")).send();
    let account = account.await.unwrap().text().await.unwrap();
    let account: Value = serde_json::from_str(&account).unwrap();
    assert_eq!(account, service_account(&url));
    assert_eq!(account["token_uri"], format!("{url}/token"));
    let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    for (form, error) in [
        ("grant_type=password".to_owned(), "unsupported_grant_type"),
        (format!("{grant}&assertion=e30.e30.AAAA"), "invalid_grant"),
        (grant.to_owned(), "invalid_grant"),
    ] {
        let sent = client().post(format!("{url}/token")).body(form).send();
        let response = sent.await.unwrap();
        assert_eq!(response.status().as_u16(), 400);
        let text = response.text().await.unwrap();
        assert!(text.contains(error), "{text}");
    }
}

#[tokio::test]
async fn bedrock_accepts_bearer_tokens_and_reports_the_original_model_name() {
    let running = start(Script::answers(["yes"])).await;
    let path = format!("{BEDROCK}/invoke");
    let got = post(&running, &path, &smallest("bedrock-2023-05-31")).await;
    let body = got.json();
    assert_eq!(
        (got.status, &body["content"][0]["text"]),
        (200, &json!("yes"))
    );
    assert_eq!(body["model"], "claude-sonnet-4-5-20250929");
    assert!(!got.header("x-amzn-requestid").is_empty());
    let path = format!("{BEDROCK}/invoke-with-response-stream");
    let got = post(&running, &path, &smallest("bedrock-2023-05-31")).await;
    let kind = "application/vnd.amazon.eventstream";
    assert_eq!(got.header("content-type"), kind);
}

#[tokio::test]
async fn bedrock_refuses_wrong_signatures() {
    let (running, _clock) = timed(Script::answers(["yes"])).await;
    let now = "20270115T080000Z";
    assert_eq!(START, 1_800_000_000_000, "2027-01-15 08:00:00");
    let signed = |key: &str, service: &str, date: &str| {
        format!(
            "AWS4-HMAC-SHA256 Credential={key}/{date}/us-east-1/{service}/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
        )
    };
    for (authorization, time, error) in [
        (String::new(), now, "MissingAuthenticationTokenException"),
        (
            "AWS4-HMAC-SHA256 nonsense".to_owned(),
            now,
            "IncompleteSignatureException",
        ),
        (
            signed("AKIAOTHER", "bedrock", "20270115"),
            now,
            "UnrecognizedClientException",
        ),
        (
            signed(ACCESS_KEY, "s3", "20270115"),
            now,
            "should be scoped to correct service",
        ),
        (
            signed(ACCESS_KEY, "bedrock", "20270115"),
            "20270115T075400Z",
            "Signature expired",
        ),
        (
            signed(ACCESS_KEY, "bedrock", "20270114"),
            now,
            "Date in Credential scope",
        ),
        (
            signed(ACCESS_KEY, "bedrock", "20270115"),
            now,
            "does not match the signature you provided",
        ),
    ] {
        let mut request = client()
            .post(format!("{}{BEDROCK}/invoke", running.url()))
            .header("x-amz-date", time)
            .body(smallest("bedrock-2023-05-31").to_string());
        if !authorization.is_empty() {
            request = request.header("authorization", &authorization);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 403, "{authorization}");
        let kind = response.headers()["x-amzn-errortype"].clone();
        let text = response.text().await.unwrap();
        assert!(text.starts_with(r#"{"message":"#), "{text}");
        let said = format!("{} {text}", kind.to_str().unwrap());
        assert!(said.contains(error), "{said}");
    }
}

#[tokio::test]
async fn cloud_body_has_a_version_and_no_model_or_stream() {
    let running = start(Script::answers(["yes"])).await;
    let base = json!({"max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]});
    for (fields, message) in [
        (json!({}), "anthropic_version: Field required"),
        (
            json!({"anthropic_version": "2023-06-01"}),
            "anthropic_version: Input should be 'bedrock-2023-05-31'",
        ),
        (
            json!({"anthropic_version": "bedrock-2023-05-31", "model": "x"}),
            "model: Extra inputs are not permitted",
        ),
        (
            json!({"anthropic_version": "bedrock-2023-05-31", "stream": true}),
            "stream: Extra inputs are not permitted",
        ),
        (
            json!({"anthropic_version": "bedrock-2023-05-31", "unheard_of": 1}),
            "unheard_of",
        ),
    ] {
        let body = crate::with(base.clone(), fields);
        let got = post(&running, &format!("{BEDROCK}/invoke"), &body).await;
        assert_eq!(got.status, 400, "{body}");
        assert_eq!(got.header("x-amzn-errortype"), "ValidationException");
        assert!(got.text.contains(message), "{}", got.text);
    }
    // The model is judged as at its maker.
    let body = crate::with(
        smallest("bedrock-2023-05-31"),
        json!({"thinking": {"type": "adaptive"}}),
    );
    let path = "/model/global.anthropic.claude-haiku-4-5-20251001-v1%3A0/invoke";
    assert_eq!(post(&running, path, &body).await.status, 400);
}

#[tokio::test]
async fn bedrock_validates_markers_by_model() {
    let running = start(Script::answers(["yes"])).await;
    let of = |model: &str, marker: Value| {
        let mut body = smallest("bedrock-2023-05-31");
        body["system"] = json!([{"type": "text", "text": "Be brief.", "cache_control": marker}]);
        (format!("/model/anthropic.{model}-v1%3A0/invoke"), body)
    };
    let minutes = || json!({"type": "ephemeral"});
    let hour = || json!({"type": "ephemeral", "ttl": "1h"});
    for (model, marker, status) in [
        ("claude-3-haiku-20240307", minutes(), 403),
        ("claude-sonnet-4-20250514", minutes(), 200),
        ("claude-sonnet-4-20250514", hour(), 400),
        ("claude-sonnet-4-5-20250929", hour(), 200),
    ] {
        let (path, body) = of(model, marker);
        let got = post(&running, &path, &body).await;
        assert_eq!(got.status, status, "{model}: {}", got.text);
    }
}

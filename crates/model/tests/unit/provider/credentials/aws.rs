//! Unit tests of `src/provider/credentials/aws.rs`.

use super::*;

#[test]
fn profiles_are_read() {
    let text = "# keys\n[default]\naws_access_key_id = A\n aws_secret_access_key=B=\n\n[ work ]\naws_access_key_id = C\n";
    assert_eq!(
        profile_value(text, "default", "aws_access_key_id"),
        Some("A")
    );
    assert_eq!(
        profile_value(text, "default", "aws_secret_access_key"),
        Some("B=")
    );
    assert_eq!(profile_value(text, "work", "aws_access_key_id"), Some("C"));
    assert_eq!(profile_value(text, "work", "aws_secret_access_key"), None);
    assert_eq!(profile_value(text, "other", "aws_access_key_id"), None);
}

/// The expected signature is that of botocore 1.44.5 for the same request.
#[test]
fn signatures_equal_those_of_the_official_client() {
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        (
            "AWS_SECRET_ACCESS_KEY",
            "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        ),
        ("AWS_SESSION_TOKEN", "a-session"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let access_key = AccessKey::find(&environment.into(), "eu-west-1").unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke";
    let url = Url::parse(url).unwrap();
    let body = br#"{"max_tokens":1}"#;
    access_key
        .sign(&mut headers, &url, body, 1_795_228_920_000)
        .unwrap();
    assert_eq!(
        headers["authorization"],
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261121/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=01276ce8a93aa640f7dbdf1a14634d91f2a2032b61c94c84a7de9d2869e269fc"
    );
    assert_eq!(headers["x-amz-date"], "20261121T024200Z");
    assert_eq!(headers["x-amz-security-token"], "a-session");
    assert!(headers.values().skip(1).all(HeaderValue::is_sensitive));
    assert!(!format!("{access_key:?}").contains("wJalr"));
}

#[test]
fn region_is_read_from_the_endpoint_host() {
    let region = |url: &str| region_of(&url.parse().unwrap()).map(str::to_owned);
    assert_eq!(
        region("https://bedrock-runtime.eu-west-1.amazonaws.com/").as_deref(),
        Some("eu-west-1")
    );
    assert_eq!(
        region("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/").as_deref(),
        Some("us-gov-west-1")
    );
    assert_eq!(region("http://127.0.0.1:4010/"), None);
    assert_eq!(region("https://x.vpce.amazonaws.com/"), None);
}

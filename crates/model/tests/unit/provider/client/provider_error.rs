//! Unit tests of `src/provider/client/provider_error.rs`.

use super::*;

#[test]
fn error_bodies_of_every_shape_are_read() {
    for (body, message, code) in [
        (
            r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded","param":null}}"#,
            Some("Rate limit reached"),
            Some("rate_limit_exceeded"),
        ),
        (
            r#"{"error":{"message":"No","type":"invalid_request_error","code":null}}"#,
            Some("No"),
            Some("invalid_request_error"),
        ),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#,
            Some("Overloaded"),
            Some("overloaded_error"),
        ),
        (
            r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]"#,
            Some("API key not valid."),
            Some("INVALID_ARGUMENT"),
        ),
        (
            r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"too much"}}}"#,
            Some("Provider returned error: too much"),
            None,
        ),
        (
            r#"{"error":"model 'x' not found"}"#,
            Some("model 'x' not found"),
            None,
        ),
        (r#"{"detail":"Not Found"}"#, Some("Not Found"), None),
        (
            r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
            Some(r#"[{"loc":["body"],"msg":"field required"}]"#),
            None,
        ),
        (
            r#"{"object":"error","message":"bad","type":"invalid","code":"1234x"}"#,
            Some("bad"),
            Some("1234x"),
        ),
        (r#"{"error":{"message":{"a":1}}}"#, Some(r#"{"a":1}"#), None),
        (r#""just text""#, Some("just text"), None),
        (
            "upstream  connect\nerror",
            Some("upstream connect error"),
            None,
        ),
        (
            "<html><head><title>502 Bad Gateway</title></head><body>x</body></html>",
            Some("a web page, `502 Bad Gateway`"),
            None,
        ),
        ("<p>Go <b>away</b></p>", Some("a web page: Go away"), None),
        ("", None, None),
        ("{}", None, None),
        ("null", None, None),
        ("[]", None, None),
    ] {
        let provider_error = ProviderError::read(body.as_bytes());
        assert_eq!(provider_error.message.as_deref(), message, "{body}");
        assert_eq!(provider_error.code.as_deref(), code, "{body}");
    }
}

#[test]
fn gateways_pass_a_status_on() {
    let provider_error = ProviderError::read(br#"{"error":{"code":429,"message":"slow down"}}"#);
    assert_eq!(provider_error.status, Some(429));
    let provider_error = ProviderError::read(br#"{"error":{"code":"502","message":"x"}}"#);
    assert_eq!(
        (provider_error.status, provider_error.code),
        (Some(502), None)
    );
    for (body, expected) in [
        (r#"{"error":{"message":"x"}}"#, true),
        (r#"{"error":"x"}"#, true),
        (r#"{"error":null,"output":[]}"#, false),
        (r#"{"error":{"code":"x"},"output":[]}"#, false),
        (r#"{"choices":[]}"#, false),
        ("[]", false),
    ] {
        assert_eq!(
            is_error(&serde_json::from_str(body).unwrap()),
            expected,
            "{body}"
        );
    }
}

#[test]
fn error_texts_are_short_and_on_one_line() {
    let long = "wörter ".repeat(10_000);
    let short = one_line(&long).unwrap();
    assert_eq!(short.chars().count(), MAX_MESSAGE_CHARS + 1);
    assert_eq!(one_line("a\u{1b}[31m\nb").unwrap(), "a[31m b");
    let _ = ProviderError::read(&[0xff, 0xfe, b'<']);
    assert_eq!(page_text("<title></title>").trim(), "a web page:");
}

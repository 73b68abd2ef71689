//! Unit tests of `src/address.rs`.

use super::*;

#[test]
fn base_url_variable_may_be_a_host_only() {
    let of_ollama = |value| from_variable(value, Some(11434), Some("/v1"));
    for (value, expected) in [
        ("gpu", "http://gpu:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("gpu:80", "http://gpu/v1"),
        ("https://gpu", "https://gpu/v1"),
        ("http://gpu:1/v2", "http://gpu:1/v2"),
    ] {
        assert_eq!(of_ollama(value).unwrap().as_str(), expected);
    }
    assert!(of_ollama("http://").is_err());
}

#[test]
fn an_invalid_base_url_is_reported_without_secrets() {
    for wrong in [
        "",
        "api.example.com",
        "ftp://a",
        "https://u:hunter2@a",
        "https://a#b",
    ] {
        let error = parse(wrong).unwrap_err().to_string();
        assert!(
            error.contains("; ") && !error.contains("hunter2"),
            "{error}"
        );
    }
}

#[test]
fn loopback_urls_are_recognized() {
    for (url, yes) in [
        ("http://localhost:1", true),
        ("http://127.0.0.2", true),
        ("http://[::1]:8", true),
        ("http://localhost.example.com", false),
        ("http://10.0.0.1", false),
    ] {
        assert_eq!(is_loopback(&parse(url).unwrap()), yes, "{url}");
    }
    assert!(is_same_base(
        &parse("https://a/v1").unwrap(),
        &parse("https://A:443/v1/").unwrap()
    ));
    assert!(!is_same_base(
        &parse("https://a/v1").unwrap(),
        &parse("http://a/v1").unwrap()
    ));
}

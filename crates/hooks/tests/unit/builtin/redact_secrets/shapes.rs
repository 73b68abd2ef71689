//! Unit tests of `src/builtin/redact_secrets/shapes.rs`.

use super::*;

const PEM: &str = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA7bq1kY2Zc0v8xQw3l+Zx9/abcdefghijk\nQw3l+Zx9/abcdefghijklmnopqrstu==\n-----END RSA PRIVATE KEY-----";

#[test]
fn private_key_is_masked_without_its_surroundings() {
    let text = format!("before\n{PEM}\nbetween\n{PEM}\nafter");
    assert_eq!(mask(&text), "before\n[secret]\nbetween\n[secret]\nafter");
    let quoted = format!("{{\"key\": \"{}\", \"n\": 1}}", PEM.replace('\n', "\\n"));
    assert_eq!(mask(&quoted), "{\"key\": \"[secret]\", \"n\": 1}");
}

#[test]
fn truncated_private_key_is_masked_to_its_end() {
    let cut = &PEM[..PEM.len() - 40];
    assert_eq!(mask(cut), MASK);
    let noticed = format!("a\n{cut}\n[the rest was left out]\nb");
    assert_eq!(mask(&noticed), "a\n[secret][the rest was left out]\nb");
    let prose = format!("{cut}\nand so on it went\nx");
    assert_eq!(mask(&prose), "[secret]and so on it went\nx");
}

#[test]
fn mentions_of_private_key_markers_are_not_masked() {
    for text in [
        "if text.contains(\"-----BEGIN RSA PRIVATE KEY-----\") { return; }",
        "a file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----, then many lines of letters and digits, and at last -----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\nnot a PRIVATE KEY----- at all",
    ] {
        assert_eq!(mask(text), text);
        assert!(matches!(mask(text), Cow::Borrowed(_)));
    }
}

#[test]
fn tokens_are_masked_and_sentences_are_not() {
    for text in [
        "Basic authentication is simple",
        "Basic Programming, Bearer token-based",
        "the Bearer AUTHENTICATION scheme",
        "Basic understanding/knowledge.",
    ] {
        assert_eq!(mask(text), text);
    }
    for (text, shown) in [
        (
            "Authorization: Basic dXNlcjpwYXNz",
            "Authorization: Basic [secret]",
        ),
        (
            "Bearer abcdefgh12345678 and Basic knowledge",
            "Bearer [secret] and Basic knowledge",
        ),
        (
            "Basic knowledge of sk-abcdefghijklmnopqrstuv",
            "Basic knowledge of [secret]",
        ),
        (
            "https://bob:hunter2@host/?access_token=x1",
            "https://bob:[secret]@host/?access_token=[secret]",
        ),
    ] {
        assert_eq!(mask(text), shown);
    }
}

#[test]
fn long_text_is_masked_like_a_short_one_in_linear_time() {
    let line = |number: usize| {
        format!("key sk-abcdefghijklmnopqrstuv{number:06} Bearer abcdefg{number:06} {BEGIN}{KEY}\n")
    };
    let text: String = (0..10_000).map(line).collect();
    let began = std::time::Instant::now();
    let shown = mask(&text);
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
    let expected = format!("key [secret] Bearer [secret] {BEGIN}{KEY}\n").repeat(10_000);
    assert!(shown == expected);
}

#[test]
fn masking_is_idempotent() {
    let text = format!("Bearer abcdefgh12345678\n{PEM} sk-abcdefghijklmnopqrstuv");
    let once = mask(&text).into_owned();
    assert_eq!(mask(&once), once);
    assert!(!once.contains("MII") && !once.contains("sk-"));
}

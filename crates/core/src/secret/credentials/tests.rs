use super::*;

#[test]
fn credentials_are_recognised_by_field_name_and_by_shape() {
    let mut value = serde_json::json!({
        "headers": {"Authorization": "x", "X-Api-Key": "y", "accept": "text/html"},
        "body": "my key is sk-abcdefghijklmnopqrstuv, keep it",
        "note": "Authorization: Bearer abcdefgh12345678 please",
        "token": null,
        "use_token": true,
        "credentials": {"user": "u", "pin": 1},
    });
    redact_value(&mut value, &SecretSet::empty());
    assert_eq!(
        value,
        serde_json::json!({
            "headers": {"Authorization": MASK, "X-Api-Key": MASK, "accept": "text/html"},
            "body": "my key is [secret], keep it",
            "note": "Authorization: Bearer [secret] please",
            "token": null,
            "use_token": true,
            "credentials": MASK,
        })
    );
}

#[test]
fn names_of_credentials_in_every_spelling() {
    for name in [
        "password",
        "db_password",
        "dbPassword",
        "DB-PASSWD",
        "password_again",
        "X-Auth-Token",
        "auth_token",
        "csrfToken",
        "client.secret",
        "openai_api_key",
        "OPENAI_APIKEY",
        "x-api-key",
        "aws_secret_access_key",
        "awsAccessKey",
        "ssh private key",
        "Proxy-Authorization",
        "Set-Cookie",
        "cookies",
        "google_credentials",
        "secret_value",
    ] {
        assert!(names_a_credential(name), "{name}");
    }
}

#[test]
fn names_without_credentials_are_not_masked() {
    for name in [
        "max_tokens",
        "tokens",
        "token_count",
        "tokenizer",
        "keyboard",
        "monkey",
        "public_key",
        "key",
        "primary_key",
        "secretary",
        "passenger",
        "author",
        "cookie_policy",
        "signature",
        "",
    ] {
        assert!(!names_a_credential(name), "{name}");
    }
}

#[test]
fn passwords_in_urls_are_masked_and_nothing_else() {
    for (text, shown) in [
        ("https://bob:hunter2@host/p", "https://bob:[secret]@host/p"),
        (
            "see postgres://u:p@ss@db:5432/x and redis://:pw@h",
            "see postgres://u:[secret]@db:5432/x and redis://:[secret]@h",
        ),
        ("'https://a:b@c'", "'https://a:[secret]@c'"),
        ("https://bob@host:80/a:b@c", "https://bob@host:80/a:b@c"),
        ("https://bob:@host", "https://bob:@host"),
        ("http://host:80/", "http://host:80/"),
        ("10:30 a@b.c", "10:30 a@b.c"),
    ] {
        assert_eq!(mask_credentials(text), shown);
        assert_eq!(mask_credentials(shown), shown, "masked again");
    }
}

#[test]
fn authorizing_url_parameters_are_masked() {
    for (text, shown) in [
        (
            "GET https://h/p?access_token=abc&page=2&key=k&sig=s#top failed",
            "GET https://h/p?access_token=[secret]&page=2&key=[secret]&sig=[secret]#top failed",
        ),
        (
            "https://s3/x?X-Amz-Signature=00ff&X-Amz-Date=1",
            "https://s3/x?X-Amz-Signature=[secret]&X-Amz-Date=1",
        ),
        ("/cb#id_token=a=b&state=1", "/cb#id_token=[secret]&state=1"),
        (
            "<a href='?a=1&amp;key=z'>",
            "<a href='?a=1&amp;key=[secret]'>",
        ),
        ("password=x&user=bob", "password=[secret]&user=bob"),
        ("user=bob&password=é&x=ü", "user=bob&password=[secret]&x=ü"),
        (
            "https://h/?max_tokens=5&monkey=1&keyboard=us&key=",
            "https://h/?max_tokens=5&monkey=1&keyboard=us&key=",
        ),
        ("key=value", "key=value"),
        ("sort(key=len) if a == b", "sort(key=len) if a == b"),
        ("a?=b&=c=é", "a?=b&=c=é"),
    ] {
        assert_eq!(mask_credentials(text), shown);
        assert_eq!(mask_credentials(shown), shown, "masked again");
    }
}

#[test]
fn every_authorization_in_a_text_is_masked() {
    assert_eq!(
        mask_credentials("Bearer aaaabbbb, then Bearer ccccdddd"),
        "Bearer [secret], then Bearer [secret]"
    );
}

#[test]
fn values_assigned_to_credential_names_are_masked() {
    for (text, shown) in [
        (
            "use password=hunter2hunter2 there",
            "use password=[secret] there",
        ),
        (
            "api_key: 9f86d081884c7d659a2feaa0c55ad015.",
            "api_key: [secret].",
        ),
        (
            r#"{\"client_secret\": \"abc123def456\"}"#,
            r#"{\"client_secret\": \"[secret]\"}"#,
        ),
        (
            "pay with sk_live_51HabcdefghijklmnopqrstuvwxYZ",
            "pay with [secret]",
        ),
        (
            "DB_PASSWORD='s3cr3tpass' and é",
            "DB_PASSWORD='[secret]' and é",
        ),
    ] {
        assert_eq!(mask_credentials(text), shown, "{text}");
    }
    for text in [
        "password: string, token: Option<String>",
        "let api_key = load_key2(config);",
        "set password=${DB_PASSWORD1}",
        "max_tokens: 4096000a",
        "secret: a word2",
        "the token count was 12345678: see tokens1234",
        "api_key = Config2::api_key_from_environment",
        "the password=",
    ] {
        assert_eq!(mask_credentials(text), text);
    }
}

proptest::proptest! {
    #[test]
    fn long_words_are_those_of_a_split(text in "([a-c.é-]{0,45}[ é]){0,6}[a-z_-]{0,25}") {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let words = text.split(|c: char| !is_of_word(c));
        let expected: Vec<&str> = words.filter(|word| word.len() >= MIN_WORD).collect();
        proptest::prop_assert_eq!(long_words(&text).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn overlapping_rules_find_a_credential_once() {
    let text = "Bearer sk-abcdefghijklmnopqrstuv, token=sk-abcdefghijklmnopqrstuv";
    let found = find_credentials(text);
    let words: Vec<&str> = found.iter().map(|range| &text[range.clone()]).collect();
    assert_eq!(words, ["sk-abcdefghijklmnopqrstuv"; 2]);
}

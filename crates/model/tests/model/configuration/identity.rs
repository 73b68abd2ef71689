//! The identity of a model in keys, and the secrets that it does not contain.

use cachalot_core::DigestKey;

use super::models;
use crate::client::KEY;

#[test]
fn identity_contains_exactly_what_changes_answers() {
    let base = "provider: lab, model: x";
    let providers = "providers: {lab: {base_url: 'http://lab.example/v1?code=hunter22'}}";
    let identity = |keys: &str| {
        let yaml = format!("models: {{m: {{{base}{keys}}}}}\n{providers}");
        let environment = [("A", KEY), ("B", "another-key-0123456789")];
        let models = models(&yaml, &environment).with_digest_key(DigestKey::new([7; 32]));
        models.find("m").unwrap().identity()
    };
    let plain = identity("");
    assert_eq!(plain["provider"], "lab");
    assert_eq!(plain["parameters"]["model"], "x");
    for same in [
        ", token_key: A",
        ", token_key: B",
        ", retries: 9",
        ", timeouts: {idle: 1}",
        ", cost: {input: 1, output: 1}",
        ", context: 9",
    ] {
        assert_eq!(identity(same), plain, "{same}");
    }
    let different = [
        "",
        ", temperature: 0",
        ", temperature: 1",
        ", max_tokens: 5",
        ", format: responses",
        ", base_url: 'http://other.example/v1'",
        ", base_url: 'http://lab.example/v1?code=other222'",
        ", provider_opts: {seed: 1}",
        ", headers: {x-variant: abcdefghi}",
        ", headers: {x-variant: abcdefghj}",
        ", headers: {x-other: abcdefghj}",
        ", headers: {anthropic-beta: a}",
        ", headers: {anthropic-beta: b}",
    ];
    let identities: Vec<String> = different
        .iter()
        .map(|keys| identity(keys).to_string())
        .collect();
    for (index, one) in identities.iter().enumerate() {
        for other in &identities[index + 1..] {
            assert_ne!(one, other);
        }
        for secret in ["hunter22", "other222", "abcdefgh", KEY] {
            assert!(!one.contains(secret), "{one}");
        }
    }
    assert!(
        identities[11].contains("\"anthropic-beta\":\"a\""),
        "{}",
        identities[11]
    );
}

#[test]
fn identity_without_a_digest_key_is_valid_within_the_process_only() {
    let yaml = "models: {m: {provider: openai, model: x, headers: {x-variant: abc}}}";
    let models_one = models(yaml, &[]);
    let one = models_one.find("m").unwrap().identity();
    assert_eq!(models_one.clone().find("m").unwrap().identity(), one);
    assert_ne!(models(yaml, &[]).find("m").unwrap().identity(), one);
    assert!(
        one["headers"]["x-variant"]["digest"]
            .as_str()
            .is_some_and(|digest| digest.len() == 64)
    );
}

#[test]
fn debug_output_contains_no_secret() {
    let yaml = "models: {m: {provider: openai, model: x, base_url: 'https://a.example/?key=hunter22', token_key: A, headers: {x-a: abcdefgh}}}";
    let models = models(yaml, &[("A", KEY)]);
    let model = models.find("m").unwrap();
    let shown = format!(
        "{models:?} {model:?} {:?} {}",
        models.configured(),
        model.base_url()
    );
    for secret in [KEY, "hunter22", "abcdefgh"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

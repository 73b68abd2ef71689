use cachalot_core::canonical::{Canonical, ObjectEncoder};
use cachalot_core::secret::MASK;
use cachalot_core::{DigestKey, SecretSet};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::oracle::same_value;
use super::values::{reordered, value};

fn secret_set(secrets: &[&str]) -> SecretSet {
    let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
    secrets.iter().for_each(|secret| secret_set.learn(secret));
    secret_set
}

fn holds(bytes: &Canonical, secret: &str) -> bool {
    bytes
        .as_bytes()
        .windows(secret.len())
        .any(|window| window == secret.as_bytes())
}

#[test]
fn secrets_are_replaced_wherever_they_occur() {
    let secret_set = secret_set(&["hunter2", "47114711"]);
    for value in [
        json!("hunter2"),
        json!("Bearer hunter2"),
        json!({"a": [{"b": "xhunter2hunter2y"}]}),
        json!({"hunter2": 1}),
        json!({"z": 1, "pre-hunter2": {"hunter2-post": null}}),
        json!(47_114_711),
        json!([1.471_147_11]),
        json!("hunter2 and 47114711"),
    ] {
        let bytes = Canonical::sealed(&value, &secret_set);
        assert!(
            !holds(&bytes, "hunter2") && !holds(&bytes, "47114711"),
            "{value}"
        );
        let shown = bytes.readable().to_string();
        assert!(!secret_set.occurs_in(shown.as_bytes()), "{shown}");
        assert_ne!(bytes, Canonical::value(&value));
        assert!(bytes.holds_secrets());
    }
    assert_eq!(
        Canonical::sealed(&json!({"hunter2": ["a hunter2 b", 5]}), &secret_set).readable(),
        json!({MASK: [format!("a {MASK} b"), 5]}),
    );
}

#[test]
fn different_secrets_in_a_text_give_different_inputs() {
    let sealed = |secret: &str| {
        Canonical::sealed(
            &json!({"auth": format!("Bearer {secret}")}),
            &secret_set(&["hunter2", "hunter3"]),
        )
    };
    assert_ne!(sealed("hunter2"), sealed("hunter3"));
    assert_eq!(sealed("hunter2"), sealed("hunter2"));
    let value = json!({"auth": "Bearer hunter2"});
    let other_key = SecretSet::with_key(DigestKey::new([8; 32]));
    other_key.learn("hunter2");
    assert_ne!(Canonical::sealed(&value, &other_key), sealed("hunter2"));
    // A secret in the key of a field, and the same as its value.
    let at = |value: Value| Canonical::sealed(&value, &secret_set(&["hunter2", "hunter3"]));
    assert_ne!(at(json!({"hunter2": 1})), at(json!({"hunter3": 1})));
    assert_ne!(
        at(json!({"hunter2": "hunter3"})),
        at(json!({"hunter3": "hunter2"}))
    );
}

#[test]
fn position_of_a_secret_changes_the_input() {
    let secret_set = secret_set(&["hunter2"]);
    let texts = [
        "hunter2",
        " hunter2",
        "hunter2 ",
        "hunter2hunter2",
        "ahunter2b",
        "abhunter2",
        "hunter",
        "",
    ];
    for (n, a) in texts.iter().enumerate() {
        for b in &texts[n + 1..] {
            assert_ne!(
                Canonical::sealed(&json!(a), &secret_set),
                Canonical::sealed(&json!(b), &secret_set),
                "{a} {b}"
            );
        }
    }
}

#[test]
fn text_in_the_sealed_form_is_another_input() {
    let secret_set = secret_set(&["hunter2"]);
    let sealed = Canonical::sealed(&json!("a hunter2"), &secret_set);
    let digest = secret_set.key().unwrap().digest(b"hunter2");
    let raw = String::from_utf8_lossy(&sealed.as_bytes()).into_owned();
    for literal in [
        format!("a {MASK}"),
        format!("a {digest}"),
        format!("a {}", String::from_utf8_lossy(digest.as_bytes())),
        raw,
    ] {
        for value in [
            json!(literal),
            json!(["a ", literal]),
            json!({"a ": literal}),
        ] {
            assert_ne!(Canonical::sealed(&value, &secret_set), sealed);
            assert_ne!(Canonical::value(&value), sealed);
        }
    }
    assert_ne!(
        Canonical::sealed(&json!("4711"), &self::secret_set(&["4711"])),
        Canonical::sealed(&json!(4711), &self::secret_set(&["4711"]))
    );
}

#[test]
fn values_without_secrets_are_unchanged() {
    let value = json!({"a": ["x", 1, null]});
    assert_eq!(
        Canonical::sealed(&value, &SecretSet::empty()),
        Canonical::value(&value)
    );
    assert_eq!(
        Canonical::sealed(&value, &secret_set(&[])),
        Canonical::value(&value)
    );
    assert_eq!(
        Canonical::sealed(&value, &secret_set(&["hunter2"])),
        Canonical::value(&value)
    );
    assert!(!Canonical::sealed(&value, &secret_set(&["hunter2"])).holds_secrets());
}

/// Puts the secret into every text and key of `value`.
fn planted(value: &Value, secret: &str) -> Value {
    let plant = |text: &str| text.replace('a', secret);
    match value {
        Value::String(text) => json!(plant(text)),
        Value::Array(items) => items.iter().map(|item| planted(item, secret)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, field)| (plant(key), planted(field, secret)))
                .collect(),
        ),
        scalar => scalar.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn sealed_values_have_equal_bytes_exactly_if_they_are_equal(a in value(), b in value()) {
        let secret = "correct horse";
        let secret_set = secret_set(&[secret, "battery"]);
        let (a, b) = (planted(&a, secret), planted(&b, secret));
        let other = planted(&a, "x");
        for (left, right) in [(&a, &b), (&a, &other), (&a, &reordered(&a))] {
            let (left_bytes, right_bytes) = (Canonical::sealed(left, &secret_set), Canonical::sealed(right, &secret_set));
            prop_assert_eq!(left_bytes == right_bytes, same_value(left, right), "{} {}", left, right);
            prop_assert!(!holds(&left_bytes, secret));
        }
    }

    #[test]
    fn sealed_bytes_depend_on_the_secret_and_do_not_contain_it(value in value()) {
        let secret_set = secret_set(&["correct horse", "battery staple"]);
        let (one, two) = (planted(&json!(["a", value]), "correct horse"), planted(&json!(["a", value]), "battery staple"));
        let (one, two) = (Canonical::sealed(&one, &secret_set), Canonical::sealed(&two, &secret_set));
        prop_assert_ne!(&one, &two);
        prop_assert!(!holds(&one, "correct horse") && !holds(&two, "battery staple"));
    }
}

#[test]
fn objects_encoded_by_field_have_the_bytes_of_the_whole() {
    let args =
        json!({"model": "m", "auth": "Bearer hunter2", "n": 4711, "a": [{"z": 1, "b": null}]});
    let whole = json!({
        "version": 3, "args": args, "content": "c", "agent": "hunter2's", "implicit": null,
        "items": [{"z": "hunter2", "a": {"left": 1}}, 5, {}],
    });
    let items = [
        json!({"z": "hunter2", "left": 47, "a": {"left": 1}}),
        json!(5),
        json!({"left": 1}),
    ];
    let fields = args.as_object().unwrap();
    for secret_set in [SecretSet::empty(), secret_set(&["hunter2", "47"])] {
        let mut encoder = ObjectEncoder::sealed(&secret_set);
        encoder.text("agent", "hunter2's");
        encoder.object("args", fields.iter());
        encoder.text("content", "c");
        encoder.field("implicit", &Value::Null);
        encoder.list("items", &items, |_| vec!["left"]);
        encoder.field("version", &json!(3));
        let expected = Canonical::sealed(&whole, &secret_set);
        let encoded = encoder.finish();
        assert_eq!(encoded, expected);
        assert_eq!(encoded.holds_secrets(), expected.holds_secrets());
    }
}

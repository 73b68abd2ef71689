//! Canonical bytes in several parts, and their form for display.

use std::sync::Arc;

use cachalot_core::canonical::{Assembler, SharedValue};
use cachalot_core::secret::redact_value;
use cachalot_core::{Canonical, Digest, DigestKey, SecretSet};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::values::value;

/// Cuts long texts, as [`Canonical::shown`] describes it.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > 2_000 => {
            let digest = Digest::sha256(text.as_bytes()).to_hex();
            let cut = &text[..text.floor_char_boundary(200)];
            *text = format!("{cut}… ({} bytes, sha256 {})", text.len(), &digest[..16]);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

fn expected(input: &Canonical, secret_set: &SecretSet) -> String {
    let mut value = input.readable();
    redact_value(&mut value, secret_set);
    shorten(&mut value);
    value.to_string()
}

fn shared(value: &Value) -> Arc<SharedValue> {
    Arc::new(SharedValue::new(Canonical::value(value)).unwrap())
}

/// `{"a": …, "list": […]}` of shared values.
fn assembled(first: &Value, items: &[Arc<SharedValue>]) -> Canonical {
    let mut whole = Assembler::new();
    whole.open_object();
    whole.text("a");
    whole.canonical(&Canonical::value(first));
    whole.text("list");
    whole.open_list();
    items.iter().for_each(|item| whole.shared(item));
    whole.end();
    whole.end();
    whole.finish()
}

fn secrets(known: &[&str]) -> SecretSet {
    let secret_set = SecretSet::with_key(DigestKey::new([1; 32]));
    known.iter().for_each(|secret| secret_set.learn(secret));
    secret_set
}

#[test]
fn credentials_are_masked_and_long_texts_cut() {
    let long = format!("é{}", "long é text ".repeat(400));
    let value = json!({
        "password": {"deep": [1, {"x": "y"}]}, "token": null, "secret": true, "api_key": 5,
        "text": long, "more": [format!("password=hunter2hunter2 {long}"), "hunter2 \"quoted\" \u{1}"],
        "number": 1.5, "large": 18_446_744_073_709_551_615_u64, "empty": [{}, [], ""],
    });
    for known in [&[][..], &["hunter2"]] {
        let secret_set = secrets(known);
        let whole = Canonical::value(&value);
        let shown = whole.shown(&secret_set, 64 << 10).unwrap();
        assert_eq!(shown, expected(&whole, &secret_set));
        assert!(!shown.contains("hunter2hunter2"));
        let parts = assembled(&value, &[shared(&value), shared(&value)]);
        let expected = expected(&parts, &secret_set);
        // The second time from what was kept.
        for _ in 0..2 {
            assert_eq!(parts.shown(&secret_set, 64 << 10).as_ref(), Some(&expected));
        }
        assert_eq!(parts.shown(&secret_set, expected.len() - 1), None);
        assert!(parts.shown(&secret_set, expected.len()).is_some());
    }
    // Sealed texts are masked, too.
    let sealed = Canonical::sealed(&json!(["a hunter2", "x"]), &secrets(&["hunter2"]));
    assert_eq!(
        sealed.shown(&secrets(&[]), 100).unwrap(),
        r#"["a [secret]","x"]"#
    );
    let lexeme = Canonical::json(b"[1e400, 1.0, 5]").unwrap();
    assert_eq!(
        lexeme.shown(&secrets(&[]), 100).unwrap(),
        r#"["1e400",1.0,5]"#
    );
}

proptest! {
    #[test]
    fn parts_are_the_same_bytes(first in value(), items in prop::collection::vec(value(), 0..4)) {
        let values: Vec<_> = items.iter().map(shared).collect();
        let parts = assembled(&first, &values);
        let whole = Canonical::value(&json!({"a": first, "list": items}));
        prop_assert_eq!(parts.len(), whole.len());
        prop_assert_eq!(parts.digest(), whole.digest());
        prop_assert_eq!(&parts, &whole);
        prop_assert_eq!(parts.readable(), whole.readable());
        let (none, all) = (secrets(&[]), 1 << 20);
        prop_assert_eq!(parts.shown(&none, all), Some(expected(&whole, &none)));
        prop_assert_eq!(whole.shown(&none, all), Some(expected(&whole, &none)));
    }

    #[test]
    fn value_in_a_text_is_encoded_to_its_end(value in value(), behind in "[ ,\\]}x\"]{0,3}") {
        let text = format!(" {value}{behind}");
        // A number has no end of its own.
        prop_assume!(!value.is_number());
        let (encoded, length) = Canonical::json_value(text.as_bytes(), 2).unwrap();
        prop_assert_eq!(encoded, Canonical::json(value.to_string().as_bytes()).unwrap());
        prop_assert_eq!(&text[..length], format!(" {value}"));
    }
}

#[test]
fn depth_around_a_value_counts() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Canonical::json_value(lists(126).as_bytes(), 2).is_ok());
    assert!(Canonical::json_value(lists(127).as_bytes(), 2).is_err());
    assert!(Canonical::json_value(b"\"\xff\"", 0).is_err());
}

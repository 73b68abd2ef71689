//! Unit tests of `src/exact_json.rs`.

use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn long_integers_keep_every_digit() {
    assert_eq!(
        parse("9007199254740993").unwrap(),
        json!(9_007_199_254_740_993_u64)
    );
    assert_eq!(parse("18446744073709551615").unwrap(), json!(u64::MAX));
    assert_eq!(parse("-9223372036854775808").unwrap(), json!(i64::MIN));
    assert_eq!(
        parse("18446744073709551616").unwrap(),
        json!("18446744073709551616")
    );
    assert_eq!(
        parse("-9223372036854775809").unwrap(),
        json!("-9223372036854775809")
    );
    assert_eq!(
        parse(r#"{"a": [ 123456789012345678901234 , 1], "b":123456789012345678901234}"#).unwrap(),
        json!({"a": ["123456789012345678901234", 1], "b": "123456789012345678901234"})
    );
}

#[test]
fn digits_in_strings_and_floats_are_unchanged() {
    let text = r#"["a\" 123456789012345678901234", 1.5e3, 123456789012345678901234.5]"#;
    assert_eq!(
        parse(text).unwrap(),
        serde_json::from_str::<Value>(text).unwrap()
    );
}

#[test]
fn invalid_json_with_long_numbers_is_refused() {
    for text in [
        "{123456789012345678901234: 1}",
        r#"{"a": 1, 123456789012345678901234: 2}"#,
        r#"{"a": 1, 123456789012345678901234}"#,
        "000123456789012345678901234",
        "[123456789012345678901234 5]",
        "--123456789012345678901234",
        "1e400",
        "\"123456789012345678901234",
        "",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |float| float.is_finite())
            .prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".*", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_round_trips_through_text(value in trees()) {
        prop_assert_eq!(parse(&value.to_string()).unwrap(), value.clone());
        prop_assert_eq!(parse(&serde_json::to_string_pretty(&value).unwrap()).unwrap(), value);
    }

    #[test]
    fn parser_agrees_with_serde_except_for_long_numbers(text in r#"[\[\]{}:, "0-9a\\.e-]{0,40}"#) {
        if let (Ok(ours), Ok(theirs)) = (parse(&text), serde_json::from_str::<Value>(&text)) {
            if !text.bytes().collect::<Vec<_>>().windows(19).any(|w| w.iter().all(u8::is_ascii_digit)) {
                prop_assert_eq!(ours, theirs);
            }
        } else {
            prop_assert_eq!(parse(&text).is_ok(), serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}

use cachalot_core::Canonical;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::mutation::{Choices, mutate};
use super::oracle::same_value;

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-c]{0,3}",
        1 => "[ -~é🐋\\n\u{0}]{0,8}",
        1 => prop::sample::select(vec!["null", "1", "1.0", "[]", "e", "s\u{1}a", "d\u{1}1", "é"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,200}",
    ]
}

pub(super) fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3_i64..4).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3_i32..4).prop_map(|n| Value::from(f64::from(n))),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::from),
        prop::sample::select(vec![
            json!(0.0),
            json!(-0.0),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(i64::MAX),
            json!(1e16),
            json!(9_007_199_254_740_993_i64),
            json!(9_007_199_254_740_992_i64),
            json!(5e-324),
            json!(9_007_199_254_740_992.0),
            json!(1.797_693_134_862_315_7e308),
            json!(1e21),
            json!(1e-7),
            json!(18_446_744_073_709_551_616.0),
        ]),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The same value with the keys of every object in another order.
pub(super) fn reordered(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reordered).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            let middle = fields.len() / 2;
            fields.rotate_left(middle);
            fields.reverse();
            Value::Object(
                fields
                    .into_iter()
                    .map(|(key, field)| (key.clone(), reordered(field)))
                    .collect(),
            )
        }
        scalar => scalar.clone(),
    }
}

fn agrees(a: &Value, b: &Value) -> Result<(), TestCaseError> {
    let (left, right) = (Canonical::value(a), Canonical::value(b));
    prop_assert_eq!(left == right, same_value(a, b), "{} and {}", a, b);
    prop_assert_eq!(left.digest() == right.digest(), left == right);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn values_have_equal_bytes_exactly_if_they_are_equal(
        a in value(), b in value(), choices in prop::collection::vec(any::<u8>(), 12),
    ) {
        agrees(&a, &b)?;
        let mut near = a.clone();
        let mut choices = Choices::new(&choices);
        mutate(&mut near, &mut choices);
        agrees(&a, &near)?;
        let mut nearer = near.clone();
        mutate(&mut nearer, &mut choices);
        agrees(&near, &nearer)?;
        agrees(&a, &nearer)?;
    }

    #[test]
    fn key_order_is_insignificant_at_every_level(value in value()) {
        prop_assert_eq!(Canonical::value(&value), Canonical::value(&reordered(&value)));
    }

    #[test]
    fn small_numbers_equal_those_of_the_oracle(a in number(), b in number()) {
        agrees(&a, &b)?;
    }
}

#[test]
fn similar_values_have_different_bytes() {
    let values = [
        json!(null),
        json!("null"),
        json!(false),
        json!(0),
        json!(0.0),
        json!(-0.0),
        json!("0"),
        json!(""),
        json!([]),
        json!({}),
        json!([[]]),
        json!([{}]),
        json!([null]),
        json!([0]),
        json!({"": null}),
        json!(["a", "b"]),
        json!(["ab"]),
        json!(["ab", ""]),
        json!(["", "ab"]),
        json!([["a"], "b"]),
        json!([["a", "b"]]),
        json!({"a": "b"}),
        json!({"a": ["b"]}),
        json!({"a": {"b": null}}),
        json!({"a": null, "b": null}),
        json!({"a.b": null}),
        json!(9_007_199_254_740_992_i64),
        json!(9_007_199_254_740_993_i64),
        json!(9_007_199_254_740_992.0),
        json!(u64::MAX),
        json!(-1),
        json!(1),
        json!(1.0),
        json!("1"),
        json!("1.0"),
        json!("é"),
        json!("e\u{301}"),
        json!("a\u{0}"),
        json!("a"),
        json!("A"),
        json!(1e21),
        json!("1e21"),
    ];
    for (n, a) in values.iter().enumerate() {
        for b in &values[n + 1..] {
            assert_ne!(Canonical::value(a), Canonical::value(b), "{a} and {b}");
        }
    }
}

#[test]
fn integers_are_equal_in_every_representation() {
    assert_eq!(
        Canonical::value(&json!(5_u8)),
        Canonical::value(&json!(5_i64))
    );
    assert_eq!(
        *Canonical::value(&json!(u64::MAX)).as_bytes(),
        *b"d\x1418446744073709551615"
    );
}

#[test]
fn long_texts_keep_their_length() {
    for length in [127, 128, 16_383, 16_384, 2_097_152] {
        let (a, b) = (json!("x".repeat(length)), json!(["x".repeat(length), "x"]));
        let bytes = Canonical::value(&a);
        assert_eq!(bytes.readable(), a);
        assert_eq!(Canonical::value(&b).readable(), b);
        assert_eq!(
            Canonical::json(&serde_json::to_vec(&a).unwrap()).unwrap(),
            bytes
        );
    }
}

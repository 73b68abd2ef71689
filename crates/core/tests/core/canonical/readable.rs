use cachalot_core::Canonical;
use proptest::prelude::*;
use serde_json::json;

use super::oracle::same_value;
use super::values::value;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn value_round_trips_through_readable(value in value()) {
        let read = Canonical::value(&value).readable();
        prop_assert!(same_value(&read, &value), "{} became {}", value, read);
    }
}

#[test]
fn numbers_that_json_values_cannot_hold_are_readable_as_text() {
    let read = |text: &str| Canonical::json(text.as_bytes()).unwrap().readable();
    assert_eq!(
        read(r#"{"b": [1, 1.5, 1e400, 18446744073709551616, 1.00], "a": "A"}"#),
        json!({"a": "A", "b": [1, 1.5, "1e400", "18446744073709551616", "1.00"]}),
    );
    assert_eq!(read("-0"), json!("-0"));
    assert_eq!(
        read("-1.3431606406666601e-112"),
        json!(-1.343_160_640_666_660_1e-112)
    );
}

//! Unit tests of `src/arguments.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::{Value, json};

use super::excerpt;
use crate::{Failure, OperationMetadata, Parameter, ParameterKind};

static ABOUT: OperationMetadata = OperationMetadata::declared(
    "test.act",
    &["actions.test_act"],
    "Tests.",
    &[
        Parameter::required("path", ParameterKind::Text, "Text."),
        Parameter::optional("count", ParameterKind::Integer, "Integer."),
        Parameter::optional("ratio", ParameterKind::Number, "Number."),
        Parameter::optional("flag", ParameterKind::Boolean, "Boolean."),
        Parameter::optional("fields", ParameterKind::Object, "Object."),
        Parameter::optional("items", ParameterKind::List, "List."),
        Parameter::optional("data", ParameterKind::Any, "Any."),
    ],
);

fn checked(value: Value) -> Result<Value, Failure> {
    let Value::Object(arguments) = value else {
        panic!("arguments are a mapping")
    };
    ABOUT.check(arguments).map(Value::Object)
}

/// Returns the message about arguments that are refused.
fn refused(value: Value) -> String {
    let failure = checked(value).unwrap_err();
    assert_eq!(failure.kind, "validation_error");
    failure.message
}

#[test]
fn scalars_are_cast_from_template_text() {
    let cast = |name: &str, value: Value| {
        checked(json!({"path": "p", name: value})).unwrap()[name].clone()
    };
    assert_eq!(cast("path", json!(5)), json!("5"));
    assert_eq!(cast("path", json!(5.0)), json!("5.0"));
    assert_eq!(cast("path", json!(true)), json!("true"));
    assert_eq!(cast("count", json!("60")), json!(60));
    assert_eq!(cast("count", json!(" -7 ")), json!(-7));
    assert_eq!(cast("count", json!(60.0)), json!(60));
    assert_eq!(
        cast("count", json!("18446744073709551615")),
        json!(u64::MAX)
    );
    assert_eq!(cast("ratio", json!("0.5")), json!(0.5));
    assert_eq!(cast("ratio", json!("3")), json!(3));
    assert_eq!(cast("flag", json!("false")), json!(false));
    assert_eq!(cast("flag", json!("True")), json!(true));
    assert_eq!(cast("data", json!([1])), json!([1]));
}

#[test]
fn errors_name_arguments_that_cannot_be_cast() {
    let wrong = |name: &str, value: Value| refused(json!({"path": "p", name: value}));
    assert_eq!(
        wrong("count", json!(1.5)),
        "test.act: parameter `count` is 1.5: expected a whole number"
    );
    assert_eq!(
        wrong("count", json!("1e3x")),
        "test.act: parameter `count` is `1e3x`: expected a whole number"
    );
    assert_eq!(
        wrong("count", json!(true)),
        "test.act: parameter `count` is a boolean: expected a whole number"
    );
    assert_eq!(
        wrong("flag", json!("yes")),
        "test.act: parameter `flag` is `yes`: expected true or false"
    );
    assert_eq!(
        wrong("flag", json!(0)),
        "test.act: parameter `flag` is a number: expected true or false"
    );
    assert_eq!(
        wrong("ratio", json!("NaN")),
        "test.act: parameter `ratio` is `NaN`: expected a number"
    );
    assert_eq!(
        wrong("ratio", json!("123456789012345678901")),
        "test.act: parameter `ratio` is `123456789012345678901`: expected a number"
    );
    assert!(wrong("path", json!({})).contains("`tojson`"));
    assert!(wrong("items", json!("[1]")).contains("`fromjson`"));
}

#[test]
fn nulls_are_dropped_unless_any_type_is_accepted() {
    assert_eq!(
        checked(json!({"path": "p", "count": null, "data": null})).unwrap(),
        json!({"path": "p", "data": null})
    );
    assert_eq!(
        refused(json!({"path": null})),
        "test.act: parameter `path` is required"
    );
}

#[test]
fn all_unknown_parameters_are_reported_with_suggestions() {
    let message = refused(json!({"pth": "x", "banana": 1}));
    assert!(
        message.contains("unknown parameter `pth`: did you mean `path`?"),
        "{message}"
    );
    assert!(
        message.contains("unknown parameter `banana`: expected one of: path, count"),
        "{message}"
    );
    assert!(
        message.contains("parameter `path` is required"),
        "{message}"
    );
}

#[test]
fn wrong_parameter_is_not_also_reported_as_missing() {
    assert_eq!(refused(json!({"path": []})).matches("path").count(), 1);
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "ä".repeat(400);
    assert_eq!(excerpt(&long).chars().count(), 301);
    assert_eq!(excerpt(" short "), "short");
}

//! Unit tests of `src/actions/arguments/checked.rs`.

use serde_json::json;

use super::*;
use crate::Parameter;

static METADATA: OperationMetadata = OperationMetadata::declared(
    "test.act",
    &[],
    "Tests.",
    &[Parameter::required("path", ParameterKind::Text, "Text.")],
);

#[test]
fn unchecked_argument_is_a_failure_without_panic() {
    let arguments = json!({"path": 5, "ratio": -1});
    let given = CheckedArguments::new(&METADATA, arguments.as_object().unwrap());
    assert!(given.required_text("path").is_err());
    assert!(given.duration("ratio").is_err());
    assert!(given.count("ratio").is_err());
    assert_eq!(given.text("none").unwrap(), None);
}

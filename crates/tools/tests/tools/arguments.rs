//! Casting and checking of the arguments that models write.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_tools::{
    Arguments, CacheClass, Operation, OperationMetadata, Origin, PreparedCall, Registry, Tool,
    ToolContext, ToolOutput, Toolbox as _,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tool_fixture::{call, text};

struct SchemaTool(OperationMetadata);

#[async_trait]
impl Operation for SchemaTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.0
    }

    async fn run(&self, arguments: Arguments, _: &ToolContext) -> ToolOutput {
        ToolOutput::text(Value::Object(arguments).to_string())
    }
}

fn taking(parameters: Value) -> Registry {
    let metadata = OperationMetadata {
        name: "tool".into(),
        aliases: &[],
        description: "Takes arguments.".into(),
        parameters: parameters.into(),
        version: 1,
        origin: Origin::BuiltIn,
        read_only: true,
        exclusive: false,
        cache_class: CacheClass::Never,
    };
    let tool: Arc<dyn Tool> = Arc::new(SchemaTool(metadata));
    Registry::new(vec![tool]).unwrap()
}

fn prepare(parameters: &Value, written: &str) -> Result<Value, ToolOutput> {
    match taking(parameters.clone()).prepare(call("tool", written)) {
        PreparedCall::Ready(ready) => Ok(Value::Object(ready.arguments)),
        PreparedCall::Refused(refused) => {
            assert!(refused.output.is_error);
            Err(refused.output)
        }
    }
}

/// The result of casting an argument to this schema.
fn cast(schema: Value, written: &str) -> Result<Value, ToolOutput> {
    let parameters = json!({"type": "object", "properties": {"x": schema}, "required": ["x"]});
    prepare(&parameters, &format!("{{\"x\": {written}}}")).map(|arguments| arguments["x"].clone())
}

#[test]
fn unambiguous_values_are_cast() {
    let integers = || json!({"type": "array", "items": {"type": "integer"}});
    let table = [
        (json!({"type": "integer"}), r#""5""#, json!(5)),
        (json!({"type": "integer"}), r#"" -5 ""#, json!(-5)),
        (json!({"type": "integer"}), "5.0", json!(5)),
        (json!({"type": "integer"}), r#""5.0""#, json!(5)),
        (json!({"type": "integer"}), "1e3", json!(1000)),
        (
            json!({"type": "integer"}),
            "9007199254740993.0",
            json!(9_007_199_254_740_993_u64),
        ),
        (
            json!({"type": "integer"}),
            r#""18446744073709551615""#,
            json!(u64::MAX),
        ),
        (json!({"type": "number"}), r#""2.5""#, json!(2.5)),
        (json!({"type": "number"}), r#""2""#, json!(2)),
        (json!({"type": "boolean"}), r#""true""#, json!(true)),
        (json!({"type": "boolean"}), r#""Yes""#, json!(true)),
        (json!({"type": "boolean"}), r#""1""#, json!(true)),
        (json!({"type": "boolean"}), "1", json!(true)),
        (json!({"type": "boolean"}), r#""false""#, json!(false)),
        (json!({"type": "boolean"}), r#""no""#, json!(false)),
        (json!({"type": "boolean"}), "0", json!(false)),
        (json!({"type": "string"}), "5", json!("5")),
        // A version is not a number: as it was written.
        (json!({"type": "string"}), "3.10", json!("3.10")),
        (
            json!({"type": "string"}),
            "123456789012345678901234567890",
            json!("123456789012345678901234567890"),
        ),
        (json!({"type": "string"}), "true", json!("true")),
        (integers(), r#""[1, 2]""#, json!([1, 2])),
        (integers(), r#"["1", 2.0]"#, json!([1, 2])),
        (integers(), "7", json!([7])),
        (integers(), r#""7""#, json!([7])),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            r#""a b""#,
            json!(["a b"]),
        ),
        (json!({"type": "array"}), r#"{"a": 1}"#, json!([{"a": 1}])),
        (
            json!({"type": "object"}),
            r#""{\"a\": 1}""#,
            json!({"a": 1}),
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            r#""5""#,
            json!(5),
        ),
        (json!({"type": ["integer", "null"]}), r#""5""#, json!(5)),
        (
            json!({"oneOf": [integers(), {"type": "object"}]}),
            r#"["5"]"#,
            json!([5]),
        ),
        (json!({"enum": [1, 2, 3]}), r#""2""#, json!(2)),
        (json!({"const": "5"}), "5", json!("5")),
        (
            json!({"allOf": [{"type": "integer"}, {"minimum": 1}]}),
            r#""5""#,
            json!(5),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            r#"{"a": "1", "b": 2.0}"#,
            json!({"a": 1, "b": 2}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}),
            r#"[1, "2"]"#,
            json!(["1", 2]),
        ),
    ];
    for (schema, written, expected) in table {
        assert_eq!(
            cast(schema.clone(), written),
            Ok(expected),
            "{written} as {schema}"
        );
    }
}

#[test]
fn valid_values_are_unchanged() {
    for (schema, written) in [
        (json!({"type": "string"}), r#""5""#),
        (json!({"type": "string"}), r#""[1]""#),
        (json!({"type": ["string", "integer"]}), r#""5""#),
        (json!({"type": ["string", "integer"]}), "5"),
        (json!({"type": "number"}), "5.0"),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}),
            r#""true""#,
        ),
        (json!({}), r#""5""#),
        (json!(true), r#"{"a": "1"}"#),
        (json!({"type": ["integer", "null"]}), "null"),
    ] {
        let value: Value = serde_json::from_str(written).unwrap();
        assert_eq!(
            cast(schema.clone(), written),
            Ok(value),
            "{written} as {schema}"
        );
    }
}

#[test]
fn ambiguous_or_lossy_values_are_refused() {
    for (schema, written) in [
        (json!({"type": ["integer", "boolean"]}), r#""1""#),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}),
            r#""1""#,
        ),
        (json!({"type": ["integer", "array"]}), r#""1""#),
        (json!({"type": "integer"}), "5.5"),
        (json!({"type": "integer"}), r#""5.5""#),
        (json!({"type": "integer"}), r#""five""#),
        (json!({"type": "integer"}), r#""007""#),
        (json!({"type": "integer"}), "true"),
        (json!({"type": "integer"}), "18446744073709551616"),
        (json!({"type": "integer"}), r#""18446744073709551616""#),
        (json!({"type": "integer"}), "9007199254740991.4"),
        (json!({"type": "integer"}), "123456789012345678901.0"),
        (json!({"type": "integer"}), "1e20"),
        (
            json!({"type": "number"}),
            r#""123456789012345678901234567890""#,
        ),
        (json!({"type": "number"}), "123456789012345678901234567890"),
        (json!({}), "123456789012345678901234567890"),
        (json!({"type": "boolean"}), "2"),
        (json!({"type": "boolean"}), r#""maybe""#),
        (json!({"type": "string"}), r#"{"a": 1}"#),
        (json!({"type": "string"}), "null"),
        (json!({"type": "object"}), r#""{\"a\": 1, \"a\": 2}""#),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            r#""x""#,
        ),
        (
            json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
            "1",
        ),
    ] {
        let result = cast(schema.clone(), written);
        assert!(result.is_err(), "{written} as {schema}: {result:?}");
    }
}

#[test]
fn nested_values_are_cast() {
    let schema = json!({
        "type": "object",
        "properties": {"edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}}},
        "$defs": {"edit": {
            "type": "object",
            "properties": {"line": {"type": "integer"}, "all": {"type": "boolean"}, "next": {"$ref": "#/$defs/edit"}},
        }},
    });
    let written =
        r#"{"edits": "[{\"line\": \"3\", \"next\": {\"line\": 4.0, \"all\": \"yes\"}}]"}"#;
    assert_eq!(
        prepare(&schema, written),
        Ok(json!({"edits": [{"line": 3, "next": {"line": 4, "all": true}}]}))
    );
}

#[test]
fn recursive_schema_terminates() {
    for circle in [
        json!({"$ref": "#/$defs/a"}),
        json!({"type": "array", "items": {"$ref": "#/$defs/list"}}),
        json!({"anyOf": [{"$ref": "#/$defs/either"}, {"type": "integer"}]}),
    ] {
        let schema = json!({
            "type": "object",
            "properties": {"x": circle},
            "$defs": {
                "a": {"$ref": "#/$defs/b"},
                "b": {"$ref": "#/$defs/a"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/list"}},
                "either": {"anyOf": [
                    {"type": "object", "properties": {"y": {"$ref": "#/$defs/either"}}},
                    {"type": "array", "items": {"$ref": "#/$defs/either"}},
                    {"type": "boolean"},
                ]},
            },
        });
        let metadata = OperationMetadata {
            name: "tool".into(),
            aliases: &[],
            description: String::new().into(),
            parameters: schema.into(),
            version: 1,
            // Such schemas do not always compile.
            origin: Origin::Mcp("odd".to_owned()),
            read_only: true,
            exclusive: false,
            cache_class: CacheClass::Never,
        };
        let tool: Arc<dyn Tool> = Arc::new(SchemaTool(metadata));
        let registry = Registry::new(vec![tool]).unwrap();
        let deep = format!("{}5{}", "{\"y\": [".repeat(30), "]}".repeat(30));
        for written in [
            r#"{"x": "5"}"#,
            r#"{"x": [["5"]]}"#,
            &format!("{{\"x\": {deep}}}"),
        ] {
            let _ = registry.prepare(call("tool", written));
        }
    }
}

#[test]
fn null_for_an_optional_argument_is_dropped() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer"},
            "either": {"type": ["integer", "null"]},
            "any": {},
        },
        "required": ["path"],
    });
    assert_eq!(
        prepare(
            &schema,
            r#"{"path": "a", "limit": null, "either": null, "any": null}"#
        ),
        Ok(json!({"path": "a", "either": null, "any": null}))
    );
    let said = text(&prepare(&schema, r#"{"path": null}"#).unwrap_err());
    assert!(said.contains("`path` must be a string, not null"), "{said}");
}

fn file() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 10},
            "output": {"type": "string", "enum": ["content", "files"]},
            "nested": {"type": "object", "properties": {"deep": {"type": "array", "items": {"type": "integer"}}}},
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

#[test]
fn wrapped_arguments_are_unwrapped() {
    let expected = Ok(json!({"path": "a"}));
    for written in [
        r#"{"path": "a"}"#,
        r#" {"path": "a"} "#,
        r#""{\"path\": \"a\"}""#,
        r#"{"arguments": {"path": "a"}}"#,
        r#"{"arguments": "{\"path\": \"a\"}"}"#,
    ] {
        assert_eq!(prepare(&file(), written), expected, "{written}");
    }
    let nothing = json!({"type": "object", "properties": {"a": {}}});
    for written in [
        "",
        "  ",
        "null",
        r#""""#,
        "{}",
        r#"{"arguments": {}}"#,
        r#"{"arguments": null}"#,
    ] {
        assert_eq!(prepare(&nothing, written), Ok(json!({})), "{written}");
    }
    // A tool that has an argument of that name, or takes any, means what it says.
    for schema in [
        json!({"type": "object", "properties": {"arguments": {"type": "object"}}}),
        json!({"type": "object"}),
    ] {
        assert_eq!(
            prepare(&schema, r#"{"arguments": {"path": "a"}}"#),
            Ok(json!({"arguments": {"path": "a"}}))
        );
    }
}

#[test]
fn non_object_arguments_are_refused() {
    for (written, expected) in [
        ("[1]", "must be a JSON object, not an array"),
        ("5", "must be a JSON object, not a number"),
        ("true", "must be a JSON object, not a boolean"),
        (r#""\"\\\"5\\\"\"""#, "must be a JSON object"),
        (
            r#"{"path": "a", "path": "b"}"#,
            "the key `path` occurs twice, at line 1 column",
        ),
        (
            r#"{"nested": {"a": 1, "a": 2}}"#,
            "the key `a` occurs twice",
        ),
        (r#"{"path": "src/ma"#, "it ends after `{\"path\": \"src/ma`"),
        (r#"{"path" "a"}"#, "expected a colon, at line 1 column"),
        ("path: a", "not valid JSON"),
    ] {
        let said = text(&prepare(&file(), written).unwrap_err());
        assert!(said.contains(expected), "{written}: {said}");
        assert!(said.starts_with("`tool` did not run. "), "{said}");
    }
}

#[test]
fn error_messages_name_argument_expectation_and_value() {
    for (written, expected) in [
        ("{}", "`path` is missing: it must be a string (The file.)"),
        (
            r#"{"pth": "a"}"#,
            "there is no argument `pth`; did you mean `path`?",
        ),
        (
            r#"{"pth": "a"}"#,
            "`path` is missing: it must be a string (The file.); you gave `pth`",
        ),
        (
            r#"{"path": "a", "zzzz": 1}"#,
            "there is no argument `zzzz`; expected one of: path, limit, output, nested",
        ),
        (
            r#"{"path": "a", "limit": "ten"}"#,
            "`limit` must be an integer from 1 to 10, not the string \"ten\"",
        ),
        (
            r#"{"path": "a", "limit": 0}"#,
            "`limit` must be at least 1, not the number 0",
        ),
        (
            r#"{"path": "a", "output": "file"}"#,
            "`output` must be one of \"content\", \"files\", not the string \"file\"; did you mean \"files\"?",
        ),
        (
            r#"{"path": "a", "nested": {"deep": [1, "x"]}}"#,
            "`nested.deep[1]` must be an integer, not the string \"x\"",
        ),
        (
            r#"{"path": "a", "nested": "{\"deep\": ["}"#,
            "which is not valid JSON",
        ),
        (
            r#"{"path": {}}"#,
            "`path` must be a string, not the object {}",
        ),
    ] {
        let said = text(&prepare(&file(), written).unwrap_err());
        assert!(said.contains(expected), "{written}: {said}");
    }
    let several = text(&prepare(&file(), r#"{"limit": 0, "zzzz": 1}"#).unwrap_err());
    assert!(
        several.contains("Some arguments are wrong:\n- "),
        "{several}"
    );
    assert_eq!(several.matches("\n- ").count(), 3, "{several}");
    let long = prepare(
        &file(),
        &json!({"path": 1, "limit": "x".repeat(10_000)}).to_string(),
    );
    assert!(text(&long.unwrap_err()).len() < 400);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        "\\PC{0,8}".prop_map(Value::from),
        "-?[0-9]{1,25}(\\.[0-9]{1,3})?".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-e]{1,2}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    /// An empty schema changes nothing.
    #[test]
    fn open_schema_leaves_arguments_unchanged(fields in prop::collection::hash_map("[a-e]{1,3}", value(), 0..4)) {
        let given = Value::Object(fields.into_iter().collect());
        prop_assert_eq!(prepare(&json!({"type": "object"}), &given.to_string()), Ok(given));
    }

    /// The result matches the schema, and casting it again changes nothing.
    #[test]
    fn accepted_arguments_match_the_schema_and_are_stable(
        given in value(),
        types in prop::sample::subsequence(
            vec!["null", "boolean", "integer", "number", "string", "array", "object"], 1..4),
    ) {
        let schema = json!({"type": types});
        if let Ok(cast_value) = cast(schema.clone(), &given.to_string()) {
            prop_assert!(jsonschema::is_valid(&schema, &cast_value));
            prop_assert_eq!(cast(schema.clone(), &cast_value.to_string()), Ok(cast_value.clone()));
            if jsonschema::is_valid(&schema, &given) && !given.is_f64() {
                prop_assert_eq!(cast_value, given);
            }
        }
    }

    /// An integer that goes in comes out with all its digits, or not at all.
    #[test]
    fn numbers_keep_every_digit(digits in "-?[1-9][0-9]{0,24}", zeros in 0..4_usize) {
        let written = match zeros {
            0 => digits.clone(),
            zeros => format!("{digits}.{}", "0".repeat(zeros)),
        };
        for text in [written.clone(), format!("\"{written}\"")] {
            if let Ok(integer) = cast(json!({"type": "integer"}), &text) {
                prop_assert_eq!(integer.to_string(), digits.clone());
            } else {
                prop_assert!(digits.parse::<i64>().is_err() && digits.parse::<u64>().is_err());
            }
        }
    }
}

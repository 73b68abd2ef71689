//! Unit tests of `src/user_prompt.rs`.

use super::*;
use serde_json::json;

#[test]
fn values_of_lists_have_the_names_of_the_schema() {
    for (schema, titles) in [
        (
            json!({"oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]}),
            vec!["First", "Second"],
        ),
        (
            json!({"enum": ["a", "b"], "enumNames": ["First", "Second"]}),
            vec!["First", "Second"],
        ),
        (json!({"enum": ["a", "b"], "enumNames": ["First"]}), vec![]),
        (
            json!({"oneOf": [{"const": "a", "title": "First"}, {"const": "b"}]}),
            vec![],
        ),
        (json!({"type": "string"}), vec![]),
    ] {
        let schema = json!({"properties": {"x": schema}});
        let fields = AnswerField::from_schema(Some(&schema)).unwrap();
        assert_eq!(fields[0].choice_titles, titles, "{schema}");
    }
}

#[test]
fn answers_are_read_by_kind() {
    let choice = AnswerKind::Choice(vec![json!("red"), json!("blue"), json!(7)]);
    for (kind, text, expected) in [
        (&AnswerKind::Text, "7", json!("7")),
        (&AnswerKind::Integer, "-7", json!(-7)),
        (&AnswerKind::Number, "0.5", json!(0.5)),
        (&AnswerKind::Boolean, "Y", json!(true)),
        (&AnswerKind::Boolean, "no", json!(false)),
        (&choice, "2", json!("blue")),
        (&choice, "red", json!("red")),
        // A value is taken before a number.
        (&choice, "7", json!(7)),
        (&AnswerKind::Json, "[1]", json!([1])),
    ] {
        assert_eq!(kind.parse(text).unwrap(), expected, "{kind:?} {text}");
    }
    for (kind, text) in [
        (&AnswerKind::Integer, "1.5"),
        (&AnswerKind::Number, "inf"),
        (&AnswerKind::Boolean, "maybe"),
        (&choice, "0"),
        (&choice, "4"),
        (&AnswerKind::Json, "{"),
    ] {
        let refused = kind.parse(text).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("`{text}` is not accepted: enter ")),
            "{refused}"
        );
    }
}

#[test]
fn fields_come_from_the_schema() {
    let schema = json!({
        "type": "object",
        "required": ["name", "color"],
        "properties": {
            "name": {"type": "string", "title": "Full name", "minLength": 2},
            "color": {"enum": ["red", "blue"]},
            "age": {"type": ["integer", "null"], "minimum": 0},
            "news": {"type": "boolean", "default": false},
            "level": {"oneOf": [{"const": 1}, {"const": 2}]},
            "tags": {"type": "array"},
        },
    });
    let fields = AnswerField::from_schema(Some(&schema)).unwrap();
    let field = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
    assert_eq!(field("name").title.as_deref(), Some("Full name"));
    assert_eq!(
        field("level").kind,
        AnswerKind::Choice(vec![json!(1), json!(2)])
    );
    assert_eq!(field("tags").kind, AnswerKind::Json);
    for (name, text, expected) in [
        ("name", "Al", Ok(Some(json!("Al")))),
        ("color", "2", Ok(Some(json!("blue")))),
        ("age", "", Ok(None)),
        ("age", "7", Ok(Some(json!(7)))),
        ("news", "", Ok(Some(json!(false)))),
        ("name", "", Err("an answer is required".to_owned())),
    ] {
        let parsed = field(name).parse(text);
        let parsed = parsed.map_err(|refused| refused.to_string());
        assert_eq!(parsed, expected, "{name} {text:?}");
    }
    // Bounds of the schema hold, too.
    for (name, text) in [("name", "A"), ("age", "-1")] {
        let refused = field(name).parse(text).unwrap_err().to_string();
        assert!(refused.starts_with("not accepted: "), "{refused}");
    }
}

#[test]
fn questions_without_properties_have_one_field() {
    for (schema, name, kind) in [
        (None, "response", AnswerKind::Text),
        (Some(json!({})), "response", AnswerKind::Text),
        (
            Some(json!({"type": "object", "properties": {}})),
            "response",
            AnswerKind::Text,
        ),
        (
            Some(json!({"type": "boolean"})),
            "value",
            AnswerKind::Boolean,
        ),
        (
            Some(json!({"enum": ["a"]})),
            "value",
            AnswerKind::Choice(vec![json!("a")]),
        ),
    ] {
        let fields = AnswerField::from_schema(schema.as_ref()).unwrap();
        let found: Vec<_> = fields
            .iter()
            .map(|field| (field.name.as_str(), &field.kind))
            .collect();
        assert_eq!(found, [(name, &kind)], "{schema:?}");
    }
    for schema in [
        json!({"properties": []}),
        json!({"properties": {"a": {"type": "nonsense"}}}),
        json!({"properties": {"a": {"$ref": "https://example.com/schema"}}}),
    ] {
        assert!(AnswerField::from_schema(Some(&schema)).is_err(), "{schema}");
    }
}

//! Declared tables: reader, JSON Schema and rows of the reference come from one declaration.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::{
    Custom, Literal, Parameter, ParameterKind as Kind, Table, arguments_schema, key, no_effect,
    required, section, unsupported, words,
};
use cachalot_core::duration::Range;
use cachalot_core::tree::{Node, parse};
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Slow,
    Fast,
}

const MODES: [(&str, Mode); 2] = [("slow", Mode::Slow), ("fast", Mode::Fast)];
const MODE_WORDS: [&str; 2] = words(&MODES);

const EVEN: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "type": "integer", "multipleOf": 2 })),
    check: |entry, problems| {
        if entry.value.as_u64().is_none_or(|number| number % 2 == 1) {
            problems.push(Problem::new("odd", "odd").at(&entry.value.place));
        }
    },
});

static SECTION: Table = Table::new(
    "`section`",
    "A section.",
    &[
        &[
            required("name", Kind::Text, "The name."),
            key("mode", Kind::Word(&MODE_WORDS), "The mode.").default(Literal::Text("slow")),
            key("count", Kind::IntegerIn(1, 10), "The count.").default(Literal::Integer(3)),
            key("part", Kind::NumberIn(0.0, 1.0), "The part."),
            key("pause", Kind::Duration(Range::POSITIVE), "The pause."),
        ],
        &[
            key("flag", Kind::Boolean, "The flag.").with_aliases(&["flagged"]),
            key("names", Kind::Texts, "The names."),
            key("env", Kind::Scalars { null: true }, "The variables."),
            section("inner", &INNER),
            key("each", Kind::Tables(&INNER), "Sections by name."),
            key("even", EVEN, "An even number."),
            no_effect("color", "it is for others"),
            unsupported("shape", "unsupported"),
        ],
    ],
);

static INNER: Table = Table::new(
    "`inner`",
    "The inner section.",
    &[&[required(
        "depth",
        Kind::IntegerIn(0, u64::MAX),
        "The depth.",
    )]],
);

fn tree(text: &str) -> Node {
    parse("a.yaml", text).unwrap()
}

#[track_caller]
fn problems(text: &str, expected: &[&str]) {
    let mut problems = Vec::new();
    SECTION.read(&tree(text), &mut problems);
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn values_are_read_by_name_and_missing_ones_are_the_defaults() {
    let node = tree(
        "{name: a, mode: fast, part: 0.5, pause: 1.5, flagged: true, names: [x, y], env: {A: 1, B: null},
          inner: {depth: 2}, each: {one: {depth: 3}}, even: 4}",
    );
    let mut problems = Vec::new();
    let values = SECTION.read(&node, &mut problems).unwrap();
    assert_eq!(problems, []);
    assert_eq!(values.text("name"), Some("a"));
    assert_eq!(values.choice("mode", &MODES), Some(Mode::Fast));
    assert_eq!(values.integer::<u8>("count"), Some(3));
    assert_eq!(values.number("part"), Some(0.5));
    assert_eq!(values.duration("pause"), Some(Duration::from_millis(1_500)));
    assert_eq!(values.boolean("flag"), Some(true));
    assert_eq!(values.texts("names").unwrap(), ["x", "y"]);
    let env: Vec<_> = values.scalars("env").collect();
    assert_eq!(env, [("A", "1".to_owned()), ("B", String::new())]);
    assert_eq!(values.table("inner").unwrap().integer("depth"), Some(2_u64));
    let each: Vec<_> = values.tables("each").collect();
    assert_eq!((each.len(), each[0].0), (1, "one"));
    assert_eq!(each[0].1.integer("depth"), Some(3_u64));
    assert_eq!(values.node("even").and_then(Node::as_u64), Some(4));
    assert_eq!(values.place("part").column, 29);

    let node = tree("{name: a, count: ~}");
    let values = SECTION.read(&node, &mut problems).unwrap();
    assert_eq!(problems, []);
    assert_eq!(values.choice("mode", &MODES), Some(Mode::Slow));
    assert_eq!(values.integer::<u8>("count"), Some(3));
    assert_eq!(values.boolean("flag"), None);
    assert!(values.table("inner").is_none() && values.node("count").is_none());
}

#[test]
fn problems_are_reported_together_with_places_and_remedies() {
    problems(
        "{mode: fats, count: 11, part: 2, pause: 0, flag: 'true', names: [1], env: {A: []}, inner: {dpth: 1}, each: {one: 5}, even: 3, color: x, shape: y, nmae: z}",
        &[
            "a.yaml:1:8: `mode` cannot be `fats` [bad-value]; did you mean `fast`?",
            "a.yaml:1:21: `count` must be from 1 to 10, but it is 11 [out-of-range]; write a whole number that is from 1 to 10",
            "a.yaml:1:31: `part` must be from 0 to 1, but it is 2 [out-of-range]; write a number within these bounds",
            "a.yaml:1:41: `pause` is 0, but it must be above 0 [out-of-range]; write a duration that is above 0, such as `1h`",
            "a.yaml:1:50: `flag` must be `true` or `false`, but this is text [wrong-type]; take the quotes away",
            "a.yaml:1:66: an item of `names` must be text, but this is a number [wrong-type]; put it in quotes",
            "a.yaml:1:79: `A` in `env` must be text, but this is a list [wrong-type]; write text here",
            "a.yaml:1:92: unknown key `dpth` in `inner` [unknown-key]; did you mean `depth`?",
            "a.yaml:1:114: `inner` must be a mapping, but this is a number [wrong-type]; write a mapping here",
            "a.yaml:1:124: odd [odd]",
            "a.yaml:1:127: `color` in `section` has no effect [no-effect]; it is for others",
            "a.yaml:1:137: `shape` in `section` is not supported [unsupported]; take it out: it would have no effect here",
            "a.yaml:1:147: unknown key `nmae` in `section` [unknown-key]; did you mean `name`?",
        ],
    );
    // A key that is not misspelled either.
    problems(
        "{flag: true}",
        &["a.yaml:1:1: `section` needs `name` [missing-key]; add `name: …`"],
    );
    problems(
        "{name: ~, flag: true, flagged: false}",
        &[
            "a.yaml:1:2: `section` needs `name` [missing-key]; write a value after the colon",
            "a.yaml:1:23: `flagged` and `flag` are the same key [two-spellings]; leave one of them out",
        ],
    );
    problems(
        "[]",
        &[
            "a.yaml:1:1: `section` must be a mapping, but this is a list [wrong-type]; write a mapping here",
        ],
    );
}

#[test]
fn invalid_value_reads_as_none_instead_of_the_default() {
    let node = tree("{name: 1, mode: fats, count: 11, part: 2, pause: 0}");
    let values = SECTION.read(&node, &mut Vec::new()).unwrap();
    assert_eq!((values.text("name"), values.text("mode")), (None, None));
    assert_eq!(values.integer::<u64>("count"), None);
    assert_eq!(
        (values.number("part"), values.duration("pause")),
        (None, None)
    );
}

#[test]
fn open_table_returns_unknown_keys_to_the_caller() {
    static OPEN: Table = Table::new("it", "", &[&[key("a", Kind::Any, "A.")]]).open();
    let node = tree("{a: 1, b: 2}");
    let mut problems = Vec::new();
    let values = OPEN.read(&node, &mut problems).unwrap();
    let others: Vec<&str> = values
        .undeclared()
        .map(|entry| entry.key.as_str())
        .collect();
    assert_eq!(
        (others.as_slice(), problems.as_slice()),
        (&["b"][..], &[][..])
    );
    assert_eq!(OPEN.schema(false).get("additionalProperties"), None);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "`size` is not declared in `section`")]
fn reading_an_undeclared_name_panics() {
    let node = tree("{name: a}");
    let values = SECTION.read(&node, &mut Vec::new()).unwrap();
    let _ = values.text("size");
}

#[test]
fn schema_describes_the_keys_that_are_read() {
    let schema = SECTION.schema(false);
    assert_eq!(schema["description"], "A section.");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], json!(["name"]));
    let of = |key: &str| schema["properties"][key].clone();
    assert_eq!(
        of("mode"),
        json!({ "description": "The mode. Default: `slow`.", "enum": ["slow", "fast"], "default": "slow" })
    );
    assert_eq!(
        of("count"),
        json!({ "description": "The count. Default: 3.", "type": "integer", "minimum": 1, "maximum": 10, "default": 3 })
    );
    assert_eq!(
        of("flagged"),
        json!({ "description": "The same as `flag`.", "type": "boolean" })
    );
    let text = json!({ "type": "string", "pattern": "^\\s*(([0-9]*\\.?[0-9]+(ms|s|min|m|h|d)\\s*)+|[0-9]*\\.?[0-9]+\\s*)$" });
    assert_eq!(
        of("pause")["anyOf"],
        json!([{ "type": "number", "exclusiveMinimum": 0 }, text])
    );
    assert_eq!(of("inner")["required"], json!(["depth"]));
    assert_eq!(of("even")["multipleOf"], 2);
    assert_eq!((of("color"), of("shape")), (Value::Null, Value::Null));
    let variable = json!({ "type": "string", "pattern": "^\\$\\{" });
    let with_variables = SECTION.schema(true);
    let count = &with_variables["properties"]["count"]["anyOf"];
    assert_eq!(
        *count,
        json!([{ "type": "integer", "minimum": 1, "maximum": 10 }, variable])
    );
    assert_eq!(with_variables["properties"]["name"], of("name"));
}

#[test]
fn documentation_rows_include_nested_tables() {
    let rows = SECTION.rows("section.", true);
    let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys[..3], ["section.name", "section.mode", "section.count"]);
    assert_eq!((keys.len(), keys[8]), (11, "section.inner.depth"));
    assert_eq!(rows[2].parameter.description(), "The count. Default: 3.");
    assert_eq!(rows[8].parameter.kind.noun(), "whole number");
    let inner = &SECTION.rows("", false)[8];
    assert_eq!(
        (inner.key.as_str(), inner.parameter.sentence()),
        ("inner", "The inner section.")
    );
}

#[test]
fn arguments_accept_text_and_one_spelling_of_each_required_parameter() {
    const PARAMETERS: &[Parameter] = &[
        Parameter::required("path", Kind::Text, "The file.").with_aliases(&["file"]),
        Parameter::required("count", Kind::Integer, "The count."),
        Parameter::optional("data", Kind::Any, "Data."),
    ];
    let schema = arguments_schema("Reads.", PARAMETERS);
    assert_eq!(schema["required"], json!(["count"]));
    let one = json!([{ "required": ["path"] }, { "required": ["file"] }]);
    assert_eq!(schema["allOf"], json!([{ "anyOf": one }]));
    assert_eq!(
        schema["properties"]["count"]["type"],
        json!(["integer", "string", "null"])
    );
    assert_eq!(
        schema["properties"]["file"]["description"],
        "The same as `path`."
    );
    assert_eq!(
        schema["properties"]["data"],
        json!({ "description": "Data." })
    );
}

//! Rendering of templates in tests.

use std::future::Future;

use cachalot_core::tree;
use cachalot_workflow::template::{Scope, State, TemplateContext, TemplateUse, Templates};
use serde_json::{Map, Value, json};

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("not an object: {other}"),
    }
}

pub(crate) fn state() -> State {
    State::new(object(json!({
        "name": "Ada", "empty": "", "five": "5", "count": 3, "zero": 0, "big": 9_007_199_254_740_993_i64,
        "largest": u64::MAX, "smallest": i64::MIN, "half": 0.5, "one": 1.0, "yes": true, "no": false, "none": null,
        "list": [1, "two", [3.0, {"four": 4}]], "items": ["key", "wins"],
        "nested": {"a": {"b": [{"c": "deep"}]}, "items": 7, "with space": 8},
        "html": "<b>&'\"", "json": "{\"b\": [1, 2.0], \"a\": null}", "false_text": "False",
    })))
}

pub(crate) fn context() -> TemplateContext {
    let variables = object(
        json!({"who": "Grace", "limit": 3, "ratio": 0.5, "a.b": "dotted", "code": "{{ state.name }}"}),
    );
    TemplateContext::new(
        &variables,
        json!({"name": "agent"}),
        object(json!({"HOME": "/home/ada"})),
    )
}

pub(crate) fn templates(file: &str) -> Templates {
    Templates::new(file, ["who", "limit", "ratio", "a.b", "code"])
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Prepares and renders what is written behind `value:`.
pub(crate) fn render_yaml(yaml: &str, usage: TemplateUse) -> Result<Value, String> {
    let file = format!("value: {yaml}\n");
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let templates = templates(&file);
    let mut problems = Vec::new();
    let prepared = templates.prepare(tree.get("value").unwrap(), usage, &mut problems);
    if let Some(problem) = problems.first() {
        return Err(format!("problem: {problem}"));
    }
    let scope = Scope::new(&context(), &state()).with_result(json!({"data": [1, 2], "name": "r"}));
    run(templates.render(&prepared, &scope))
        .map_err(|failure| format!("{}: {failure}", failure.place))
}

pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

pub(crate) fn render(text: &str) -> Result<Value, String> {
    render_yaml(&quoted(text), TemplateUse::RESULT)
}

#[track_caller]
pub(crate) fn renders(text: &str, expected: Value) {
    assert_eq!(render(text), Ok(expected), "{text}");
}

#[track_caller]
pub(crate) fn fails(text: &str, expected: &str) {
    let message = render(text).expect_err(text);
    assert!(message.contains(expected), "{text}: {message}");
}

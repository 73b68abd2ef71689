//! Templates: what comes out of them, and what is an error where.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::secret::DigestKey;
use cachalot_core::{Problem, Seals, Secret, tree};
use cachalot_workflow::template::{FILTERS, Scope, State, Surroundings, TESTS, Templates, Use};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("not an object: {other}"),
    }
}

fn state() -> State {
    State::new(object(json!({
        "name": "Ada", "empty": "", "five": "5", "count": 3, "zero": 0, "big": 9_007_199_254_740_993_i64,
        "largest": u64::MAX, "smallest": i64::MIN, "half": 0.5, "one": 1.0, "yes": true, "no": false, "none": null,
        "list": [1, "two", [3.0, {"four": 4}]], "items": ["key", "wins"],
        "nested": {"a": {"b": [{"c": "deep"}]}, "items": 7, "with space": 8},
        "html": "<b>&'\"", "json": "{\"b\": [1, 2.0], \"a\": null}", "false_text": "False",
    })))
}

fn surroundings() -> Surroundings {
    let variables = object(
        json!({"who": "Grace", "limit": 3, "ratio": 0.5, "a.b": "dotted", "code": "{{ state.name }}"}),
    );
    Surroundings::new(
        &variables,
        json!({"name": "agent"}),
        object(json!({"HOME": "/home/ada"})),
    )
}

fn templates(file: &str) -> Templates {
    Templates::new(file, ["who", "limit", "ratio", "a.b", "code"])
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Prepares and renders what is written behind `value:`.
fn render_yaml(yaml: &str, usage: Use) -> Result<Value, String> {
    let file = format!("value: {yaml}\n");
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let templates = templates(&file);
    let mut problems = Vec::new();
    let prepared = templates.prepare(tree.get("value").unwrap(), usage, &mut problems);
    if let Some(problem) = problems.first() {
        return Err(format!("problem: {problem}"));
    }
    let scope =
        Scope::new(&surroundings(), &state()).with_result(json!({"data": [1, 2], "name": "r"}));
    run(templates.render(&prepared, &scope))
        .map_err(|failure| format!("{}: {failure}", failure.place))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn render(text: &str) -> Result<Value, String> {
    render_yaml(&quoted(text), Use::RESULT)
}

#[track_caller]
fn renders(text: &str, expected: Value) {
    assert_eq!(render(text), Ok(expected), "{text}");
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    let message = render(text).expect_err(text);
    assert!(message.contains(expected), "{text}: {message}");
}

#[test]
fn one_expression_keeps_its_type() {
    renders("{{ state.name }}", json!("Ada"));
    renders("  {{ state.count }}\n", json!(3));
    renders("{{- state.count -}}", json!(3));
    renders("{{state.five}}", json!("5"));
    renders("{{ state.one }}", json!(1.0));
    renders("{{ state.half }}", json!(0.5));
    renders("{{ state.yes }}", json!(true));
    renders("{{ state.none }}", json!(null));
    renders("{{ state.list }}", json!([1, "two", [3.0, {"four": 4}]]));
    renders(
        "{{ state.nested }}",
        json!({"a": {"b": [{"c": "deep"}]}, "items": 7, "with space": 8}),
    );
    renders("{{ state }}", Value::Object((*state().whole()).clone()));
    renders("{{ state.nested.a.b[0].c }}", json!("deep"));
    renders("{{ state.nested.a.b[-1].c }}", json!("deep"));
    renders("{{ state.nested['with space'] }}", json!(8));
    renders("{{ state['nested']['a'] }}", json!({"b": [{"c": "deep"}]}));
    renders("{{ {'a': {'b': 1}} }}", json!({"a": {"b": 1}}));
    renders(
        "{{ [state.count, state.missing, 1.5] }}",
        json!([3, null, 1.5]),
    );
    renders("{{ (1, 'a') }}", json!([1, "a"]));
    renders("{{ 'a}}b' }}", json!("a}}b"));
    renders("{{ state.list[1:] }}", json!(["two", [3.0, {"four": 4}]]));
    renders("{{ range(3) }}", json!([0, 1, 2]));
    renders("{{ state.count + 1 }}", json!(4));
    renders("{{ state.count / 2 }}", json!(1.5));
    renders("{{ state.count == 3 }}", json!(true));
    renders("{{ result.data }}", json!([1, 2]));
    renders("{{ result }}", json!({"data": [1, 2], "name": "r"}));
    renders("{{ variables.limit }}", json!(3));
    renders("{{ settings.name }}", json!("agent"));
    renders("{{ env.HOME }}", json!("/home/ada"));
}

#[test]
fn whole_numbers_are_exact_up_to_64_bits_and_refused_beyond() {
    renders("{{ state.big }}", json!(9_007_199_254_740_993_i64));
    renders("{{ state.big + 0 }}", json!(9_007_199_254_740_993_i64));
    renders("{{ state.largest + 0 }}", json!(u64::MAX));
    renders("{{ state.smallest + 0 }}", json!(i64::MIN));
    renders("n = {{ state.largest }}", json!("n = 18446744073709551615"));
    fails("{{ state.largest + 1 }}", "a whole number beyond 64 bits");
    fails("{{ state.smallest - 1 }}", "a whole number beyond 64 bits");
    fails("{{ [1e308 * 10] }}", "no finite number");
}

#[test]
fn keys_shadow_methods() {
    renders("{{ state.items }}", json!(["key", "wins"]));
    renders("{{ state.nested.items }}", json!(7));
    renders("{{ state.nested.a.items }}", json!(null));
    renders(
        "{{ state.nested.a.items() | list }}",
        json!([["b", [{"c": "deep"}]]]),
    );
    renders(
        "{{ state.nested.keys() | list }}",
        json!(["a", "items", "with space"]),
    );
    renders("{{ state.get('missing', 'd') }}", json!("d"));
    renders("{{ state.name.upper() }}", json!("ADA"));
    renders("{{ state.name.lower().startswith('a') }}", json!(true));
}

#[test]
fn what_is_missing_is_undefined() {
    renders("{{ state.missing }}", json!(null));
    renders("{{ missing }}", json!(null));
    renders("{{ state.nested.missing }}", json!(null));
    renders("{{ state.missing | default('x') }}", json!("x"));
    renders("{{ state.none | default('x') }}", json!(null));
    renders("{{ state.none | default('x', true) }}", json!("x"));
    renders("{{ state.missing is defined }}", json!(false));
    renders("{{ 'a' if state.missing else 'b' }}", json!("b"));
    renders("{% if state.missing %}a{% else %}b{% endif %}", json!("b"));
    renders("{% if not state.missing %}a{% endif %}", json!("a"));
    renders("{{ 'x' if false }}", json!(null));
    fails("{{ state.missing.deeper }}", "`state.missing` is undefined");
    fails("a {{ state.missing }}", "`state.missing` is undefined");
    fails(
        "a {{ state.nested.gone }}",
        "`state.nested.gone` is undefined",
    );
    fails(
        "{% for x in state.missing %}{{ x }}{% endfor %}",
        "`state.missing` is undefined",
    );
    fails(
        "{{ state.missing | upper }}",
        "`state.missing` is undefined",
    );
    fails(
        "{{ state.missing | sha256 }}",
        "`state.missing` is undefined",
    );
    fails(
        "{{ state.missing | tojson }}",
        "`state.missing` is undefined",
    );
    fails("{{ state.missing + 1 }}", "`state.missing`");
}

#[test]
fn text_prints_as_python_does_and_escapes_nothing() {
    renders(
        "{{ state.none }} {{ state.yes }} {{ state.one }} {{ state.half }}",
        json!("None True 1.0 0.5"),
    );
    renders("a {{ state.html }}", json!("a <b>&'\""));
    renders("{{ state.html }}", json!("<b>&'\""));
    renders(
        "{{ state.list }}!",
        json!("[1, 'two', [3.0, {'four': 4}]]!"),
    );
    renders("line {{ state.count }}\n", json!("line 3\n"));
    renders("{{ state.name }}{{ state.count }}", json!("Ada3"));
    renders("{{ state.name }} and {{ state.count }}", json!("Ada and 3"));
    renders("{# nothing #}{{ state.name }}", json!("Ada"));
    renders("{% raw %}{{ x }}{% endraw %}", json!("{{ x }}"));
    renders("{% set x = 2 %}{{ x * 2 }}", json!("4"));
    renders("no template", json!("no template"));
    renders("}} { %} {", json!("}} { %} {"));
}

#[test]
fn lists_and_mappings_are_rendered_at_all_levels_and_keys_are_not() {
    let yaml = "{a: [['{{ state.count }}', {b: 'x{{ state.count }}'}]], '{{ state.name }}': 1, n: 1.0, t: true, z: null}";
    let expected =
        json!({"a": [[3, {"b": "x3"}]], "{{ state.name }}": 1, "n": 1.0, "t": true, "z": null});
    assert_eq!(render_yaml(yaml, Use::PLAIN), Ok(expected));
}

#[test]
fn filters() {
    let digest = |text: &str| json!(cachalot_core::Digest::of(text.as_bytes()).to_hex());
    renders("{{ state.name | sha256 }}", digest("Ada"));
    renders("{{ state.name | lower | sha256 }}", digest("ada"));
    renders("{{ 'a' | sha256 == 'a' | sha256 }}", json!(true));
    for value in ["5", "5.0", "true", "none", "[1, 'a']", "{'b': 1, 'a': 2}"] {
        let hashed = render(&format!("{{{{ ({value}) | sha256 }}}}")).unwrap();
        let value = render(&format!("{{{{ {value} }}}}")).unwrap();
        assert_eq!(
            hashed,
            json!(cachalot_core::Canonical::value(&value).digest().to_hex())
        );
    }
    renders(
        "{{ {'a': 1, 'b': 2} | sha256 == {'b': 2, 'a': 1} | sha256 }}",
        json!(true),
    );
    renders("{{ 5 | sha256 == 5.0 | sha256 }}", json!(false));
    renders(
        "{{ state.json | fromjson }}",
        json!({"b": [1, 2.0], "a": null}),
    );
    renders("{{ (state.json | fromjson).b[1] }}", json!(2.0));
    renders("{{ state.html | tojson }}", json!("\"<b>&'\\\"\""));
    renders(
        "{{ state.nested | tojson }}",
        json!("{\"a\":{\"b\":[{\"c\":\"deep\"}]},\"items\":7,\"with space\":8}"),
    );
    renders("{{ [1] | tojson(indent=2) }}", json!("[\n  1\n]"));
    renders("{{ [1] | json }}", json!("[1]"));
    renders("{{ [3, 1] | sort | join('-') }}", json!("1-3"));
    fails("{{ state.name | fromjson }}", "no JSON");
    fails("{{ state.count | fromjson }}", "takes text");
    fails("{{ '18446744073709551616' | fromjson }}", "beyond 64 bits");
    renders(
        "{{ '[18446744073709551615, \"18446744073709551616\", 1e30]' | fromjson }}",
        json!([u64::MAX, "18446744073709551616", 1e30]),
    );
    fails("{{ state.list | map('nope') | list }}", "unknown filter");
}

#[test]
fn the_filters_and_tests_that_are_named_exist() {
    for filter in FILTERS {
        renders(&format!("{{{{ '{filter}' is filter }}}}"), json!(true));
    }
    for test in TESTS {
        renders(&format!("{{{{ '{test}' is test }}}}"), json!(true));
    }
}

#[test]
fn an_error_in_a_template_is_an_error_with_its_place_and_never_the_text() {
    fails("{{ 1 + none }}", "agent.yaml:1:");
    fails("{{ state.name + 1 }}", "unsupported");
    fails(
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
        "million steps",
    );
    let file = "value: >-\n  some text, then\n  {{ state.name }} and {{ state.gone }}\n";
    let tree = tree::parse("agent.yaml", file).unwrap();
    let templates = templates(file);
    let prepared = templates.prepare(tree.get("value").unwrap(), Use::PLAIN, &mut Vec::new());
    let failure =
        run(templates.render(&prepared, &Scope::new(&surroundings(), &state()))).unwrap_err();
    assert_eq!(failure.place.to_string(), "agent.yaml:3:27");
    assert_eq!(
        &file[failure.place.start..failure.place.start + failure.place.len],
        "state.gone"
    );
}

fn problems(text: &str, usage: Use) -> Vec<Problem> {
    let file = format!("value: {text}\n");
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let mut problems = Vec::new();
    let _ = templates(&file).prepare(tree.get("value").unwrap(), usage, &mut problems);
    problems
}

#[test]
fn what_is_wrong_with_a_template_is_told_at_load_time_with_its_place() {
    let shown = |text: &str| {
        problems(text, Use::PLAIN)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let cases = [
        ("'{{ state. }}'", "agent.yaml:1:"),
        ("'{{ state.a'", "[bad-template]"),
        ("'{% if x %}'", "[bad-template]"),
        (
            "'{{ state.a | uper }}'",
            "agent.yaml:1:22: there is no filter `uper` [unknown-filter]; did you mean `upper`?",
        ),
        (
            "'{{ state.a is defned }}'",
            "agent.yaml:1:23: there is no test `defned` [unknown-test]; did you mean `defined`?",
        ),
        (
            "'x {{ stat.a }}'",
            "agent.yaml:1:14: there is no `stat` here [unknown-name]; did you mean `state`?",
        ),
        (
            "'{{ url.a }}'",
            "agent.yaml:1:12: there is no `url` here [unknown-name]; what the run has set is `state.url`",
        ),
        (
            "'{{ result.a }}'",
            "agent.yaml:1:12: there is no `result` here",
        ),
        ("'{{ debug() }}'", "there is no `debug` here"),
        (
            "[a, ['{{ state.a | uper }}']]",
            "agent.yaml:1:27: there is no filter `uper`",
        ),
    ];
    for (text, expected) in cases {
        assert!(shown(text).contains(expected), "{text}: {}", shown(text));
    }
    for fine in [
        "'{{ url }}'",
        "'{% for a in range(3) %}{{ a }}{{ loop.index }}{% endfor %}'",
        "'{{ dict(a=1) }}'",
        "'${who} {x} }}'",
    ] {
        assert_eq!(problems(fine, Use::ARGUMENTS), [], "{fine}");
    }
}

#[test]
fn variables_are_put_into_the_text_of_arguments_only() {
    let arguments = |text: &str| render_yaml(&quoted(text), Use::ARGUMENTS).unwrap();
    assert_eq!(
        arguments("hello ${who}, ${limit} at ${ratio}"),
        json!("hello Grace, 3 at 0.5")
    );
    assert_eq!(arguments("${limit}"), json!("3"));
    assert_eq!(arguments("${a.b}"), json!("dotted"));
    assert_eq!(arguments("${unknown} ${who"), json!("${unknown} ${who"));
    assert_eq!(arguments("${who} {{ state.name }}"), json!("Grace Ada"));
    // Neither is what comes out searched again.
    assert_eq!(
        arguments("${code} {{ '${who}' }}"),
        json!("{{ state.name }} ${who}")
    );
    assert_eq!(render("hello ${who}"), Ok(json!("hello ${who}")));
}

fn with_secrets(text: &str) -> (Result<Value, String>, Arc<Seals>) {
    let file = format!("value: {}\n", quoted(text));
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let templates = templates(&file);
    let prepared = templates.prepare(tree.get("value").unwrap(), Use::PLAIN, &mut Vec::new());
    let seals = Arc::new(Seals::under(DigestKey::new([7; 32])));
    let secrets = BTreeMap::from([(
        "TOKEN".to_owned(),
        Secret::new("hunter2-hunter2".to_owned()),
    )]);
    let surroundings = surroundings().with_secrets(secrets, Arc::clone(&seals));
    let rendered = run(templates.render(&prepared, &Scope::new(&surroundings, &state())));
    (rendered.map_err(|failure| failure.to_string()), seals)
}

#[test]
fn what_is_made_of_a_secret_is_a_secret() {
    let (rendered, seals) = with_secrets("Bearer {{ secrets.TOKEN }}");
    assert_eq!(rendered, Ok(json!("Bearer hunter2-hunter2")));
    assert_eq!(seals.redact("Bearer hunter2-hunter2"), "Bearer [secret]");
    let (rendered, seals) = with_secrets("{{ secrets.TOKEN | upper }}");
    assert_eq!(rendered, Ok(json!("HUNTER2-HUNTER2")));
    assert_eq!(seals.redact("it is HUNTER2-HUNTER2"), "it is [secret]");
    let (rendered, seals) = with_secrets("{{ {'h': [secrets.TOKEN ~ '!' | upper]} }}");
    assert_eq!(
        seals.redact(rendered.unwrap()["h"][0].as_str().unwrap()),
        "[secret]"
    );
    let (rendered, seals) =
        with_secrets("{{ 'switched on' if secrets.TOKEN else 'switched off' }}");
    assert_eq!(rendered, Ok(json!("switched on")));
    assert_eq!(seals.redact("switched on"), "switched on");
    assert_eq!(with_secrets("{{ secrets }}").0, Ok(json!({})));
    assert_eq!(with_secrets("{{ secrets.OTHER }}").0, Ok(json!(null)));
    assert!(
        with_secrets("x {{ secrets.OTHER }}")
            .0
            .unwrap_err()
            .contains("`secrets.OTHER` is undefined")
    );
}

fn holds(condition: &str) -> Result<bool, String> {
    let file = format!("value: {condition}\n");
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let templates = templates(&file);
    let mut problems = Vec::new();
    let condition = templates.condition(tree.get("value").unwrap(), Use::PLAIN, &mut problems);
    if let Some(problem) = problems.first() {
        return Err(format!("problem: {problem}"));
    }
    run(templates.holds(&condition, &Scope::new(&surroundings(), &state())))
        .map_err(|failure| failure.to_string())
}

#[test]
fn conditions() {
    for condition in [
        "true",
        "'true'",
        "True",
        "yes",
        "state.yes",
        "'{{ state.yes }}'",
        "'{{state.count}}'",
        "state.count < 4",
        "'!no'",
        "'!missing'",
        "'! state.missing'",
        "state.name == 'Ada'",
        "state.missing != 'x'",
        "state.list",
        "count",
        "\"{{ 'yes' }}\"",
        "'{% if state.yes %}1{% endif %}'",
        "state.missing is not defined",
        "state.count > 2 and state.yes",
        "'!false'",
        "'!(state.count == 4)'",
        "state.count in [1, 3]",
        "'{{ not state.missing }}'",
        "not state.missing",
    ] {
        assert_eq!(holds(condition), Ok(true), "{condition}");
    }
    for condition in [
        "false",
        "'false'",
        "missing",
        "state.missing",
        "'{{ state.missing }}'",
        "no",
        "zero",
        "empty",
        "none",
        "false_text",
        "'{{ state.none }}'",
        "'{% if state.yes %}False{% endif %}'",
        "'{{ state.zero }}'",
        "\"{{ 'No' }}\"",
        "\" {{ ' none ' }}\"",
        "'!yes'",
        "state.missing == 'x'",
        "state.missing == 3",
        "\"'x' in state.missing\"",
        "'{% if false %}{% endif %} '",
        "state.nested.missing",
    ] {
        assert_eq!(holds(condition), Ok(false), "{condition}");
    }
    assert!(
        holds("state.missing > 3")
            .unwrap_err()
            .contains("`state.missing` is undefined")
    );
    assert!(
        holds("state.missing.deeper")
            .unwrap_err()
            .contains("`state.missing` is undefined")
    );
    assert!(
        holds("state.count >")
            .unwrap_err()
            .contains("[bad-template]")
    );
    assert!(
        holds("'{{ state.count }} > 5'")
            .unwrap_err()
            .contains("would always hold [bad-value]")
    );
    assert!(holds("[1]").unwrap_err().contains("[wrong-type]"));
    assert!(holds("").unwrap_err().contains("[wrong-type]"));
    assert!(holds("stat.x == 1").unwrap_err().contains("[unknown-name]"));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has finite numbers", |float| float.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_comes_through_a_template_as_it_is(value in value()) {
        let state = State::new(Map::from_iter([("x".to_owned(), value.clone())]));
        // The second goes through the engine, the first need not.
        for text in ["{{ state.x }}", "{{ [state.x][0] }}", "{{ (state).x | default(1) }}"] {
            let file = format!("value: {}\n", quoted(text));
            let tree = tree::parse("agent.yaml", &file).unwrap();
            let templates = templates(&file);
            let prepared = templates.prepare(tree.get("value").unwrap(), Use::PLAIN, &mut Vec::new());
            let rendered = run(templates.render(&prepared, &Scope::new(&surroundings(), &state))).unwrap();
            prop_assert_eq!(rendered.to_string(), value.to_string());
        }
    }

    #[test]
    fn any_text_prepares_or_is_a_problem(text in "[{}%#|'\"a-z. $\\[\\]()-]{0,40}") {
        let _ = render_yaml(&quoted(&text), Use::ARGUMENTS);
        let _ = holds(&quoted(&text));
    }
}

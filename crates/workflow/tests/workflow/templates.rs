//! Templates: what comes out of them, and what is an error where.

use cachalot_core::{Problem, tree};
use cachalot_workflow::template::{FILTERS, Scope, TESTS, TemplateUse};
use serde_json::{Value, json};

use crate::rendering::{
    context, fails, quoted, render, render_yaml, renders, run, state, templates,
};

#[test]
fn single_expression_keeps_its_type() {
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
    renders("{{ state }}", Value::Object((*state().to_map()).clone()));
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
fn integers_are_exact_up_to_64_bits_and_refused_beyond() {
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
fn keys_take_precedence_over_methods() {
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
fn missing_values_are_undefined() {
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
fn undefined_attribute_lists_what_the_value_has() {
    fails(
        "a {{ state.nested.gone }}",
        "`state.nested.gone` is undefined; `state.nested` has `a`, `items`, `with space`: set it before, or give it a value with `| default(…)`",
    );
    fails(
        "{{ state.nested['with spaces'] | upper }}",
        "`state.nested['with spaces']` is undefined; `state.nested` has `a`,",
    );
    fails(
        "a {{ state.list[7] }}",
        "`state.list[7]` is undefined; `state.list` is a list of 3 values:",
    );
    fails(
        "a {{ state.nested.a.b[0].d }}",
        "`state.nested.a.b[0].d` is undefined; `state.nested.a.b[0]` has `c`:",
    );
    fails(
        "a {{ state.name.first }}",
        "`state.name.first` is undefined; `state.name` is text:",
    );
    fails(
        "a {{ result.gone }}",
        "`result.gone` is undefined; `result` has `data`, `name`:",
    );
    fails(
        "a {{ state.gone }}",
        "`state.gone` is undefined; `state` has `name`, `empty`, `five`, `count`, `zero`, `big`, `largest`, `smallest`, `half`, `one`, `yes`, `no`, 7 more:",
    );
    // Variables of the environment are not listed.
    fails("a {{ env.GONE }}", "`env.GONE` is undefined: set");
}

#[test]
fn text_is_rendered_as_by_python_without_escaping() {
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
fn lists_and_mapping_values_are_rendered_and_keys_are_not() {
    let yaml = "{a: [['{{ state.count }}', {b: 'x{{ state.count }}'}]], '{{ state.name }}': 1, n: 1.0, t: true, z: null}";
    let expected =
        json!({"a": [[3, {"b": "x3"}]], "{{ state.name }}": 1, "n": 1.0, "t": true, "z": null});
    assert_eq!(render_yaml(yaml, TemplateUse::PLAIN), Ok(expected));
}

#[test]
fn filters() {
    let digest = |text: &str| json!(cachalot_core::Digest::sha256(text.as_bytes()).to_hex());
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
fn documented_filters_and_tests_exist() {
    for filter in FILTERS {
        renders(&format!("{{{{ '{filter}' is filter }}}}"), json!(true));
    }
    for test in TESTS {
        renders(&format!("{{{{ '{test}' is test }}}}"), json!(true));
    }
}

#[test]
fn template_error_has_its_place_and_not_the_text() {
    fails("{{ 1 + none }}", "agent.yaml:1:");
    fails("{{ state.name + 1 }}", "unsupported");
    fails(
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
        "million steps",
    );
    let file = "value: >-\n  some text, then\n  {{ state.name }} and {{ state.gone }}\n";
    let tree = tree::parse("agent.yaml", file).unwrap();
    let templates = templates(file);
    let prepared = templates.prepare(
        tree.get("value").unwrap(),
        TemplateUse::PLAIN,
        &mut Vec::new(),
    );
    let failure = run(templates.render(&prepared, &Scope::new(&context(), &state()))).unwrap_err();
    assert_eq!(failure.place.to_string(), "agent.yaml:3:27");
    assert_eq!(
        &file[failure.place.start..failure.place.start + failure.place.len],
        "state.gone"
    );
}

/// Each multiplies a text or a list more often than any machine has memory for. The sizes are those of few long
/// texts: an unoptimized engine takes seconds to visit a million elements or matches.
#[test]
fn template_that_would_take_too_much_memory_is_an_error() {
    let many = |start: &str, step: &str| {
        format!(
            "{{% set ns = namespace(x={start}) %}}{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x }}}}"
        )
    };
    for template in [
        many("'a'", "ns.x ~ ns.x"),
        many("'a'", "ns.x + ns.x"),
        many("['a' * 1000000]", "[ns.x, ns.x]"),
        many("['a' * 1000000]", "ns.x + ns.x"),
        "{% set x = (range(10000) | list) * 300 %}".to_owned(),
        many("'a' * 1000", "ns.x.replace('a' * 1000, 'a' * 1000000)"),
        many("'a'", "[ns.x, ns.x] | join"),
        many("'a'", "[1, 2, 3] | join(ns.x)"),
        many("'a'", "'%s%s' | format(ns.x, ns.x)"),
        "{% macro d(n, x) %}{% if n %}{{ d(n - 1, x ~ x) }}{% else %}{{ x }}{% endif %}{% endmacro %}{{ d(60, 'a') }}".to_owned(),
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}".to_owned(),
        "{% set a = 'a' * 60000000 %}{% set x %}{{ a }}{{ a }}{{ [a] }}{% endset %}".to_owned(),
        format!("{{% for a in range(90000) %}}{}{{% endfor %}}", "a".repeat(9_000)),
        format!("{{{{ 'aa' {} }}}}", "| replace('a', 'a' * 10000)".repeat(60)),
        many("'a'", "'{0}{0}'.format(ns.x)"),
        "{{ 'a\n' | indent(2000000000) }}".to_owned(),
        "{{ [1] | batch(2000000000, 'x') | list | length }}".to_owned(),
        "{{ [1] | slice(2000000000) | list | length }}".to_owned(),
        "{{ '{:>20000000000}'.format(1) }}".to_owned(),
        "{{ '{:>18446744073709551615}'.format(1) }}".to_owned(),
        "{{ '{:}>99999999999999999999999}'.format(1) }}".to_owned(),
        "{{ '{[a}]:.2000000000f}'.format(a=1) }}".to_owned(),
        "{{ '%20000000000d' | format(1) }}".to_owned(),
        "{{ '%%%(a)-2000000000d' | format({'a': 1}) }}".to_owned(),
        format!("{{{{ '{}'.format(1) }}}}", "{0:>1000000}".repeat(100)),
        format!(
            "{{{{ '{}'.format('a' * 60000000{}) }}}}",
            "{0}".repeat(100),
            ", 1".repeat(100)
        ),
        "{% set ns = namespace(x=[]) %}{% for i in range(200) %}{% set ns.x = [ns.x, 'a' * 100000000] %}{% endfor %}".to_owned(),
        "{% set ns = namespace(x=[]) %}{% for i in range(200) %}{% set ns.x = ns.x + ['a' * 1000000] %}{% endfor %}".to_owned(),
        "{{ ([0] * 90000000)[1:] }}".to_owned(),
        "{{ ([0] * 90000000) | sort }}".to_owned(),
        "{% set ns = namespace(x='a' * 60000000) %}{% set ns.x = (ns.x ~ ns.x) * 1 %}".to_owned(),
    ] {
        fails(&template, "the template ");
    }
    // The place of an error is that in the file.
    let text = "{% if true %}{{ state.name ~ '-' ~ state.name ~ state.gone }}{% endif %}";
    let column = "value: \"".len() + text.find("state.gone").unwrap() + 1;
    fails(text, &format!("agent.yaml:1:{column}:"));
    renders(
        "{% for a in [1] %}{{ 'a' ~ a ~ [a] ~ (1.5 + 2) }}{% endfor %}",
        json!("a1[1]3.5"),
    );
    for (text, expected) in [
        (
            "{{ '{:>10}|20000000 %'.format('a') }}",
            "         a|20000000 %",
        ),
        (
            "{{ '{:}<3} 20000000 {{20000000}}'.format(1) }}",
            "1}} 20000000 {20000000}",
        ),
        (
            "{{ '%s 20000000 %5.1f%%' | format('a', 1.25) }}",
            "a 20000000   1.2%",
        ),
        (
            "{% set a = [1] * 2 %}{% set b, c = (a, 3 * 4) %}{{ b | join }}{{ c }}",
            "1112",
        ),
    ] {
        renders(text, json!(expected));
    }
}

fn problems(text: &str, usage: TemplateUse) -> Vec<Problem> {
    let file = format!("value: {text}\n");
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let mut problems = Vec::new();
    let _ = templates(&file).prepare(tree.get("value").unwrap(), usage, &mut problems);
    problems
}

#[test]
fn template_errors_are_reported_at_load_time_with_their_place() {
    let shown = |text: &str| {
        problems(text, TemplateUse::PLAIN)
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
        assert_eq!(problems(fine, TemplateUse::ARGUMENTS), [], "{fine}");
    }
}

#[test]
fn variables_are_replaced_in_arguments_only() {
    let arguments = |text: &str| render_yaml(&quoted(text), TemplateUse::ARGUMENTS).unwrap();
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

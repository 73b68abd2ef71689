//! Unit tests of `src/script/templates.rs`.

use super::*;

#[test]
fn templates_are_distinguished_from_python() {
    let first = |source: &'static str| first(source, |name| name == "limit");
    for (source, expected) in [
        ("x = '{{ state.x }}'", Some(("{{ state.x }}", 1))),
        ("y = 1\nx = {{ state.x }}", Some(("{{ state.x }}", 2))),
        ("x = \"{{- state['x'] }}\"", Some(("{{- state['x'] }}", 1))),
        (
            "{% if state.x %}\nx = 1\n{% endif %}",
            Some(("{% if state.x %}", 1)),
        ),
        (
            "x = {{ variables.n | default(3) }}",
            Some(("{{ variables.n | default(3) }}", 1)),
        ),
        ("k = '{{ secrets.KEY }}'", Some(("{{ secrets.KEY }}", 1))),
        ("x = '${limit}'", Some(("${limit}", 1))),
        ("x = '${other}'", None),
        ("x = f'{{ state.x }}'", None),
        ("x = f'''\n{{ {state['x']} }}'''", None),
        ("# {{ state.x }}\nx = 1", None),
        ("x = '{{}} {}'.format(1)", None),
        ("x = '{{name}}'", None),
        ("x = {'a': {'b': 1}}", None),
        ("x = '{%s}' % 1", None),
        ("x = '{%if}' % {'if}': 1}", None),
        ("x = '{{ state.x'", None),
    ] {
        assert_eq!(first(source), expected, "{source}");
    }
}

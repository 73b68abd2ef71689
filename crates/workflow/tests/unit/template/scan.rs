//! Unit tests of `src/template/scan.rs`.

use super::*;

fn words(source: &str, places: &[Range<usize>]) -> Vec<String> {
    places
        .iter()
        .map(|place| source[place.clone()].to_owned())
        .collect()
}

#[test]
fn filters_and_tests_are_found_outside_of_strings_comments_and_raw_text() {
    let source = "a | b {{ x | upper | d('|no') }} {# | no #}{% if y is not defined %}{% endif %}\
                      {% raw %}{{ z | no }}{% endraw %}{% filter lower %}{% endfilter %}{{ {'a': {'b': 1}} | tojson }}";
    let scan = template(source);
    assert_eq!(
        words(source, &scan.filters),
        ["upper", "d", "lower", "tojson"]
    );
    assert_eq!(words(source, &scan.tests), ["defined"]);
}

#[test]
fn literals_are_split_from_expressions() {
    let source = "a{{ x }}b{% if y %}c{% endif %}";
    assert_eq!(words(source, &template(source).literals), ["a", "b", "c"]);
    let source = "{% raw %}${x}{% endraw %}d";
    assert_eq!(words(source, &template(source).literals), ["d"]);
    assert!(!template("plain } }} %}").has_code);
}

#[test]
fn inserting_a_secret_does_not_count_as_deriving() {
    assert!(!template("Bearer {{ secrets.A }} {{ state.secrets | upper }}").derives_from_secrets);
    assert!(!expression(" secrets.A ").derives_from_secrets);
    for source in [
        "{{ secrets.A | upper }}",
        "{{ secrets['A'] }}",
        "{% if secrets.A %}x{% endif %}",
        "{{ f(secrets.A) }}",
    ] {
        assert!(template(source).derives_from_secrets, "{source}");
    }
}

#[test]
fn unterminated_templates_do_not_panic() {
    for source in [
        "{{",
        "{{ 'a",
        "{{ a \\",
        "{%",
        "{#",
        "{% raw %}",
        "{{ \u{e9}",
        "{",
        "{{ }",
        "{{ is",
        "{{ x |",
    ] {
        let _ = template(source);
        let _ = expression(source);
    }
}

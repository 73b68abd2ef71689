//! Conditions, secrets, and what holds for any template.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::secret::DigestKey;
use cachalot_core::{Secret, SecretSet, tree};
use cachalot_workflow::template::{Scope, State, TemplateFailure, TemplateUse};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::rendering::{context, quoted, render_yaml, run, state, templates};

fn holds(condition: &str) -> Result<bool, String> {
    let file = format!("value: {condition}\n");
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let templates = templates(&file);
    let mut problems = Vec::new();
    let condition = templates.condition(
        tree.get("value").unwrap(),
        TemplateUse::PLAIN,
        &mut problems,
    );
    if let Some(problem) = problems.first() {
        return Err(format!("problem: {problem}"));
    }
    run(templates.holds(&condition, &Scope::new(&context(), &state())))
        .map_err(|failure| failure.to_string())
}

#[test]
fn assignment_in_a_condition_is_a_problem() {
    for (condition, column, comparison) in [
        ("a = 1", 3, "a == 1"),
        ("state.a='x' and b", 8, "state.a=='x' and b"),
        ("{{ state.a = 1 }}", 12, "{{ state.a == 1 }}"),
        ("!(a = 1)", 5, "!(a == 1)"),
        (
            "a == 1 or b = state.x | default('=', boolean=true)",
            13,
            "a == 1 or b == state.x | default('=', boolean=true)",
        ),
    ] {
        // The key, the quote, and columns begin at 1.
        let column = "value: \"".len() + column;
        assert_eq!(
            holds(&format!("\"{condition}\"")),
            Err(format!(
                "problem: agent.yaml:1:{column}: `=` does not compare: a condition assigns nothing [bad-template]; write `==`: `{comparison}`"
            ))
        );
    }
    for other in ["a =! 1", "a =", "a === 1"] {
        let problem = holds(&format!("\"{other}\"")).unwrap_err();
        assert!(!problem.contains("does not compare"), "{other}: {problem}");
    }
}

#[test]
fn conditions_are_evaluated_as_documented() {
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
        "state.missing is none",
        "state.missing == none",
        "'!(state.missing < 3)'",
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
        "state.missing > 3",
        "state.missing < 3",
        "3 <= state.missing",
        "\"'x' in state.missing\"",
        "'{% if false %}{% endif %} '",
        "state.nested.missing",
    ] {
        assert_eq!(holds(condition), Ok(false), "{condition}");
    }
    assert!(
        holds("state.none > 3")
            .unwrap_err()
            .contains("None and a number have no order")
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

fn with_secrets(text: &str) -> (Result<Value, TemplateFailure>, Arc<SecretSet>) {
    let file = format!("value: {}\n", quoted(text));
    let tree = tree::parse("agent.yaml", &file).unwrap();
    let templates = templates(&file);
    let prepared = templates.prepare(
        tree.get("value").unwrap(),
        TemplateUse::PLAIN,
        &mut Vec::new(),
    );
    let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
    let secrets = BTreeMap::from([(
        "TOKEN".to_owned(),
        Secret::new("hunter2-hunter2".to_owned()),
    )]);
    let context = context().with_secrets(secrets, Arc::clone(&secret_set));
    let rendered = run(templates.render(&prepared, &Scope::new(&context, &state())));
    (rendered, secret_set)
}

#[test]
fn values_derived_from_secrets_are_secrets() {
    let (rendered, secret_set) = with_secrets("Bearer {{ secrets.TOKEN }}");
    assert_eq!(rendered, Ok(json!("Bearer hunter2-hunter2")));
    assert_eq!(
        secret_set.redact("Bearer hunter2-hunter2"),
        "Bearer [secret]"
    );
    let (rendered, secret_set) = with_secrets("{{ secrets.TOKEN | upper }}");
    assert_eq!(rendered, Ok(json!("HUNTER2-HUNTER2")));
    assert_eq!(secret_set.redact("it is HUNTER2-HUNTER2"), "it is [secret]");
    let (rendered, secret_set) = with_secrets("{{ {'h': [secrets.TOKEN ~ '!' | upper]} }}");
    assert_eq!(
        secret_set.redact(rendered.unwrap()["h"][0].as_str().unwrap()),
        "[secret]"
    );
    let (rendered, secret_set) =
        with_secrets("{{ 'switched on' if secrets.TOKEN else 'switched off' }}");
    assert_eq!(rendered, Ok(json!("switched on")));
    assert_eq!(secret_set.redact("switched on"), "switched on");
    assert_eq!(with_secrets("{{ secrets }}").0, Ok(json!({})));
    assert_eq!(with_secrets("{{ secrets.OTHER }}").0, Ok(json!(null)));
    assert!(
        with_secrets("x {{ secrets.OTHER }}")
            .0
            .unwrap_err()
            .message
            .contains("`secrets.OTHER` is undefined")
    );
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
    fn every_value_is_rendered_exactly(value in value()) {
        let state = State::new(Map::from_iter([("x".to_owned(), value.clone())]));
        // The second goes through the engine, the first need not.
        for text in ["{{ state.x }}", "{{ [state.x][0] }}", "{{ (state).x | default(1) }}"] {
            let file = format!("value: {}\n", quoted(text));
            let tree = tree::parse("agent.yaml", &file).unwrap();
            let templates = templates(&file);
            let prepared = templates.prepare(tree.get("value").unwrap(), TemplateUse::PLAIN, &mut Vec::new());
            let rendered = run(templates.render(&prepared, &Scope::new(&context(), &state))).unwrap();
            prop_assert_eq!(rendered.to_string(), value.to_string());
        }
    }

    #[test]
    fn arbitrary_templates_do_not_panic(text in "[{}%#|'\"a-z. $\\[\\]()-]{0,40}") {
        let _ = render_yaml(&quoted(&text), TemplateUse::ARGUMENTS);
        let _ = holds(&quoted(&text));
    }
}

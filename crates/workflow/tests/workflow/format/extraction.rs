//! `extraction_schema` and the other sections of `validate.extraction`.

use cachalot_workflow::actions;

use super::{load_with, shown};

/// Loads a file with all actions; returns its warnings and errors.
fn found(text: &str) -> String {
    match load_with(&actions::builtin(), text) {
        Ok(agent) => shown(&agent.warnings),
        Err(problems) => problems,
    }
}

const NODE: &str = "nodes: [{name: a, uses: validate.extraction}]\n";

#[test]
fn used_schema_is_validated_strictly() {
    for uses in [
        "{name: a, uses: validate.extraction}",
        "{name: a, uses: actions.validate_extraction, with: {schema: null}}",
        "{name: a, uses: cache.wrap, with: {action: validate.extraction, args: {}}}",
        "{name: a, uses: retry.loop, with: {validate: validate.extraction, correct: a}}",
        "{name: a, type: dynamic_parallel, items: [1], action: validate.extraction, fan_in: a}",
    ] {
        let file = |schema: &str| format!("extraction_schema: {schema}\nnodes: [{uses}]\n");
        let whole = "{entities: {required_fields: [name], optional_fields: [born], type_field: kind}, relationships: {types: [knows], required_fields: [type], optional_fields: [], type_requirements: {knows: [since]}}, guide_extraction: false, confidence_tracking: false}";
        let problems = found(&file(whole));
        assert!(!problems.contains("extraction"), "{uses}: {problems}");
        let problems = found(&file("{entities: {required_field: [name]}}"));
        assert!(
            problems.contains("a.yaml:1:32: unknown key `required_field` in `entities` [unknown-key]; did you mean `required_fields`?"),
            "{uses}: {problems}"
        );
    }
    for (schema, expected) in [
        ("[]", ""),
        (
            "[name]",
            "a.yaml:1:20: an extraction schema must be a mapping, but this is a list [wrong-type]; write a mapping here",
        ),
        (
            "{relationships: {type_requirements: {knows: since, likes: [1]}}}",
            "a.yaml:1:64: `knows` must be a list of fields, but this is text [wrong-type]; write a list of fields here\na.yaml:1:79: an item of `likes` must be text, but this is a number [wrong-type]; put it in quotes",
        ),
        (
            "{guide_extraction: true}",
            "a.yaml:1:39: `guide_extraction` is not supported: no prompt is generated from the schema [unsupported]; write the prompt out, and take `guide_extraction` out",
        ),
        // The reference accepts and ignores these.
        (
            "{required_fields: [name], confidence_tracking: true}",
            "a.yaml:1:21: `required_fields` in an extraction schema has no effect [no-effect]; write `entities: {required_fields: […]}`; it checks nothing here\na.yaml:1:46: `confidence_tracking` in an extraction schema has no effect [no-effect]; only rules in Prolog and generated prompts use it",
        ),
    ] {
        let problems = found(&format!("extraction_schema: {schema}\n{NODE}"));
        assert_eq!(problems.trim_end(), expected, "{schema}");
    }
}

#[test]
fn schema_in_arguments_is_validated_strictly() {
    let problems = found(
        "nodes: [{name: a, uses: validate.extraction, with: {schema: {entities: {fields: []}}}}]\n",
    );
    assert!(
        problems.contains("unknown key `fields` in `entities`"),
        "{problems}"
    );
    let of_template = "nodes: [{name: a, uses: validate.extraction, with: {schema: {entities: {required_fields: '{{ state.f }}'}}}}]\n";
    assert_eq!(found(of_template), "");
}

#[test]
fn validation_with_prolog_or_a_model_is_refused() {
    let sections = "validation_constraints: {language: prolog, rules: x}\nsemantic_probes: [{for_each: entity, probe: x}]\nvalidation_logging: {enabled: true}\n";
    assert_eq!(
        found(&format!("{sections}{NODE}"))
            .lines()
            .collect::<Vec<_>>(),
        [
            "a.yaml:1:1: `validation_constraints` in an agent file is not supported [unsupported-section]; its rules are Prolog, which is not here: check the result in a block of code, and take it out",
            "a.yaml:2:1: `semantic_probes` in an agent file is not supported [unsupported-section]; it would ask a model about every item: ask with `llm.call`, and take it out",
            "a.yaml:3:1: `validation_logging` in an agent file has no effect [no-effect]; no file of failed validations is written: they are in `errors` of the result",
        ]
    );
    let unused = found(&format!(
        "{sections}extraction_schema: 5\nnodes: [{{name: a, run: x}}]\n"
    ));
    assert_eq!(unused.lines().count(), 4, "{unused}");
    assert!(
        unused
            .lines()
            .all(|line| line.ends_with("[no-effect]; no node uses `validate.extraction`")),
        "{unused}"
    );
    let arguments = found(
        "nodes: [{name: a, uses: validate.extraction, with: {constraints: {rules: x}, probes: [], logging: {enabled: true}}}]\n",
    );
    let arguments: Vec<&str> = arguments.lines().collect();
    assert_eq!(
        arguments,
        [
            "a.yaml:1:53: `constraints` in the arguments of `validate.extraction` is not supported [unsupported-section]; its rules are Prolog, which is not here: check the result in a block of code, and take it out",
            "a.yaml:1:90: `logging` in the arguments of `validate.extraction` has no effect [no-effect]; no file of failed validations is written: they are in `errors` of the result",
        ]
    );
}

//! Unit tests of `src/definition/claude.rs`.

use super::with_variables;

#[test]
fn omitted_variables_do_not_form_new_references() {
    for written in [
        "${env.${Y}SECRET}",
        "$${Y}{env.SECRET}",
        "${e${Y}nv.SECRET}",
        "${SECRET}",
        "$SECRET",
    ] {
        let value = with_variables(written, &["TOKEN"]);
        assert!(!value.contains("${"), "{written} became {value}");
    }
    let value = with_variables("Bearer $TOKEN, ${TOKEN}, 5 $", &["TOKEN"]);
    assert_eq!(value, "Bearer ${env.TOKEN}, ${env.TOKEN}, 5 $");
}

//! Unit tests of `src/script/constants.rs`.

use super::*;

#[test]
fn constants_are_replaced_outside_of_literals() {
    let replace_constants =
        |source: &str| replace_constants(source, |name| ["n", "limit_2"].contains(&name));
    for (source, expected) in [
        (
            "r = x[:${n}]\ny = 1 < ${limit_2}",
            Some("r = x[:variables[\"n\"]]\ny = 1 < variables[\"limit_2\"]"),
        ),
        (
            "return {\"a\": ${n}}  # ${n}",
            Some("return {\"a\": variables[\"n\"]}  # ${n}"),
        ),
        ("x = '${n}'", None),
        ("x = '''\n${n}\n'''", None),
        ("x = f\"costs ${n}\"", None),
        ("x = f\"{y[:${n}]}\"", None),
        ("# ${n}", None),
        ("x = ${other}", None),
        ("x = ${n:-1}", None),
        ("x = ${}", None),
        ("x = $", None),
        ("x = '", None),
        ("x = ${n} + '", Some("x = variables[\"n\"] + '")),
        ("é = ${n}", Some("é = variables[\"n\"]")),
    ] {
        assert_eq!(replace_constants(source).as_deref(), expected, "{source}");
    }
}

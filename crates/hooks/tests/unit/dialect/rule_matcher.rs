//! Unit tests of `src/dialect/rule_matcher.rs`.

use super::*;

#[test]
fn rules_are_told_from_regular_expressions() {
    for (name, rule) in [
        ("Bash", "Bash(rm *)"),
        ("Bash", "Bash(git push:*)"),
        ("Edit", "Edit(src/.*)"),
        ("WebFetch", "WebFetch(domain:example.com)"),
    ] {
        for written in [rule.to_owned(), format!("Write|{rule}")] {
            let found = find_rule(Dialect::Claude, &written);
            assert_eq!(found, Some((rule, name)), "{written}");
        }
    }
    for written in [
        "Bash",
        "*",
        "",
        "Bash|Write",
        "Bash(Output)?",
        "Write(.*)",
        "Multi(Edit|Write)",
        "mcp__(github|gitlab)__.*",
        "Notebook(Edit|Read)",
    ] {
        assert_eq!(find_rule(Dialect::Claude, written), None, "{written}");
    }
}

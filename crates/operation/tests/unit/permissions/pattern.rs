//! Unit tests of `src/permissions/pattern.rs`.

use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::new(pattern).unwrap().matches(text)
}

#[test]
fn star_and_question_mark_are_the_only_wildcards() {
    assert!(matches("*", "") && matches("*", "a\nb/c"));
    assert!(matches("git *", "git log") && !matches("git *", "git"));
    assert!(matches("a?c", "abc") && matches("a?c", "a/c") && !matches("a?c", "ac"));
    assert!(matches("a[b]{c}.", "a[b]{c}.") && !matches("a.c", "abc"));
    assert!(matches(r"a\*b", "a*b") && !matches(r"a\*b", "axb"));
    assert!(matches(r"C:\dir\*", r"C:\dir*") && matches(r"a\:b\\", r"a:b\"));
    assert!(matches("ä?", "äö"));
}

#[test]
fn double_star_slash_matches_directories_or_nothing() {
    for path in [".env", "a/.env", "a/b/.env"] {
        assert!(matches("**/.env", path), "{path}");
    }
    assert!(!matches("**/.env", "a.env"));
    assert!(matches("src/**/x", "src/x") && matches("src/**/x", "src/a/b/x"));
    assert!(matches("src/**", "src/a/b") && !matches("src/**", "srcs/a"));
    assert!(matches("a**/b", "a/b") && !matches("a**/b", "ab"));
}

#[test]
fn wildcard_does_not_match_shell_syntax() {
    let permits = |pattern: &str, line: &str| Pattern::new(pattern).unwrap().permits_line(line);
    assert!(permits("git *", "git log --oneline -- 'a b' \"c\" ~ # x"));
    for character in SHELL_SYNTAX {
        assert!(
            !permits("git *", &format!("git log {character} x")),
            "{character:?}"
        );
        assert!(
            !permits("git ?", &format!("git {character}")),
            "{character:?}"
        );
    }
    assert!(permits("git log | head *", "git log | head -5"));
    assert!(!permits("git log | head *", "git log | head -5 | sh"));
}

#[test]
fn escaped_text_matches_itself_only() {
    for text in ["git push", r"a*b?c\d:e", "**/x", r"\*"] {
        let pattern = Pattern::new(&escaped(text)).unwrap();
        assert!(pattern.matches(text) && pattern.is_literal(), "{text}");
    }
}

#[test]
fn unknown_parts_give_a_possible_match() {
    for (pattern, text, expected) in [
        ("**/.env*", ".env", MatchResult::Yes),
        ("**/.env*", ".e$", MatchResult::Maybe),
        ("**/.env*", "$", MatchResult::Maybe),
        ("**/.env*", "a/$", MatchResult::Maybe),
        ("**/.env*", "$/.env", MatchResult::Yes),
        ("**/.env*", ".env$", MatchResult::Yes),
        // The unknown part may be `/.env`.
        ("**/.env*", ".f$", MatchResult::Maybe),
        ("**/.ENV*", ".e$v", MatchResult::Maybe),
        ("**/.env", "src$.rs", MatchResult::No),
        ("a/b", "$/c", MatchResult::No),
        ("a?c", "a$", MatchResult::Maybe),
        ("rm *", "rm $", MatchResult::Yes),
        ("rm *", "$ x", MatchResult::Maybe),
        ("rm *", "git $", MatchResult::No),
    ] {
        let text = text.replace('$', &UNKNOWN.to_string());
        let found = Pattern::new(pattern).unwrap().match_unknown(&text, true);
        assert_eq!(found, expected, "{pattern} {text}");
    }
}

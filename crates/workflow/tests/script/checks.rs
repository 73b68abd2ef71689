//! Looking at a block without running it.

use cachalot_workflow::script::{check, check_syntax};

use crate::harness::tests;

tests!(
    valid_python_passes_the_check,
    invalid_python_is_reported_with_its_place,
    syntax_check_accepts_unsupported_python,
    check_of_arbitrary_text_does_not_panic,
    long_blocks_are_refused,
);

/// Sources of about `bytes` bytes whose syntax trees are as deep as they can be.
pub(crate) fn deep_sources(bytes: usize) -> Vec<String> {
    let chain = |start: &str, link: &str, end: &str| {
        let links = bytes.saturating_sub(start.len() + end.len()) / link.len();
        format!("{start}{}{end}", link.repeat(links))
    };
    let nested = |open: &str, inner: &str, close: &str| {
        let levels = bytes / (open.len() + close.len());
        format!("x = {}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let ladder = |line: &str| -> String {
        (0..450)
            .map(|level| format!("{}{line}\n", " ".repeat(level)))
            .collect::<String>()
            + &" ".repeat(450)
            + "pass"
    };
    vec![
        chain("x = a", ".a", ""),
        chain("x = a", "+a", ""),
        chain("x = a", "()", ""),
        chain("x = a", "[0]", ""),
        chain("x = a", "**a", ""),
        chain("x = ", "not ", "a"),
        chain("x = ", "-", "a"),
        chain("x = ", "lambda:", "a"),
        chain("x = ", "a if a else ", "a"),
        chain("if a: pass\n", "elif a: pass\n", ""),
        chain("x = ", "await ", "a"),
        chain("", "a=", "1"),
        nested("(", "a", ")"),
        nested("[", "a", "]"),
        nested("{0:", "a", "}"),
        nested("f(", "a", ")"),
        nested("f'{", "a", "}'"),
        ladder("if a:"),
        ladder("def f():"),
        ladder("try:"),
        chain("x = (", "(", ""),
    ]
}

fn valid_python_passes_the_check() {
    for source in [
        "",
        "return {'a': 1}",
        "x = 1\nif x:\n  return x",
        "# nothing",
        "import json",
    ] {
        assert_eq!(check(source, 1), Ok(()), "{source}");
        assert_eq!(check_syntax(source, 1), Ok(()), "{source}");
    }
}

fn invalid_python_is_reported_with_its_place() {
    for (source, line) in [
        ("x = = 1", 7),
        ("x = 1\nif x\n  y = 2", 8),
        ("if x:\ny = 1", 8),
        ("x = 'open", 7),
        ("x = (1,\n\n", 7),
        ("def f(:\n  pass", 7),
        ("{% if x %}", 7),
        ("local x = 1", 7),
        ("x = 1\n\n\n)", 10),
    ] {
        for failure in [
            check(source, 7).unwrap_err(),
            check_syntax(source, 7).unwrap_err(),
        ] {
            assert_eq!(failure.kind, "script_error", "{source}");
            assert_eq!(failure.line, Some(line), "{source}: {failure}");
            assert!(failure.message.starts_with("SyntaxError: "), "{failure}");
        }
    }
}

fn syntax_check_accepts_unsupported_python() {
    let source = "import requests\nclass E(Exception): pass\ndef f():\n  yield 1\n";
    assert_eq!(check_syntax(source, 1), Ok(()));
    assert_eq!(check(source, 1).unwrap_err().kind, "script_unsupported");
}

fn check_of_arbitrary_text_does_not_panic() {
    for source in deep_sources(128 * 1024) {
        // Whatever it says, it returns.
        let _ = check(&source, 1);
        let _ = check_syntax(&source, 1);
    }
    for source in [
        "\0",
        "\u{feff}x = 1",
        "x = '\u{202e}'",
        "\u{c}",
        "\\",
        "x = \\",
        "'''",
        "f'{",
    ] {
        let _ = check(source, u32::MAX);
        let _ = check_syntax(source, 0);
    }
}

fn long_blocks_are_refused() {
    let failure = check(&"x = 1\n".repeat(50_000), 3).unwrap_err();
    assert_eq!((failure.kind, failure.line), ("script_error", Some(3)));
    assert!(
        failure
            .message
            .contains("300000 bytes long; the limit is 131072"),
        "{failure}"
    );
}

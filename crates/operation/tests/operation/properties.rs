//! Properties of every command line.

use cachalot_operation::PermissionDecision;
use proptest::prelude::*;

use crate::rules::{Rules, is_stopped};

/// Wrappers around a command: what they run is what is denied.
const WRAPPERS: &[fn(&str) -> String] = &[
    |line| format!("env sh -c {}", quoted(line)),
    |line| format!("sudo -n sh -c {}", quoted(line)),
    |line| format!("X=1 {line}"),
    |line| format!("timeout 5 sh -c {}", quoted(line)),
    |line| format!("nohup sh -c {}", quoted(line)),
    |line| format!("( {line} )"),
    |line| format!("{{ {line}; }}"),
    |line| format!("true && {line}"),
    // Without the blank, a subshell in it makes an arithmetic expression of it.
    |line| format!("echo $( {line})"),
    |line| format!("sh -c {}", quoted(line)),
    |line| format!("bash -lc {}", quoted(line)),
    |line| format!("eval {}", quoted(line)),
    |line| format!("if true; then {line}; fi"),
    |line| format!("cat <({line})"),
    |line| format!("find . -exec sh -c {} \\;", quoted(line)),
    |line| format!("echo a | xargs -I {{}} sh -c {}", quoted(line)),
    |line| format!("busybox sh -c {}", quoted(line)),
    |line| format!("git -c alias.x={} x", quoted(&format!("!{line}"))),
    |line| format!("sh <<'END'\n{line}\nEND\n"),
    |line| format!("! {line}"),
    |line| format!("(({line}))"),
];

/// Rules that are read once.
fn guarded() -> &'static Rules {
    static RULES: std::sync::OnceLock<Rules> = std::sync::OnceLock::new();
    RULES.get_or_init(|| {
        Rules::of("allow: [shell]\ndeny: ['shell:command=rm *', '*:path=**/.env*']")
    })
}

/// A text as one word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn wrapped_denied_command_is_never_permitted(
        wrappers in prop::collection::vec(0..WRAPPERS.len(), 0..5),
        start in prop::sample::select(vec!["rm -rf x", "/bin/rm x", "r''m x", "cat .env", "cat < .env"]),
    ) {
        let rules = guarded();
        let mut line = start.to_owned();
        for wrapper in wrappers {
            line = WRAPPERS[wrapper](&line);
        }
        prop_assert!(is_stopped(&rules.command(line.clone())), "{line}");
    }

    #[test]
    fn arbitrary_text_is_judged_quickly_without_panic(line in r#"[ -~\n]{0,300}|[$(){}`'"\\<>|&;=a \n*?\[\]~!-]{0,200}|\PC{0,100}"#) {
        let rules = guarded();
        let began = std::time::Instant::now();
        let _ = rules.command(line.clone());
        prop_assert!(began.elapsed().as_secs() < 20, "{line}");
    }

    #[test]
    fn quoting_does_not_change_the_decision(name in "[a-z]{2,6}", at in 0..6usize) {
        let rules = Rules::of(&format!("allow: [shell]\ndeny: ['shell:command={name} *']"));
        let at = at % name.len();
        let (before, behind) = name.split_at(at);
        let (first, rest) = behind.split_at(1);
        for line in [
            format!("{before}'{first}'{rest} x"),
            format!("{before}\"{first}\"{rest} x"),
            format!("{before}\\{first}{rest} x"),
            format!("{before}''{first}{rest} x"),
            format!("$'{name}' x"),
        ] {
            prop_assert!(matches!(rules.command(line.clone()), PermissionDecision::Deny(_)), "{line}");
        }
    }
}

#[test]
fn quoted_reserved_word_is_a_command() {
    for name in ["do", "if", "while", "for", "case", "function", "time"] {
        let rules = Rules::of(&format!("allow: [shell]\ndeny: ['shell:command={name} *']"));
        let (first, rest) = name.split_at(1);
        for line in [format!("{first}''{rest} x"), format!("{name}\"\" x")] {
            let decision = rules.command(line.clone());
            assert!(
                matches!(decision, PermissionDecision::Deny(_)),
                "{line}: {decision:?}"
            );
        }
    }
}

#[test]
fn hostile_lines_are_judged_in_bounded_time() {
    let rules = Rules::of("allow: [shell]\ndeny: ['shell:command=rm *', '*:path=**/.env*']");
    for piece in [
        "(",
        "$(",
        "`",
        "{",
        "[",
        "((",
        "$((",
        "${x:-",
        "\"$(",
        "sudo -a ",
        "env -a ",
        "sh -c '",
        "<<a ",
        "case a in ",
        "eval ",
        "xargs -a ",
        "*",
        "a*",
        "{a,b}",
        "$x",
        "x=$x$x;",
        "for i in ",
        "git -c a=b ",
        "<(",
        "f(){ ",
        "\\",
        "'",
        "busybox ",
    ] {
        for count in [100, 3_000] {
            let line = piece.repeat(count);
            let began = std::time::Instant::now();
            let _ = rules.command(line);
            assert!(
                began.elapsed().as_secs() < 5,
                "{piece} × {count}: {:?}",
                began.elapsed()
            );
        }
    }
    let huge = format!("echo {}; rm x", "a".repeat(1 << 20));
    assert!(is_stopped(&rules.command(huge)));
}

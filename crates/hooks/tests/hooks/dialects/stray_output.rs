//! Output on stdout besides the JSON document.

use super::*;

const DENIAL: &str =
    r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}"#;

#[test]
fn profile_output_before_json_is_skipped_with_a_warning() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    for dialect in Dialect::ALL {
        for before in ["Welcome!\n", "nvm: now using\n{not json}\n\n", "[1] {\n  "] {
            let output = said(dialect, &input, &format!("{before}{DENIAL}\n")).unwrap();
            let denial = Some((Decision::Deny, Some("no".to_owned())));
            assert_eq!(output.permission, denial, "{dialect} {before}");
            let message = output.system_message.unwrap();
            let first = before.split_whitespace().next().unwrap();
            assert!(message.contains(first), "{message}");
        }
        let pretty = "Welcome!\n{\n  \"decision\": \"block\",\n  \"reason\": \"no\"\n}\n";
        let output = said(dialect, &input, pretty).unwrap();
        assert_eq!(output.block.as_deref(), Some("no"), "{dialect}");
    }
}

#[test]
fn malformed_decision_after_text_is_a_fault() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    for dialect in Dialect::ALL {
        for stdout in [
            format!("Welcome! {DENIAL}"),
            format!("Welcome!\n{DENIAL}\nBye!"),
            format!("Welcome!\n{}", &DENIAL[..60]),
            "Welcome!\n{\"decision\" : \"block\",".to_owned(),
            DENIAL[..60].to_owned(),
            format!("{DENIAL}\nBye!"),
        ] {
            assert!(
                said(dialect, &input, &stdout).is_err(),
                "{dialect} {stdout}"
            );
        }
        for stdout in [
            "Welcome!",
            "{ is a brace",
            "see {x}: \"decision\" is a word",
        ] {
            let is_json = stdout.starts_with('{');
            assert_eq!(
                said(dialect, &input, stdout).is_err(),
                is_json,
                "{dialect} {stdout}"
            );
        }
    }
}

#[test]
fn context_that_ends_in_json_is_kept_as_context() {
    let input = Input {
        event: Event::SessionStart,
        ..Input::default()
    };
    for stdout in [
        "The settings:\n{\"port\": 8080}",
        "Hooks may say {\"decision\": \"block\"}, and more.",
    ] {
        for dialect in [Dialect::Claude, Dialect::DockerAgent] {
            let output = said(dialect, &input, stdout).unwrap();
            assert_eq!(output.additional_context.as_deref(), Some(stdout));
        }
    }
    let said = said(
        Dialect::Claude,
        &input,
        "Welcome!\n{\"systemMessage\": \"hi\"}",
    )
    .unwrap();
    assert_eq!(said.additional_context, None);
    assert!(said.system_message.unwrap().starts_with("hi\n"));
    let prompt = asking("Explain:\n{\"decision\": \"blo");
    assert!(prompt.is_err(), "a prompt may be blocked");
    assert!(asking("Write `{\"decision\": \"block\"}` to block.").is_ok());
}

fn asking(stdout: &str) -> Result<Output, Fault> {
    let input = Input {
        event: Event::UserPromptSubmit,
        ..Input::default()
    };
    said(Dialect::Claude, &input, stdout)
}

#[test]
fn strict_hook_output_must_be_json_only() {
    let input = tool(Event::PreToolUse, "shell", json!({}));
    let mut strict = entry(Dialect::Claude, Event::PreToolUse);
    strict.definition.strict_output = true;
    let stdout = format!("Welcome!\n{DENIAL}");
    assert!(
        Dialect::Claude
            .read(&strict, &input, &ended(0, &stdout, ""))
            .is_err()
    );
}

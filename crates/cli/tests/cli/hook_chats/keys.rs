//! The keys of model providers are secrets.

use super::*;

const OPENAI: &str = "sk-proj-4f9aQ2Lm";
const ANTHROPIC: &str = "sk-ant-api03-77Zr0p";

/// Asks with both keys in the environment.
fn ask_with_keys(home: &Home, provider: &Provider, question: &str) -> CommandOutput {
    let arguments = ["agent.yaml", "--yes"];
    home.ask_with(provider, &arguments, question.as_bytes(), |command| {
        command
            .env("OPENAI_API_KEY", OPENAI)
            .env("ANTHROPIC_API_KEY", ANTHROPIC)
            // What people write where no key is needed.
            .env("VLLM_API_KEY", "whale");
    })
}

/// The newest message that the model received.
fn reported(provider: &Provider) -> String {
    let reported = asked_last(provider);
    assert!(!reported.contains(ANTHROPIC), "{reported}");
    reported
}

#[test]
fn provider_keys_are_masked_before_a_request() {
    let (home, provider) = with_scripted_model(Home::new());
    home.write("notes.txt", format!("{OPENAI} {ANTHROPIC} whale\n"));
    let ran = ask_with_keys(&home, &provider, "run cat notes.txt").ok();
    let masked = "[secret] [secret] whale";
    assert!(ran.stdout.contains(masked), "{ran}");
    assert!(reported(&provider).contains(masked));
    let said = format!("is {OPENAI} a whale");
    ask_with_keys(&home, &provider, &said).ok();
    assert!(reported(&provider).contains("is [secret] a whale"));
    // The user can ask about a key.
    home.write("agent.yaml", format!("{SHELL}    redact_secrets: false\n"));
    ask_with_keys(&home, &provider, &said).ok();
    assert!(reported(&provider).contains(&said));
}

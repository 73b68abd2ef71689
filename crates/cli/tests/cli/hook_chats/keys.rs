//! The keys of model providers are secrets.

use super::*;

const OPENAI: &str = "sk-proj-4f9aQ2Lm";
const ANTHROPIC: &str = "sk-ant-api03-77Zr0p";

/// Asks with both keys in the environment.
fn ask_with_keys(home: &Home, provider: &Provider, question: &str) -> Ran {
    let arguments = ["agent.yaml", "--yes"];
    home.ask_with(provider, &arguments, question.as_bytes(), |command| {
        command
            .env("OPENAI_API_KEY", OPENAI)
            .env("ANTHROPIC_API_KEY", ANTHROPIC)
            // What people write where no key is needed.
            .env("VLLM_API_KEY", "whale");
    })
}

/// What the model was told last.
fn told(provider: &Provider) -> String {
    let told = asked_last(provider);
    assert!(!told.contains(ANTHROPIC), "{told}");
    told
}

#[test]
fn the_keys_of_providers_are_masked_before_the_model_is_asked() {
    let (home, provider) = obedient(Home::new());
    home.write("notes.txt", format!("{OPENAI} {ANTHROPIC} whale\n"));
    let ran = ask_with_keys(&home, &provider, "run cat notes.txt").ok();
    let masked = "[secret] [secret] whale";
    assert!(ran.stdout.contains(masked), "{ran}");
    assert!(told(&provider).contains(masked));
    let said = format!("is {OPENAI} a whale");
    ask_with_keys(&home, &provider, &said).ok();
    assert!(told(&provider).contains("is [secret] a whale"));
    // Whoever wants to ask about a key can.
    home.write("agent.yaml", format!("{SHELL}    redact_secrets: false\n"));
    ask_with_keys(&home, &provider, &said).ok();
    assert!(told(&provider).contains(&said));
}

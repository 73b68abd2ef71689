//! Formats and efforts by model: what is sent where, and what goes on as before.

use serde_json::Value;

use crate::provider::Provider;
use crate::support::{CommandOutput, Home};

const TEAM: &str = "
models: {it: {model: gpt-4o-mini}}
agents: {root: {model: it, instruction: You know whales.}}
";

const STEP: &str = "
name: step
models: {it: {model: gpt-4o-mini}}
nodes:
  - name: ask
    uses: cache.wrap
    with: {action: llm.call, args: {model: it, prompt: Hi}}
    output: answer
";

fn with_format(file: &str) -> String {
    file.replace("model: gpt-4o-mini", "model: gpt-4o-mini, format: chat")
}

fn paths(provider: &Provider) -> Vec<String> {
    let received = provider.received().into_iter();
    received.map(|request| request.path).collect()
}

fn bodies(provider: &Provider) -> Vec<Value> {
    provider
        .received()
        .iter()
        .map(|request| request.json())
        .collect()
}

/// `format: chat` stands for the time when it was the default.
#[test]
fn stored_session_keeps_its_format_and_a_new_one_uses_the_default() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("agent.yaml", with_format(TEAM));
    let first = home
        .ask(&provider, &["agent.yaml", "--json"], "one")
        .ok()
        .json();
    let session = first["session"].as_str().unwrap();
    home.write("agent.yaml", TEAM);
    let again = home
        .ask(&provider, &["agent.yaml", "--session", session], "two")
        .ok();
    assert!(!again.stderr.contains("anew"), "{again}");
    home.ask(&provider, &["agent.yaml"], "three").ok();
    let chat = "/v1/chat/completions";
    assert_eq!(paths(&provider), [chat, chat, "/v1/responses"]);
    let asked = bodies(&provider);
    assert_eq!(asked[0]["prompt_cache_key"], asked[1]["prompt_cache_key"]);
}

#[test]
fn answer_stored_before_the_default_changed_is_a_hit() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let run = || {
        let mut command = home.command(&["run", "step.yaml"]);
        provider.known_to(&mut command);
        CommandOutput::from(
            command
                .env("OPENAI_API_KEY", "sk-test-0123456789")
                .output()
                .unwrap(),
        )
        .ok()
    };
    home.write("step.yaml", with_format(STEP));
    run();
    home.write("step.yaml", STEP);
    let again = run();
    assert!(again.stderr.contains("\npaid 0 calls"), "{again}");
    assert_eq!(paths(&provider), ["/v1/chat/completions"]);
}

/// The same of whole answers of agents, of the first and of a later message.
#[test]
fn cached_agent_answer_is_found_in_every_format() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let file = TEAM.replace("know whales.", "know whales., cache: {enabled: true}");
    let ask = |file: &str| {
        home.write("agent.yaml", file);
        let first = home
            .ask(&provider, &["agent.yaml", "--json"], "one")
            .ok()
            .json();
        let session = first["session"].as_str().unwrap();
        let arguments = ["agent.yaml", "--session", session];
        home.ask(&provider, &arguments, "two").ok();
        provider.received().len()
    };
    assert_eq!(ask(&with_format(&file)), 2);
    assert_eq!(ask(&file), 2, "both are answered from the cache");
    // Names of items differ from answer to answer; nothing depends on them.
    let other = file.replace("You know", "You like");
    assert_eq!(ask(&other), 4);
    assert_eq!(ask(&other), 4);
}

#[test]
fn tools_with_effort_use_responses_also_at_a_base_url() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let file = |keys: &str| {
        format!(
            "models: {{it: {{model: gpt-5.6-terra, base_url: '${{CACHALOT_EXAMPLE_PROVIDER}}'{keys}}}}}
agents:
  root: {{model: it, instruction: You know whales., toolsets: [{{type: filesystem}}]}}
"
        )
    };
    for keys in ["", ", reasoning_effort: high", ", reasoning_effort: none"] {
        home.write("agent.yaml", file(keys));
        home.ask(&provider, &["agent.yaml"], "Hi").ok();
    }
    let responses = "/v1/responses";
    assert_eq!(
        paths(&provider),
        [responses, responses, "/v1/chat/completions"]
    );
    assert_eq!(bodies(&provider)[1]["reasoning"]["effort"], "high");
}

#[test]
fn unsupported_effort_is_a_problem_with_the_allowed_values() {
    let home = Home::new();
    let team = TEAM.replace("gpt-4o-mini", "gpt-5.1, reasoning_effort: minimal");
    let step = STEP.replace("gpt-4o-mini", "gpt-5.1, reasoning_effort: minimal");
    for (name, text) in [("team.yaml", team), ("step.yaml", step)] {
        home.write(name, text);
        let json = home.run(&["validate", "--json", name]).fails(2).json();
        let problem = &json["problems"][0];
        assert_eq!(problem["code"], "bad-value", "{json:#}");
        let message = problem["message"].as_str().unwrap();
        assert!(
            message.contains("openai/gpt-5.1 does not take"),
            "{message}"
        );
        assert!(message.contains("none, low, medium, high"), "{message}");
    }
}

/// Two chats of one agent: the second one reads what the first one wrote.
#[test]
fn chats_of_one_agent_share_the_providers_cache() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let long = "You know whales. ".repeat(600);
    home.write("agent.yaml", TEAM.replace("You know whales.", &long));
    let read = |question: &str| {
        let ran = home
            .ask(&provider, &["agent.yaml", "--json"], question)
            .ok()
            .json();
        let tokens = ran["report"]["cached_input_tokens"].as_u64();
        tokens.unwrap_or_else(|| panic!("{ran:#}"))
    };
    assert_eq!(read("one"), 0);
    assert!(read("two") > 1_000);
    let asked = bodies(&provider);
    let key = asked[0]["prompt_cache_key"].as_str().unwrap();
    assert!(key.ends_with("-0") && key.len() <= 64, "{key}");
    assert_eq!(asked[1]["prompt_cache_key"], key);
    // Another system text is another prefix.
    home.write("agent.yaml", TEAM);
    read("three");
    assert_ne!(bodies(&provider)[2]["prompt_cache_key"], key);
}

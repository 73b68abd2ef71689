//! Hooks of type `prompt` and `agent`, asked at the simulator.

use cachalot_hooks::{Event, Verdict};
use cachalot_model::ModelSettings;
use cachalot_simulator::{
    RunningSimulator, Script, ScriptedReply, ScriptedStop, Simulator, SimulatorOptions,
};
use serde_json::{Value, json};

use super::Project;

/// A project with a model `haiku`, which answers this each time.
async fn answering(text: &str) -> (Project, RunningSimulator) {
    replying(ScriptedReply::text(text)).await
}

/// The same with a reply.
async fn replying(reply: ScriptedReply) -> (Project, RunningSimulator) {
    let script = Script::replies(vec![reply; 4]);
    let simulator = Simulator::start(SimulatorOptions {
        script,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap();
    let mut project = Project::new();
    let haiku = ModelSettings {
        provider: Some("openai".to_owned()),
        model: Some("gpt-4o-mini".to_owned()),
        base_url: Some(format!("{}/v1", simulator.url())),
        token_key: Some("TEST_KEY".to_owned()),
        retries: Some(0),
        ..ModelSettings::default()
    };
    project.handler_fixture.models = vec![("haiku".to_owned(), haiku)];
    (project, simulator)
}

fn prompt(text: &str) -> Value {
    json!([{"hooks": [{"type": "prompt", "prompt": text, "model": "haiku"}]}])
}

async fn said(answer: &str, event_name: &str, event: Event) -> (Verdict, Value) {
    let (project, simulator) = answering(answer).await;
    let hooks = project.hooks(&json!({event_name: prompt("Well? $ARGUMENTS")}));
    let mut input = project.calling(event, "shell", &json!({"command": "ls"}));
    if !event.contract().tool_matched {
        input.tool = None;
    }
    let verdict = hooks.fire(input).await;
    assert_eq!(simulator.violations(), [] as [String; 0]);
    let asked = simulator.received()[0].json();
    (verdict, asked)
}

#[tokio::test]
async fn objection_has_the_effect_of_the_event() {
    let no = r#"{"ok": false, "reason": "the tests fail"}"#;
    let (verdict, asked) = said(no, "PreToolUse", Event::PreToolUse).await;
    assert_eq!(verdict.denial(), Some("the tests fail"));
    assert_ne!(verdict.spent.calls, 0);
    let question = asked["messages"][1]["content"].as_str().unwrap();
    let reported: Value = serde_json::from_str(question.strip_prefix("Well? ").unwrap()).unwrap();
    assert_eq!(reported["tool_name"], "Bash");
    assert_eq!(reported["tool_input"], json!({"command": "ls"}));
    let (verdict, _) = said(no, "Stop", Event::Stop).await;
    assert_eq!(verdict.continue_reason.as_deref(), Some("the tests fail"));
    let (verdict, _) = said(no, "UserPromptSubmit", Event::UserPromptSubmit).await;
    assert_eq!(verdict.denial(), Some("the tests fail"));
    let (verdict, _) = said(no, "PostToolUse", Event::PostToolUse).await;
    assert_eq!(verdict.context, ["the tests fail"]);
}

#[tokio::test]
async fn prompt_hook_without_objection_decides_nothing() {
    let (verdict, _) = said(r#"{"ok": true}"#, "PreToolUse", Event::PreToolUse).await;
    assert_eq!((verdict.decision, verdict.messages), (None, vec![]));
}

/// Unlike one that cannot be parsed, which has the meaning of the original program.
#[tokio::test]
async fn prompt_answer_that_is_cut_off_denies() {
    let reply = ScriptedReply::text(r#"{"ok": "#).with_stop(ScriptedStop::Length);
    let (project, _simulator) = replying(reply).await;
    let hooks = project.hooks(&json!({"PreToolUse": prompt("Well? $ARGUMENTS")}));
    let input = project.calling(Event::PreToolUse, "shell", &json!({"command": "ls"}));
    let verdict = hooks.fire(input).await;
    let denial = verdict.denial().unwrap();
    assert!(denial.contains("max_tokens"), "{denial}");
}

#[tokio::test]
async fn unparsable_prompt_answer_is_a_warning() {
    let (verdict, _) = said("I would say so.", "PreToolUse", Event::PreToolUse).await;
    assert_eq!(verdict.decision, None);
    assert!(
        verdict.messages[0].contains("neither"),
        "{:?}",
        verdict.messages
    );
}

#[tokio::test]
async fn input_is_appended_to_a_prompt_without_placeholder() {
    let (project, simulator) = answering(r#"{"ok": true}"#).await;
    let hooks = project.hooks(&json!({"Stop": prompt("Are we done?")}));
    hooks.fire(project.input(Event::Stop)).await;
    let asked = simulator.received()[0].json();
    let question = asked["messages"][1]["content"].as_str().unwrap();
    assert!(question.starts_with("Are we done?\n\n{"), "{question}");
}

#[tokio::test]
async fn an_agent_hook_runs_without_tools_and_warns() {
    let (project, simulator) = answering(r#"{"ok": false, "reason": "no"}"#).await;
    let text = json!({"hooks": {"Stop": [{"hooks": [
        {"type": "agent", "prompt": "Run the tests.", "model": "haiku"},
    ]}]}});
    let (read, problems) = project.read(".claude/settings.json", &text.to_string());
    assert_eq!(problems, []);
    assert_eq!(read.warnings[0].code, "without-tools");
    let hooks = project.handler_fixture.hooks(read.entries).unwrap();
    let verdict = hooks.fire(project.input(Event::Stop)).await;
    assert_eq!(verdict.continue_reason.as_deref(), Some("no"));
    assert_eq!(simulator.received()[0].json().get("tools"), None);
}

#[tokio::test]
async fn claude_model_names_map_to_the_model_of_the_agent() {
    let (project, _simulator) = answering("").await;
    for (model, is_known) in [("sonnet", true), ("no such model", false)] {
        let hook = json!({"type": "prompt", "prompt": "?", "model": model});
        let text = json!({"hooks": {"Stop": [{"hooks": [hook]}]}});
        let (read, _) = project.read(".claude/settings.json", &text.to_string());
        assert_eq!(
            project.handler_fixture.hooks(read.entries).is_ok(),
            is_known,
            "{model}"
        );
    }
    // No agent has a model.
    let hooks = project.hooks(&json!({"Stop": [{"hooks": [{"type": "prompt", "prompt": "?"}]}]}));
    let verdict = hooks.fire(project.input(Event::Stop)).await;
    assert!(
        verdict.messages[0].contains("no model to ask"),
        "{:?}",
        verdict.messages
    );
}

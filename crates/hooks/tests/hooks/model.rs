//! Model hooks, with the simulator as their provider.

use std::time::Duration;

use cachalot_hooks::definition::Judgement;
use cachalot_hooks::input::{Prompt, ToolUse};
use cachalot_hooks::{Action, Decision, Event, HookEntry, Input};
use cachalot_model::ModelSettings;
use cachalot_simulator::{
    RunningSimulator, Script, ScriptedReply, ScriptedStop, ScriptedUsage, Simulator,
    SimulatorOptions,
};
use serde_json::{Value, json};

use crate::handler_fixture::{HandlerFixture, entry};

const ALLOWED: &str = r#"{"decision":"allow","reason":"harmless"}"#;

/// A simulator with two models: `judge` (OpenAI) and `other` (Anthropic).
struct JudgeModels {
    simulator: RunningSimulator,
    handler_fixture: HandlerFixture,
}

impl JudgeModels {
    async fn saying(replies: Vec<ScriptedReply>) -> Self {
        let script = Script::replies(replies);
        let simulator = Simulator::start(SimulatorOptions {
            script,
            ..SimulatorOptions::default()
        })
        .await
        .unwrap();
        let mut handler_fixture = HandlerFixture::new();
        let url = simulator.url();
        let settings = |provider: &str, model: &str, url: String| ModelSettings {
            provider: Some(provider.to_owned()),
            model: Some(model.to_owned()),
            base_url: Some(url),
            token_key: Some("TEST_KEY".to_owned()),
            retries: Some(0),
            ..ModelSettings::default()
        };
        handler_fixture.models = vec![
            (
                "judge".to_owned(),
                settings("openai", "gpt-4o-mini", format!("{url}/v1")),
            ),
            (
                "other".to_owned(),
                settings("anthropic", "claude-sonnet-4-5", url),
            ),
        ];
        Self {
            simulator,
            handler_fixture,
        }
    }

    async fn answering(text: &str) -> Self {
        Self::saying(vec![ScriptedReply::text(text)]).await
    }

    /// The body of the only request, which was such that the provider accepts it.
    fn asked(&self) -> Value {
        assert_eq!(self.simulator.violations(), [] as [String; 0]);
        let received = self.simulator.received();
        assert_eq!(received.len(), 1);
        received[0].json()
    }
}

fn judge(event: Event, prompt: &str, schema: Option<Judgement>) -> HookEntry {
    named("judge", event, prompt, schema)
}

fn named(model: &str, event: Event, prompt: &str, schema: Option<Judgement>) -> HookEntry {
    entry(
        event,
        Action::Model {
            model: model.to_owned(),
            prompt: prompt.to_owned(),
            system_prompt: Some("You guard a shell.".to_owned()),
            schema,
        },
    )
}

fn of_tool(command: &str) -> Input {
    Input {
        tool: Some(ToolUse {
            name: "shell".to_owned(),
            input: json!({ "cmd": command }).as_object().unwrap().clone(),
            ..ToolUse::default()
        }),
        ..Input::default()
    }
}

#[tokio::test]
async fn rendered_template_is_sent_to_the_model() {
    let judge_models = JudgeModels::answering(ALLOWED).await;
    let entry = judge(
        Event::PreToolUse,
        "May {{ tool_name }} run {{ tool_input | tojson | truncate(40) }}?",
        Some(Judgement::PreToolUse),
    );
    let verdict = judge_models
        .handler_fixture
        .verdict(entry, of_tool("ls > <x>"))
        .await;
    assert_eq!(
        verdict.decision,
        Some((Decision::Allow, "harmless".to_owned()))
    );
    let body = judge_models.asked();
    assert_eq!(body["messages"][0]["content"], "You guard a shell.");
    let question = &body["messages"][1]["content"];
    assert_eq!(question, r#"May shell run {"cmd":"ls > <x>"}?"#);
    assert!(!body["stream"].as_bool().unwrap_or(false));
}

#[tokio::test]
async fn the_schema_is_forwarded_to_every_provider() {
    for (model, place) in [
        ("judge", "/response_format/json_schema/schema"),
        ("other", "/output_config/format/schema"),
    ] {
        for (schema, decisions) in [
            (Judgement::PreToolUse, json!(["allow", "ask", "deny"])),
            (Judgement::Guard, json!(["allow", "deny"])),
        ] {
            let judge_models = JudgeModels::answering(ALLOWED).await;
            let entry = named(model, Event::ToolGuard, "Well?", Some(schema));
            let verdict = judge_models
                .handler_fixture
                .verdict(entry, of_tool("ls"))
                .await;
            assert_eq!(
                verdict.decision.map(|(decision, _)| decision),
                Some(Decision::Allow)
            );
            let body = judge_models.asked();
            let sent = body.pointer(place).unwrap_or_else(|| panic!("{body}"));
            assert_eq!(sent["properties"]["decision"]["enum"], decisions);
            assert_eq!(sent["required"], json!(["decision", "reason"]));
        }
    }
}

#[tokio::test]
async fn decision_within_text_is_accepted_except_for_guards() {
    let text = "Let me see.\n```json\n{\"decision\": \"deny\", \"reason\": \"it deletes\"}\n```";
    let judge_models = JudgeModels::answering(text).await;
    let entry = judge(Event::PreToolUse, "Well?", Some(Judgement::PreToolUse));
    let verdict = judge_models
        .handler_fixture
        .verdict(entry, of_tool("rm -rf /"))
        .await;
    assert_eq!(verdict.denial(), Some("it deletes"));
    let judge_models = JudgeModels::answering(text).await;
    let entry = judge(Event::ToolGuard, "Well?", Some(Judgement::Guard));
    let fault = judge_models
        .handler_fixture
        .fault(entry, of_tool("rm -rf /"))
        .await;
    assert!(fault.contains("guard_decision"), "{fault}");
}

#[tokio::test]
async fn unparsable_answer_is_a_fault_and_denies_at_guards() {
    for said in ["Sure!", "", r#"{"decision":"maybe","reason":"x"}"#] {
        let judge_models = JudgeModels::answering(said).await;
        let entry = judge(Event::PreToolUse, "Well?", Some(Judgement::PreToolUse));
        let verdict = judge_models
            .handler_fixture
            .verdict(entry, of_tool("ls"))
            .await;
        assert!(verdict.denial().is_some(), "{said}");
        let fault = verdict.reports[0].result.as_ref().unwrap_err();
        assert_eq!(fault.spent.calls, 1, "it was paid for all the same");
    }
}

#[tokio::test]
async fn guard_answer_blocks_at_events_without_decisions() {
    let judge_models = JudgeModels::answering(r#"{"decision":"deny","reason":"off topic"}"#).await;
    let entry = judge(
        Event::UserPromptSubmit,
        "{{ prompt }}",
        Some(Judgement::Guard),
    );
    let input = Input {
        prompt: Some(Prompt {
            text: "Is it about whales?".to_owned(),
            ..Prompt::default()
        }),
        ..Input::default()
    };
    let verdict = judge_models.handler_fixture.verdict(entry, input).await;
    assert_eq!(verdict.denial(), Some("off topic"));
    assert_eq!(
        judge_models.asked()["messages"][1]["content"],
        "Is it about whales?"
    );
}

#[tokio::test]
async fn answer_without_schema_is_context() {
    let judge_models = JudgeModels::answering(" The user is in a hurry.\n").await;
    let entry = judge(Event::TurnStart, "What of it?", None);
    let verdict = judge_models
        .handler_fixture
        .verdict(entry, Input::default())
        .await;
    assert_eq!(verdict.context, ["The user is in a hurry."]);
    assert_eq!(judge_models.asked().get("response_format"), None);
}

#[tokio::test]
async fn the_cost_of_prompt_hooks_is_reported() {
    let usage = ScriptedUsage {
        input: Some(1_000),
        output: Some(100),
        ..ScriptedUsage::default()
    };
    let judge_models =
        JudgeModels::saying(vec![ScriptedReply::text(ALLOWED).with_usage(usage)]).await;
    let entry = judge(Event::PreToolUse, "Well?", Some(Judgement::PreToolUse));
    let spent = judge_models
        .handler_fixture
        .verdict(entry, of_tool("ls"))
        .await
        .spent;
    assert_eq!(
        (spent.calls, spent.input_tokens, spent.output_tokens),
        (1, 1_000, 100)
    );
    // 1000 × $0.15 and 100 × $0.60 for a million.
    assert_eq!(spent.cost.picodollars, 210_000_000);
    assert_eq!(spent.cost.unpriced, 0);
}

#[tokio::test]
async fn failing_or_endless_model_is_a_fault() {
    for (reply, part) in [
        (ScriptedReply::error(500), "500"),
        (ScriptedReply::error(401), "401"),
        (
            ScriptedReply::text(ALLOWED).with_stop(ScriptedStop::Length),
            "max_tokens",
        ),
        (
            ScriptedReply::text(ALLOWED).with_stop(ScriptedStop::Refusal),
            "refused",
        ),
    ] {
        let judge_models = JudgeModels::saying(vec![reply]).await;
        let entry = judge(Event::PreToolUse, "Well?", Some(Judgement::PreToolUse));
        let verdict = judge_models
            .handler_fixture
            .verdict(entry, of_tool("ls"))
            .await;
        assert!(verdict.denial().is_some(), "{part}");
        let fault = verdict.reports[0].result.as_ref().unwrap_err();
        assert!(fault.message.contains(part), "{fault}");
        assert!(!fault.message.contains("sk-test"), "{fault}");
    }
}

#[tokio::test]
async fn slow_model_is_abandoned_after_the_timeout() {
    let slow = cachalot_simulator::Fault::slow(Duration::from_secs(600), Duration::ZERO);
    let judge_models =
        JudgeModels::saying(vec![ScriptedReply::text(ALLOWED).with_fault(slow)]).await;
    let mut entry = judge(Event::PreToolUse, "Well?", Some(Judgement::PreToolUse));
    entry.definition.timeout = Duration::from_millis(150);
    let verdict = judge_models
        .handler_fixture
        .verdict(entry, of_tool("ls"))
        .await;
    assert!(verdict.denial().is_some());
}

#[tokio::test]
async fn template_with_undefined_values_is_a_fault_without_a_request() {
    let judge_models = JudgeModels::answering(ALLOWED).await;
    let entry = judge(
        Event::PreToolUse,
        "{{ tool_input.path }}",
        Some(Judgement::PreToolUse),
    );
    let fault = judge_models
        .handler_fixture
        .fault(entry, of_tool("ls"))
        .await;
    assert!(fault.contains("tool_input.path"), "{fault}");
    assert!(judge_models.simulator.received().is_empty());
}

#[tokio::test]
async fn invalid_model_hook_is_a_problem_at_load() {
    let handler_fixture = JudgeModels::answering(ALLOWED).await.handler_fixture;
    let tool = Event::PreToolUse;
    let schema = Some(Judgement::PreToolUse);
    for (entry, code) in [
        (named("", tool, "x", schema), "missing-key"),
        (named("judge", tool, " ", schema), "missing-key"),
        (named("jugde", tool, "x", schema), "unknown-model"),
        (
            named("openai/gpt-4o-mini", tool, "x", schema),
            "unset-variable",
        ),
        (judge(tool, "{{ tool_name", schema), "bad-template"),
        (judge(tool, "{{ tool_nmae }}", schema), "unknown-name"),
        (judge(Event::UserPromptSubmit, "x", schema), "wrong-event"),
        (
            judge(Event::Notification, "x", Some(Judgement::Guard)),
            "wrong-event",
        ),
        (judge(Event::AfterLlmCall, "x", None), "wrong-event"),
    ] {
        let problem = handler_fixture.problem(entry);
        assert_eq!(problem.code, code, "{problem}");
    }
    let problem = handler_fixture.problem(named("jugde", tool, "x", schema));
    assert!(
        problem.message.contains("did you mean `judge`"),
        "{problem}"
    );
}

//! `agent.run` with the agents of the file and of another one, with real tools.

use std::sync::Arc;

use cachalot_simulator::{Fault, Script, ScriptedReply, ScriptedStop};
use cachalot_workflow::Planned;
use serde_json::{Value, json};

use crate::fakes::provider::KEY;
use crate::fakes::{Provider, TestAgentHost};
use crate::fixture::Fixture;
use crate::llm::asking;

/// A run that has agents in its file.
fn agents(provider: &Provider, file: &str) -> Fixture {
    let mut fixture = asking(provider, file);
    fixture.runtime.agent_host = Some(Arc::new(TestAgentHost::of(&fixture.runtime)));
    fixture
}

const PLAIN: &str = "
models:
  small: {provider: openai, model: gpt-4o-mini, cost: {input: 1, output: 2, cache_read: 1}}
agents:
  helper:
    model: small
    instruction: You help.
  root:
    model: small
    instruction: You answer in one sentence.
";

fn dollars(answer: &Value) -> f64 {
    let usage = |name: &str| answer["usage"][name].as_f64().unwrap();
    (usage("input_tokens") + 2.0 * usage("output_tokens")) / 1e6
}

#[tokio::test]
async fn the_entry_agent_answers_and_reports_usage() {
    let provider = Provider::answers(["The whale dives."]);
    let fixture = agents(&provider, PLAIN);
    let answer = fixture
        .ok("agent.run", json!({ "input": "What does it do?" }))
        .await;
    assert_eq!(
        answer,
        json!({
            "text": "The whale dives.", "stop_reason": "end", "model_calls": 1, "tool_calls": 0,
            "usage": answer["usage"], "cost": answer["cost"],
        })
    );
    assert!((answer["cost"].as_f64().unwrap() - dollars(&answer)).abs() < 1e-12);
    assert!(answer["usage"]["input_tokens"].as_u64() > Some(5));
    let sent = provider.last().to_string();
    assert!(sent.contains("You answer in one sentence.") && sent.contains("What does it do?"));
    fixture
        .ok(
            "actions.agent_run",
            json!({ "input": "Hi", "agent": "helper" }),
        )
        .await;
    assert!(provider.last().to_string().contains("You help."));
}

#[tokio::test]
async fn missing_agents_and_files_are_reported_with_suggestions() {
    let provider = Provider::built_in();
    let fixture = agents(&provider, PLAIN);
    let failure = fixture
        .fails("agent.run", json!({ "input": "Hi", "agent": "hleper" }))
        .await;
    assert_eq!(failure.kind, "validation_error");
    assert!(
        failure
            .message
            .contains("parameter `agent` is `hleper`: did you mean `helper`?"),
        "{failure}"
    );
    let failure = fixture.fails("agent.run", json!({ "input": "" })).await;
    assert!(
        failure.message.contains("parameter `input` is empty"),
        "{failure}"
    );
    let failure = agents(&provider, "name: a")
        .fails("agent.run", json!({ "input": "Hi" }))
        .await;
    assert!(
        failure.message.contains(
            "there are no `agents` in this file; add them, or name another file with `file`"
        ),
        "{failure}"
    );
    let unknown = PLAIN.replace(
        "model: small\n    instruction: You answer",
        "model: smal\n    instruction: You answer",
    );
    let failure = agents(&provider, &unknown)
        .fails("agent.run", json!({ "input": "Hi" }))
        .await;
    assert_eq!(failure.kind, "configuration_error");
    assert!(
        failure.message.contains("did you mean `small`?"),
        "{failure}"
    );
    assert_eq!(provider.requests(), 0);
}

#[tokio::test]
async fn llm_settings_of_the_file_apply_to_its_agents() {
    let provider = Provider::built_in();
    let file = "
settings: {llm: {temperature: 0.3, max_tokens: 77}}
agents: {root: {model: gpt-4o-mini, instruction: You help.}}
";
    let fixture = agents(&provider, file);
    fixture.ok("agent.run", json!({ "input": "Hi" })).await;
    assert_eq!(provider.last()["temperature"], 0.3);
}

const OTHER: &str = "
agents:
  root: {model: gpt-4o-mini, instruction_file: told.md}
";

#[tokio::test]
async fn agent_file_is_relative_to_the_run_and_instructions_to_the_file() {
    let provider = Provider::built_in();
    let fixture = agents(&provider, "name: a");
    fixture.file("teams/other.yaml", OTHER);
    fixture.file("teams/told.md", "You are told in a file.");
    fixture
        .ok(
            "agent.run",
            json!({ "input": "Hi", "file": "teams/other.yaml" }),
        )
        .await;
    assert!(
        provider
            .last()
            .to_string()
            .contains("You are told in a file.")
    );
    assert_eq!(
        fixture.file_dependencies(
            "agent.run",
            json!({ "input": "Hi", "file": "teams/other.yaml" })
        ),
        [
            fixture.path("teams/other.yaml"),
            fixture.path("teams/told.md")
        ]
    );
    assert!(
        fixture
            .file_dependencies("agent.run", json!({ "input": "Hi" }))
            .is_empty()
    );
    for (file, kind, says) in [
        ("teams/nothing.yaml", "not_found", "nothing.yaml"),
        ("teams/told.md", "validation_error", "told.md"),
    ] {
        let failure = fixture
            .fails("agent.run", json!({ "input": "Hi", "file": file }))
            .await;
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(says), "{failure}");
    }
    fixture.file("teams/told.yaml", "agents: {root: {modle: x}}");
    let failure = fixture
        .fails(
            "agent.run",
            json!({ "input": "Hi", "file": "teams/told.yaml" }),
        )
        .await;
    assert!(
        failure.message.contains("teams/told.yaml:1:")
            && failure.message.contains("did you mean `model`?"),
        "{failure}"
    );
}

const READER: &str = "
agents:
  root:
    model: gpt-4o-mini
    instruction: You read.
    toolsets: [{type: filesystem}]
";

#[tokio::test]
async fn tools_run_in_the_directory_of_the_run_and_are_reported() {
    let provider = Provider::replies([
        ScriptedReply::call("read_file", json!({ "path": "note.md" })),
        ScriptedReply::text("It says: depth."),
    ]);
    let fixture = agents(&provider, READER);
    fixture.file("note.md", "depth");
    let answer = fixture
        .ok("agent.run", json!({ "input": "Read note.md" }))
        .await;
    assert_eq!(
        (
            &answer["text"],
            &answer["model_calls"],
            &answer["tool_calls"]
        ),
        (&json!("It says: depth."), &json!(2), &json!(1))
    );
    assert!(provider.last().to_string().contains("depth"));
    let reported = fixture.events.printed();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].1.starts_with("root: read_file "),
        "{reported:?}"
    );
}

#[tokio::test]
async fn calls_that_need_approval_are_denied_without_a_user() {
    let provider = Provider::replies([
        ScriptedReply::call(
            "write_file",
            json!({ "path": "note.md", "content": "shallow" }),
        ),
        ScriptedReply::text("I may not."),
    ]);
    let fixture = agents(&provider, READER);
    let answer = fixture
        .ok("agent.run", json!({ "input": "Write note.md" }))
        .await;
    assert_eq!(answer["text"], "I may not.");
    assert!(!fixture.path("note.md").exists());
    assert!(
        provider
            .last()
            .to_string()
            .contains("no user is present to approve it")
    );
}

#[tokio::test]
async fn agents_delegate_to_sub_agents() {
    let team = "
agents:
  root: {model: gpt-4o-mini, instruction: You lead., sub_agents: [helper]}
  helper: {model: gpt-4o-mini, description: Knows depths., instruction: You help.}
";
    let provider = Provider::replies([
        ScriptedReply::call(
            "transfer_task",
            json!({ "agent": "helper", "task": "How deep?" }),
        ),
        ScriptedReply::text("2250 m"),
        ScriptedReply::text("It is 2250 m."),
    ]);
    let fixture = agents(&provider, team);
    let answer = fixture
        .ok("agent.run", json!({ "input": "How deep?" }))
        .await;
    assert_eq!(
        (&answer["text"], &answer["model_calls"]),
        (&json!("It is 2250 m."), &json!(3))
    );
}

#[tokio::test]
async fn failing_model_fails_the_step_with_its_kind() {
    for (fault, kind, retryable) in [
        (Fault::status(401), "unauthorized", false),
        (Fault::status(402), "out_of_credit", false),
        (Fault::status(500).times(9), "unavailable", true),
    ] {
        let provider = Provider::replies([ScriptedReply::text("x").with_fault(fault)]).forgiving();
        let failure = agents(&provider, PLAIN)
            .fails("agent.run", json!({ "input": "Hi" }))
            .await;
        assert_eq!((failure.kind, failure.retryable), (kind, retryable));
        assert!(
            failure.message.starts_with("agent.run: ") && !failure.message.contains(KEY),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn the_stop_reason_is_reported() {
    for (stop, word) in [
        (ScriptedStop::Length, "length"),
        (ScriptedStop::Refusal, "refusal"),
    ] {
        let provider = Provider::replies([ScriptedReply::text("No").with_stop(stop)]);
        let answer = agents(&provider, PLAIN)
            .ok("agent.run", json!({ "input": "Hi" }))
            .await;
        assert_eq!(answer["stop_reason"], word);
    }
    let endless = Provider::start(Script::replies(vec![ScriptedReply::call(
        "list_dir",
        json!({ "path": "." }),
    )]));
    let limited = READER.replace("instruction: You read.", "max_iterations: 2");
    let answer = agents(&endless, &limited)
        .ok("agent.run", json!({ "input": "Go" }))
        .await;
    assert_eq!(
        (&answer["stop_reason"], &answer["model_calls"]),
        (&json!("max_iterations"), &json!(2))
    );
}

#[tokio::test]
async fn agent_step_spends_the_budget_of_the_run() {
    let provider = Provider::answers(["The whale dives."]);
    let limited = format!("{PLAIN}budget: {{max_tokens: 40}}");
    let fixture = agents(&provider, &limited);
    let arguments = || json!({ "input": "What does it do?" });
    let mut calls = 0;
    let failure = loop {
        match fixture.run("agent.run", arguments()).await {
            Ok(answer) => assert_eq!(answer["stop_reason"], "end"),
            Err(failure) => break failure,
        }
        calls += 1;
        assert!(calls < 20);
    };
    assert_eq!(failure.kind, "over_budget");
    assert!(
        failure
            .message
            .contains("the budget of 40 tokens (`max_tokens`) is used up"),
        "{failure}"
    );
    assert_eq!(provider.requests(), calls);
    let failure = fixture
        .fails("llm.call", json!({ "model": "small", "prompt": "Hi" }))
        .await;
    assert_eq!(failure.kind, "over_budget");
}

/// Calls of an agent before its end count as well.
#[tokio::test]
async fn exhausted_budget_ends_the_agent_and_the_run() {
    let provider = Provider::replies([ScriptedReply::call("list_dir", json!({ "path": "." }))]);
    let limited =
        format!("{READER}    max_consecutive_tool_calls: 0\nbudget: {{max_tokens: 9000}}");
    let fixture = agents(&provider, &limited);
    let failure = fixture.fails("agent.run", json!({ "input": "Go" })).await;
    assert_eq!(failure.kind, "over_budget", "{failure}");
    assert!(provider.requests() > 1);
}

#[tokio::test]
async fn agent_file_has_its_own_budget() {
    let provider = Provider::replies([ScriptedReply::call("list_dir", json!({ "path": "." }))]);
    let fixture = agents(&provider, "name: a");
    fixture.file(
        "other.yaml",
        format!("{READER}    max_consecutive_tool_calls: 0\nbudget: {{max_tokens: 9000}}"),
    );
    let answer = fixture
        .ok("agent.run", json!({ "input": "Go", "file": "other.yaml" }))
        .await;
    assert_eq!(answer["stop_reason"], "budget");
    assert!(fixture.runtime.meter.check().is_ok());
    assert!(fixture.runtime.meter.spent().tokens > 0);
}

#[tokio::test]
async fn a_plan_reports_a_miss() {
    let provider = Provider::built_in();
    let fixture = agents(&provider, PLAIN);
    let planned = fixture
        .plan("agent.run", json!({ "input": "Hi" }))
        .await
        .unwrap();
    let reason = "there is no cache.wrap around it".to_owned();
    assert_eq!(
        planned,
        Planned::Miss {
            handle: None,
            reason
        }
    );
    let wrong = fixture
        .plan("agent.run", json!({ "input": "Hi", "agent": "nobody" }))
        .await;
    assert_eq!(wrong.unwrap_err().kind, "validation_error");
}

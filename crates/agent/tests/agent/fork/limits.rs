//! Limits of a fork, including those that work for it concurrently.

use cachalot_agent::{Inherit, Stop};
use cachalot_hooks::Event;
use cachalot_hooks::input::PermissionMode;
use cachalot_simulator::{ScriptedReply, ScriptedUsage};
use serde_json::json;

use super::{Recording, forked, long, spec, whale_agent};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};

fn team(keys: &str) -> String {
    format!(
        "
agents:
  root:
    model: test
    instruction: '{}'
    sub_agents: [{{name: reader, fork: true}}, worker]
  reader: {{model: test, instruction: Answer in one word.}}
  worker: {{model: test, instruction: You work.}}
{keys}",
        long()
    )
}

fn used(reply: ScriptedReply) -> ScriptedReply {
    reply.with_usage(ScriptedUsage {
        input: Some(600),
        output: Some(10),
        ..ScriptedUsage::default()
    })
}

fn text(text: &str) -> ScriptedReply {
    used(ScriptedReply::text(text))
}

/// Three tasks at once.
fn three() -> ScriptedReply {
    let task = |number: u32| json!({"agent": "reader", "task": format!("task {number}")});
    let first = ScriptedReply::call("transfer_task", task(1));
    used(
        first
            .and_call("transfer_task", task(2))
            .and_call("transfer_task", task(3)),
    )
}

fn each(fixture: &Fixture) -> Vec<usize> {
    (1..fixture.bodies().len()).collect()
}

#[tokio::test]
async fn concurrent_sub_agents_of_a_fork_reserve_separate_tokens() {
    for wire in WIRES {
        let mut replies = vec![text("hello"), three()];
        replies.extend((0..4).map(|_| text("done")));
        let fixture = Fixture::new(wire, &team(""), replies).await;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "Hello.").await;
        let mut spec = spec(&["transfer_task"], Inherit::Full);
        // The fork's first request, and one more.
        spec.max_input_tokens = Some(1_300);
        let report = forked(&chat, spec, "Go.").await;
        assert_eq!(report.sum.model_calls, 2, "{report:?}");
        assert_eq!(report.sum.usage.total_input(), 1_200, "{report:?}");
        assert!(matches!(report.stop, Stop::Budget(_)), "{report:?}");
        let each = each(&fixture);
        fixture.check_between(&each);
    }
}

#[tokio::test]
async fn concurrent_forks_reserve_the_rest_of_the_budget_once() {
    for wire in WIRES {
        let mut replies = vec![three()];
        replies.extend((0..4).map(|_| text("done")));
        let fixture = Fixture::new(wire, &team("budget: {max_tokens: 1200}\n"), replies).await;
        let mut chat = fixture.chat().await;
        let turn = fixture.turn(&mut chat, "Go.").await;
        // 610 were spent, and the first of the three may take the rest.
        assert_eq!(fixture.bodies().len(), 2, "{turn:?}");
        assert!(matches!(turn.stop, Stop::Budget(_)), "{turn:?}");
        let refused = fixture
            .reported
            .ended()
            .into_iter()
            .filter(|ended| ended.is_error);
        assert_eq!(refused.count(), 2);
        let each = each(&fixture);
        fixture.check_between(&each);
    }
}

#[tokio::test]
async fn failed_request_releases_its_reserved_tokens() {
    let replies = vec![
        text("hello"),
        ScriptedReply::error(400),
        text("Welcome."),
        text("never"),
    ];
    let fixture = Fixture::new(Wire::Chat, &team("budget: {max_tokens: 1300}\n"), replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Hello.").await;
    let cancel = cachalot_agent::CancellationToken::default();
    chat.turn("Go.", &cancel).await.unwrap_err();
    assert_eq!(fixture.turn(&mut chat, "Thanks.").await.text, "Welcome.");
    fixture.check();
}

#[tokio::test]
async fn the_first_request_is_limited_without_earlier_usage() {
    for inherit in [Inherit::Full, Inherit::Session, Inherit::None] {
        let fixture = Fixture::new(Wire::Responses, &team(""), vec![text("looked")]).await;
        let chat = fixture.chat().await;
        // The instruction alone is longer.
        let mut limited = spec(&["transfer_task"], inherit);
        limited.max_input_tokens = Some(1_000);
        let report = forked(&chat, limited.clone(), "Look back.").await;
        let Stop::Budget(why) = &report.stop else {
            panic!("{inherit:?}: {report:?}");
        };
        assert!(why.contains("the next request sends about"), "{why}");
        assert_eq!(fixture.bodies().len(), 0, "{inherit:?}");
        limited.max_input_tokens = Some(100_000);
        assert_eq!(forked(&chat, limited, "Look back.").await.text, "looked");
        fixture.check();
    }
}

#[tokio::test]
async fn calls_of_sub_agents_count_as_calls_of_the_fork() {
    let transfer = || {
        used(ScriptedReply::call(
            "transfer_task",
            json!({"agent": "worker", "task": "Work."}),
        ))
    };
    let replies = vec![
        text("hello"),
        transfer(),
        text("worked"),
        transfer(),
        text("never"),
        text("never"),
    ];
    let fixture = Fixture::new(Wire::Messages, &team(""), replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Hello.").await;
    let mut limited = spec(&["transfer_task"], Inherit::Full);
    limited.max_iterations = 3;
    let report = forked(&chat, limited, "Have it done.").await;
    assert_eq!(
        (report.sum.model_calls, report.stop),
        (3, Stop::Iterations(3))
    );
    fixture.check();
}

#[tokio::test]
async fn unknown_tool_name_is_truncated_in_reports() {
    let long = "x".repeat(3_000);
    let replies = vec![
        text("hello"),
        used(ScriptedReply::call(&long, json!({}))),
        text("done"),
    ];
    let fixture = Fixture::new(Wire::Chat, &team(""), replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Hello.").await;
    let report = forked(&chat, spec(&[], Inherit::Full), "Go.").await;
    assert_eq!(report.denied, ["x".repeat(80)]);
    fixture.check();
}

#[tokio::test]
async fn an_unattended_fork_reports_the_rule_to_hooks() {
    let file = whale_agent("").replace("{allow: [safe, danger]}", "{allow: ['*'], ask: [danger]}");
    let replies = vec![
        text("hello"),
        used(ScriptedReply::call("danger", json!({}))),
        text("done"),
    ];
    let mut fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let danger = Recording::new("danger");
    fixture.tools = vec![danger.clone() as _];
    fixture.hook_recorder.listen([Event::PreToolUse]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Hello.").await;
    forked(&chat, spec(&["danger"], Inherit::Full), "Go.").await;
    assert_eq!(danger.times(), 0);
    let recorded = fixture.hook_recorder.recorded_of(Event::PreToolUse);
    assert_eq!(recorded[0].permission_mode, PermissionMode::DontAsk);
    let notes = fixture.reported.notes().into_iter();
    let mut denials = notes.filter_map(|note| match note {
        Note::Fork(_, note) => match *note {
            Note::EndedCall(ended) => Some(ended.text),
            _ => None,
        },
        _ => None,
    });
    let denial = denials.next().unwrap();
    assert!(
        denial.contains("the rule `danger` under permissions.ask"),
        "{denial}"
    );
    assert!(!denial.contains("would let it"), "{denial}");
    fixture.check();
}

#[tokio::test]
async fn a_forked_sub_agent_is_called_by_its_task() {
    let task = json!({"agent": "reader", "task": "Read the depths."});
    let replies = vec![
        used(ScriptedReply::call("transfer_task", task)),
        text("read"),
        text("done"),
    ];
    let fixture = Fixture::new(Wire::Chat, &team(""), replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Go.").await;
    let mut sessions = fixture.sessions().await.into_iter();
    let forked = sessions
        .find(|session| session.head.agent == "reader")
        .unwrap();
    assert_eq!(forked.head.title.as_deref(), Some("Read the depths."));
    fixture.check_between(&[2]);
}

//! Budgets.

use std::sync::Arc;

use cachalot_agent::Stop;
use cachalot_core::ManualClock;
use cachalot_simulator::{ScriptedReply, ScriptedUsage};
use serde_json::json;

use crate::cancelling::HangingTool;
use crate::fixture::{Fixture, NOW, WIRES, Wire};
use crate::turns::{CODER, TALKER};

fn reply(reply: ScriptedReply, input: u64) -> ScriptedReply {
    reply.with_usage(ScriptedUsage {
        input: Some(input),
        output: Some(10),
        ..ScriptedUsage::default()
    })
}

fn stopped(stop: &Stop) -> &str {
    match stop {
        Stop::Budget(which) => which,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn token_budget_ends_the_turn_between_calls_and_later_turns_at_once() {
    for wire in WIRES {
        let file = format!("{CODER}budget: {{max_tokens: 1000}}\n");
        let replies = vec![
            reply(ScriptedReply::call("list_dir", json!({})), 400),
            reply(ScriptedReply::call("list_dir", json!({"path": "."})), 600),
            reply(ScriptedReply::text("too much"), 700),
        ];
        let fixture = Fixture::new(wire, &file, replies).await;
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert!(
            stopped(&report.stop).contains("1020 tokens in 2 calls"),
            "{report:?}"
        );
        assert_eq!(report.sum.tool_calls, 2);
        let before = fixture.session(chat.session()).await;
        for _ in 0..2 {
            let report = fixture.turn(&mut chat, "go on").await;
            assert!(stopped(&report.stop).contains("max_tokens"));
        }
        // What cannot be answered is not said.
        assert_eq!(fixture.session(chat.session()).await.prompt, before.prompt);
        assert_eq!(fixture.simulator.received().len(), 2);

        // With another budget, the session goes on.
        let session = chat.session().to_owned();
        let mut fixture = fixture;
        fixture.rewrite(CODER);
        let mut chat = fixture.resume(&session).await.unwrap();
        assert_eq!(fixture.turn(&mut chat, "go on").await.text, "too much");
        fixture.check();
    }
}

#[tokio::test]
async fn cost_budget_ends_the_turn() {
    let file = format!("{CODER}budget: {{max_cost: 0.0001}}\n");
    let replies = vec![
        reply(ScriptedReply::call("list_dir", json!({})), 1_000),
        reply(ScriptedReply::text("never"), 1),
    ];
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert!(stopped(&report.stop).contains("max_cost"), "{report:?}");
    assert!(
        report
            .stop
            .notice()
            .unwrap()
            .starts_with("stopped: the budget of $0.0001")
    );
    fixture.check();
}

#[tokio::test]
async fn cost_budget_refuses_unpriced_models() {
    let file = format!("{TALKER}budget: {{max_cost: 1}}\n");
    let mut fixture = Fixture::new(Wire::Chat, &file, vec![ScriptedReply::text("yes")]).await;
    fixture.model_keys = ", prices: ollama".to_owned();
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert!(
        stopped(&report.stop).contains("the price of the model"),
        "{report:?}"
    );
    assert_eq!(fixture.simulator.received().len(), 0);
    // Without one, it is asked, and what it costs is not taken for nothing.
    fixture.rewrite(TALKER);
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!(
        (report.text.as_str(), report.sum.paid.cost.unpriced),
        ("yes", 1)
    );
    fixture.check();
}

#[tokio::test]
async fn time_budget_ends_a_tool_that_hangs() {
    for wire in WIRES {
        let file = format!("{CODER}budget: {{max_time: 300ms}}\n");
        let replies = vec![
            ScriptedReply::call("forever", json!({})),
            ScriptedReply::text("yes"),
        ];
        let mut fixture = Fixture::new(wire, &file, replies).await;
        let clock = Arc::new(ManualClock::at(NOW));
        fixture.clock = Arc::clone(&clock) as _;
        let forever = Arc::new(HangingTool::advancing("forever", &clock));
        fixture.tools = vec![Arc::clone(&forever) as _];
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert!(stopped(&report.stop).contains("max_time"), "{report:?}");
        assert!(forever.was_dropped());
        let session = chat.session().to_owned();
        fixture.rewrite(CODER);
        let mut chat = fixture.resume(&session).await.unwrap();
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        fixture.check();
    }
}

#[tokio::test]
async fn new_session_does_not_reset_the_budget() {
    let file = format!("{TALKER}budget: {{max_tokens: 100}}\n");
    let replies = vec![reply(ScriptedReply::text("yes"), 200)];
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let mut chat = fixture.chat().await;
    assert_eq!(fixture.turn(&mut chat, "go").await.stop, Stop::End);
    chat.start_new_session().await.unwrap();
    assert!(stopped(&fixture.turn(&mut chat, "go").await.stop).contains("max_tokens"));
    fixture.check();
}

//! Budgets.

use std::sync::Arc;

use cachalot_agent::Stop;
use cachalot_core::SystemClock;
use cachalot_simulator::{ScriptedReply, ScriptedUsage};
use serde_json::json;

use crate::cancelling::Forever;
use crate::turns::{CODER, TALKER};
use crate::world::{WIRES, Wire, World};

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
async fn tokens_end_the_turn_between_two_model_calls_and_later_turns_at_once() {
    for wire in WIRES {
        let file = format!("{CODER}budget: {{max_tokens: 1000}}\n");
        let replies = vec![
            reply(ScriptedReply::call("list_dir", json!({})), 400),
            reply(ScriptedReply::call("list_dir", json!({"path": "."})), 600),
            reply(ScriptedReply::text("too much"), 700),
        ];
        let world = World::new(wire, &file, replies).await;
        let mut chat = world.chat().await;
        let report = world.turn(&mut chat, "go").await;
        assert!(
            stopped(&report.stop).contains("1020 tokens in 2 calls"),
            "{report:?}"
        );
        assert_eq!(report.sum.tool_calls, 2);
        let before = world.session(chat.session()).await;
        for _ in 0..2 {
            let report = world.turn(&mut chat, "go on").await;
            assert!(stopped(&report.stop).contains("max_tokens"));
        }
        // What cannot be answered is not said.
        assert_eq!(world.session(chat.session()).await.prompt, before.prompt);
        assert_eq!(world.simulator.received().len(), 2);

        // With another budget, the session goes on.
        let session = chat.session().to_owned();
        let mut world = world;
        world.rewrite(CODER);
        let mut chat = world.resume(&session).await.unwrap();
        assert_eq!(world.turn(&mut chat, "go on").await.text, "too much");
        world.check();
    }
}

#[tokio::test]
async fn money_ends_the_turn() {
    let file = format!("{CODER}budget: {{max_cost: 0.0001}}\n");
    let replies = vec![
        reply(ScriptedReply::call("list_dir", json!({})), 1_000),
        reply(ScriptedReply::text("never"), 1),
    ];
    let world = World::new(Wire::Chat, &file, replies).await;
    let mut chat = world.chat().await;
    let report = world.turn(&mut chat, "go").await;
    assert!(stopped(&report.stop).contains("max_cost"), "{report:?}");
    assert!(
        report
            .stop
            .notice()
            .unwrap()
            .starts_with("stopped: the budget of $0.0001")
    );
    world.check();
}

#[tokio::test]
async fn a_model_without_a_price_is_not_asked_under_a_budget_of_money() {
    let file = format!("{TALKER}budget: {{max_cost: 1}}\n");
    let mut world = World::new(Wire::Chat, &file, vec![ScriptedReply::text("yes")]).await;
    world.model_keys = ", prices: ollama".to_owned();
    let mut chat = world.chat().await;
    let report = world.turn(&mut chat, "go").await;
    assert!(
        stopped(&report.stop).contains("the price of the model"),
        "{report:?}"
    );
    assert_eq!(world.simulator.received().len(), 0);
    // Without one, it is asked, and what it costs is not taken for nothing.
    world.rewrite(TALKER);
    let mut chat = world.chat().await;
    let report = world.turn(&mut chat, "go").await;
    assert_eq!(
        (report.text.as_str(), report.sum.paid.cost.unpriced),
        ("yes", 1)
    );
    world.check();
}

#[tokio::test]
async fn time_ends_a_tool_that_never_does() {
    for wire in WIRES {
        let file = format!("{CODER}budget: {{max_time: 300ms}}\n");
        let replies = vec![
            ScriptedReply::call("forever", json!({})),
            ScriptedReply::text("yes"),
        ];
        let mut world = World::new(wire, &file, replies).await;
        world.clock = Arc::new(SystemClock);
        let forever = Arc::new(Forever::new("forever"));
        world.tools = vec![Arc::clone(&forever) as _];
        let mut chat = world.chat().await;
        let report = world.turn(&mut chat, "go").await;
        assert!(stopped(&report.stop).contains("max_time"), "{report:?}");
        assert!(forever.was_dropped());
        let session = chat.session().to_owned();
        world.rewrite(CODER);
        let mut chat = world.resume(&session).await.unwrap();
        assert_eq!(world.turn(&mut chat, "hello").await.text, "yes");
        world.check();
    }
}

#[tokio::test]
async fn a_new_session_has_no_new_budget() {
    let file = format!("{TALKER}budget: {{max_tokens: 100}}\n");
    let replies = vec![reply(ScriptedReply::text("yes"), 200)];
    let world = World::new(Wire::Chat, &file, replies).await;
    let mut chat = world.chat().await;
    assert_eq!(world.turn(&mut chat, "go").await.stop, Stop::End);
    chat.start_new_session().await.unwrap();
    assert!(stopped(&world.turn(&mut chat, "go").await.stop).contains("max_tokens"));
    world.check();
}

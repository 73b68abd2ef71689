//! A fork has its own session, budget, cost and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use cachalot_agent::{
    AgentDefinition, CancellationToken, Chat, ContextSource, ErrorKind, ForkSpec, Inherit, Stop,
    UsageTotals,
};
use cachalot_hooks::Event;
use cachalot_simulator::{Fault, ScriptedReply, ScriptedUsage};
use serde_json::json;

use super::{Recording, forked, spec, whale_agent};
use crate::cancelling::HangingTool;
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::hook_recorder::adds;

fn call(tool: &str) -> ScriptedReply {
    ScriptedReply::call(tool, json!({}))
}

async fn after_a_turn(mut fixture: Fixture, change: impl FnOnce(&mut Fixture)) -> (Fixture, Chat) {
    change(&mut fixture);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
    (fixture, chat)
}

/// Whoever lists a tool lets it be used. What rules want asked about is refused all the same, and so
/// is what nobody lists.
#[tokio::test]
async fn an_unattended_fork_denies_calls_that_need_approval() {
    let unlisted = ForkSpec {
        tools: None,
        ..spec(&[], Inherit::Full)
    };
    let listed = || spec(&["act", "safe"], Inherit::Full);
    for wire in WIRES {
        for (rules, spec, entered) in [
            ("allow: [safe]", listed(), 1),
            ("allow: [safe], ask: [act]", listed(), 0),
            ("allow: [safe], deny: [act]", listed(), 0),
            ("allow: [safe]", unlisted.clone(), 0),
        ] {
            let replies = vec![
                ScriptedReply::text("1,200 m."),
                call("act").and_call("safe", json!({})),
                ScriptedReply::text("done"),
            ];
            let file = whale_agent("").replace("allow: [safe, danger]", rules);
            let fixture = Fixture::new(wire, &file, replies).await;
            let (act, safe) = (Recording::new("act"), Recording::new("safe"));
            let tools = vec![Arc::clone(&act) as _, Arc::clone(&safe) as _];
            let (fixture, chat) = after_a_turn(fixture, |fixture| fixture.tools = tools).await;
            let report = forked(&chat, spec, "Go.").await;
            assert_eq!((act.times(), safe.times()), (entered, 1), "{rules}");
            assert_eq!(fixture.answers.asked(), []);
            // It is let through by the gate, and refused by the rules.
            assert_eq!(report.denied, [] as [&str; 0]);
            fixture.check();
        }
    }
}

#[tokio::test]
async fn cost_of_a_fork_counts_for_it_and_the_chat_but_for_no_turn() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("1,200 m."),
            call("safe"),
            ScriptedReply::text("done"),
            ScriptedReply::text("yes"),
        ];
        let fixture = Fixture::new(wire, &whale_agent(""), replies).await;
        let tools = vec![Recording::new("safe") as _];
        let (fixture, mut chat) = after_a_turn(fixture, |fixture| fixture.tools = tools).await;
        let before = chat.total();
        let report = forked(&chat, spec(&["safe"], Inherit::Full), "Go.").await;
        assert_eq!((report.sum.model_calls, report.sum.tool_calls), (2, 1));
        assert!(report.sum.paid.cost.picodollars > 0);
        let mut total = before;
        total += report.sum;
        assert_eq!(chat.total(), total);
        let turn = fixture.turn(&mut chat, "Thanks.").await;
        assert_eq!((turn.sum.model_calls, turn.sum.tool_calls), (1, 0));
        total += turn.sum;
        assert_eq!(chat.total(), total);
        let own = fixture.session(&report.session).await.totals;
        assert_eq!((own.answers, own.usage), (2, report.sum.usage));
        assert_eq!(fixture.session(chat.session()).await.totals.answers, 2);
        assert_eq!(chat.close().await, total);
        fixture.check_between(&[3]);
    }
}

#[tokio::test]
async fn a_fork_counts_against_the_budget_of_the_chat() {
    let usage = ScriptedUsage {
        input: Some(600),
        ..ScriptedUsage::default()
    };
    let text = |text| ScriptedReply::text(text).with_usage(usage);
    let replies = vec![text("one"), text("two")];
    let fixture = Fixture::new(
        Wire::Chat,
        &whale_agent("budget: {max_tokens: 1000}\n"),
        replies,
    )
    .await;
    let (fixture, mut chat) = after_a_turn(fixture, |_| {}).await;
    let report = forked(&chat, spec(&[], Inherit::Full), "Go.").await;
    assert_eq!(report.stop, Stop::End);
    let turn = fixture.turn(&mut chat, "Again.").await;
    assert!(matches!(turn.stop, Stop::Budget(_)), "{turn:?}");
    let report = forked(&chat, spec(&[], Inherit::Full), "Go.").await;
    assert!(matches!(report.stop, Stop::Budget(_)), "{report:?}");
    assert_eq!((report.sum, report.first), (UsageTotals::default(), None));
    fixture.check();
}

#[tokio::test]
async fn fork_has_its_own_limits() {
    let usage = ScriptedUsage {
        input: Some(600),
        output: Some(50),
        ..ScriptedUsage::default()
    };
    let limited = |change: fn(&mut ForkSpec)| {
        let mut spec = spec(&["safe"], Inherit::Full);
        change(&mut spec);
        spec
    };
    for (spec, calls, which) in [
        (limited(|spec| spec.max_iterations = 2), 2, ""),
        // It is known from the chat how long the first request is at least.
        (
            limited(|spec| spec.max_input_tokens = Some(599)),
            0,
            "max_input_tokens",
        ),
        (
            limited(|spec| spec.max_input_tokens = Some(1_199)),
            1,
            "max_input_tokens",
        ),
        (
            limited(|spec| spec.max_input_tokens = Some(1_800)),
            3,
            "max_input_tokens",
        ),
        (
            limited(|spec| spec.max_output_tokens = Some(100)),
            2,
            "max_output_tokens",
        ),
        (
            limited(|spec| spec.max_output_tokens = Some(50)),
            1,
            "max_output_tokens",
        ),
    ] {
        let mut replies = vec![ScriptedReply::text("1,200 m.").with_usage(usage)];
        for number in 0..calls {
            let arguments = json!({"what": format!("{number}")});
            replies.push(ScriptedReply::call("safe", arguments).with_usage(usage));
        }
        let fixture = Fixture::new(Wire::Responses, &whale_agent(""), replies).await;
        let tools = vec![Recording::new("safe") as _];
        let (fixture, chat) = after_a_turn(fixture, |fixture| fixture.tools = tools).await;
        let is_counted = which.is_empty();
        let report = forked(&chat, spec, "Go.").await;
        assert_eq!(report.sum.model_calls, calls, "{report:?}");
        match &report.stop {
            Stop::Iterations(2) => assert!(is_counted),
            Stop::Budget(why) => {
                assert!(why.contains(which) && why.contains("the review"), "{why}")
            }
            other => panic!("{other:?}"),
        }
        fixture.check();
    }
}

#[tokio::test]
async fn a_fork_needs_an_owner_a_task_and_a_conversation() {
    let fixture = Fixture::new(Wire::Chat, &whale_agent(""), vec![]).await;
    let chat = fixture.chat().await;
    let nameless = ForkSpec {
        holder: " ".to_owned(),
        ..spec(&[], Inherit::Full)
    };
    let idle = ForkSpec {
        max_iterations: 0,
        ..spec(&[], Inherit::Full)
    };
    for (spec, what) in [(nameless, "holder"), (idle, "max_iterations")] {
        let Err(refused) = chat.fork(spec) else {
            panic!("{what}");
        };
        assert_eq!(refused.kind, ErrorKind::Fork);
        assert!(refused.message.contains(what), "{refused}");
    }
    let fork = chat.fork(spec(&[], Inherit::Full)).unwrap();
    let refused = fork
        .run(" \n", &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Input);
    fixture.check();
}

#[tokio::test]
async fn a_fork_ends_with_its_chat_and_when_it_is_cancelled() {
    for how in ["dropped", "closed", "cancelled"] {
        let replies = vec![ScriptedReply::text("1,200 m."), call("forever")];
        let fixture = Fixture::new(Wire::Messages, &whale_agent(""), replies).await;
        let forever = Arc::new(HangingTool::new("forever"));
        let tools = vec![Arc::clone(&forever) as _];
        let (fixture, chat) = after_a_turn(fixture, |fixture| fixture.tools = tools).await;
        let fork = chat.fork(spec(&["forever"], Inherit::Full)).unwrap();
        let cancel = CancellationToken::default();
        let switch = cancel.clone();
        let running = tokio::spawn(async move { fork.run("Go.", &switch).await });
        let began = Note::Fork(
            "the review".to_owned(),
            Box::new(Note::Began("forever".to_owned())),
        );
        fixture
            .until("the call", |fixture| {
                fixture.reported.notes().contains(&began)
            })
            .await;
        match how {
            "dropped" => drop(chat),
            "closed" => {
                chat.close().await;
            }
            _ => cancel.cancel(),
        }
        let report = running.await.unwrap().unwrap();
        assert_eq!(report.stop, Stop::Interrupted, "{how}");
        assert!(forever.was_dropped());
        // What it did is kept, as of any interrupted turn.
        assert_eq!(fixture.messages(&report.session).await.len(), 6);
        fixture.check();
    }
}

#[tokio::test]
async fn failed_fork_counts_its_cost() {
    let replies = vec![
        ScriptedReply::text("1,200 m."),
        call("safe"),
        ScriptedReply::default().with_fault(Fault::status(500).times(3)),
    ];
    let fixture = Fixture::new(Wire::Chat, &whale_agent(""), replies).await;
    let tools = vec![Recording::new("safe") as _];
    let (fixture, chat) = after_a_turn(fixture, |fixture| fixture.tools = tools).await;
    let before = chat.total();
    let fork = chat.fork(spec(&["safe"], Inherit::Full)).unwrap();
    let failed = fork
        .run("Go.", &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Model);
    assert_eq!(chat.total().model_calls, before.model_calls + 1);
    fixture.check();
}

/// Counts how often it is asked.
struct CountingSource(AtomicUsize);

#[async_trait]
impl ContextSource for CountingSource {
    async fn paragraph(&self, _: &AgentDefinition, _: &str) -> Option<String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Some("It is about whales.".to_owned())
    }
}

#[tokio::test]
async fn hook_context_of_a_fork_follows_the_inherited_prefix() {
    for wire in WIRES {
        let replies = ["one", "two"].map(ScriptedReply::text).to_vec();
        let fixture = Fixture::new(wire, &whale_agent(""), replies).await;
        let source = Arc::new(CountingSource(AtomicUsize::new(0)));
        let sources = vec![Arc::clone(&source) as _];
        let (fixture, chat) = after_a_turn(fixture, |fixture| {
            fixture.sources = sources;
            fixture.hook_recorder.listen_to_all();
            for event in [Event::SessionStart, Event::PreUserTurn, Event::TurnStart] {
                fixture
                    .hook_recorder
                    .say(event, adds(&format!("added by {}", event.name())));
            }
        })
        .await;
        let report = forked(&chat, spec(&[], Inherit::Full), "Look back.").await;
        assert_eq!(report.differences, []);
        assert!(report.first.unwrap().cache_read > 0);
        assert_eq!(source.0.load(Ordering::SeqCst), 1);
        let said = fixture.messages(&report.session).await[2].clone();
        let said = format!("{said:?}");
        assert!(said.contains("added by session_start"), "{said}");
        assert!(
            said.contains("added by turn_start") && !said.contains("about whales"),
            "{said}"
        );
        // The session end of the chat is not reported to hooks.
        let over: Vec<_> = fixture.hook_recorder.recorded_of(Event::SessionEnd);
        let over: Vec<_> = over.into_iter().map(|input| input.session_id).collect();
        assert_eq!(over, [report.session.as_str()]);
        let reported = fixture
            .hook_recorder
            .recorded_of(Event::SessionStart)
            .pop()
            .unwrap();
        assert_eq!(reported.parent_session_id.as_deref(), Some(chat.session()));
        assert_eq!(reported.session_id, report.session);
        // What was not the user's is not told as such.
        assert_eq!(
            fixture
                .hook_recorder
                .recorded_of(Event::UserPromptSubmit)
                .len(),
            1
        );
        fixture.check();
    }
}

#[tokio::test]
async fn too_long_fork_fails_without_compaction() {
    let script = "
context: 4000
otherwise: {text: yes}
";
    let script = cachalot_simulator::Script::parse("script.yaml", script).unwrap();
    let file = whale_agent("").replace(&super::long(), "You know whales.");
    let fixture = Fixture::scripted(Wire::Messages, &file, script).await;
    let (fixture, chat) = after_a_turn(fixture, |_| {}).await;
    let fork = chat.fork(spec(&[], Inherit::Full)).unwrap();
    let much = "deep ".repeat(10_000);
    let failed = fork
        .run(&much, &CancellationToken::default())
        .await
        .unwrap_err();
    assert!(
        failed.message.contains("and not a summary of it"),
        "{failed}"
    );
    assert_eq!(fixture.bodies().len(), 2);
    fixture.check();
}

#[tokio::test]
async fn interrupted_turn_is_repaired_in_the_fork_only() {
    for wire in WIRES {
        let replies = vec![
            call("forever"),
            ScriptedReply::text("looked"),
            ScriptedReply::text("yes"),
        ];
        let mut fixture = Fixture::new(wire, &whale_agent(""), replies).await;
        let forever = Arc::new(HangingTool::new("forever"));
        fixture.tools = vec![Arc::clone(&forever) as _];
        let mut chat = fixture.chat().await;
        {
            // The future is dropped: the turn is not repaired in the chat.
            let never = CancellationToken::default();
            let turn = chat.turn("Go.", &never);
            let began = |fixture: &Fixture| {
                fixture
                    .reported
                    .notes()
                    .contains(&Note::Began("forever".to_owned()))
            };
            tokio::select! {
                _ = turn => panic!("it ends"),
                () = fixture.until("the call", began) => {}
            }
        }
        let before = fixture.session(chat.session()).await;
        let report = forked(&chat, spec(&[], Inherit::Full), "Look back.").await;
        assert_eq!(report.text, "looked");
        assert_eq!(fixture.session(chat.session()).await, before);
        assert_eq!(fixture.turn(&mut chat, "Again.").await.text, "yes");
        fixture.check_between(&[2]);
    }
}

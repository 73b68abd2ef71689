//! Conversations that become too long, and go on from a summary.

use cachalot_agent::CancellationToken;
use cachalot_core::Spend;
use cachalot_hooks::{Event, Output};
use cachalot_simulator::{ScriptedReply, ScriptedUsage};

use crate::bodies::{self, Turn, turns};
use crate::ear::{adds, blocks};
use crate::hooks::read;
use crate::told::Note;
use crate::turns::CODER;
use crate::world::{WIRES, Wire, World};

fn first(world: &World) -> String {
    match turns(&world.last_body()).remove(0) {
        Turn::User(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_conversation_is_summarized_and_goes_on() {
    for wire in WIRES {
        let replies = vec![
            read("a"),
            ScriptedReply::text("It says A."),
            ScriptedReply::text("The user wants to know what a says: A."),
            ScriptedReply::text("Yes."),
            ScriptedReply::text("Still yes."),
        ];
        let world = World::new(wire, CODER, replies).await;
        world.write("a", "A");
        world.ear.listen_to_all();
        world.ear.say(Event::SessionStart, adds("Begun."));
        let mut chat = world.chat().await;
        world.turn(&mut chat, "What does a say?").await;
        world.ear.forget();
        let before = chat.total();
        assert!(chat.compact(&CancellationToken::default()).await.unwrap());
        assert_eq!(chat.total().model_calls, before.model_calls + 1);
        assert!(chat.total().paid.cost.picodollars > before.paid.cost.picodollars);
        assert_eq!(
            world.ear.events(),
            [
                "pre_compact",
                "before_compaction",
                "after_compaction",
                "session_start"
            ]
        );
        let heard = world.ear.heard();
        assert_eq!(heard[0].source.as_deref(), Some("manual"));
        assert_eq!(heard[3].source.as_deref(), Some("compact"));
        let compaction = heard[2].compaction.clone().unwrap();
        let summary = "The user wants to know what a says: A.";
        assert_eq!(
            (compaction.summary.as_deref(), compaction.reason),
            (Some(summary), "manual")
        );
        assert!(compaction.input_tokens > 0 && compaction.context_limit > 0);
        assert!(world.told.notes().iter().any(
            |note| matches!(note, Note::Compacted(tokens, told) if *tokens > 0 && told == summary)
        ));
        assert!(!world.told.shown().contains("wants to know"));
        assert!(world.messages(chat.session()).await.is_empty());

        // In another process.
        let session = chat.session().to_owned();
        let mut chat = world.resume(&session).await.unwrap();
        assert_eq!(world.turn(&mut chat, "Sure?").await.text, "Yes.");
        assert!(
            first(&world).starts_with("<summary>\nThe user wants to know"),
            "{}",
            first(&world)
        );
        assert!(first(&world).contains("Sure?"));
        world.turn(&mut chat, "Really?").await;
        let request = world.last_body().to_string();
        assert_eq!(request.matches("<summary>").count(), 1);
        // Tools and the system's text are the same bytes.
        assert_eq!(bodies::frozen_parts(&world.simulator.received()).len(), 1);
        let kept = world.session(&session).await;
        assert_eq!((kept.messages, kept.totals.answers), (4, 5));
        assert_eq!(kept.head.title.as_deref(), Some("What does a say?"));
        world.check_from(3);
    }
}

fn full() -> ScriptedReply {
    ScriptedReply::text("long").with_usage(ScriptedUsage {
        input: Some(190_000),
        ..ScriptedUsage::default()
    })
}

#[tokio::test]
async fn a_conversation_that_is_full_is_summarized_before_the_next_turn() {
    let replies = vec![
        full(),
        ScriptedReply::text("summary"),
        ScriptedReply::text("on"),
    ];
    let world = World::new(Wire::Messages, CODER, replies).await;
    world.ear.listen([Event::PreCompact, Event::PreUserTurn]);
    let mut chat = world.chat().await;
    world.turn(&mut chat, "one").await;
    let report = world.turn(&mut chat, "two").await;
    assert_eq!((report.text.as_str(), report.sum.model_calls), ("on", 2));
    assert_eq!(
        world.ear.events(),
        ["pre_user_turn", "pre_compact", "pre_user_turn"]
    );
    let told = world.ear.heard_of(Event::PreCompact).pop().unwrap();
    assert_eq!(told.source.as_deref(), Some("auto"));
    assert_eq!(told.compaction.unwrap().reason, "threshold");
    assert!(first(&world).contains("summary") && first(&world).contains("two"));
    world.check_from(2);
}

/// What giving an answer again saves is the answer, not what happened to come before it.
#[tokio::test]
async fn what_a_summary_costs_is_no_part_of_what_an_answer_is_worth() {
    let priced = |text: &str| {
        ScriptedReply::text(text).with_usage(ScriptedUsage {
            input: Some(100),
            output: Some(10),
            ..ScriptedUsage::default()
        })
    };
    let replies = vec![full(), priced("summary"), priced("on")];
    let world = World::new(Wire::Messages, CODER, replies).await;
    world.ear.listen([Event::Stop]);
    let spent = Output {
        spent: Spend {
            calls: 1,
            input_tokens: 1_000,
            ..Spend::default()
        },
        ..Output::default()
    };
    world.ear.say(Event::AfterCompaction, spent);
    let mut chat = world.chat().await;
    world.turn(&mut chat, "one").await;
    let report = world.turn(&mut chat, "two").await;
    assert_eq!(report.sum.paid.calls, 3);
    let told = world.ear.heard_of(Event::Stop).pop().unwrap();
    let worth = told.answer.unwrap().worth;
    assert_eq!(
        (worth.calls, worth.input_tokens, worth.output_tokens),
        (1, 100, 10)
    );
    world.check_from(2);
}

#[tokio::test]
async fn the_threshold_can_be_another_or_none() {
    for (threshold, calls) in [("0", 1), ("0.99", 1), ("0.5", 2)] {
        let file = CODER.replace(
            "toolsets:",
            &format!("compaction_threshold: {threshold}\n    toolsets:"),
        );
        let world = World::new(
            Wire::Messages,
            &file,
            vec![full(), ScriptedReply::text("x"), ScriptedReply::text("y")],
        )
        .await;
        let mut chat = world.chat().await;
        world.turn(&mut chat, "one").await;
        let report = world.turn(&mut chat, "two").await;
        assert_eq!(report.sum.model_calls, calls, "{threshold}");
        match calls {
            1 => world.check(),
            _ => world.check_from(2),
        }
    }
}

#[tokio::test]
async fn what_could_not_be_summarized_is_not_tried_each_time() {
    let replies = vec![full(), ScriptedReply::error(400), full(), full()];
    let world = World::new(Wire::Messages, CODER, replies).await;
    let mut chat = world.chat().await;
    for said in ["one", "two", "three"] {
        assert_eq!(world.turn(&mut chat, said).await.text, "long");
    }
    assert_eq!(world.bodies().len(), 4);
    let warnings = world.told.warnings();
    let about = warnings
        .iter()
        .filter(|warning| warning.contains("was not summarized"));
    assert_eq!(about.count(), 1, "{warnings:?}");
    world.check_from(2);
}

#[tokio::test]
async fn a_hook_brings_a_summary() {
    let replies = vec![ScriptedReply::text("1"), ScriptedReply::text("2")];
    let world = World::new(Wire::Messages, CODER, replies).await;
    let summary = Output {
        summary: Some("mine".to_owned()),
        ..Output::default()
    };
    world.ear.say(Event::BeforeCompaction, summary);
    let mut chat = world.chat().await;
    world.turn(&mut chat, "one").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    assert_eq!(chat.total().model_calls, 1);
    world.turn(&mut chat, "two").await;
    assert!(first(&world).starts_with("<summary>\nmine\n</summary>"));
    world.check_from(1);
}

#[tokio::test]
async fn without_a_summary_the_conversation_goes_on_as_it_was() {
    for event in [Some(Event::PreCompact), Some(Event::BeforeCompaction), None] {
        let mut replies = vec![ScriptedReply::text("1")];
        if event.is_none() {
            replies.push(ScriptedReply::error(400));
        }
        replies.push(ScriptedReply::text("2"));
        let world = World::new(Wire::Chat, CODER, replies).await;
        if let Some(event) = event {
            world.ear.say(event, blocks("not now"));
        }
        let mut chat = world.chat().await;
        assert!(!chat.compact(&CancellationToken::default()).await.unwrap());
        world.turn(&mut chat, "one").await;
        assert!(!chat.compact(&CancellationToken::default()).await.unwrap());
        let warnings = world.told.warnings();
        assert!(
            warnings[0].contains("the conversation is empty"),
            "{warnings:?}"
        );
        assert!(warnings[1].contains("was not summarized"), "{warnings:?}");
        world.turn(&mut chat, "two").await;
        assert_eq!(turns(&world.last_body()).len(), 3);
        match event {
            Some(_) => world.check(),
            // What was asked beside the conversation was no part of it.
            None => world.check_from(2),
        }
    }
}

#[tokio::test]
async fn what_a_hook_adds_is_part_of_the_wish_for_a_summary() {
    let replies = vec![ScriptedReply::text("1"), ScriptedReply::text("summary")];
    let world = World::new(Wire::Chat, CODER, replies).await;
    world
        .ear
        .say(Event::PreCompact, adds("Keep the names of files."));
    let mut chat = world.chat().await;
    world.turn(&mut chat, "one").await;
    chat.compact(&CancellationToken::default()).await.unwrap();
    let body = world.last_body();
    assert!(body.to_string().contains("Keep the names of files."));
    // The same tools, and everything that was sent before.
    assert_eq!(body["tools"], world.bodies()[0]["tools"]);
    world.check();
}

/// What hooks were told stands before two messages, between which there is this summary.
async fn prefixes(summary: &str) -> (cachalot_core::Digest, cachalot_core::Digest) {
    let replies = ["One.", summary, "Two."].map(ScriptedReply::text);
    let world = World::new(Wire::Messages, CODER, replies.into()).await;
    world.ear.listen([Event::PreUserTurn]);
    let mut chat = world.chat().await;
    world.turn(&mut chat, "a").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    world.turn(&mut chat, "a").await;
    let heard = world.ear.heard();
    let told = heard.iter().map(|input| input.prompt.as_ref().unwrap());
    let told: Vec<_> = told.map(|prompt| prompt.prefix.unwrap()).collect();
    world.check_from(2);
    (told[0], told[1])
}

/// Whoever gives answers again would take one conversation for another otherwise.
#[tokio::test]
async fn a_summary_stands_before_the_next_message_and_other_summaries_are_other_conversations() {
    let (begun, one) = prefixes("They said one.").await;
    let (begun_again, other) = prefixes("They said another.").await;
    assert_eq!(begun, begun_again);
    assert!(one != begun && other != begun && one != other);
}

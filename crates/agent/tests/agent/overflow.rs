//! Conversations that the provider refuses because they are too long.

use cachalot_agent::{CancellationToken, Chat, Error, Stop};
use cachalot_hooks::{Event, Output};
use cachalot_model::ErrorKind;
use cachalot_simulator::{Script, ScriptedReply};

use crate::bodies::{Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::hook_recorder::{HookReply, adds, blocks};
use crate::hooks::read;
use crate::turns::{CODER, TALKER};

/// Text of about so many tokens, as the simulator counts them, that begins with a word.
fn text(word: &str, tokens: usize) -> String {
    format!("{word}{}", " more".repeat(tokens * 4 / 5))
}

/// A model that takes so many tokens.
async fn fixture(wire: Wire, file: &str, context: u64, replies: Vec<ScriptedReply>) -> Fixture {
    let thoughtful = |reply: ScriptedReply| match wire {
        Wire::Thinking => reply.with_reasoning("Let me think."),
        _ => reply,
    };
    let replies = replies.into_iter().map(thoughtful).collect();
    let script = Script::replies(replies).with_context(context);
    Fixture::scripted(wire, file, script).await
}

fn said(texts: &[String]) -> Vec<ScriptedReply> {
    texts.iter().map(ScriptedReply::text).collect()
}

async fn fails(chat: &mut Chat, said: &str) -> Error {
    let error = chat
        .turn(said, &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(error.model.as_ref().unwrap().kind, ErrorKind::TooLong);
    error
}

fn users(fixture: &Fixture) -> Vec<String> {
    let turns = turns(&fixture.last_body()).into_iter();
    let said = turns.filter_map(|turn| match turn {
        Turn::User(text) => Some(text),
        _ => None,
    });
    said.collect()
}

#[tokio::test]
async fn refused_too_long_conversation_is_compacted_and_the_message_resent() {
    for wire in WIRES {
        let replies = said(&[text("First", 1_000), "SUM".to_owned(), "on".to_owned()]);
        let fixture = fixture(wire, TALKER, 2_000, replies).await;
        fixture.hook_recorder.listen_to_all();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "one").await;
        fixture.hook_recorder.forget();
        fixture
            .hook_recorder
            .say(Event::SessionStart, adds("Begun."));
        fixture.hook_recorder.say(Event::TurnStart, adds("Now."));
        let two = text("two", 1_000);
        let report = fixture.turn(&mut chat, &two).await;
        assert_eq!((report.text.as_str(), report.stop), ("on", Stop::End));
        assert_eq!(report.sum.model_calls, 2);
        assert_eq!(
            fixture.hook_recorder.events(),
            [
                "user_prompt_submit",
                "pre_user_turn",
                "turn_start",
                "before_llm_call",
                "pre_compact",
                "before_compaction",
                "after_compaction",
                "session_start",
                "before_llm_call",
                "after_llm_call",
                "stop",
                "turn_end"
            ]
        );
        let recorded = fixture.hook_recorder.recorded();
        assert_eq!(recorded[4].source.as_deref(), Some("auto"));
        assert_eq!(recorded[7].source.as_deref(), Some("compact"));
        for input in &recorded[4..7] {
            let reported = input.compaction.as_ref().unwrap();
            assert_eq!(reported.reason, "overflow");
            assert!(reported.input_tokens > 0 && reported.output_tokens > 900);
            let summary = (input.event == Event::AfterCompaction).then_some("SUM");
            assert_eq!(reported.summary.as_deref(), summary);
        }
        let iterations: Vec<u32> = recorded[3..10]
            .iter()
            .map(|input| input.iteration)
            .collect();
        assert_eq!(iterations, [1; 7]);
        // The response cache learns that the answer does not depend on the dropped messages.
        let prefix = |at: usize| recorded[at].prompt.as_ref().unwrap().prefix;
        assert_ne!(prefix(1), prefix(10));
        let answer = recorded[10].answer.as_ref().unwrap();
        assert_eq!(answer.worth.calls, 1);
        assert!(!answer.added_by.is_empty());

        let users = users(&fixture);
        assert_eq!(users.len(), 1);
        assert!(users[0].starts_with("<summary>\nSUM\n</summary>"));
        assert!(users[0].contains(&two) && users[0].contains("Begun.\nNow."));
        assert!(!users[0].contains("First"));
        assert_eq!(fixture.messages(chat.session()).await.len(), 2);
        // What was said before is summarized on the prefix that it was sent as; refused: the second.
        let statuses: Vec<u16> = fixture
            .simulator
            .received()
            .iter()
            .map(|got| got.status)
            .collect();
        assert_eq!(statuses, [200, 400, 200, 200]);
        let about = turns(&fixture.bodies()[2]);
        assert_eq!(
            (about.len(), &about[..2]),
            (3, &turns(&fixture.bodies()[1])[..2])
        );
        fixture.turn(&mut chat, "three").await;
        fixture.check_between(&[2, 3]);
    }
}

#[tokio::test]
async fn too_long_tool_results_are_compacted_within_the_turn() {
    for wire in WIRES {
        let replies = vec![
            read("a"),
            ScriptedReply::text("SUM"),
            ScriptedReply::text("done"),
        ];
        let fixture = fixture(wire, CODER, 8_000, replies).await;
        fixture.write("a", &format!("{}\n", text("line", 20)).repeat(500));
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "What does a say?").await;
        assert_eq!((report.text.as_str(), report.stop), ("done", Stop::End));
        let users = users(&fixture);
        assert!(users[0].starts_with("<summary>\nSUM"), "{users:?}");
        assert!(users[0].contains("What does a say?"), "{users:?}");
        assert!(users[0].contains("need not be repeated"), "{users:?}");
        // The summary was asked for about the beginning of it.
        let about = fixture
            .bodies()
            .into_iter()
            .rev()
            .nth(1)
            .unwrap()
            .to_string();
        assert!(about.contains("The rest of this text is left out"));
        let last = fixture.simulator.received().len() - 1;
        fixture.check_between(&(1..=last).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn summary_request_drops_the_oldest_messages_if_too_long() {
    for wire in WIRES {
        let replies = said(&[
            text("Oldest", 1_000),
            text("Newer", 1_600),
            "SUM".to_owned(),
            "on".to_owned(),
        ]);
        let fixture = fixture(wire, TALKER, 2_500, replies).await;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "one").await;
        fixture.turn(&mut chat, "two").await;
        assert_eq!(fixture.turn(&mut chat, "three").await.text, "on");
        let about = fixture
            .bodies()
            .into_iter()
            .rev()
            .nth(1)
            .unwrap()
            .to_string();
        assert!(about.contains("The beginning of this conversation is left out"));
        assert!(about.contains("Newer") && !about.contains("Oldest"));
        assert!(users(&fixture)[0].contains("three"));
        let last = fixture.simulator.received().len() - 1;
        fixture.check_between(&(2..=last).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_is_reported_and_the_chat_continues() {
    for wire in WIRES {
        let replies = said(&[
            text("First", 1_000),
            "SUM".to_owned(),
            "SUM of all".to_owned(),
            "on".to_owned(),
        ]);
        let fixture = fixture(wire, TALKER, 2_500, replies).await;
        fixture.hook_recorder.listen([Event::PreCompact]);
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "one").await;
        let error = fails(&mut chat, &text("two", 4_000)).await;
        for part in [
            "already summarized",
            "tokens of the ",
            "Shorten the message",
        ] {
            assert!(error.message.contains(part), "{error}");
        }
        assert_eq!(fixture.hook_recorder.events(), ["pre_compact"]);
        assert_eq!(fixture.turn(&mut chat, "three").await.text, "on");
        let now = users(&fixture);
        assert!(now[0].contains("SUM of all") && now[0].contains("three"));
        let all = (2..fixture.simulator.received().len()).collect::<Vec<_>>();
        fixture.check_between(&all);
    }
}

#[tokio::test]
async fn error_gives_the_reason_when_compaction_is_not_possible() {
    let off = TALKER.replace("root: {", "root: {compaction_threshold: 0, ");
    for (file, event, expected) in [
        (
            TALKER,
            Some(Event::PreCompact),
            "a hook does not want it: not now",
        ),
        (
            TALKER,
            Some(Event::BeforeCompaction),
            "a hook does not want it: not now",
        ),
        (
            TALKER,
            None,
            "could not be summarized: anthropic: Simulated",
        ),
        (
            off.as_str(),
            None,
            "`compaction_threshold: 0`; `/compact` does it",
        ),
    ] {
        let replies = vec![
            ScriptedReply::text(text("First", 1_000)),
            ScriptedReply::error(400),
        ];
        let fixture = fixture(Wire::Messages, file, 1_500, replies).await;
        if let Some(event) = event {
            fixture.hook_recorder.say(event, blocks("not now"));
        }
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "one").await;
        let error = fails(&mut chat, &text("two", 1_000)).await;
        assert!(error.message.contains(expected), "{error}");
        assert!(error.message.contains("prompt is too long: "), "{error}");
        assert!(error.message.contains(" tokens > 1500 maximum"), "{error}");
        // What was said is not lost.
        assert_eq!(fixture.messages(chat.session()).await.len(), 3);
        match fixture.bodies().len() {
            2 => fixture.check(),
            _ => fixture.check_from(2),
        }
    }
}

#[tokio::test]
async fn a_turn_that_ends_after_the_summary_keeps_the_user_message() {
    for event in [Event::AfterCompaction, Event::SessionStart] {
        let replies = said(&[text("First", 1_000), "SUM".to_owned(), "on".to_owned()]);
        let fixture = fixture(Wire::Messages, TALKER, 1_500, replies).await;
        let cancel = CancellationToken::default();
        let switch = cancel.clone();
        fixture.hook_recorder.on(event, move |input| {
            let is_now = input.source.as_deref() != Some("startup");
            is_now.then(|| {
                switch.cancel();
                HookReply::Nothing
            })
        });
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "one").await;
        let two = text("two", 800);
        let report = chat.turn(&two, &cancel).await.unwrap();
        assert_eq!(report.stop, Stop::Interrupted);
        assert!(matches!(
            fixture.reported.notes().last(),
            Some(Note::Compacted(..))
        ));
        assert_eq!(fixture.turn(&mut chat, "three").await.text, "on");
        let users = users(&fixture);
        assert!(users[0].starts_with("<summary>\nSUM"));
        assert!(users[0].contains(&two));
        assert_eq!(users[1], "three");
        fixture.check_between(&[2, 3]);
    }
}

#[tokio::test]
async fn summary_of_a_hook_resolves_an_overflow() {
    let replies = vec![
        ScriptedReply::text(text("First", 1_000)),
        ScriptedReply::text("on"),
    ];
    let fixture = fixture(Wire::Responses, TALKER, 1_500, replies).await;
    let mine = Output {
        summary: Some("MINE".to_owned()),
        ..Output::default()
    };
    fixture.hook_recorder.say(Event::BeforeCompaction, mine);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    let report = fixture.turn(&mut chat, &text("two", 1_000)).await;
    assert_eq!((report.text.as_str(), report.sum.model_calls), ("on", 1));
    assert!(users(&fixture)[0].starts_with("<summary>\nMINE"));
    fixture.check_from(2);
}

/// `/compact` also works for a conversation that is too long.
#[tokio::test]
async fn compact_command_drops_the_oldest_messages_if_too_long() {
    let replies = [
        vec![text("Oldest", 1_000), text("Newer", 1_600)],
        vec!["SUM".to_owned()],
    ]
    .concat();
    let fixture = fixture(Wire::Chat, TALKER, 2_500, said(&replies)).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "one").await;
    fixture.turn(&mut chat, "two").await;
    assert!(chat.compact(&CancellationToken::default()).await.unwrap());
    let about = fixture.last_body().to_string();
    assert!(about.contains("Newer") && !about.contains("Oldest"));
    let all = (2..fixture.simulator.received().len()).collect::<Vec<_>>();
    fixture.check_between(&all);
}

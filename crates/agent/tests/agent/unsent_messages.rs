//! The newest message is held until hooks have seen it, and is never lost or sent unseen.

use cachalot_agent::{CancellationToken, Stop};
use cachalot_hooks::{Event, Input, Output};
use cachalot_model::{Block, Message};
use cachalot_simulator::ScriptedReply;

use crate::bodies::{Turn, turns};
use crate::fixture::{Fixture, WIRES, Wire};
use crate::hook_recorder::{HookReply, blocks};
use crate::hooks::read;
use crate::turns::{CODER, TALKER};

/// Every `hunter2` in what was not sent yet becomes stars.
fn starred(input: &Input) -> Option<HookReply> {
    let unsent = &input.messages[input.messages.len() - input.unsent..];
    let messages = unsent.iter().map(|message| stars(message)).collect();
    Some(HookReply::This(Output {
        updated_messages: Some(messages),
        ..Output::default()
    }))
}

fn stars(message: &Message) -> Message {
    let mut message = message.clone();
    for block in &mut message.content {
        match block {
            Block::Text { text, .. } => *text = text.replace("hunter2", "***"),
            Block::ToolResult(result) => {
                for block in &mut result.content {
                    if let Block::Text { text, .. } = block {
                        *text = text.replace("hunter2", "***");
                    }
                }
            }
            _ => {}
        }
    }
    message
}

fn all(fixture: &Fixture) -> String {
    fixture.bodies().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn rewrite_changes_unsent_messages_only() {
    for wire in WIRES {
        let replies = vec![
            read("a"),
            ScriptedReply::text("1"),
            ScriptedReply::text("2"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.write("a", "it is hunter2\n");
        fixture.hook_recorder.on(Event::BeforeLlmCall, starred);
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "My password is hunter2.").await;
        fixture.turn(&mut chat, "Is it hunter2?").await;
        assert!(!all(&fixture).contains("hunter2"));
        assert_eq!(all(&fixture).matches("it is ***").count(), 2);
        let kept = fixture.messages(chat.session()).await;
        assert!(!format!("{kept:?}").contains("hunter2"));
        assert!(
            fixture.reported.warnings().is_empty(),
            "{:?}",
            fixture.reported.warnings()
        );
        fixture.check();
    }
}

#[tokio::test]
async fn rewrite_that_providers_would_refuse_is_left_out() {
    let wrong: [fn(&Input) -> Vec<Message>; 4] = [
        |_| vec![Message::assistant("I")],
        |_| vec![Message::user(" ")],
        |_| vec![Message::user("results gone")],
        |input| vec![Message::clone(&input.messages[0]), Message::assistant("I")],
    ];
    for rewrite in wrong {
        let replies = vec![read("a"), ScriptedReply::text("1")];
        let fixture = Fixture::new(Wire::Messages, CODER, replies).await;
        fixture
            .hook_recorder
            .on(Event::BeforeLlmCall, move |input| {
                (input.iteration == 2).then(|| {
                    HookReply::This(Output {
                        updated_messages: Some(rewrite(input)),
                        ..Output::default()
                    })
                })
            });
        let mut chat = fixture.chat().await;
        assert_eq!(fixture.turn(&mut chat, "go").await.stop, Stop::End);
        let warnings = fixture.reported.warnings();
        assert!(warnings[0].contains("is left out"), "{warnings:?}");
        fixture.check();
    }
}

#[tokio::test]
async fn a_denied_model_call_ends_the_turn_and_the_message_is_kept() {
    for wire in WIRES {
        let replies = vec![
            read("a"),
            ScriptedReply::text("1"),
            ScriptedReply::text("2"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.write("a", "A");
        fixture.hook_recorder.on(Event::BeforeLlmCall, |input| {
            let is_first = input.messages.len() < 4;
            (is_first && input.iteration == 2).then(|| HookReply::This(blocks("enough")))
        });
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Hook("enough".to_owned()));
        // The result is in the session, and goes with the next turn.
        fixture.turn(&mut chat, "go on").await;
        let results = turns(&fixture.last_body())
            .into_iter()
            .find_map(|turn| match turn {
                Turn::Results(results) => results.into_iter().next(),
                _ => None,
            });
        assert!(results.unwrap().1.contains('A'));
        fixture.check();
    }
}

/// Whatever ends the turn while hooks look at what is about to be sent.
#[tokio::test]
async fn cancelled_turn_keeps_unsent_messages_for_the_next_rewrite() {
    for wire in WIRES {
        for iteration in [1, 2] {
            let replies = match iteration {
                1 => vec![ScriptedReply::text("2")],
                _ => vec![read("a"), ScriptedReply::text("2")],
            };
            let fixture = Fixture::new(wire, CODER, replies).await;
            fixture.write("a", "hunter2\n");
            let cancel = CancellationToken::default();
            let switch = cancel.clone();
            fixture
                .hook_recorder
                .on(Event::BeforeLlmCall, move |input| {
                    let is_it = input.iteration == iteration && !switch.is_cancelled();
                    if is_it {
                        switch.cancel();
                        return Some(HookReply::Nothing);
                    }
                    starred(input)
                });
            let mut chat = fixture.chat().await;
            let report = chat.turn("hunter2", &cancel).await.unwrap();
            assert_eq!(report.stop, Stop::Interrupted);
            let kept = fixture.messages(chat.session()).await;
            assert_eq!(kept.len(), if iteration == 1 { 2 } else { 4 });
            // The next turn, here or in another process.
            let session = chat.session().to_owned();
            let mut chat = match iteration {
                1 => chat,
                _ => fixture.resume(&session).await.unwrap(),
            };
            fixture.turn(&mut chat, "and now?").await;
            let seen = fixture
                .hook_recorder
                .recorded_of(Event::BeforeLlmCall)
                .pop()
                .unwrap();
            assert_eq!(seen.unsent, 3);
            assert!(!all(&fixture).contains("hunter2"), "{}", all(&fixture));
            assert!(all(&fixture).contains("***"));
            fixture.check();
        }
    }
}

#[tokio::test]
async fn limits_keep_the_results_of_calls_that_ran() {
    for wire in WIRES {
        let file = CODER.replace("toolsets:", "max_iterations: 1\n    toolsets:");
        let replies = vec![read("a"), ScriptedReply::text("2")];
        let fixture = Fixture::new(wire, &file, replies).await;
        fixture.write("a", "hunter2\n");
        fixture.hook_recorder.on(Event::BeforeLlmCall, starred);
        let mut chat = fixture.chat().await;
        assert_eq!(
            fixture.turn(&mut chat, "go").await.stop,
            Stop::Iterations(1)
        );
        assert_eq!(fixture.messages(chat.session()).await.len(), 4);
        fixture.turn(&mut chat, "go on").await;
        assert!(!all(&fixture).contains("hunter2") && all(&fixture).contains("***"));
        fixture.check();
    }
}

#[tokio::test]
async fn a_budget_keeps_the_results_of_calls_that_ran() {
    let file = format!("{CODER}budget: {{max_tokens: 1}}\n");
    let fixture = Fixture::new(Wire::Responses, &file, vec![read("a")]).await;
    fixture.write("a", "A");
    fixture.hook_recorder.listen([Event::BeforeLlmCall]);
    let mut chat = fixture.chat().await;
    assert!(matches!(
        fixture.turn(&mut chat, "go").await.stop,
        Stop::Budget(_)
    ));
    let kept = format!("{:?}", fixture.messages(chat.session()).await);
    assert!(
        kept.contains("ToolResult") && !kept.contains("interrupted"),
        "{kept}"
    );
    fixture.check();
}

#[tokio::test]
async fn dropped_turn_keeps_unsent_messages() {
    let fixture = Fixture::new(Wire::Chat, CODER, vec![read("a"), ScriptedReply::text("2")]).await;
    fixture.write("a", "the result");
    fixture.hook_recorder.on(Event::BeforeLlmCall, |input| {
        let is_last = input.iteration == 2 && input.messages.len() == 3;
        is_last.then_some(HookReply::Nothing)
    });
    let mut chat = fixture.chat().await;
    let cancel = CancellationToken::default();
    {
        let turn = chat.turn("go", &cancel);
        tokio::pin!(turn);
        let hangs = fixture.until("the second call", |fixture| {
            fixture
                .hook_recorder
                .recorded_of(Event::BeforeLlmCall)
                .len()
                == 2
        });
        tokio::select! {
            _ = &mut turn => panic!("it does not end"),
            () = hangs => {}
        }
    }
    fixture.turn(&mut chat, "go on").await;
    let body = fixture.last_body().to_string();
    assert!(body.contains("the result"), "{body}");
    assert_eq!(
        fixture
            .hook_recorder
            .recorded_of(Event::BeforeLlmCall)
            .pop()
            .unwrap()
            .unsent,
        3
    );
    fixture.check();
}

/// Hooks are told of the conversation that is really sent.
#[tokio::test]
async fn messages_of_other_processes_are_read_before_sending() {
    let replies = ["1", "2", "3"].map(ScriptedReply::text).into();
    let fixture = Fixture::new(Wire::Chat, TALKER, replies).await;
    fixture.hook_recorder.listen([Event::Stop]);
    fixture.hook_recorder.on(Event::BeforeLlmCall, starred);
    let mut here = fixture.chat().await;
    fixture.turn(&mut here, "one").await;
    let mut there = fixture.resume(here.session()).await.unwrap();
    fixture.turn(&mut there, "two").await;
    fixture.turn(&mut here, "hunter2").await;
    let reported: Vec<usize> = fixture
        .hook_recorder
        .recorded_of(Event::BeforeLlmCall)
        .iter()
        .map(|input| input.messages.len())
        .collect();
    assert_eq!(reported, [1, 3, 3, 5]);
    assert!(!all(&fixture).contains("hunter2"));
    let stop = fixture
        .hook_recorder
        .recorded_of(Event::Stop)
        .pop()
        .unwrap();
    let added = stop.answer.unwrap().added_by;
    assert_eq!(added, ["another process that continued the session"]);
    fixture.check();
}

#[tokio::test]
async fn failed_model_call_keeps_the_sent_messages() {
    let replies = vec![ScriptedReply::error(400), ScriptedReply::text("yes")];
    let fixture = Fixture::new(Wire::Messages, TALKER, replies).await;
    fixture.hook_recorder.on(Event::BeforeLlmCall, starred);
    let mut chat = fixture.chat().await;
    chat.turn("hunter2", &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(fixture.turn(&mut chat, "again").await.text, "yes");
    assert!(!all(&fixture).contains("hunter2"));
    // It was sent: only the stand-in for an answer was not.
    assert_eq!(
        fixture
            .hook_recorder
            .recorded_of(Event::BeforeLlmCall)
            .pop()
            .unwrap()
            .unsent,
        2
    );
    fixture.check();
}

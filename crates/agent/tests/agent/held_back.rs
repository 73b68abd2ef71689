//! The newest message is held until hooks have seen it, and is never lost or sent unseen.

use cachalot_agent::{CancellationToken, Stop};
use cachalot_hooks::{Event, Input, Output};
use cachalot_model::{Block, Message};
use cachalot_simulator::ScriptedReply;

use crate::bodies::{Turn, turns};
use crate::ear::{Says, blocks};
use crate::hooks::read;
use crate::turns::{CODER, TALKER};
use crate::world::{WIRES, Wire, World};

/// Every `hunter2` in what was not sent yet becomes stars.
fn starred(input: &Input) -> Option<Says> {
    let unsent = &input.messages[input.messages.len() - input.unsent..];
    let messages = unsent.iter().map(|message| stars(message)).collect();
    Some(Says::This(Output {
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

fn all(world: &World) -> String {
    world.bodies().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn what_was_not_sent_is_rewritten_and_what_was_sent_stays() {
    for wire in WIRES {
        let replies = vec![
            read("a"),
            ScriptedReply::text("1"),
            ScriptedReply::text("2"),
        ];
        let world = World::new(wire, CODER, replies).await;
        world.write("a", "it is hunter2\n");
        world.ear.on(Event::BeforeLlmCall, starred);
        let mut chat = world.chat().await;
        world.turn(&mut chat, "My password is hunter2.").await;
        world.turn(&mut chat, "Is it hunter2?").await;
        assert!(!all(&world).contains("hunter2"));
        assert_eq!(all(&world).matches("it is ***").count(), 2);
        let kept = world.messages(chat.session()).await;
        assert!(!format!("{kept:?}").contains("hunter2"));
        assert!(
            world.told.warnings().is_empty(),
            "{:?}",
            world.told.warnings()
        );
        world.check();
    }
}

#[tokio::test]
async fn what_no_provider_would_take_is_left_out() {
    let wrong: [fn(&Input) -> Vec<Message>; 4] = [
        |_| vec![Message::assistant("I")],
        |_| vec![Message::user(" ")],
        |_| vec![Message::user("results gone")],
        |input| vec![Message::clone(&input.messages[0]), Message::assistant("I")],
    ];
    for rewrite in wrong {
        let replies = vec![read("a"), ScriptedReply::text("1")];
        let world = World::new(Wire::Messages, CODER, replies).await;
        world.ear.on(Event::BeforeLlmCall, move |input| {
            (input.iteration == 2).then(|| {
                Says::This(Output {
                    updated_messages: Some(rewrite(input)),
                    ..Output::default()
                })
            })
        });
        let mut chat = world.chat().await;
        assert_eq!(world.turn(&mut chat, "go").await.stop, Stop::End);
        let warnings = world.told.warnings();
        assert!(warnings[0].contains("is left out"), "{warnings:?}");
        world.check();
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
        let world = World::new(wire, CODER, replies).await;
        world.write("a", "A");
        world.ear.on(Event::BeforeLlmCall, |input| {
            let is_first = input.messages.len() < 4;
            (is_first && input.iteration == 2).then(|| Says::This(blocks("enough")))
        });
        let mut chat = world.chat().await;
        let report = world.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Hook("enough".to_owned()));
        // The result is in the session, and goes with the next turn.
        world.turn(&mut chat, "go on").await;
        let results = turns(&world.last_body())
            .into_iter()
            .find_map(|turn| match turn {
                Turn::Results(results) => results.into_iter().next(),
                _ => None,
            });
        assert!(results.unwrap().1.contains('A'));
        world.check();
    }
}

/// Whatever ends the turn while hooks look at what is about to be sent.
#[tokio::test]
async fn a_cancelled_turn_keeps_what_was_held_and_hooks_see_it_before_it_is_sent() {
    for wire in WIRES {
        for iteration in [1, 2] {
            let replies = match iteration {
                1 => vec![ScriptedReply::text("2")],
                _ => vec![read("a"), ScriptedReply::text("2")],
            };
            let world = World::new(wire, CODER, replies).await;
            world.write("a", "hunter2\n");
            let cancel = CancellationToken::default();
            let switch = cancel.clone();
            world.ear.on(Event::BeforeLlmCall, move |input| {
                let is_it = input.iteration == iteration && !switch.is_cancelled();
                if is_it {
                    switch.cancel();
                    return Some(Says::Nothing);
                }
                starred(input)
            });
            let mut chat = world.chat().await;
            let report = chat.turn("hunter2", &cancel).await.unwrap();
            assert_eq!(report.stop, Stop::Interrupted);
            let kept = world.messages(chat.session()).await;
            assert_eq!(kept.len(), if iteration == 1 { 2 } else { 4 });
            // The next turn, here or in another process.
            let session = chat.session().to_owned();
            let mut chat = match iteration {
                1 => chat,
                _ => world.resume(&session).await.unwrap(),
            };
            world.turn(&mut chat, "and now?").await;
            let seen = world.ear.heard_of(Event::BeforeLlmCall).pop().unwrap();
            assert_eq!(seen.unsent, 3);
            assert!(!all(&world).contains("hunter2"), "{}", all(&world));
            assert!(all(&world).contains("***"));
            world.check();
        }
    }
}

#[tokio::test]
async fn limits_keep_the_results_of_calls_that_ran() {
    for wire in WIRES {
        let file = CODER.replace("toolsets:", "max_iterations: 1\n    toolsets:");
        let replies = vec![read("a"), ScriptedReply::text("2")];
        let world = World::new(wire, &file, replies).await;
        world.write("a", "hunter2\n");
        world.ear.on(Event::BeforeLlmCall, starred);
        let mut chat = world.chat().await;
        assert_eq!(world.turn(&mut chat, "go").await.stop, Stop::Iterations(1));
        assert_eq!(world.messages(chat.session()).await.len(), 4);
        world.turn(&mut chat, "go on").await;
        assert!(!all(&world).contains("hunter2") && all(&world).contains("***"));
        world.check();
    }
}

#[tokio::test]
async fn a_budget_keeps_the_results_of_calls_that_ran() {
    let file = format!("{CODER}budget: {{max_tokens: 1}}\n");
    let world = World::new(Wire::Responses, &file, vec![read("a")]).await;
    world.write("a", "A");
    world.ear.listen([Event::BeforeLlmCall]);
    let mut chat = world.chat().await;
    assert!(matches!(
        world.turn(&mut chat, "go").await.stop,
        Stop::Budget(_)
    ));
    let kept = format!("{:?}", world.messages(chat.session()).await);
    assert!(
        kept.contains("ToolResult") && !kept.contains("interrupted"),
        "{kept}"
    );
    world.check();
}

#[tokio::test]
async fn a_dropped_turn_keeps_what_was_held() {
    let world = World::new(Wire::Chat, CODER, vec![read("a"), ScriptedReply::text("2")]).await;
    world.write("a", "the result");
    world.ear.on(Event::BeforeLlmCall, |input| {
        let is_last = input.iteration == 2 && input.messages.len() == 3;
        is_last.then_some(Says::Nothing)
    });
    let mut chat = world.chat().await;
    let cancel = CancellationToken::default();
    {
        let turn = chat.turn("go", &cancel);
        tokio::pin!(turn);
        let hangs = world.until("the second call", |world| {
            world.ear.heard_of(Event::BeforeLlmCall).len() == 2
        });
        tokio::select! {
            _ = &mut turn => panic!("it does not end"),
            () = hangs => {}
        }
    }
    world.turn(&mut chat, "go on").await;
    let body = world.last_body().to_string();
    assert!(body.contains("the result"), "{body}");
    assert_eq!(
        world
            .ear
            .heard_of(Event::BeforeLlmCall)
            .pop()
            .unwrap()
            .unsent,
        3
    );
    world.check();
}

/// Hooks are told of the conversation that is really sent.
#[tokio::test]
async fn messages_of_other_processes_are_read_before_sending() {
    let replies = ["1", "2", "3"].map(ScriptedReply::text).into();
    let world = World::new(Wire::Chat, TALKER, replies).await;
    world.ear.listen([Event::Stop]);
    world.ear.on(Event::BeforeLlmCall, starred);
    let mut here = world.chat().await;
    world.turn(&mut here, "one").await;
    let mut there = world.resume(here.session()).await.unwrap();
    world.turn(&mut there, "two").await;
    world.turn(&mut here, "hunter2").await;
    let told: Vec<usize> = world
        .ear
        .heard_of(Event::BeforeLlmCall)
        .iter()
        .map(|input| input.messages.len())
        .collect();
    assert_eq!(told, [1, 3, 3, 5]);
    assert!(!all(&world).contains("hunter2"));
    let stop = world.ear.heard_of(Event::Stop).pop().unwrap();
    let added = stop.answer.unwrap().added_by;
    assert_eq!(added, ["another process that continued the session"]);
    world.check();
}

#[tokio::test]
async fn a_failing_model_leaves_what_was_sent() {
    let replies = vec![ScriptedReply::error(400), ScriptedReply::text("yes")];
    let world = World::new(Wire::Messages, TALKER, replies).await;
    world.ear.on(Event::BeforeLlmCall, starred);
    let mut chat = world.chat().await;
    chat.turn("hunter2", &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(world.turn(&mut chat, "again").await.text, "yes");
    assert!(!all(&world).contains("hunter2"));
    // It was sent: only the stand-in for an answer was not.
    assert_eq!(
        world
            .ear
            .heard_of(Event::BeforeLlmCall)
            .pop()
            .unwrap()
            .unsent,
        2
    );
    world.check();
}

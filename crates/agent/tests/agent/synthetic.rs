//! Answers of hooks in place of the model's.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_agent::{Provenance, Stop};
use cachalot_core::{Cost, Spend};
use cachalot_hooks::Synthetic;
use cachalot_hooks::{Decision, Dialect, Event, Output};
use cachalot_simulator::ScriptedReply;

use crate::bodies::{Turn, turns};
use crate::ear::{Says, adds, blocks, entry};
use crate::hooks::read;
use crate::told::Note;
use crate::turns::{CODER, TALKER};
use crate::world::{WIRES, Wire, World};

fn answer(content: &str) -> Output {
    Output {
        synthetic: Some(Synthetic {
            content: content.to_owned(),
            provenance: Some("the FAQ".to_owned()),
            metadata: BTreeMap::from([("entry".to_owned(), "7".to_owned())]),
            saved: Spend {
                calls: 1,
                time: Duration::from_secs(3),
                input_tokens: 100,
                output_tokens: 10,
                cost: Cost::from_picodollars(5),
            },
        }),
        ..Output::default()
    }
}

fn if_asked(output: &Output) -> impl Fn(&cachalot_hooks::Input) -> Option<Says> + use<> {
    let output = output.clone();
    move |input| {
        let is_asked = input.last_user_message.as_deref() == Some("What is it?");
        is_asked.then(|| Says::This(output.clone()))
    }
}

#[tokio::test]
async fn a_hook_answers_the_turn_without_a_model_call() {
    for event in [Event::UserPromptSubmit, Event::PreUserTurn] {
        for wire in WIRES {
            let world = World::new(wire, TALKER, vec![ScriptedReply::text("Hello.")]).await;
            world.ear.listen_to_all();
            world.ear.on(event, if_asked(&answer("It is a whale.")));
            world.ear.say(Event::SessionStart, adds("Begun."));
            let mut chat = world.chat().await;
            let report = world.turn(&mut chat, "What is it?").await;
            assert_eq!(
                (report.text.as_str(), &report.stop),
                ("It is a whale.", &Stop::End)
            );
            assert_eq!(report.sum.model_calls, 0);
            assert!(report.sum.paid == Spend::default());
            assert_eq!(report.sum.saved.cost.picodollars, 5);
            let provenance = report.synthetic.unwrap();
            assert_eq!(provenance.provenance.as_deref(), Some("the FAQ"));
            assert_eq!(provenance.metadata["entry"], "7");
            assert_eq!(world.told.shown(), "It is a whale.");
            assert!(
                world
                    .told
                    .notes()
                    .contains(&Note::Synthetic(provenance.clone()))
            );
            let events = world.ear.events();
            let behind = match event {
                Event::UserPromptSubmit => {
                    vec!["session_start", "user_prompt_submit", "stop", "turn_end"]
                }
                _ => vec![
                    "session_start",
                    "user_prompt_submit",
                    "pre_user_turn",
                    "stop",
                    "turn_end",
                ],
            };
            assert_eq!(events, behind);
            let stop = world
                .ear
                .heard_of(Event::Stop)
                .pop()
                .unwrap()
                .answer
                .unwrap();
            assert!(stop.synthetic && stop.finish.is_none() && stop.text == "It is a whale.");
            let end = world.ear.heard_of(Event::TurnEnd).pop().unwrap();
            assert_eq!(end.reason.as_deref(), Some("synthetic"));
            assert_eq!(world.bodies().len(), 0);

            // It is marked in the session, and not in what is sent.
            let session = chat.session().to_owned();
            let mut chat = world.resume(&session).await.unwrap();
            world.turn(&mut chat, "Hello!").await;
            let body = world.last_body();
            assert!(!body.to_string().contains('@') && !body.to_string().contains("FAQ"));
            let of_body = turns(&body);
            assert!(
                matches!(&of_body[0], Turn::User(text) if text.starts_with("What is it?") && text.contains("Begun."))
            );
            assert!(matches!(&of_body[1], Turn::Model { text, .. } if text == "It is a whale."));
            let kept = world.messages(&session).await;
            let marks: Vec<Option<Provenance>> = kept
                .iter()
                .map(|message| Provenance::from_message(message))
                .collect();
            assert_eq!(marks, [None, Some(provenance), None, None]);
            // Hooks that look at what is sent see it before it is sent for the first time.
            assert_eq!(world.ear.heard_of(Event::BeforeLlmCall)[0].unsent, 3);
            world.check();
        }
    }
}

#[tokio::test]
async fn a_hook_answers_one_model_call() {
    for wire in WIRES {
        let world = World::new(wire, CODER, vec![read("a"), ScriptedReply::text("Bye.")]).await;
        world.write("a", "A");
        world.ear.listen_to_all();
        world.ear.on(Event::BeforeLlmCall, |input| {
            let is_it = input.iteration == 2;
            is_it.then(|| Says::This(answer("It says A.")))
        });
        let mut chat = world.chat().await;
        let report = world.turn(&mut chat, "What does a say?").await;
        assert_eq!(
            (report.text.as_str(), report.sum.model_calls),
            ("It says A.", 1)
        );
        assert!(report.synthetic.is_some());
        assert_eq!(world.ear.heard_of(Event::AfterLlmCall).len(), 1);
        let stop = world
            .ear
            .heard_of(Event::Stop)
            .pop()
            .unwrap()
            .answer
            .unwrap();
        assert!(stop.synthetic && stop.calls.len() == 1);
        let second = world.turn(&mut chat, "Bye!").await;
        assert!(second.synthetic.is_none() && second.text == "Bye.");
        world.check();
    }
}

#[tokio::test]
async fn deny_beats_an_answer_and_an_empty_one_is_none() {
    let world = World::new(Wire::Chat, TALKER, vec![ScriptedReply::text("model")]).await;
    world.ear.on(Event::PreUserTurn, |input| {
        let output = match input.last_user_message.as_deref() {
            Some("no") => Output {
                permission: Some((Decision::Deny, Some("never".to_owned()))),
                ..answer("x")
            },
            _ => answer(" \n"),
        };
        Some(Says::This(Output {
            block: output.permission.as_ref().map(|_| "never".to_owned()),
            ..output
        }))
    });
    let mut chat = world.chat().await;
    assert_eq!(
        world.turn(&mut chat, "no").await.stop,
        Stop::Hook("never".to_owned())
    );
    let report = world.turn(&mut chat, "yes").await;
    assert_eq!((report.text.as_str(), report.synthetic), ("model", None));
    let warnings = world.told.warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("empty")),
        "{warnings:?}"
    );
    world.check();
}

#[tokio::test]
async fn a_stop_hook_may_want_more_than_a_hook_answered() {
    let mut world = World::new(Wire::Messages, TALKER, vec![ScriptedReply::text("More.")]).await;
    world.hooks = vec![entry(Event::Stop, Dialect::Claude)];
    world.ear.say(Event::PreUserTurn, answer("It is a whale."));
    world.ear.on(Event::Stop, |input| {
        let is_synthetic = input.answer.as_ref()?.synthetic;
        is_synthetic.then(|| Says::This(blocks("Say more.")))
    });
    let mut chat = world.chat().await;
    let report = world.turn(&mut chat, "What is it?").await;
    assert_eq!((report.text.as_str(), report.synthetic), ("More.", None));
    world.check();
}

/// A message that was marked is not sent with its mark after it was rendered for another provider.
#[tokio::test]
async fn the_mark_survives_another_model() {
    let mut world = World::new(Wire::Messages, TALKER, vec![ScriptedReply::text("Hello.")]).await;
    world
        .ear
        .on(Event::PreUserTurn, if_asked(&answer("It is a whale.")));
    let mut chat = world.chat().await;
    world.turn(&mut chat, "What is it?").await;
    let session = chat.session().to_owned();
    world.wire = Wire::Responses;
    let mut chat = world.resume(&session).await.unwrap();
    world.turn(&mut chat, "Hello!").await;
    assert!(!world.last_body().to_string().contains("@synthetic"));
    let kept = world.messages(&session).await;
    assert!(Provenance::from_message(&kept[1]).is_some());
    world.check();
}

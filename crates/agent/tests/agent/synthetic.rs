//! Answers of hooks in place of the model's.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_agent::{Provenance, Stop};
use cachalot_core::{Cost, Spend};
use cachalot_hooks::Synthetic;
use cachalot_hooks::{Decision, Dialect, Event, Output};
use cachalot_simulator::ScriptedReply;

use crate::bodies::{Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::hook_recorder::{HookReply, adds, blocks, entry};
use crate::hooks::read;
use crate::turns::{CODER, TALKER};

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

fn if_asked(output: &Output) -> impl Fn(&cachalot_hooks::Input) -> Option<HookReply> + use<> {
    let output = output.clone();
    move |input| {
        let is_asked = input.last_user_message.as_deref() == Some("What is it?");
        is_asked.then(|| HookReply::This(output.clone()))
    }
}

#[tokio::test]
async fn a_hook_answers_the_turn_without_a_model_call() {
    for event in [Event::UserPromptSubmit, Event::PreUserTurn] {
        for wire in WIRES {
            let fixture = Fixture::new(wire, TALKER, vec![ScriptedReply::text("Hello.")]).await;
            fixture.hook_recorder.listen_to_all();
            fixture
                .hook_recorder
                .on(event, if_asked(&answer("It is a whale.")));
            fixture
                .hook_recorder
                .say(Event::SessionStart, adds("Begun."));
            let mut chat = fixture.chat().await;
            let report = fixture.turn(&mut chat, "What is it?").await;
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
            assert_eq!(fixture.reported.shown(), "It is a whale.");
            assert!(
                fixture
                    .reported
                    .notes()
                    .contains(&Note::Synthetic(provenance.clone()))
            );
            let events = fixture.hook_recorder.events();
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
            let stop = fixture
                .hook_recorder
                .recorded_of(Event::Stop)
                .pop()
                .unwrap()
                .answer
                .unwrap();
            assert!(stop.synthetic && stop.finish.is_none() && stop.text == "It is a whale.");
            let end = fixture
                .hook_recorder
                .recorded_of(Event::TurnEnd)
                .pop()
                .unwrap();
            assert_eq!(end.reason.as_deref(), Some("synthetic"));
            assert_eq!(fixture.bodies().len(), 0);

            // It is marked in the session, and not in what is sent.
            let session = chat.session().to_owned();
            let mut chat = fixture.resume(&session).await.unwrap();
            fixture.turn(&mut chat, "Hello!").await;
            let body = fixture.last_body();
            assert!(!body.to_string().contains('@') && !body.to_string().contains("FAQ"));
            let of_body = turns(&body);
            assert!(
                matches!(&of_body[0], Turn::User(text) if text.starts_with("What is it?") && text.contains("Begun."))
            );
            assert!(matches!(&of_body[1], Turn::Model { text, .. } if text == "It is a whale."));
            let kept = fixture.messages(&session).await;
            let marks: Vec<Option<Provenance>> = kept
                .iter()
                .map(|message| Provenance::from_message(message))
                .collect();
            assert_eq!(marks, [None, Some(provenance), None, None]);
            // Hooks that look at what is sent see it before it is sent for the first time.
            assert_eq!(
                fixture.hook_recorder.recorded_of(Event::BeforeLlmCall)[0].unsent,
                3
            );
            fixture.check();
        }
    }
}

#[tokio::test]
async fn a_hook_answers_one_model_call() {
    for wire in WIRES {
        let fixture = Fixture::new(wire, CODER, vec![read("a"), ScriptedReply::text("Bye.")]).await;
        fixture.write("a", "A");
        fixture.hook_recorder.listen_to_all();
        fixture.hook_recorder.on(Event::BeforeLlmCall, |input| {
            let is_it = input.iteration == 2;
            is_it.then(|| HookReply::This(answer("It says A.")))
        });
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "What does a say?").await;
        assert_eq!(
            (report.text.as_str(), report.sum.model_calls),
            ("It says A.", 1)
        );
        assert!(report.synthetic.is_some());
        assert_eq!(
            fixture.hook_recorder.recorded_of(Event::AfterLlmCall).len(),
            1
        );
        let stop = fixture
            .hook_recorder
            .recorded_of(Event::Stop)
            .pop()
            .unwrap()
            .answer
            .unwrap();
        assert!(stop.synthetic && stop.calls.len() == 1);
        let second = fixture.turn(&mut chat, "Bye!").await;
        assert!(second.synthetic.is_none() && second.text == "Bye.");
        fixture.check();
    }
}

#[tokio::test]
async fn deny_overrides_a_synthetic_answer_and_an_empty_one_is_ignored() {
    let fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("model")]).await;
    fixture.hook_recorder.on(Event::PreUserTurn, |input| {
        let output = match input.last_user_message.as_deref() {
            Some("no") => Output {
                permission: Some((Decision::Deny, Some("never".to_owned()))),
                ..answer("x")
            },
            _ => answer(" \n"),
        };
        Some(HookReply::This(Output {
            block: output.permission.as_ref().map(|_| "never".to_owned()),
            ..output
        }))
    });
    let mut chat = fixture.chat().await;
    assert_eq!(
        fixture.turn(&mut chat, "no").await.stop,
        Stop::Hook("never".to_owned())
    );
    let report = fixture.turn(&mut chat, "yes").await;
    assert_eq!((report.text.as_str(), report.synthetic), ("model", None));
    let warnings = fixture.reported.warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("empty")),
        "{warnings:?}"
    );
    fixture.check();
}

#[tokio::test]
async fn stop_hook_can_reject_a_synthetic_answer() {
    let mut fixture =
        Fixture::new(Wire::Messages, TALKER, vec![ScriptedReply::text("More.")]).await;
    fixture.hooks = vec![entry(Event::Stop, Dialect::Claude)];
    fixture
        .hook_recorder
        .say(Event::PreUserTurn, answer("It is a whale."));
    fixture.hook_recorder.on(Event::Stop, |input| {
        let is_synthetic = input.answer.as_ref()?.synthetic;
        is_synthetic.then(|| HookReply::This(blocks("Say more.")))
    });
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "What is it?").await;
    assert_eq!((report.text.as_str(), report.synthetic), ("More.", None));
    fixture.check();
}

/// A message that was marked is not sent with its mark after it was rendered for another provider.
#[tokio::test]
async fn synthetic_mark_is_kept_and_not_sent_after_a_model_change() {
    let mut fixture =
        Fixture::new(Wire::Messages, TALKER, vec![ScriptedReply::text("Hello.")]).await;
    fixture
        .hook_recorder
        .on(Event::PreUserTurn, if_asked(&answer("It is a whale.")));
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "What is it?").await;
    let session = chat.session().to_owned();
    fixture.wire = Wire::Responses;
    let mut chat = fixture.resume(&session).await.unwrap();
    fixture.turn(&mut chat, "Hello!").await;
    assert!(!fixture.last_body().to_string().contains("@synthetic"));
    let kept = fixture.messages(&session).await;
    assert!(Provenance::from_message(&kept[1]).is_some());
    fixture.check();
}

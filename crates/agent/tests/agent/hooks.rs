//! Inputs of hooks in and around a turn, and the effect of their outputs.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, Chat, ContextSource, ErrorKind, Stop};
use cachalot_core::{Cost, Spend};
use cachalot_hooks::{Dialect, Event, Output};
use cachalot_simulator::{Fault, ScriptedReply};
use serde_json::json;

use crate::bodies::{Turn, turns};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::hook_recorder::{HookReply, adds, blocks, entry};
use crate::turns::{CODER, TALKER};

pub(crate) fn read(path: &str) -> ScriptedReply {
    ScriptedReply::call("read_file", json!({"path": path}))
}

/// The user's text in the newest request.
fn said(fixture: &Fixture) -> Vec<String> {
    let turns = turns(&fixture.last_body()).into_iter();
    let said = turns.filter_map(|turn| match turn {
        Turn::User(text) => Some(text.replace("\n\n", "\n").replace('\n', "|")),
        _ => None,
    });
    said.collect()
}

fn reasons(fixture: &Fixture) -> Vec<String> {
    let ends = fixture.hook_recorder.recorded_of(Event::TurnEnd);
    ends.into_iter().filter_map(|input| input.reason).collect()
}

#[tokio::test]
async fn a_turn_with_a_tool_emits_all_events_in_order() {
    for wire in WIRES {
        let replies = vec![
            read("a"),
            ScriptedReply::text("It says A."),
            ScriptedReply::text("Bye."),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.hook_recorder.listen_to_all();
        fixture.write("a", "A");
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "What does a say?").await;
        chat.notify_waiting_for_user().await;
        let events = fixture.hook_recorder.events();
        assert_eq!(
            events,
            [
                "session_start",
                "user_prompt_submit",
                "pre_user_turn",
                "turn_start",
                "before_llm_call",
                "after_llm_call",
                "tool_input_transform",
                "tool_guard",
                "pre_tool_use",
                "tool_response_transform",
                "post_tool_use",
                "before_llm_call",
                "after_llm_call",
                "stop",
                "turn_end",
                "on_user_input",
            ]
        );
        fixture.turn(&mut chat, "Bye!").await;
        chat.close().await;
        assert_eq!(fixture.hook_recorder.events().last(), Some(&"session_end"));
        let recorded = fixture.hook_recorder.recorded();
        for input in &recorded {
            assert_eq!(
                (&*input.agent_name, &*input.session_id),
                ("root", "session-0")
            );
            assert!(input.model_id.contains('/'), "{}", input.model_id);
            assert_eq!(input.cwd, fixture.root.path());
        }
        let first = &recorded[1..15];
        assert!(first.iter().all(|input| input.turn_id == first[0].turn_id));
        assert!(!first[0].turn_id.is_empty() && recorded[15].turn_id.is_empty());
        let second = fixture
            .hook_recorder
            .recorded_of(Event::UserPromptSubmit)
            .pop()
            .unwrap();
        assert_ne!(second.turn_id, first[0].turn_id);
        assert_eq!(second.last_user_message.as_deref(), Some("Bye!"));
        let iterations: Vec<u32> = first.iter().map(|input| input.iteration).collect();
        assert_eq!(iterations, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]);
        fixture.check();
    }
}

/// after_llm_call: model id, usage and cost · before_llm_call once per iteration.
#[tokio::test]
async fn model_call_events_contain_request_and_cost() {
    let replies = vec![read("a"), ScriptedReply::text("It says A.")];
    let fixture = Fixture::new(Wire::Messages, CODER, replies).await;
    fixture.hook_recorder.listen_to_all();
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    let before = fixture.hook_recorder.recorded_of(Event::BeforeLlmCall);
    let reported: Vec<_> = before
        .iter()
        .map(|input| (input.messages.len(), input.unsent))
        .collect();
    assert_eq!(reported, [(1, 1), (3, 1)]);
    let after = fixture.hook_recorder.recorded_of(Event::AfterLlmCall);
    let cost: u64 = after
        .iter()
        .map(|input| input.cost.unwrap().picodollars)
        .sum();
    assert_eq!(cost, report.sum.paid.cost.picodollars);
    let output: u64 = after.iter().map(|input| input.usage.unwrap().output).sum();
    assert_eq!(output, report.sum.usage.output);
    let texts: Vec<_> = after
        .iter()
        .map(|input| (input.answer.clone().unwrap().text, input.messages.len()))
        .collect();
    assert_eq!(texts, [(String::new(), 1), ("It says A.".to_owned(), 3)]);
    let stop = fixture
        .hook_recorder
        .recorded_of(Event::Stop)
        .pop()
        .unwrap();
    let answer = stop.answer.unwrap();
    assert_eq!((&*answer.text, answer.synthetic), ("It says A.", false));
    assert_eq!(answer.worth.cost.picodollars, cost);
    assert_eq!(answer.calls.len(), 1);
    let call = &answer.calls[0];
    // There is no such file.
    assert!(call.read_only && call.is_error && call.name == "read_file");
    fixture.check();
}

/// Adds a paragraph.
struct WeatherSource;

#[async_trait::async_trait]
impl ContextSource for WeatherSource {
    fn name(&self) -> &'static str {
        "weather"
    }

    async fn paragraph(&self, _: &cachalot_agent::AgentDefinition, _: &str) -> Option<String> {
        Some("It rains.".to_owned())
    }
}

#[tokio::test]
async fn hook_context_is_one_block_of_the_newest_message() {
    for wire in WIRES {
        let replies = vec![ScriptedReply::text("1"), ScriptedReply::text("2")];
        let mut fixture = Fixture::new(wire, TALKER, replies).await;
        fixture.sources = vec![Arc::new(WeatherSource)];
        fixture
            .hook_recorder
            .listen([Event::Stop, Event::PreUserTurn]);
        fixture
            .hook_recorder
            .say(Event::SessionStart, adds("Begun."));
        fixture
            .hook_recorder
            .say(Event::UserPromptSubmit, adds("Submitted."));
        fixture
            .hook_recorder
            .say(Event::TurnStart, adds("Started."));
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "a").await;
        fixture.turn(&mut chat, "b").await;
        assert_eq!(
            said(&fixture),
            [
                format!(
                    "a{}<context>|Begun.|Submitted.|Started.|It rains.|</context>",
                    joint(wire)
                ),
                format!(
                    "b{}<context>|Submitted.|Started.|It rains.|</context>",
                    joint(wire)
                ),
            ]
        );
        let stops = fixture.hook_recorder.recorded_of(Event::Stop);
        let added: Vec<_> = stops
            .iter()
            .map(|input| input.answer.clone().unwrap().added_by)
            .collect();
        // What is known before it is answered stands in the prompt's context instead.
        assert_eq!(added, [["ear", "weather"]; 2]);
        let prompt = fixture.hook_recorder.recorded_of(Event::PreUserTurn)[0]
            .prompt
            .clone()
            .unwrap();
        assert_eq!(
            (&*prompt.text, prompt.context),
            ("a", vec!["Begun.".to_owned(), "Submitted.".to_owned()])
        );
        assert!(!prompt.implicit && !prompt.fresh && prompt.prefix.is_some());
        fixture.check();
    }
}

fn joint(wire: Wire) -> &'static str {
    if wire == Wire::Chat { "|" } else { "" }
}

#[tokio::test]
async fn prefix_id_differs_per_turn_and_not_per_chat() {
    let prefixes = |fixture: &Fixture| -> Vec<_> {
        let recorded = fixture.hook_recorder.recorded_of(Event::PreUserTurn);
        recorded
            .iter()
            .map(|input| input.prompt.clone().unwrap().prefix.unwrap())
            .collect()
    };
    let mut of_two = Vec::new();
    for _ in 0..2 {
        let replies = vec![ScriptedReply::text("1"), ScriptedReply::text("2")];
        let fixture = Fixture::new(Wire::Messages, TALKER, replies).await;
        fixture.hook_recorder.listen([Event::PreUserTurn]);
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "a").await;
        chat.fresh_turn("b", &CancellationToken::default())
            .await
            .unwrap();
        let fresh = fixture.hook_recorder.recorded_of(Event::PreUserTurn)[1]
            .prompt
            .clone()
            .unwrap()
            .fresh;
        assert!(fresh);
        of_two.push(prefixes(&fixture));
        fixture.check();
    }
    assert_eq!(of_two[0], of_two[1]);
    assert_ne!(of_two[0][0], of_two[0][1]);
}

#[tokio::test]
async fn a_denied_prompt_is_not_sent() {
    for event in [Event::UserPromptSubmit, Event::PreUserTurn] {
        let fixture = Fixture::new(Wire::Messages, TALKER, vec![ScriptedReply::text("yes")]).await;
        fixture.hook_recorder.listen_to_all();
        fixture.hook_recorder.on(event, |input| {
            let prompt = input.prompt.as_ref()?;
            prompt
                .text
                .contains("secret")
                .then(|| HookReply::This(blocks("no secrets here")))
        });
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "a secret").await;
        assert_eq!(report.stop, Stop::Hook("no secrets here".to_owned()));
        assert_eq!((report.text.as_str(), report.sum.model_calls), ("", 0));
        assert_eq!(fixture.session(chat.session()).await.messages, 0);
        assert_eq!(reasons(&fixture), ["hook_blocked"]);
        assert_eq!(fixture.turn(&mut chat, "hello").await.text, "yes");
        assert_eq!(said(&fixture), ["hello"]);
        assert_eq!(reasons(&fixture), ["hook_blocked", "normal"]);
        fixture.check();
    }
}

/// turn_end: error, cancel, every way to end.
#[tokio::test]
async fn a_turn_emits_its_stop_reason() {
    let file = CODER.replace(
        "toolsets:",
        "max_iterations: 4\n    max_consecutive_tool_calls: 3\n    toolsets:",
    );
    let mut replies: Vec<ScriptedReply> = (0..4).map(|at| read(&at.to_string())).collect();
    replies.extend([read("x"), read("x"), read("x")]);
    replies.push(ScriptedReply::error(400));
    replies.push(ScriptedReply::text("slow").with_fault(Fault::slow(
        std::time::Duration::from_secs(5),
        std::time::Duration::ZERO,
    )));
    let fixture = Fixture::new(Wire::Chat, &file, replies).await;
    fixture.hook_recorder.listen_to_all();
    let mut chat = fixture.chat().await;
    assert_eq!(fixture.turn(&mut chat, "1").await.stop, Stop::Iterations(4));
    assert_eq!(fixture.turn(&mut chat, "2").await.stop, Stop::Repetition(3));
    let error = chat
        .turn("3", &CancellationToken::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Model);
    let cancel = CancellationToken::default();
    let asked = fixture.bodies().len();
    fixture
        .reported
        .cancel_when(&cancel, |note| matches!(note, Note::Asked(..)));
    let report = chat.turn("4", &cancel).await.unwrap();
    fixture.reported.react(|_| {});
    assert_eq!(report.stop, Stop::Interrupted);
    assert!(fixture.bodies().len() <= asked + 1);
    assert_eq!(
        reasons(&fixture),
        ["max_iterations", "loop_detected", "error", "canceled"]
    );
    let limits = fixture.hook_recorder.recorded_of(Event::OnMaxIterations);
    assert_eq!(
        limits
            .iter()
            .map(|input| input.max_iterations)
            .collect::<Vec<_>>(),
        [Some(4)]
    );
    let errors = fixture.hook_recorder.recorded_of(Event::OnError);
    assert_eq!(errors[0].error_message.as_deref(), Some(&*error.message));
    let reported: Vec<_> = fixture
        .hook_recorder
        .recorded_of(Event::Notification)
        .into_iter()
        .filter_map(|input| input.notification)
        .map(|reported| (reported.level, reported.message))
        .collect();
    assert_eq!(reported.len(), 3, "{reported:?}");
    assert!(reported[0].1.contains("max_iterations") && reported[1].1.contains("3 times in a row"));
    assert_eq!(reported[2], ("error", error.message));
    fixture.check();
}

#[tokio::test]
async fn an_exhausted_budget_is_emitted() {
    let file = format!("{TALKER}budget: {{max_tokens: 1}}\n");
    let fixture = Fixture::new(Wire::Chat, &file, vec![ScriptedReply::text("one")]).await;
    fixture.hook_recorder.listen([Event::TurnEnd]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "a").await;
    assert!(matches!(
        fixture.turn(&mut chat, "b").await.stop,
        Stop::Budget(_)
    ));
    assert_eq!(reasons(&fixture), ["normal", "budget_exceeded"]);
    fixture.check();
}

#[tokio::test]
async fn stop_hook_can_continue_the_turn() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("Done."),
            ScriptedReply::text("Tested, too."),
        ];
        let mut fixture = Fixture::new(wire, TALKER, replies).await;
        fixture.hooks = vec![entry(Event::Stop, Dialect::Claude)];
        fixture.hook_recorder.on(Event::Stop, |input| {
            let is_active = input.answer.as_ref()?.stop_hook_active;
            (!is_active).then(|| HookReply::This(blocks("Test it, too.")))
        });
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Do it.").await;
        assert_eq!(
            (report.text.as_str(), report.stop),
            ("Tested, too.", Stop::End)
        );
        assert_eq!(said(&fixture), ["Do it.", "Test it, too."]);
        let answers = fixture.hook_recorder.recorded_of(Event::Stop);
        let active: Vec<bool> = answers
            .iter()
            .map(|input| input.answer.clone().unwrap().stop_hook_active)
            .collect();
        assert!(
            active.contains(&false) && active.last() == Some(&true),
            "{active:?}"
        );
        fixture.check();
    }
}

#[tokio::test]
async fn stop_hook_that_always_blocks_is_bounded_by_max_iterations() {
    let file = TALKER.replace("{model: test,", "{model: test, max_iterations: 3,");
    let replies = (0..3)
        .map(|at| ScriptedReply::text(at.to_string()))
        .collect();
    let mut fixture = Fixture::new(Wire::Messages, &file, replies).await;
    fixture.hooks = vec![entry(Event::Stop, Dialect::Claude)];
    fixture
        .hook_recorder
        .on(Event::Stop, |_| Some(HookReply::This(blocks("More."))));
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!(
        (report.stop, report.text.as_str()),
        (Stop::Iterations(3), "2")
    );
    fixture.check();
}

#[tokio::test]
async fn a_write_guard_of_another_runtime_sees_each_file_of_a_patch() {
    let patch = "*** Begin Patch\n*** Add File: a\n+a\n*** Add File: secret\n+b\n*** End Patch";
    let replies = vec![
        ScriptedReply::call("apply_patch", json!({"patch": patch})),
        ScriptedReply::text("It is not to be."),
    ];
    let mut fixture = Fixture::new(Wire::Messages, CODER, replies).await;
    fixture.hooks = vec![entry(Event::PreToolUse, Dialect::Claude)];
    fixture.hook_recorder.on(Event::PreToolUse, |input| {
        let tool = input.tool.as_ref()?;
        let is_secret = tool.name == "edit_file" && tool.input["path"] == "secret";
        is_secret.then(|| HookReply::This(blocks("not there")))
    });
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    let written = |path: &str| fixture.root.path().join(path).exists();
    assert!(!written("a") && !written("secret"));
    assert!(fixture.last_body().to_string().contains("not there"));
    fixture.check();
}

/// `continue: false` of other runtimes: the turn ends, whatever the model wants.
#[tokio::test]
async fn hook_with_continue_false_ends_the_turn_after_a_call_or_an_answer() {
    // The calls before the one that a hook ends the turn at were permitted.
    for (event, reads) in [(Event::PreToolUse, 1), (Event::AfterLlmCall, 0)] {
        let calls = read("0")
            .and_call("read_file", json!({"path": "1"}))
            .and_call("read_file", json!({"path": "2"}));
        let replies = vec![calls, ScriptedReply::text("again")];
        let mut fixture = Fixture::new(Wire::Messages, CODER, replies).await;
        fixture.hooks = vec![entry(event, Dialect::Claude)];
        fixture
            .hook_recorder
            .listen([Event::TurnEnd, Event::PostToolUse]);
        fixture.hook_recorder.on(event, |input| {
            let path = input.tool.as_ref().map(|tool| tool.input["path"] == "1");
            let ends = Output {
                ends_turn: Some("enough".to_owned()),
                block: path.map(|_| "enough".to_owned()),
                ..Output::default()
            };
            path.unwrap_or(true).then_some(HookReply::This(ends))
        });
        for at in 0..3 {
            fixture.write(&at.to_string(), "text");
        }
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Hook("enough".to_owned()), "{event}");
        assert_eq!(report.sum.model_calls, 1);
        assert_eq!(
            fixture.hook_recorder.recorded_of(Event::PostToolUse).len(),
            reads,
            "{event}"
        );
        assert_eq!(reasons(&fixture), ["hook_blocked"]);
        fixture.hook_recorder.forget();
        // The session goes on: every call has a result.
        assert_eq!(fixture.turn(&mut chat, "and now?").await.text, "again");
        fixture.check();
    }
}

/// Each rejected answer costs a model call: after eight of them the turn ends, whatever hooks want.
#[tokio::test]
async fn stop_hook_that_always_blocks_ends_after_eight_answers() {
    let replies = (0..9)
        .map(|at| ScriptedReply::text(at.to_string()))
        .collect();
    let mut fixture = Fixture::new(Wire::Messages, TALKER, replies).await;
    fixture.hooks = vec![entry(Event::Stop, Dialect::Claude)];
    fixture
        .hook_recorder
        .on(Event::Stop, |_| Some(HookReply::This(blocks("More."))));
    fixture.hook_recorder.listen([Event::TurnEnd]);
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    let Stop::Hook(why) = &report.stop else {
        panic!("{:?}", report.stop)
    };
    assert!(why.contains("rejected 8 answers"), "{why}");
    assert!(
        why.contains("More.") && why.contains("stop_hook_active"),
        "{why}"
    );
    assert_eq!((&*report.text, report.sum.model_calls), ("8", 9));
    assert_eq!(reasons(&fixture), ["hook_blocked"]);
    fixture.check();
}

/// The answer is kept, but the hooks that were cut off are reported as such.
#[tokio::test]
async fn turn_cancelled_by_a_hook_after_its_answer_keeps_it_and_warns() {
    for event in [Event::AfterLlmCall, Event::Stop] {
        let replies = vec![ScriptedReply::text("a"), ScriptedReply::text("b")];
        let fixture = Fixture::new(Wire::Chat, TALKER, replies).await;
        let cancel = CancellationToken::default();
        let switch = cancel.clone();
        fixture.hook_recorder.listen([Event::TurnEnd]);
        fixture.hook_recorder.on(event, move |_| {
            switch.cancel();
            Some(HookReply::Nothing)
        });
        let mut chat = fixture.chat().await;
        let report = chat.turn("go", &cancel).await.unwrap();
        assert_eq!(
            (report.text.as_str(), report.stop),
            ("a", Stop::Interrupted)
        );
        let warnings = fixture.reported.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let expected = format!("hooks of `{}` were cut off", event.name());
        assert!(warnings[0].starts_with(&expected), "{warnings:?}");
        assert_eq!(reasons(&fixture), ["canceled"]);
        fixture.hook_recorder.forget();
        fixture.turn(&mut chat, "again").await;
        let turns = turns(&fixture.last_body());
        assert!(matches!(&turns[1], Turn::Model { text, .. } if text == "a"));
        fixture.check();
    }
}

#[tokio::test]
async fn hanging_turn_end_hook_of_a_cancelled_turn_is_awaited_briefly() {
    let fixture = Fixture::new(Wire::Chat, TALKER, Vec::new()).await;
    let cancel = CancellationToken::default();
    let switch = cancel.clone();
    fixture.hook_recorder.on(Event::TurnStart, move |_| {
        switch.cancel();
        Some(HookReply::Nothing)
    });
    fixture
        .hook_recorder
        .on(Event::TurnEnd, |_| Some(HookReply::Nothing));
    let mut chat = fixture.chat().await;
    let began = std::time::Instant::now();
    let report = chat.turn("go", &cancel).await.unwrap();
    assert_eq!(report.stop, Stop::Interrupted);
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
    assert_eq!(reasons(&fixture), ["canceled"]);
    assert_eq!(fixture.session(chat.session()).await.messages, 0);
    fixture.check();
}

#[tokio::test]
async fn messages_and_costs_of_hooks_are_reported() {
    let fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("a")]).await;
    let spent = Spend {
        calls: 1,
        input_tokens: 10,
        output_tokens: 5,
        cost: Cost::from_picodollars(7_000_000),
        ..Spend::default()
    };
    let output = Output {
        system_message: Some("judged".to_owned()),
        spent,
        ..Output::default()
    };
    fixture.hook_recorder.say(Event::UserPromptSubmit, output);
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!(report.sum.paid.calls, 2);
    assert!(report.sum.paid.cost.picodollars > 7_000_000);
    let warnings = fixture.reported.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("judged"));
    fixture.check();
}

#[tokio::test]
async fn failing_handler_ends_the_turn_only_at_guard_events() {
    let fixture = Fixture::new(Wire::Chat, TALKER, vec![ScriptedReply::text("a")]).await;
    fixture
        .hook_recorder
        .on(Event::TurnStart, |_| Some(HookReply::Fails));
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!((report.stop, report.text.as_str()), (Stop::End, "a"));
    assert!(fixture.reported.warnings()[0].contains("the ear is deaf"));
    fixture.check();
    for event in [
        Event::UserPromptSubmit,
        Event::PreUserTurn,
        Event::BeforeLlmCall,
    ] {
        let fixture = Fixture::new(Wire::Chat, TALKER, Vec::new()).await;
        fixture.hook_recorder.on(event, |_| Some(HookReply::Fails));
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        let Stop::Hook(why) = report.stop else {
            panic!("{event}: {:?}", report.stop)
        };
        assert!(why.contains("the ear is deaf"), "{event}: {why}");
        assert_eq!(fixture.simulator.received().len(), 0, "{event}");
        fixture.check();
    }
}

#[tokio::test]
async fn session_events_contain_start_and_end_reasons() {
    let replies = vec![ScriptedReply::text("a"), ScriptedReply::text("b")];
    let fixture = Fixture::new(Wire::Messages, TALKER, replies).await;
    fixture
        .hook_recorder
        .listen([Event::SessionStart, Event::SessionEnd]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "1").await;
    chat.start_new_session().await.unwrap();
    let session = chat.session().to_owned();
    chat.close().await;
    let mut chat = fixture.resume(&session).await.unwrap();
    fixture.turn(&mut chat, "2").await;
    let reported: Vec<_> = fixture
        .hook_recorder
        .recorded()
        .into_iter()
        .map(|input| {
            (
                input.event.name(),
                input.source.or(input.reason).unwrap(),
                input.session_id,
            )
        })
        .collect();
    let reported: Vec<_> = reported
        .iter()
        .map(|(event, how, session)| (*event, how.as_str(), session.as_str()))
        .collect();
    assert_eq!(
        reported,
        [
            ("session_start", "startup", "session-0"),
            ("session_end", "clear", "session-0"),
            ("session_start", "clear", "session-1"),
            ("session_end", "stream_ended", "session-1"),
            ("session_start", "resume", "session-1"),
        ]
    );
    fixture.check();
}

const TEAM: &str = "
agents:
  root: {model: test, instruction: You lead., sub_agents: [helper]}
  helper: {model: test, instruction: You help.}
";

/// user_prompt_submit is skipped for sub-sessions · on_agent_switch fields · subagent_stop on the
/// caller's hooks.
#[tokio::test]
async fn a_delegated_task_is_emitted() {
    for wire in WIRES {
        let transfer =
            ScriptedReply::call("transfer_task", json!({"agent": "helper", "task": "Help."}));
        let replies = vec![
            transfer,
            ScriptedReply::text("Helped."),
            ScriptedReply::text("Done."),
        ];
        let fixture = Fixture::new(wire, TEAM, replies).await;
        fixture.hook_recorder.listen_to_all();
        let mut chat = fixture.chat().await;
        assert_eq!(fixture.turn(&mut chat, "go").await.text, "Done.");
        let of_helper: Vec<_> = fixture
            .hook_recorder
            .recorded()
            .into_iter()
            .filter(|input| input.session_id == "session-1")
            .map(|input| (input.event.name(), input.agent_name))
            .collect();
        let of_helper: Vec<_> = of_helper
            .iter()
            .map(|(event, agent)| (*event, agent.as_str()))
            .collect();
        assert_eq!(
            of_helper,
            [
                ("session_start", "helper"),
                ("pre_user_turn", "helper"),
                ("turn_start", "helper"),
                ("before_llm_call", "helper"),
                ("after_llm_call", "helper"),
                ("stop", "helper"),
                ("turn_end", "helper"),
                ("subagent_stop", "helper"),
                ("session_end", "helper"),
            ]
        );
        let switches: Vec<_> = fixture
            .hook_recorder
            .recorded_of(Event::OnAgentSwitch)
            .into_iter()
            .map(|input| input.switch.unwrap())
            .map(|switch| {
                format!(
                    "{} -> {}: {}",
                    switch.from_agent, switch.to_agent, switch.kind
                )
            })
            .collect();
        assert_eq!(
            switches,
            [
                "root -> helper: transfer_task",
                "helper -> root: transfer_task_return"
            ]
        );
        let stop = fixture
            .hook_recorder
            .recorded_of(Event::SubagentStop)
            .pop()
            .unwrap();
        assert_eq!(stop.answer.unwrap().text, "Helped.");
        assert_eq!(stop.parent_session_id.as_deref(), Some("session-0"));
        let implicit = fixture.hook_recorder.recorded_of(Event::PreUserTurn);
        let implicit: Vec<bool> = implicit
            .into_iter()
            .map(|input| input.prompt.unwrap().implicit)
            .collect();
        assert_eq!(implicit, [false, true]);
        fixture.check();
    }
}

#[tokio::test]
async fn hooks_without_a_runner_are_refused() {
    let file = TALKER.replace("{model: test,", "{model: test, add_date: true,");
    let fixture = Fixture::new(Wire::Chat, &file, Vec::new()).await;
    let mut dependencies = fixture.dependencies();
    dependencies.hooks = None;
    let error = Chat::begin(dependencies, fixture.team(), None)
        .await
        .err()
        .unwrap();
    assert_eq!(error.kind, ErrorKind::Definition);
    assert!(error.message.contains("the hooks of `root`"), "{error}");
    fixture.check();
}

#[tokio::test]
async fn hooks_of_an_agent_are_read_from_its_file() {
    let file = TALKER.replace(
        "{model: test,",
        "{model: test, hooks: {user_prompt_submit: [{type: builtin, command: ear}]},",
    );
    let fixture = Fixture::new(Wire::Chat, &file, vec![ScriptedReply::text("a")]).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    assert_eq!(fixture.hook_recorder.events(), ["user_prompt_submit"]);
    fixture.check();
}

//! What a fork does not take over is named.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::{
    CancellationToken, Chat, ErrorKind, ForkDifference, ForkReport, Inherit, InheritedPart,
};
use cachalot_core::ManualClock;
use cachalot_simulator::ScriptedReply;

use super::{forked, spec, whales};
use crate::told::Note;
use crate::world::{NOW, WIRES, Wire, World};

fn named(report: &ForkReport) -> Vec<InheritedPart> {
    let differences = report.differences.iter();
    differences.map(|difference| difference.part).collect()
}

/// The warnings of forks.
fn warnings(world: &World) -> Vec<String> {
    let warning = |note| match note {
        Note::Fork(_, note) => match *note {
            Note::Warning(_, text) => Some(text),
            _ => None,
        },
        _ => None,
    };
    world.told.notes().into_iter().filter_map(warning).collect()
}

fn texts(count: usize) -> Vec<ScriptedReply> {
    vec![ScriptedReply::text("yes"); count]
}

#[tokio::test]
async fn what_each_option_leaves_out_is_named_and_is_no_reason_to_warn() {
    use InheritedPart::{History, Scope, SessionId, SessionStart, System, Tools};
    for wire in WIRES {
        let mut world = World::new(wire, &whales(""), texts(5)).await.in_file();
        let clock = Arc::new(ManualClock::at(NOW));
        world.clock = Arc::clone(&clock) as _;
        let mut chat = world.chat().await;
        world.turn(&mut chat, "How deep?").await;
        let session = chat.session().to_owned();
        // Another instruction by now: the session keeps its own, and so do forks of it, but for those
        // whose prompt is made anew.
        world.rewrite(&whales("").replace("You know whales", "You know all whales"));
        let chat = world.resume(&session).await.unwrap();
        clock.advance(Duration::from_secs(60));
        let none = match wire.is_anthropic() {
            true => vec![System, Tools, SessionStart, SessionId, History],
            false => vec![System, Tools, SessionStart, SessionId, Scope, History],
        };
        for (inherit, expected) in [
            (Inherit::Full, vec![]),
            (Inherit::Prompt, vec![Tools]),
            (Inherit::Session, vec![System, Tools]),
            (Inherit::None, none),
        ] {
            let warned = world.told.warnings().len();
            let report = forked(&chat, spec(&["read_file"], inherit), "Look back.").await;
            assert_eq!(named(&report), expected, "{wire:?} {inherit:?}");
            assert_eq!(world.told.warnings().len(), warned);
            for ForkDifference { part, parent, fork } in &report.differences {
                assert!(parent != fork || *part == Tools, "{part}: {parent} {fork}");
                assert!(parent.chars().count() < 70, "{parent}");
            }
            if inherit == Inherit::Session {
                let system = &report.differences[0];
                assert!(system.parent.contains("know whales"), "{system:?}");
                assert!(system.fork.contains("know all whales"), "{system:?}");
                assert!(report.differences[1].fork == "read_file");
            }
        }
        world.check_between(&[2, 3, 4]);
    }
}

/// A session that was resumed with other settings: what it has sent before was sent with the old ones.
async fn resumed(before: &str, after: &str, wire: Wire) -> (World, Chat) {
    let mut world = World::new(wire, &whales(""), texts(2)).await.in_file();
    world.model_keys = before.to_owned();
    let mut chat = world.chat().await;
    world.turn(&mut chat, "How deep?").await;
    world.model_keys = after.to_owned();
    let chat = world.resume(chat.session()).await.unwrap();
    (world, chat)
}

#[tokio::test]
async fn settings_that_are_not_those_of_the_last_request_are_named_and_refused_or_warned_of() {
    let pins = |name: &str| format!(", provider_opts: {{truncation: {name}}}");
    let form = |name: &str| {
        format!(
            ", structured_output: {{name: {name}, schema: {{type: object, properties: {{}}, additionalProperties: false}}}}"
        )
    };
    let effort = |name: &str| format!(", reasoning_effort: {name}");
    for (before, after, part, shown) in [
        (
            effort("high"),
            effort("low"),
            InheritedPart::Reasoning,
            "low",
        ),
        (form("one"), form("two"), InheritedPart::Prefill, "two"),
        (
            pins("auto"),
            pins("disabled"),
            InheritedPart::ProviderPins,
            "disabled",
        ),
        (
            ", parallel_tool_calls: true".to_owned(),
            ", parallel_tool_calls: false".to_owned(),
            InheritedPart::Tools,
            "false",
        ),
    ] {
        let (world, chat) = resumed(&before, &after, Wire::Responses).await;
        // It is as strict as tests are.
        let fork = chat.fork(spec(&[], Inherit::Full)).unwrap();
        let refused = fork
            .run("Look back.", &CancellationToken::default())
            .await
            .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Fork);
        let name = part.to_string();
        for part in ["the review", chat.session(), name.as_str(), shown] {
            assert!(refused.message.contains(part), "{part}: {refused}");
        }
        assert_eq!(world.bodies().len(), 1);

        let mut house = world.house();
        house.strict_forks = false;
        let chat = Chat::resume(house, world.team(), chat.session())
            .await
            .unwrap();
        let report = forked(&chat, spec(&[], Inherit::Full), "Look back.").await;
        assert_eq!((report.text.as_str(), named(&report)), ("yes", vec![part]));
        let is_warned = |note: &Note| match note {
            // Whose warning it is, is said once.
            Note::Fork(holder, note) => {
                matches!(&**note, Note::Warning(_, text) if refused.message == format!("{holder}: {text}"))
            }
            _ => false,
        };
        assert!(world.told.notes().iter().any(is_warned), "{refused}");
        world.check_between(&[1]);
    }
}

#[tokio::test]
async fn the_model_that_is_asked_already_inherits_everything_and_one_that_is_not_there_is_refused()
{
    for wire in WIRES {
        let world = World::new(wire, &whales(""), texts(3)).await;
        let mut chat = world.chat().await;
        world.turn(&mut chat, "How deep?").await;
        let fork = chat.fork(spec(&[], Inherit::Full)).unwrap();
        let same = fork.with_model("test").unwrap();
        assert_eq!(same.inherited_parts(), Inherit::Full);
        let report = same
            .run("Look back.", &CancellationToken::default())
            .await
            .unwrap();
        assert_eq!(report.differences, []);
        let fork = chat.fork(spec(&[], Inherit::Full)).unwrap();
        assert!(fork.with_model("nobody/knows").is_err());
        world.check();
    }
}

#[tokio::test]
async fn another_model_inherits_nothing() {
    let mut world = World::new(Wire::Responses, &whales(""), texts(2)).await;
    let other = Wire::Messages.model(&world.simulator.url());
    // A second model, behind the first.
    world.model_keys =
        format!(", reasoning_effort: high}}\n  other: {{{other}, token_key: TEST_KEY");
    let mut chat = world.chat().await;
    world.turn(&mut chat, "How deep?").await;
    let fork = chat.fork(spec(&["read_file"], Inherit::Full)).unwrap();
    let fork = fork.with_model("other").unwrap();
    assert_eq!(fork.inherited_parts(), Inherit::None);
    let report = fork
        .run("Look back.", &CancellationToken::default())
        .await
        .unwrap();
    assert_eq!(report.first.unwrap().cache_read, 0);
    let warnings = warnings(&world);
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    assert!(warning.contains("inherits nothing"), "{warning}");
    // Bytes are counted, about four to a token, and priced by the catalog: $3 for a million.
    let words: Vec<&str> = warning.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "about").unwrap();
    let tokens: f64 = words[at + 1].parse().unwrap();
    let sent = world.bodies()[1].to_string().len() as f64 / 4.0;
    assert!(
        (sent * 0.7..sent * 1.1).contains(&tokens),
        "{warning}: {sent}"
    );
    let dollars = format!("${:.4}", tokens * 3e-6);
    assert!(warning.contains(&dollars), "{warning}: {dollars}");
    for part in [
        InheritedPart::Model,
        InheritedPart::Reasoning,
        InheritedPart::History,
    ] {
        assert!(named(&report).contains(&part), "{part}: {report:?}");
    }
    let session = world.session(&report.session).await;
    assert_eq!((session.head.origin, session.messages), (None, 2));
    assert_eq!(session.head.model, "claude-sonnet-4-5");
    let bodies = world.bodies();
    assert_eq!(bodies[0]["reasoning"]["effort"], "high");
    assert!(bodies[1].get("reasoning").is_none() && bodies[1].get("thinking").is_none());
    world.check();
}

#[tokio::test]
async fn a_model_with_other_output_limits_inherits_everything() {
    for wire in WIRES {
        let mut world = World::new(wire, &whales(""), texts(2)).await;
        let other = wire.model(&world.simulator.url());
        world.model_keys = format!("}}\n  other: {{{other}, token_key: TEST_KEY, max_tokens: 3000");
        let mut chat = world.chat().await;
        world.turn(&mut chat, "How deep?").await;
        let fork = chat.fork(spec(&[], Inherit::Full)).unwrap();
        let fork = fork.with_model("other").unwrap();
        assert_eq!(fork.inherited_parts(), Inherit::Full, "{wire:?}");
        let report = fork
            .run("Look back.", &CancellationToken::default())
            .await
            .unwrap();
        assert_eq!(report.differences, [], "{wire:?}");
        assert!(report.first.unwrap().cache_read >= 1_024, "{report:?}");
        let limit = match wire {
            Wire::Chat => "max_completion_tokens",
            Wire::Responses => "max_output_tokens",
            Wire::Messages | Wire::Thinking => "max_tokens",
        };
        let bodies = world.bodies();
        let limits = [&bodies[0][limit], &bodies[1][limit]];
        assert!(
            limits[0] != 3_000 && limits[1] == 3_000,
            "{wire:?} {limits:?}"
        );
        assert_eq!(warnings(&world), [""; 0], "{wire:?}");
        world.check();
    }
}

#[tokio::test]
async fn a_fork_that_is_to_inherit_nothing_asks_another_model_without_a_warning() {
    let mut world = World::new(Wire::Responses, &whales(""), texts(2)).await;
    let other = Wire::Messages.model(&world.simulator.url());
    world.model_keys = format!("}}\n  other: {{{other}, token_key: TEST_KEY");
    let mut chat = world.chat().await;
    world.turn(&mut chat, "How deep?").await;
    let fork = chat.fork(spec(&[], Inherit::None)).unwrap();
    let fork = fork.with_model("other").unwrap();
    fork.run("Look back.", &CancellationToken::default())
        .await
        .unwrap();
    assert_eq!(warnings(&world), [""; 0]);
    world.check();
}

#[tokio::test]
async fn a_conversation_with_calls_does_not_go_where_there_must_be_tools_for_them() {
    let replies = vec![
        ScriptedReply::call("list_dir", serde_json::json!({})),
        ScriptedReply::text("yes"),
        ScriptedReply::text("fine"),
    ];
    let world = World::new(Wire::Messages, &whales(""), replies).await;
    let mut chat = world.chat().await;
    world.turn(&mut chat, "How deep?").await;
    for inherit in [Inherit::Prompt, Inherit::Session] {
        let fork = chat.fork(spec(&[], inherit)).unwrap();
        let refused = fork
            .run("Look back.", &CancellationToken::default())
            .await
            .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Fork);
        assert!(refused.message.contains("`full`"), "{refused}");
    }
    let report = forked(&chat, spec(&[], Inherit::Full), "Look back.").await;
    assert_eq!(report.text, "fine");
    assert!(report.first.unwrap().cache_read > 0);
    world.check();
}

#[tokio::test]
async fn a_fork_of_a_fork_goes_on_as_the_same_session() {
    for wire in WIRES {
        let world = World::new(wire, &whales(""), texts(4)).await.in_file();
        let mut chat = world.chat().await;
        world.turn(&mut chat, "How deep?").await;
        let first = forked(&chat, spec(&[], Inherit::Full), "Look back.").await;
        // It can be gone on with, as any session can.
        let mut fork = world.resume(&first.session).await.unwrap();
        assert_eq!(world.turn(&mut fork, "Again.").await.text, "yes");
        let second = forked(&fork, spec(&[], Inherit::Full), "Further back.").await;
        assert_eq!(second.differences, []);
        assert!(second.first.unwrap().cache_read >= first.first.unwrap().cache_read);
        let head = world.session(&second.session).await.head;
        assert_eq!(head.parent.as_deref(), Some(first.session.as_str()));
        assert_eq!(head.origin.unwrap().session, chat.session());
        // All are led to the same machine.
        let keys: Vec<_> = world
            .bodies()
            .iter()
            .map(|body| body["prompt_cache_key"].clone())
            .collect();
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        world.check();
    }
}

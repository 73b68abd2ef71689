//! Parts that a fork does not take over are reported.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::{
    CancellationToken, Chat, ErrorKind, ForkDifference, ForkReport, Inherit, InheritedPart,
};
use cachalot_core::ManualClock;
use cachalot_simulator::ScriptedReply;

use super::{forked, spec, whale_agent};
use crate::event_recorder::Note;
use crate::fixture::{Fixture, NOW, WIRES, Wire};

fn named(report: &ForkReport) -> Vec<InheritedPart> {
    let differences = report.differences.iter();
    differences.map(|difference| difference.part).collect()
}

/// The warnings of forks.
fn warnings(fixture: &Fixture) -> Vec<String> {
    let warning = |note| match note {
        Note::Fork(_, note) => match *note {
            Note::Warning(_, text) => Some(text),
            _ => None,
        },
        _ => None,
    };
    fixture
        .reported
        .notes()
        .into_iter()
        .filter_map(warning)
        .collect()
}

fn texts(count: usize) -> Vec<ScriptedReply> {
    vec![ScriptedReply::text("yes"); count]
}

#[tokio::test]
async fn parts_left_out_by_inherit_options_are_reported_without_warning() {
    use InheritedPart::{History, Scope, SessionId, SessionStart, System, Tools};
    for wire in WIRES {
        let mut fixture = Fixture::new(wire, &whale_agent(""), texts(5))
            .await
            .in_file();
        let clock = Arc::new(ManualClock::at(NOW));
        fixture.clock = Arc::clone(&clock) as _;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        let session = chat.session().to_owned();
        // Another instruction by now: the session keeps its own, and so do forks of it, but for those
        // whose prompt is made anew.
        fixture.rewrite(&whale_agent("").replace("You know whales", "You know all whales"));
        let chat = fixture.resume(&session).await.unwrap();
        clock.advance(Duration::from_secs(60));
        let none = if wire.is_anthropic() {
            vec![System, Tools, SessionStart, SessionId, History]
        } else {
            vec![System, Tools, SessionStart, SessionId, Scope, History]
        };
        for (inherit, expected) in [
            (Inherit::Full, vec![]),
            (Inherit::Prompt, vec![Tools]),
            (Inherit::Session, vec![System, Tools]),
            (Inherit::None, none),
        ] {
            let warned = fixture.reported.warnings().len();
            let report = forked(&chat, spec(&["read_file"], inherit), "Look back.").await;
            assert_eq!(named(&report), expected, "{wire:?} {inherit:?}");
            assert_eq!(fixture.reported.warnings().len(), warned);
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
        fixture.check_between(&[2, 3, 4]);
    }
}

/// A session that was resumed with other settings: what it has sent before was sent with the old ones.
async fn resumed(before: &str, after: &str, wire: Wire) -> (Fixture, Chat) {
    let mut fixture = Fixture::new(wire, &whale_agent(""), texts(2))
        .await
        .in_file();
    fixture.model_keys = before.to_owned();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
    fixture.model_keys = after.to_owned();
    let chat = fixture.resume(chat.session()).await.unwrap();
    (fixture, chat)
}

#[tokio::test]
async fn settings_that_differ_from_the_last_request_are_refused_or_warned_of() {
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
        let (fixture, chat) = resumed(&before, &after, Wire::Responses).await;
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
        assert_eq!(fixture.bodies().len(), 1);

        let mut dependencies = fixture.dependencies();
        dependencies.strict_forks = false;
        let chat = Chat::resume(dependencies, fixture.team(), chat.session())
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
        assert!(fixture.reported.notes().iter().any(is_warned), "{refused}");
        fixture.check_between(&[1]);
    }
}

#[tokio::test]
async fn same_model_inherits_everything_and_an_unknown_model_is_refused() {
    for wire in WIRES {
        let fixture = Fixture::new(wire, &whale_agent(""), texts(3)).await;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
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
        fixture.check();
    }
}

#[tokio::test]
async fn another_model_inherits_nothing() {
    let mut fixture = Fixture::new(Wire::Responses, &whale_agent(""), texts(2)).await;
    let other = Wire::Messages.model(&fixture.simulator.url());
    // A second model, behind the first.
    fixture.model_keys =
        format!(", reasoning_effort: high}}\n  other: {{{other}, token_key: TEST_KEY");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
    let fork = chat.fork(spec(&["read_file"], Inherit::Full)).unwrap();
    let fork = fork.with_model("other").unwrap();
    assert_eq!(fork.inherited_parts(), Inherit::None);
    let report = fork
        .run("Look back.", &CancellationToken::default())
        .await
        .unwrap();
    assert_eq!(report.first.unwrap().cache_read, 0);
    let warnings = warnings(&fixture);
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    assert!(warning.contains("inherits nothing"), "{warning}");
    // Bytes are counted, about four to a token, and priced by the catalog: $3 for a million.
    let words: Vec<&str> = warning.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "about").unwrap();
    let tokens: f64 = words[at + 1].parse().unwrap();
    let sent = fixture.bodies()[1].to_string().len() as f64 / 4.0;
    assert!(
        (sent * 0.7..sent * 1.1).contains(&tokens),
        "{warning}: {sent}"
    );
    let cost = cachalot_core::Cost::from_picodollars((tokens * 3e6) as u64);
    assert!(warning.contains(&format!("({cost})")), "{warning}: {cost}");
    for part in [
        InheritedPart::Model,
        InheritedPart::Reasoning,
        InheritedPart::History,
    ] {
        assert!(named(&report).contains(&part), "{part}: {report:?}");
    }
    let session = fixture.session(&report.session).await;
    assert_eq!((session.head.origin, session.messages), (None, 2));
    assert_eq!(session.head.model, "claude-sonnet-4-5");
    let bodies = fixture.bodies();
    assert_eq!(bodies[0]["reasoning"]["effort"], "high");
    assert!(bodies[1].get("reasoning").is_none() && bodies[1].get("thinking").is_none());
    fixture.check();
}

#[tokio::test]
async fn a_model_with_other_output_limits_inherits_everything() {
    for wire in WIRES {
        let mut fixture = Fixture::new(wire, &whale_agent(""), texts(2)).await;
        let other = wire.model(&fixture.simulator.url());
        fixture.model_keys =
            format!("}}\n  other: {{{other}, token_key: TEST_KEY, max_tokens: 3000");
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
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
        let bodies = fixture.bodies();
        let limits = [&bodies[0][limit], &bodies[1][limit]];
        assert!(
            limits[0] != 3_000 && limits[1] == 3_000,
            "{wire:?} {limits:?}"
        );
        assert_eq!(warnings(&fixture), [""; 0], "{wire:?}");
        fixture.check();
    }
}

#[tokio::test]
async fn fork_without_inheritance_uses_another_model_without_warning() {
    let mut fixture = Fixture::new(Wire::Responses, &whale_agent(""), texts(2)).await;
    let other = Wire::Messages.model(&fixture.simulator.url());
    fixture.model_keys = format!("}}\n  other: {{{other}, token_key: TEST_KEY");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
    let fork = chat.fork(spec(&[], Inherit::None)).unwrap();
    let fork = fork.with_model("other").unwrap();
    fork.run("Look back.", &CancellationToken::default())
        .await
        .unwrap();
    assert_eq!(warnings(&fixture), [""; 0]);
    fixture.check();
}

#[tokio::test]
async fn fork_without_tools_refuses_a_model_that_needs_them() {
    let replies = vec![
        ScriptedReply::call("list_dir", serde_json::json!({})),
        ScriptedReply::text("yes"),
        ScriptedReply::text("fine"),
    ];
    let fixture = Fixture::new(Wire::Messages, &whale_agent(""), replies).await;
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
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
    fixture.check();
}

#[tokio::test]
async fn fork_of_a_fork_keeps_the_session_of_the_chat() {
    for wire in WIRES {
        let fixture = Fixture::new(wire, &whale_agent(""), texts(4))
            .await
            .in_file();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        let first = forked(&chat, spec(&[], Inherit::Full), "Look back.").await;
        // It can be gone on with, as any session can.
        let mut fork = fixture.resume(&first.session).await.unwrap();
        assert_eq!(fixture.turn(&mut fork, "Again.").await.text, "yes");
        let second = forked(&fork, spec(&[], Inherit::Full), "Further back.").await;
        assert_eq!(second.differences, []);
        assert!(second.first.unwrap().cache_read >= first.first.unwrap().cache_read);
        let head = fixture.session(&second.session).await.head;
        assert_eq!(head.parent.as_deref(), Some(first.session.as_str()));
        assert_eq!(head.origin.unwrap().session, chat.session());
        // All are led to the same machine.
        let keys: Vec<_> = fixture
            .bodies()
            .iter()
            .map(|body| body["prompt_cache_key"].clone())
            .collect();
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        fixture.check();
    }
}

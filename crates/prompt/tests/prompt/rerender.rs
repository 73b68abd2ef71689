//! A conversation that goes on in another format, with another model, or with other tools.

use cachalot_model::wire::{CHAT, MESSAGES, Rendered, Wire};
use cachalot_model::{Block, Format, Message, Role, SettingChanges};
use cachalot_prompt::{BreakCause, ErrorKind, Level, Session, Target};

use crate::conversation::{call, reasoning, result, tool};
use crate::small_wire::SmallWire;
use crate::{frozen, head, ids, in_process, model, run, say};

fn rendered(wire: &dyn Wire) -> (Vec<Rendered>, Vec<Rendered>) {
    (
        ["grep", "read_file"]
            .map(|name| wire.tool(&tool(name)))
            .into(),
        ["You help.", "Today is a day."]
            .map(|text| wire.system(text))
            .into(),
    )
}

async fn talk(session: &mut Session) {
    let thought = reasoning(Format::Messages, "hm");
    say(session, Message::user("?")).await;
    say(
        session,
        Message::new(Role::Assistant, vec![thought.clone(), call("a")]),
    )
    .await;
    say(session, Message::new(Role::User, vec![result("a", "1")])).await;
    say(session, Message::new(Role::Assistant, vec![thought])).await;
}

#[test]
fn rerender_to_another_format_and_back_restores_the_pieces() {
    run(async {
        let (sessions, memory) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        talk(&mut session).await;
        let before = session.prompt.clone();

        let (tools, system) = rendered(&*CHAT);
        let target = Target {
            provider: "openai",
            model: "gpt",
            base_url: Some("http://localhost"),
            tools: &tools,
            system: &system,
        };
        let broken = session.rerender(&*CHAT, target).await.unwrap().unwrap();
        assert_eq!((broken.level, broken.index), (Level::Tool, 0));
        let (from, to) = (Format::Messages, Format::Chat);
        assert_eq!(broken.cause, BreakCause::Rerendered { from, to });
        assert!(
            broken
                .to_string()
                .contains("from the format Messages to Chat")
        );

        let mut again = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(again.head.format, Format::Chat);
        assert_eq!(again.head.provider, "openai");
        assert_eq!(again.head.base_url.as_deref(), Some("http://localhost"));
        assert_eq!(ids(&again.prompt), ids(&session.prompt));
        // Not even the thought that this format has no words for is lost.
        assert_eq!(again.prompt.messages(), before.messages());
        // What only the old rendering needed is gone.
        assert_eq!(model::pieces(&*memory).await, again.prompt.len());

        let (tools, system) = rendered(&*MESSAGES);
        let target = Target {
            provider: "anthropic",
            model: "claude",
            base_url: None,
            tools: &tools,
            system: &system,
        };
        again.rerender(&*MESSAGES, target).await.unwrap().unwrap();
        assert_eq!(ids(&again.prompt), ids(&before));
        // The first one is not the current one any more.
        let error = session.save().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
    });
}

#[test]
fn rerender_with_other_tools_replaces_the_prefix() {
    run(async {
        let (sessions, _) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        talk(&mut session).await;
        let (tools, system) = rendered(&*MESSAGES);
        let before = session.prompt.tip();
        let same = Target {
            provider: "provider",
            model: "model",
            base_url: None,
            tools: &tools,
            system: &system,
        };
        assert_eq!(session.rerender(&*MESSAGES, same).await.unwrap(), None);
        assert_eq!(session.prompt.tip(), before);

        let late = [&tools[..], &[MESSAGES.tool(&tool("late"))]].concat();
        let more = Target {
            tools: &late,
            ..same
        };
        let broken = session.rerender(&*MESSAGES, more).await.unwrap().unwrap();
        assert_eq!((broken.level, broken.index), (Level::Tool, 2));
        assert_eq!(broken.cause, BreakCause::Inserted);
        // Another model of the same provider has none of it cached.
        let other = Target {
            model: "other",
            tools: &late,
            ..same
        };
        let broken = session.rerender(&*MESSAGES, other).await.unwrap().unwrap();
        assert_eq!((broken.level, broken.index), (Level::Tool, 0));
        assert!(broken.to_string().contains("another provider or model"));
        say(&mut session, Message::user("on")).await;
    });
}

/// A fork keeps the pieces of the session that was rendered anew.
#[test]
fn rerender_keeps_the_pieces_of_forks() {
    run(async {
        let (sessions, _) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        talk(&mut session).await;
        let fork = session.prompt.clone();
        sessions
            .create_from(head("fork"), fork.clone())
            .await
            .unwrap();
        let (tools, system) = rendered(&*CHAT);
        let target = Target {
            provider: "openai",
            model: "gpt",
            base_url: None,
            tools: &tools,
            system: &system,
        };
        session.rerender(&*CHAT, target).await.unwrap();
        let again = sessions.open("fork").await.unwrap().unwrap();
        assert_eq!(ids(&again.prompt), ids(&fork));
    });
}

#[test]
fn rerendered_messages_change_no_tools() {
    run(async {
        let (sessions, _) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        let changes = SettingChanges {
            added: vec![tool("late")],
            removed: vec!["grep".to_owned()],
            effort: None,
        };
        let mut message = Message::user("?");
        changes.note(&mut message);
        say(&mut session, message).await;
        // Tools, system text, the message and its changes.
        assert_eq!(session.prompt.len(), 2 + 2 + 2);
        let opened = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(ids(&opened.prompt), ids(&session.prompt));
        let stored = &opened.prompt.messages()[0];
        assert_eq!(SettingChanges::noted(stored), Some(changes));

        // The target has all tools.
        let tools = [MESSAGES.tool(&tool("late"))];
        let target = Target {
            provider: "provider",
            model: "model",
            base_url: None,
            tools: &tools,
            system: &[],
        };
        let broken = session.rerender(&*MESSAGES, target).await.unwrap();
        assert_eq!(broken.unwrap().level, Level::Tool);
        assert_eq!(session.prompt.len(), 1 + 1);
        assert_eq!(*session.prompt.messages()[0], Message::user("?"));
    });
}

#[test]
fn inexpressible_content_stops_rerendering() {
    run(async {
        let (sessions, _) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        let odd = Block::Other {
            format: Format::Messages,
            verbatim: serde_json::json!({"type": "odd"}),
        };
        say(&mut session, Message::new(Role::User, vec![odd])).await;
        let before = ids(&session.prompt);
        let target = Target {
            provider: "small",
            model: "small",
            base_url: None,
            tools: &[],
            system: &[],
        };
        let small = SmallWire { apart: true };
        let error = session.rerender(&small, target).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Inexpressible);
        assert!(error.to_string().contains("`one`"), "{error}");
        assert!(error.to_string().contains("no word for this"), "{error}");
        assert_eq!(ids(&session.prompt), before);
        assert_eq!(session.head.provider, "provider");
        say(&mut session, Message::user("on")).await;
    });
}

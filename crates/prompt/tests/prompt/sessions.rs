//! Operations on sessions.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Cost, DigestKey, ManualClock, SecretSet, Spend};
use cachalot_model::wire::MESSAGES;
use cachalot_model::{Format, Message, Parameters, Usage};
use cachalot_prompt::{
    ErrorKind, Namespace, PIECES, Prompt, SESSIONS, SessionFilter, Sessions, Tail, Target,
};
use cachalot_store::in_process::InProcessStore;
use proptest::prelude::*;

use crate::{conversation, frozen, head, ids, in_file, in_process, model, run, said, say, try_say};

#[test]
fn session_name_is_unique_and_validated() {
    run(async {
        let (sessions, _) = in_process();
        let one = sessions.create(head("one")).await.unwrap();
        assert_eq!(one.head.created, 1_000);
        assert!(one.prompt.is_empty());
        let error = sessions.create(head("one")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Exists);
        assert!(error.to_string().contains("`one`"), "{error}");
        let long = "x".repeat(129);
        for name in ["", "a b", "a/b", "a\nb", "a\0", &long] {
            let error = sessions.create(head(name)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadName, "{name:?}");
            assert!(sessions.open(name).await.unwrap().is_none());
            assert!(!sessions.remove(name).await.unwrap());
        }
        for name in ["ü-1", "a:b", "2026-11-21_a", &"x".repeat(128)] {
            sessions.create(head(name)).await.unwrap();
        }
    });
}

#[test]
fn session_is_found_by_a_prefix_of_its_name() {
    run(async {
        let (sessions, _) = in_process();
        for name in ["abc", "abd", "xyz", "xyz-2"] {
            sessions.create(head(name)).await.unwrap();
        }
        let found = |id: &'static str| {
            let sessions = sessions.clone();
            async move {
                sessions
                    .open(id)
                    .await
                    .map(|found| found.map(|s| s.head.id))
            }
        };
        assert_eq!(found("abc").await.unwrap().unwrap(), "abc");
        // The exact name wins over longer ones.
        assert_eq!(found("xyz").await.unwrap().unwrap(), "xyz");
        assert_eq!(found("xyz-").await.unwrap().unwrap(), "xyz-2");
        assert_eq!(found("q").await.unwrap(), None);
        let error = found("ab").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Ambiguous);
        assert_eq!(
            error.to_string(),
            "several sessions begin with `ab`: `abc`, `abd`; give more of the name"
        );
        for number in 0..20 {
            sessions
                .create(head(&format!("many-{number}")))
                .await
                .unwrap();
        }
        let error = found("many").await.unwrap_err().to_string();
        assert!(error.contains("`many-0`"), "{error}");
        assert!(error.contains(", …;"), "{error}");
        assert_eq!(error.matches("many-").count(), 10, "{error}");
        // Removing takes the exact name only.
        assert!(!sessions.remove("xy").await.unwrap());
        assert!(sessions.remove("xyz").await.unwrap());
        assert_eq!(found("xy").await.unwrap().unwrap(), "xyz-2");
    });
}

#[test]
fn head_and_totals_of_a_session_are_kept() {
    run(async {
        let (sessions, _) = in_process();
        let mut of = head("one");
        of.title = Some("A title".to_owned());
        of.workspace = Some("/w".to_owned());
        of.parent = Some("zero".to_owned());
        of.base_url = Some("http://localhost:1".to_owned());
        of.notes
            .insert("cwd".to_owned(), serde_json::json!({"a": [1.5]}));
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(of, prompt).await.unwrap();
        let usage = Usage {
            uncached_input: 3,
            cache_read: 9,
            output: 5,
            ..Usage::default()
        };
        let spent = Spend {
            cost: Cost::from_picodollars(7),
            ..Spend::for_call(Duration::from_millis(12))
        };
        session.totals.count(usage, spent);
        session.totals.count(usage, spent);
        session.namespace = Some(Namespace::new(Format::Messages, &Parameters::default()));
        session.head.title = Some("Another title".to_owned());
        session.head.id = "a name does not change".to_owned();
        say(&mut session, Message::user("a")).await;
        assert_eq!(session.head.id, "one");
        let again = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(again.head, session.head);
        assert_eq!(again.head.title.as_deref(), Some("Another title"));
        assert_eq!(again.totals, session.totals);
        assert_eq!(again.totals.answers, 2);
        assert_eq!(again.totals.usage.total_input(), 24);
        assert_eq!(again.namespace, session.namespace);
        assert_eq!(again.tail(), Tail::Unanswered);
        assert!(sessions.open("a").await.unwrap().is_none());
    });
}

#[test]
fn list_filters_and_orders_sessions() {
    run(async {
        let clock = Arc::new(ManualClock::at(0));
        let memory = Arc::new(InProcessStore::new(clock.clone()));
        let sessions = Sessions::new(memory, clock.clone(), Arc::new(SecretSet::empty()));
        for number in 0..600 {
            clock.advance(Duration::from_millis(1));
            let mut of = head(&format!("s-{number:03}"));
            of.agent = ["root", "helper"][number % 2].to_owned();
            of.workspace = (number % 3 == 0).then(|| "/w".to_owned());
            of.parent = (number == 7).then(|| "s-000".to_owned());
            sessions.create_from(of, frozen(&*MESSAGES)).await.unwrap();
        }
        let all = sessions.list(&SessionFilter::default()).await.unwrap();
        assert_eq!(all.len(), 600);
        assert_eq!(all[0].id, "s-599");
        assert!(all.windows(2).all(|pair| pair[0].saved >= pair[1].saved));
        let first = all[0].state.as_ref().unwrap();
        assert_eq!((first.messages, first.pieces), (0, 4));
        assert_eq!(first.prompt, frozen(&*MESSAGES).tip());
        assert_eq!(first.bytes, frozen(&*MESSAGES).bytes());
        let some = SessionFilter {
            agent: Some("helper"),
            workspace: Some("/w"),
            limit: Some(2),
            ..SessionFilter::default()
        };
        let some = sessions.list(&some).await.unwrap();
        let some: Vec<&str> = some.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(some, ["s-597", "s-591"]);
        let children = SessionFilter {
            parent: Some("s-000"),
            ..SessionFilter::default()
        };
        let children = sessions.list(&children).await.unwrap();
        assert_eq!(children.len(), 1);
        assert_eq!(children[0].id, "s-007");
        // What was saved last comes first.
        let mut old = sessions.open("s-000").await.unwrap().unwrap();
        clock.advance(Duration::from_millis(1));
        old.save().await.unwrap();
        assert_eq!(
            sessions.list(&SessionFilter::default()).await.unwrap()[0].id,
            "s-000"
        );
    });
}

#[test]
fn removing_a_session_keeps_shared_pieces() {
    run(async {
        let (sessions, memory) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut one = sessions.create_from(head("one"), prompt).await.unwrap();
        say(&mut one, Message::user("a")).await;
        say(&mut one, Message::assistant("b")).await;
        // One that was made by itself shares as much as a fork does.
        let mut same = sessions
            .create_from(head("same"), frozen(&*MESSAGES))
            .await
            .unwrap();
        say(&mut same, Message::user("a")).await;
        assert_eq!(model::pieces(&*memory).await, 6);
        let fork = one.prompt.clone();
        let mut fork = sessions.create_from(head("fork"), fork).await.unwrap();
        say(&mut fork, Message::user("c")).await;
        assert_eq!(model::pieces(&*memory).await, 7);
        assert!(sessions.remove("one").await.unwrap());
        assert_eq!(model::pieces(&*memory).await, 7);
        let again = sessions.open("fork").await.unwrap().unwrap();
        assert_eq!(ids(&again.prompt), ids(&fork.prompt));
        assert!(sessions.remove("fork").await.unwrap());
        assert_eq!(model::pieces(&*memory).await, 5);
        let again = sessions.open("same").await.unwrap().unwrap();
        assert_eq!(ids(&again.prompt), ids(&same.prompt));
        assert!(sessions.remove("same").await.unwrap());
        assert!(!sessions.remove("same").await.unwrap());
        for space in [SESSIONS, PIECES] {
            assert_eq!(memory.usage(space).settle().await.unwrap().records, 0);
        }
    });
}

/// However long a session is, and however often it was opened, it has one record beside its pieces.
#[test]
fn number_of_records_of_a_session_is_bounded() {
    run(async {
        let (sessions, memory) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        for number in 0..300 {
            if number % 70 == 69 {
                session = sessions.open("one").await.unwrap().unwrap();
            }
            say(&mut session, Message::user("a")).await;
            for (space, expected) in [(SESSIONS, 1), (PIECES, session.prompt.len() as u64)] {
                let usage = memory.usage(space).settle().await.unwrap();
                assert_eq!(usage.records, expected, "{space} after {number}");
            }
        }
        assert_eq!(sessions.sweep().await.unwrap().pieces, 0);
        let again = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(ids(&again.prompt), ids(&session.prompt));
        assert!(sessions.remove("one").await.unwrap());
        assert_eq!(memory.usage(PIECES).settle().await.unwrap().records, 0);
    });
}

/// Pieces of equal bytes that come from different messages are different records.
#[test]
fn pieces_of_different_messages_with_equal_bytes_are_distinct() {
    run(async {
        let (sessions, _) = in_process();
        let thought = conversation::reasoning(Format::Chat, "not sent in this format");
        let text = cachalot_model::Block::text("b");
        let role = cachalot_model::Role::Assistant;
        let plain = Message::new(role, vec![text.clone()]);
        let thoughtful = Message::new(role, vec![thought, text]);
        let mut tips = Vec::new();
        for (id, message) in [("plain", &plain), ("thoughtful", &thoughtful)] {
            let prompt = frozen(&*MESSAGES);
            let mut session = sessions.create_from(head(id), prompt).await.unwrap();
            say(&mut session, message.clone()).await;
            tips.push(session.prompt.tip());
        }
        assert_eq!(tips[0], tips[1]);
        for (id, message) in [("plain", &plain), ("thoughtful", &thoughtful)] {
            let session = sessions.open(id).await.unwrap().unwrap();
            assert_eq!(*session.prompt.messages()[0], *message, "{id}");
        }
        sessions.remove("plain").await.unwrap();
        sessions.open("thoughtful").await.unwrap().unwrap();
    });
}

#[test]
fn second_writer_gets_a_conflict() {
    run(async {
        let (sessions, memory) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut one = sessions.create_from(head("one"), prompt).await.unwrap();
        let mut two = sessions.open("one").await.unwrap().unwrap();
        say(&mut one, Message::user("a")).await;
        let pieces = model::pieces(&*memory).await;
        for _ in 0..2 {
            let error = try_say(&mut two, Message::user("b")).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict);
            assert!(!error.is_retryable);
            assert!(error.to_string().contains("open it again"), "{error}");
        }
        assert_eq!(two.save().await.unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(model::pieces(&*memory).await, pieces);
        // Not even the same message is written twice, nor is it taken for the other's.
        let error = try_say(&mut two, Message::user("a")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(two.prompt.messages().is_empty());
        say(&mut one, Message::assistant("b")).await;
        let mut three = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(three.prompt.messages().len(), 2);
        say(&mut three, Message::user("c")).await;
        assert_eq!(one.save().await.unwrap_err().kind, ErrorKind::Conflict);
    });
}

#[test]
fn removed_session_is_not_restored_by_a_save() {
    run(async {
        let (sessions, memory) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut one = sessions
            .create_from(head("one"), prompt.clone())
            .await
            .unwrap();
        assert!(sessions.remove("one").await.unwrap());
        let error = try_say(&mut one, Message::user("a")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Removed);
        assert_eq!(model::pieces(&*memory).await, 0);
        // Nor is another one of the same name taken for it, though it says the same.
        sessions.create_from(head("one"), prompt).await.unwrap();
        let error = try_say(&mut one, Message::user("a")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
    });
}

#[test]
fn save_refuses_anything_but_an_append() {
    run(async {
        let (sessions, _) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        say(&mut session, Message::user("a")).await;
        let kept = session.prompt.clone();
        for other in [
            Prompt::default(),
            frozen(&*MESSAGES),
            said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("b")),
        ] {
            session.prompt = other;
            let error = session.save().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotAnExtension);
        }
        session.prompt = said(&kept, &*MESSAGES, Message::assistant("b"));
        session.prompt = said(&session.prompt, &*MESSAGES, Message::user("c"));
        session.save().await.unwrap();
        let again = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(again.prompt.messages().len(), 3);
    });
}

#[test]
fn sessions_with_known_secrets_are_flagged() {
    run(async {
        let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
        secret_set.learn("hunter2-hunter2");
        let clock = Arc::new(ManualClock::at(0));
        let memory = Arc::new(InProcessStore::new(clock.clone()));
        let sessions = Sessions::new(memory, clock, secret_set);
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        say(&mut session, Message::user("harmless")).await;
        assert!(!session.holds_secrets());
        say(&mut session, Message::user("it is hunter2-hunter2")).await;
        say(&mut session, Message::assistant("I see")).await;
        let again = sessions.open("one").await.unwrap().unwrap();
        assert!(session.holds_secrets() && again.holds_secrets());
        // The prefix is what was sent.
        assert_eq!(ids(&again.prompt), ids(&session.prompt));
        let listed = sessions.list(&SessionFilter::default()).await.unwrap();
        assert!(listed[0].state.as_ref().unwrap().holds_secrets);
    });
}

#[test]
fn large_messages_are_stored() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    run(async {
        let text = "large \"text\" \n".repeat(400_000);
        let mut session = in_file(&path)
            .create_from(head("one"), frozen(&*MESSAGES))
            .await
            .unwrap();
        say(&mut session, Message::user(&*text)).await;
        say(&mut session, Message::assistant("so much")).await;
        let sessions = in_file(&path);
        let again = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(again.prompt.messages()[0].text(), text);
        assert_eq!(ids(&again.prompt), ids(&session.prompt));
        assert!(sessions.remove("one").await.unwrap());
    });
}

/// An agent runs on any thread.
#[test]
fn session_futures_are_send() {
    fn moves<T: Send>(_: &T) {}
    let (sessions, _) = in_process();
    moves(&sessions.open("one"));
    moves(&sessions.remove("one"));
    moves(&sessions.sweep());
    moves(&sessions.list(&SessionFilter::default()));
    moves(&sessions.create(head("one")));
    let mut session = run(sessions.create(head("one"))).unwrap();
    moves(&session);
    moves(&session.append(Arc::new(Message::user("a")), &[]));
    let target = Target {
        provider: "p",
        model: "m",
        base_url: None,
        tools: &[],
        system: &[],
    };
    moves(&session.rerender(&*MESSAGES, target));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever was said in whatever format comes back byte for byte, with its messages.
    #[test]
    fn resumed_session_has_equal_bytes_and_messages(messages in conversation::messages(10)) {
        for wire in crate::wires() {
            run(async {
                let (sessions, _) = in_process();
                let mut session = sessions.create_from(head("one"), frozen(wire)).await.unwrap();
                for message in &messages {
                    let message = Arc::new(message.clone());
                    session.append(Arc::clone(&message), &wire.message(&message).unwrap()).await.unwrap();
                }
                let again = sessions.open("one").await.unwrap().unwrap();
                assert_eq!(again.prompt.len(), session.prompt.len());
                for (one, other) in again.prompt.nodes().iter().zip(session.prompt.nodes()) {
                    assert_eq!(one.bytes, other.bytes);
                    assert_eq!((one.level, one.mark_at, one.id), (other.level, other.mark_at, other.id));
                    assert_eq!(one.source, other.source);
                }
            });
        }
    }
}

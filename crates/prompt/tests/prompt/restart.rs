//! Conversations that begin anew, and messages that are replaced before they are sent.

use std::sync::Arc;

use cachalot_model::Message;
use cachalot_model::wire::{MESSAGES, Rendered};
use cachalot_prompt::{ErrorKind, Prompt};
use serde_json::{Map, Value, json};

use crate::{frozen, head, ids, in_process, run, said, say, wires};

fn notes(text: &str) -> Map<String, Value> {
    Map::from_iter([("summary".to_owned(), json!(text))])
}

fn rendered(message: Message) -> (Arc<Message>, Vec<Rendered>) {
    let pieces = MESSAGES.message(&message).unwrap();
    (Arc::new(message), pieces)
}

#[test]
fn restart_keeps_tools_and_system_text_byte_for_byte() {
    for wire in wires() {
        let begun = frozen(wire);
        let longer = said(&begun, wire, Message::user("a"));
        let longer = said(&longer, wire, Message::assistant("b"));
        assert_eq!(ids(&longer.frozen()), ids(&begun));
        assert_eq!(
            ids(&longer.without_last(1)),
            ids(&longer)[..longer.len() - 1]
        );
        assert_eq!(ids(&longer.without_last(9)), ids(&begun));
        assert_eq!(ids(&longer.without_last(0)), ids(&longer));
        assert!(Prompt::default().frozen().is_empty());
    }
}

#[test]
fn restart_of_a_session_is_durable() {
    for begun in [frozen(&*MESSAGES), Prompt::default()] {
        run(async {
            let (sessions, _) = in_process();
            let mut session = sessions
                .create_from(head("one"), begun.clone())
                .await
                .unwrap();
            say(&mut session, Message::user("a")).await;
            say(&mut session, Message::assistant("b")).await;
            session.restart(notes("what was said")).await.unwrap();
            assert_eq!(ids(&session.prompt), ids(&begun));
            let mut opened = sessions.open("one").await.unwrap().unwrap();
            assert_eq!(ids(&opened.prompt), ids(&begun));
            assert_eq!(opened.head.notes["summary"], "what was said");
            say(&mut opened, Message::user("c")).await;
            let again = sessions.open("one").await.unwrap().unwrap();
            assert_eq!(again.prompt.messages().len(), 1);
            // An older handle of the session cannot overwrite it.
            let error = session.restart(Map::new()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict);
            assert_eq!(session.head.notes["summary"], "what was said");
            // Nothing is left behind that a sweep would find.
            sessions.remove("one").await.unwrap();
            assert_eq!(sessions.sweep().await.unwrap().pieces, 0);
        });
    }
}

#[test]
fn replace_unsent_keeps_sent_messages() {
    run(async {
        let (sessions, _) = in_process();
        let begun = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), begun).await.unwrap();
        say(&mut session, Message::user("a")).await;
        say(&mut session, Message::assistant("b")).await;
        let sent = session.prompt.clone();
        say(&mut session, Message::user("a secret")).await;
        say(&mut session, Message::assistant("nothing")).await;
        let instead = [
            Message::user("***"),
            Message::assistant("nothing"),
            Message::user("c"),
        ];
        let instead = instead.map(rendered);
        session.amend(2, &instead, notes("x")).await.unwrap();
        let opened = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(ids(&opened.prompt), ids(&session.prompt));
        assert_eq!(ids(&opened.prompt)[..sent.len()], ids(&sent));
        let messages = opened.prompt.messages();
        let texts: Vec<String> = messages.iter().map(|message| message.text()).collect();
        assert_eq!(texts, ["a", "b", "***", "nothing", "c"]);
        assert_eq!(opened.head.notes["summary"], "x");
    });
}

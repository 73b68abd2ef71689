//! Records that were damaged, are missing, or come from a newer version.

use cachalot_model::Message;
use cachalot_model::wire::MESSAGES;
use cachalot_prompt::{Error, ErrorKind, PIECES, SESSIONS, SessionFilter, Sessions};
use cachalot_store::{LabelMatch, PageRequest, Record, RecordFilter, Store};

use crate::{frozen, head, in_process, run, say};

async fn all(memory: &dyn Store, space: &str) -> Vec<Record> {
    let filter = RecordFilter::default();
    let found = memory.find(space, &filter, PageRequest::first(1_000));
    found.settle().await.unwrap().records
}

async fn put(memory: &dyn Store, space: &str, record: Record) {
    memory.put(space, record, None, &[]).settle().await.unwrap();
}

/// A session of two messages, and another one that shares the frozen part.
async fn two(sessions: &Sessions) {
    for (id, text) in [("one", "a"), ("other", "b")] {
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head(id), prompt).await.unwrap();
        say(&mut session, Message::user(text)).await;
        say(&mut session, Message::assistant("same")).await;
    }
}

fn reports(error: &Error, kind: ErrorKind) {
    assert_eq!(error.kind, kind, "{error}");
    assert_eq!(error.session.as_deref(), Some("one"));
    assert!(error.to_string().contains("`one`"), "{error}");
    if kind == ErrorKind::Damaged {
        assert!(
            error.to_string().contains("remove it, or restore"),
            "{error}"
        );
    }
}

#[test]
fn damaged_session_record_is_an_error() {
    run(async {
        let (sessions, memory) = in_process();
        two(&sessions).await;
        let sound = all(&*memory, SESSIONS).await.remove(0);
        for at in 0..sound.value.len() {
            let mut value = sound.value.to_vec();
            value[at] ^= 0x20;
            let record = Record {
                value: value.into(),
                ..sound.clone()
            };
            put(&*memory, SESSIONS, record).await;
            let kind = if at == 0 {
                ErrorKind::TooNew
            } else {
                ErrorKind::Damaged
            };
            reports(&sessions.open("one").await.unwrap_err(), kind);
        }
        for cut in [0, 1, 10, 17, sound.value.len() - 1] {
            let record = Record {
                value: sound.value.slice(..cut),
                ..sound.clone()
            };
            put(&*memory, SESSIONS, record).await;
            reports(&sessions.open("one").await.unwrap_err(), ErrorKind::Damaged);
        }
        // It is listed as damaged, and can be removed; the other one is as it was.
        let listed = sessions.list(&SessionFilter::default()).await.unwrap();
        let state = |id: &str| listed.iter().find(|s| s.id == id).unwrap().state.clone();
        reports(&state("one").unwrap_err(), ErrorKind::Damaged);
        assert_eq!(state("other").unwrap().messages, 2);
        assert!(sessions.remove("one").await.unwrap());
        let other = sessions.open("other").await.unwrap().unwrap();
        assert_eq!(crate::model::pieces(&*memory).await, other.prompt.len());
    });
}

#[test]
fn damaged_piece_is_an_error() {
    run(async {
        let (sessions, memory) = in_process();
        two(&sessions).await;
        let other = sessions.open("other").await.unwrap().unwrap();
        for sound in all(&*memory, PIECES).await {
            if sound.value.is_empty() {
                continue;
            }
            let opens = sessions.open("one").await.unwrap().unwrap();
            drop(opens);
            for at in [0, 1, 2, sound.value.len() / 2, sound.value.len() - 1] {
                let mut value = sound.value.to_vec();
                value[at] ^= 1 << 6;
                let record = Record {
                    value: value.into(),
                    ..sound.clone()
                };
                put(&*memory, PIECES, record).await;
                match sessions.open("one").await {
                    Err(error) => {
                        let kind = if at == 0 {
                            ErrorKind::TooNew
                        } else {
                            ErrorKind::Damaged
                        };
                        reports(&error, kind);
                    }
                    // A piece that only the other one has.
                    Ok(session) => assert_eq!(session.unwrap().prompt.len(), 6),
                }
            }
            put(&*memory, PIECES, sound).await;
        }
        let again = sessions.open("other").await.unwrap().unwrap();
        assert_eq!(again.prompt.tip(), other.prompt.tip());
    });
}

#[test]
fn missing_piece_is_an_error() {
    run(async {
        let (sessions, memory) = in_process();
        two(&sessions).await;
        for record in all(&*memory, PIECES).await {
            if record.value.is_empty() {
                continue;
            }
            let filter = RecordFilter {
                prefix: &record.key,
                ..RecordFilter::default()
            };
            let erased = memory.erase(PIECES, &filter, PageRequest::keys(1));
            assert_eq!(erased.settle().await.unwrap().records.len(), 1);
            if let Err(error) = sessions.open("one").await {
                reports(&error, ErrorKind::Damaged);
            }
            put(&*memory, PIECES, record).await;
            sessions.open("one").await.unwrap().unwrap();
        }
    });
}

/// Nothing of a session is left, even if what it says of itself was damaged before.
#[test]
fn damaged_session_is_removed_with_its_pieces() {
    run(async {
        let (sessions, memory) = in_process();
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        say(&mut session, Message::user("a")).await;
        let mut record = all(&*memory, SESSIONS).await.remove(0);
        record.value = bytes::Bytes::from_static(b"\x01nonsense");
        put(&*memory, SESSIONS, record).await;
        assert!(sessions.remove("one").await.unwrap());
        assert!(all(&*memory, SESSIONS).await.is_empty());
        assert!(all(&*memory, PIECES).await.is_empty());
        // Its labels said which agent it was of; nothing of that is left either.
        let labelled = [LabelMatch::Is {
            name: "agent",
            value: "root",
        }];
        let filter = RecordFilter {
            labels: &labelled,
            ..RecordFilter::default()
        };
        let found = memory.find(SESSIONS, &filter, PageRequest::keys(1));
        assert!(found.settle().await.unwrap().records.is_empty());
    });
}

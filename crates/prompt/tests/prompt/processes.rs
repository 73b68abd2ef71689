//! Several processes on one file, and processes that die.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use cachalot_core::Digest;
use cachalot_model::wire::MESSAGES;
use cachalot_model::wire::Wire;
use cachalot_model::{Message, Parameters, Role};
use cachalot_prompt::{
    ErrorKind, Plan, Prompt, Session, SessionFilter, SessionHead, contiguous, prefix,
};

use crate::conversation::{call, reasoning, result};
use crate::{frozen, head, ids, in_file, run, say, try_say, wires};

const ROLE: &str = "PROMPT_TEST_ROLE";
const FILE: &str = "PROMPT_TEST_FILE";

/// Starts this test binary as another process that does nothing but [`child`].
fn start(role: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, role)
        .env(FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The output of the child, without that of the test runner.
fn said(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("> ").map(str::to_owned))
}

/// On a line of its own: the test runner leaves one unfinished.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn tell(what: impl std::fmt::Display) {
    println!("\n> {what}");
}

fn body(prompt: &Prompt) -> Bytes {
    let tail = Bytes::from_static(b",\"model\":\"m\"}");
    contiguous(prompt, &*MESSAGES, &crate::marks(prompt), &tail)
}

/// The life of a child; as a test of its own, nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    run(async {
        match role.as_str() {
            "resume" => resume(&path).await,
            "talk" => talk(&path).await,
            "share" => share(&path).await,
            wire => turns(&path, wires()[wire.parse::<usize>().unwrap()]).await,
        }
    });
}

async fn resume(path: &Path) {
    let mut session = in_file(path).open("one").await.unwrap().unwrap();
    tell(Digest::sha256(&body(&session.prompt)));
    say(&mut session, Message::user("and on")).await;
    tell(Digest::sha256(&body(&session.prompt)));
}

/// Talks until killed, and says what is durable.
async fn talk(path: &Path) {
    let sessions = in_file(path);
    let of = head("one");
    let mut session = sessions.create_from(of, frozen(&*MESSAGES)).await.unwrap();
    for number in 0.. {
        say(&mut session, Message::user(format!("message {number}"))).await;
        tell(number);
    }
}

/// Appends fifty messages to a session that others append to, too.
async fn share(path: &Path) {
    let sessions = in_file(path);
    let mut conflicts = 0;
    let mut left = 50;
    while left > 0 {
        let mut session = sessions.open("one").await.unwrap().unwrap();
        let text = format!("{} {left}", std::process::id());
        match try_say(&mut session, Message::user(text)).await {
            Ok(()) => left -= 1,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
                conflicts += 1;
            }
        }
    }
    tell(conflicts);
}

/// Has turns with a tool in two conversations, one a fork of the other, says what was sent, and waits
/// to be killed.
async fn turns(path: &Path, wire: &dyn Wire) {
    let sessions = in_file(path);
    let prompt = frozen(wire);
    let mut main = sessions.create_from(head("one"), prompt).await.unwrap();
    turn(&mut main, wire, "a \u{1F433} \"quoted\" \u{0} question").await;
    turn(&mut main, wire, "another").await;
    let of = SessionHead {
        parent: Some("one".to_owned()),
        ..head("fork")
    };
    let mut fork = sessions.create_from(of, main.prompt.clone()).await.unwrap();
    turn(&mut fork, wire, "a review").await;
    turn(&mut main, wire, "and on").await;
    for session in [&main, &fork] {
        let sent = prefix(&session.prompt, wire).concat();
        tell(format!("{} {}", sent.len(), Digest::sha256(&sent)));
    }
    std::future::pending().await
}

/// A question, a call of a tool and its result in one step, and an answer.
async fn turn(session: &mut Session, wire: &dyn Wire, question: &str) {
    let thought = reasoning(wire.format(), "a thought");
    let both = vec![thought, call("a")];
    for messages in [
        vec![Message::user(question)],
        vec![
            Message::new(Role::Assistant, both),
            Message::new(Role::User, vec![result("a", "1")]),
        ],
        vec![Message::assistant("an answer")],
    ] {
        let longer = messages.into_iter();
        let longer = longer.fold(session.prompt.clone(), |prompt, message| {
            crate::said(&prompt, wire, message)
        });
        session.prompt = longer;
        session.save().await.unwrap();
    }
}

/// In every format, for the conversation and for a fork of it.
#[test]
fn request_sent_before_a_kill_is_a_prefix_of_the_next() {
    let home = tempfile::tempdir().unwrap();
    for (number, wire) in wires().into_iter().enumerate() {
        let path = home.path().join(format!("{number}.db"));
        let mut child = start(&number.to_string(), &path);
        let reported: Vec<String> = said(&mut child).take(2).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        run(async {
            let sessions = in_file(&path);
            for (id, reported) in ["one", "fork"].into_iter().zip(reported) {
                let (length, digest) = reported.split_once(' ').unwrap();
                let length: usize = length.parse().unwrap();
                let mut session = sessions.open(id).await.unwrap().unwrap();
                let resumed = prefix(&session.prompt, wire).concat();
                assert_eq!(resumed.len(), length);
                turn(&mut session, wire, "the next").await;
                let tail = wire.tail(&Parameters::default(), true);
                let body = contiguous(&session.prompt, wire, &Plan::none(), &tail);
                assert_eq!(Digest::sha256(&body[..length]).to_string(), digest);
                serde_json::from_slice::<serde_json::Value>(&body).unwrap();
            }
            let tree = sessions.tree(&SessionFilter::default()).await.unwrap();
            assert_eq!((tree.sharing.prompts, tree.sharing.leaves), (2, 2));
            assert_eq!(sessions.sweep().await.unwrap().pieces, 0);
        });
    }
}

#[test]
fn resumed_process_sends_the_identical_prefix() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    run(async {
        let sessions = in_file(&path);
        let prompt = frozen(&*MESSAGES);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        say(&mut session, Message::user("\u{1F433} \"quoted\" \u{0}")).await;
        say(&mut session, Message::new(Role::Assistant, vec![call("a")])).await;
        say(
            &mut session,
            Message::new(Role::User, vec![result("a", "1")]),
        )
        .await;
        let here = session.prompt.clone();
        let mut child = start("resume", &path);
        let reported: Vec<String> = said(&mut child).collect();
        assert!(child.wait().unwrap().success());
        assert_eq!(reported[0], Digest::sha256(&body(&here)).to_string());
        // What the child said is here as well, and only appended to what was sent.
        let again = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(
            reported[1],
            Digest::sha256(&body(&again.prompt)).to_string()
        );
        assert!(ids(&again.prompt).starts_with(&ids(&here)));
        let error = session.save().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
    });
}

#[test]
fn appended_messages_survive_a_kill() {
    let home = tempfile::tempdir().unwrap();
    for wanted in [1, 7, 40] {
        let path = home.path().join(format!("{wanted}.db"));
        let mut child = start("talk", &path);
        let mut said = said(&mut child);
        let last = said.nth(wanted - 1).unwrap();
        child.kill().unwrap();
        let last = said.last().unwrap_or(last);
        child.wait().unwrap();
        let last: usize = last.parse().unwrap();
        run(async {
            let sessions = in_file(&path);
            let mut session = sessions.open("one").await.unwrap().unwrap();
            let messages = session.prompt.messages();
            // One more may have become durable without being told.
            assert!((last + 1..=last + 2).contains(&messages.len()));
            for (number, message) in messages.iter().enumerate() {
                assert_eq!(message.text(), format!("message {number}"));
            }
            say(&mut session, Message::user("on")).await;
            sessions.sweep().await.unwrap();
            sessions.open("one").await.unwrap().unwrap();
        });
    }
}

#[test]
fn processes_with_one_session_do_not_interleave() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    run(async {
        let sessions = in_file(&path);
        let prompt = frozen(&*MESSAGES);
        sessions.create_from(head("one"), prompt).await.unwrap();
        let mut children: Vec<Child> = (0..3).map(|_| start("share", &path)).collect();
        for child in &mut children {
            assert_eq!(said(child).count(), 1);
            assert!(child.wait().unwrap().success());
        }
        let session = sessions.open("one").await.unwrap().unwrap();
        let mut texts: Vec<String> = session.prompt.messages().iter().map(|m| m.text()).collect();
        assert_eq!(texts.len(), 150);
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 150);
    });
}

//! Several processes on one file, and processes that die.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use cachalot_core::Digest;
use cachalot_model::wire::anthropic::Messages;
use cachalot_model::{Message, Role};
use cachalot_prompt::{ErrorKind, Prompt, contiguous, simple_plan};

use crate::conversation::{call, result};
use crate::{frozen, head, ids, in_file, run, say, try_say};

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

/// What the child says, without what the test runner says around it.
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
    contiguous(prompt, &Messages, &simple_plan(prompt, &Messages), &tail)
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
            other => panic!("no role {other}"),
        }
    });
}

async fn resume(path: &Path) {
    let mut session = in_file(path).open("one").await.unwrap().unwrap();
    tell(Digest::of(&body(&session.prompt)));
    say(&mut session, Message::user("and on")).await;
    tell(Digest::of(&body(&session.prompt)));
}

/// Talks until killed, and says what is durable.
async fn talk(path: &Path) {
    let sessions = in_file(path);
    let of = head("one");
    let mut session = sessions.create_from(of, frozen(&Messages)).await.unwrap();
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

#[test]
fn another_process_goes_on_with_the_identical_prefix() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    run(async {
        let sessions = in_file(&path);
        let prompt = frozen(&Messages);
        let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
        say(&mut session, Message::user("\u{1F433} \"quoted\" \u{0}")).await;
        say(&mut session, Message::of(Role::Assistant, vec![call("a")])).await;
        say(
            &mut session,
            Message::of(Role::User, vec![result("a", "1")]),
        )
        .await;
        let here = session.prompt.clone();
        let mut child = start("resume", &path);
        let told: Vec<String> = said(&mut child).collect();
        assert!(child.wait().unwrap().success());
        assert_eq!(told[0], Digest::of(&body(&here)).to_string());
        // What the child said is here as well, and only appended to what was sent.
        let again = sessions.open("one").await.unwrap().unwrap();
        assert_eq!(told[1], Digest::of(&body(&again.prompt)).to_string());
        assert!(ids(&again.prompt).starts_with(&ids(&here)));
        let error = session.save().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
    });
}

#[test]
fn what_was_appended_survives_a_kill() {
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
fn processes_that_share_a_session_do_not_interleave() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.db");
    run(async {
        let sessions = in_file(&path);
        let prompt = frozen(&Messages);
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

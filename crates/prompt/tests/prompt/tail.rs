//! Ends of conversations.

use cachalot_model::{Block, Message, Role};
use cachalot_prompt::{Prompt, Tail};

use crate::conversation::{call, result};
use crate::{frozen, said, small_wire::SmallWire};

const WIRE: SmallWire = SmallWire { apart: true };

fn ends(messages: &[Message]) -> Tail {
    let prompt: Prompt = messages.iter().fold(frozen(&WIRE), |prompt, message| {
        said(&prompt, &WIRE, message.clone())
    });
    Tail::from_prompt(&prompt)
}

#[test]
fn tail_is_recognized_for_every_end_of_a_conversation() {
    let question = Message::user("?");
    let calls = Message::new(
        Role::Assistant,
        vec![Block::text("let me see"), call("a"), call("b")],
    );
    let both = Message::new(Role::User, vec![result("b", "2"), result("a", "1")]);
    let one = Message::new(Role::User, vec![result("b", "2")]);
    let other = Message::new(Role::User, vec![result("a", "1")]);
    let answer = Message::assistant("!");
    let open = |ids: &[&str]| Tail::OpenCalls(ids.iter().map(|id| (*id).to_owned()).collect());

    let cases: [(&[&Message], Tail); 10] = [
        (&[], Tail::Complete),
        (&[&question], Tail::Unanswered),
        (&[&question, &answer], Tail::Complete),
        (&[&question, &answer, &question], Tail::Unanswered),
        (&[&question, &calls], open(&["a", "b"])),
        (&[&question, &calls, &one], open(&["a"])),
        (&[&question, &calls, &one, &other], Tail::Unanswered),
        (&[&question, &calls, &both], Tail::Unanswered),
        (&[&question, &calls, &both, &answer], Tail::Complete),
        // What is said instead of a result does not close the call.
        (&[&question, &calls, &one, &question], open(&["a"])),
    ];
    for (messages, tail) in cases {
        let messages: Vec<Message> = messages.iter().map(|m| (*m).clone()).collect();
        assert_eq!(ends(&messages), tail, "{messages:?}");
    }
}

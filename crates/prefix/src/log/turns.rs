//! The newest turn of a prompt by any client.

use cachalot_core::json::{JsonResult, OBJECT, Scanner};

use cachalot_prompt::{Level, Node, Prompt};

/// The positions of the messages that a request adds to the one before it, if it continues that one directly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    /// Number of pieces before the messages since the last answer. A prefilled beginning of an answer at the
    /// end counts as part of these messages.
    pub(super) newest: usize,
    /// Number of pieces before that answer: the length of the request that it answers.
    pub(super) answered: usize,
}

impl Turns {
    pub(super) fn from_prompt(prompt: &Prompt) -> Self {
        let messages = prompt.backwards();
        let mut messages = messages
            .take_while(|node| node.level == Level::Message)
            .map(is_answer)
            .peekable();
        let mut at = prompt.len();
        let mut pass = |answers: bool| {
            while messages.next_if_eq(&answers).is_some() {
                at -= 1;
            }
            at
        };
        pass(true);
        let newest = pass(false);
        let answered = pass(true);
        Self { newest, answered }
    }
}

/// True if the message is by the model.
pub(super) fn is_answer(node: &Node) -> bool {
    read_is_answer(&node.bytes).unwrap_or(false)
}

fn read_is_answer(message: &[u8]) -> JsonResult<bool> {
    let mut scanner = Scanner::new(message);
    let mut made = false;
    let mut more = scanner.open(&OBJECT)?;
    while more {
        match (scanner.name()?, scanner.value()?) {
            (b"role", role) => return Ok(role == b"\"assistant\""),
            // Items without a role are recognized by their type.
            (b"type", kind) => made = kind == b"\"reasoning\"" || kind.ends_with(b"_call\""),
            _ => {}
        }
        more = scanner.more(&OBJECT)?;
    }
    Ok(made)
}

//! Where the turns of somebody else's prompt begin.

use cachalot_core::json::{OBJECT, Scanned, Scanner};

use cachalot_prompt::{Level, Node, Prompt};

/// What a request says that the one before it did not, if it continues that one at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    /// How many pieces stand before what was said since the last answer. The beginning of an answer
    /// that the model is to go on with belongs to what was said.
    pub(super) newest: usize,
    /// How many pieces stand before that answer: as many as the request had that was answered.
    pub(super) answered: usize,
}

impl Turns {
    pub(super) fn of(prompt: &Prompt) -> Self {
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

/// Whether the model has made a message.
pub(super) fn is_answer(node: &Node) -> bool {
    read_is_answer(&node.bytes).unwrap_or(false)
}

fn read_is_answer(message: &[u8]) -> Scanned<bool> {
    let mut scanner = Scanner::new(message);
    let mut made = false;
    let mut more = scanner.open(&OBJECT)?;
    while more {
        match (scanner.name()?, scanner.value()?) {
            (b"role", role) => return Ok(role == b"\"assistant\""),
            // Items that have no role are told by their type.
            (b"type", kind) => made = kind == b"\"reasoning\"" || kind.ends_with(b"_call\""),
            _ => {}
        }
        more = scanner.more(&OBJECT)?;
    }
    Ok(made)
}

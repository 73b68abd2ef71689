//! User input: from a terminal in raw mode, or line by line from one that cannot be repainted.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::render;
use crate::render::style::Style;
use crate::render::visible::visible;
use crate::terminal::{Console, Input, is_continued, unfenced};

/// The cause of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedBy {
    /// The user expects the question, and the next keys are the answer.
    User,
    /// An agent. What is being typed for the input line is no answer.
    Agent,
}

/// Source of the user's messages and answers.
#[derive(Clone)]
pub(crate) enum Prompt {
    Live(Console),
    Plain(Arc<PlainPrompt>),
}

impl Prompt {
    /// Reads the user's next message.
    pub(crate) async fn message(&self) -> Input {
        match self {
            Self::Live(console) => console.listen().await,
            Self::Plain(prompt) => Arc::clone(prompt).message().await,
        }
    }

    /// Asks for a line, which may be empty. Returns `None` if the user gives none.
    pub(crate) async fn ask(&self, label: &'static str, by: AskedBy) -> Option<String> {
        match self {
            Self::Live(console) => {
                let text = console.ask_text(label, by == AskedBy::User).await?;
                console.print(&Style::of_stderr().dim(&format!("{label}{}", visible(&text))));
                Some(text)
            }
            Self::Plain(prompt) => match Arc::clone(prompt).answer(label).await {
                Input::Text { text, .. } => Some(text),
                Input::End => None,
            },
        }
    }

    /// Prints a message that was not typed here.
    pub(crate) fn show_message(&self, message: &str) {
        if let Self::Live(console) = self {
            console.show_message(message);
        }
    }

    /// Prints lines on the terminal even if stderr is redirected: text that has to be seen before it is
    /// answered.
    pub(crate) fn tell(&self, text: &str) {
        match self {
            Self::Live(console) => console.print(text),
            Self::Plain(_) => write_to_terminal(&format!("{text}\n")),
        }
    }

    /// Returns queued messages to the input line.
    pub(crate) fn return_queue(&self) {
        if let Self::Live(console) = self {
            console.return_queue();
        }
    }

    /// Returns a message that was not sent to the input line.
    pub(crate) fn return_message(&self, message: &str) {
        if let Self::Live(console) = self {
            console.return_message(message);
        }
    }

    /// Returns true if a question is open although no turn waits for the answer: a line that is being read
    /// cannot be given up.
    pub(crate) fn is_asking(&self) -> bool {
        match self {
            Self::Live(_) => false,
            Self::Plain(prompt) => prompt.asking.load(Ordering::SeqCst),
        }
    }
}

/// Reads lines from the terminal, which edits them itself.
#[derive(Default)]
pub(crate) struct PlainPrompt {
    /// Held by the reader: a turn can end while its question is still open.
    reading: Mutex<()>,
    /// Set while a question is open.
    asking: AtomicBool,
}

impl PlainPrompt {
    async fn message(self: Arc<Self>) -> Input {
        let reading = tokio::task::spawn_blocking(move || {
            let _reading = self.reading.lock();
            let mut input = String::new();
            loop {
                write_to_terminal("> ");
                match read_line() {
                    Some(line) => input.push_str(&line),
                    None if input.is_empty() => return Input::End,
                    None => break,
                }
                if !is_continued(&input) {
                    break;
                }
                input.push('\n');
            }
            Input::text(unfenced(&input))
        });
        reading.await.unwrap_or(Input::End)
    }

    /// Asks a question and reads its answer. Input that was typed before the question is discarded.
    pub(crate) async fn answer(self: Arc<Self>, question: &'static str) -> Input {
        let reading = tokio::task::spawn_blocking(move || {
            let _reading = self.reading.lock();
            self.asking.store(true, Ordering::SeqCst);
            discard_typed_input();
            write_to_terminal(question);
            let line = read_line().map_or(Input::End, Input::text);
            self.asking.store(false, Ordering::SeqCst);
            line
        });
        reading.await.unwrap_or(Input::End)
    }
}

/// Reads a line without its end.
fn read_line() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

fn write_to_terminal(text: &str) {
    if std::io::stderr().is_terminal() {
        render::err_part(text);
    } else if let Ok(mut terminal) = std::fs::File::options().write(true).open("/dev/tty") {
        let _ = terminal.write_all(text.as_bytes());
    }
}

#[cfg(unix)]
fn discard_typed_input() {
    use rustix::termios::{QueueSelector, tcflush};
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

#[cfg(not(unix))]
fn discard_typed_input() {}

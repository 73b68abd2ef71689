//! User input on the terminal: line editor, multi-line messages, history.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use parking_lot::Mutex;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Behavior, Completer, Config, Editor, ExternalPrinter, Helper, Highlighter, Hinter,
};

use crate::command_error::{CommandError, Result};
use crate::render;

/// Result of reading input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputLine {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal cannot be read.
    End,
}

/// Line editor of the terminal.
pub(crate) struct Prompt {
    editor: Mutex<Editor<MultilineRules, FileHistory>>,
    /// Separate from `editor`, so that text typed before a question does not answer it.
    asker: Mutex<Editor<(), FileHistory>>,
    /// Held by the reader: a turn can end while its question is still open.
    reading: Mutex<()>,
    /// Set while a question is open.
    asking: AtomicBool,
    /// Receives lines to print above the input; `None` if the terminal does not support this or stderr is
    /// redirected.
    printer: Option<mpsc::Sender<String>>,
    /// Set while a message is being typed.
    typing: AtomicBool,
    history: PathBuf,
    mode: Mode,
}

/// Rules for multi-line input: a line that ends with a backslash continues; a text that begins with `"""`
/// continues until it ends with `"""`.
#[derive(Completer, Helper, Highlighter, Hinter)]
struct MultilineRules;

const FENCE: &str = "\"\"\"";
/// The maximum number of messages in the history.
const MAX_HISTORY: usize = 1_000;

impl Validator for MultilineRules {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        let open = match input.strip_prefix(FENCE) {
            Some(inside) => !inside.trim_end().ends_with(FENCE),
            None => input.ends_with('\\'),
        };
        Ok(match open {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

/// Returns the message in an input: without fences and backslashes before line breaks.
fn unfenced(input: &str) -> String {
    match input
        .strip_prefix(FENCE)
        .and_then(|inside| inside.trim_end().strip_suffix(FENCE))
    {
        Some(inside) => inside.trim_matches('\n').to_owned(),
        None => input.replace("\\\n", "\n"),
    }
}

impl Prompt {
    /// Opens the terminal, with the history in the file `history`.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(crate) fn new(history: PathBuf) -> Result<Self> {
        let mode = Mode::now();
        // Standard output is for answers and may be redirected.
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .max_history_size(MAX_HISTORY)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(CommandError::failed)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config.clone()).map_err(CommandError::failed)?;
        editor.set_helper(Some(MultilineRules));
        // A missing or unreadable history is ignored: the chat works without it.
        let _ = editor.load_history(&history);
        let printer = match std::io::stderr().is_terminal() {
            true => editor.create_external_printer().ok().map(print_lines),
            false => None,
        };
        Ok(Self {
            printer,
            typing: AtomicBool::new(false),
            editor: Mutex::new(editor),
            asker: Mutex::new(Editor::with_config(config).map_err(CommandError::failed)?),
            reading: Mutex::default(),
            asking: AtomicBool::new(false),
            history,
            mode,
        })
    }

    /// Reads the user's next message.
    pub(crate) async fn message(self: Arc<Self>) -> InputLine {
        let reading = tokio::task::spawn_blocking(move || {
            let _reading = self.reading.lock();
            let mut editor = self.editor.lock();
            self.typing.store(true, Ordering::SeqCst);
            let line = InputLine::from_readline(editor.readline("> "));
            self.typing.store(false, Ordering::SeqCst);
            match line {
                InputLine::Text(input) => {
                    self.remember(&mut editor, &input);
                    InputLine::Text(unfenced(&input))
                }
                other => other,
            }
        });
        reading.await.unwrap_or(InputLine::End)
    }

    /// Asks a question and reads its answer. Input that was typed before the question is discarded.
    pub(crate) async fn answer(self: Arc<Self>, question: &'static str) -> InputLine {
        let reading = tokio::task::spawn_blocking(move || {
            let _reading = self.reading.lock();
            self.asking.store(true, Ordering::SeqCst);
            Mode::discard_typed_input();
            let line = InputLine::from_readline(self.asker.lock().readline(question));
            self.asking.store(false, Ordering::SeqCst);
            line
        });
        reading.await.unwrap_or(InputLine::End)
    }

    /// Prints a line above the input. Returns true if a message is being typed and the line was accepted.
    pub(crate) fn interject(&self, line: &str) -> bool {
        if !self.typing.load(Ordering::SeqCst) {
            return false;
        }
        let sent = self
            .printer
            .as_ref()
            .map(|lines| lines.send(format!("{line}\n")));
        sent.is_some_and(|sent| sent.is_ok())
    }

    /// Returns true if a question is open, even if no turn waits for the answer anymore.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::SeqCst)
    }

    /// Prints a line on the terminal even if stderr is redirected: text that has to be seen before it is
    /// answered.
    pub(crate) fn tell(&self, text: &str) {
        let terminal = match std::io::stderr().is_terminal() {
            true => None,
            false => std::fs::File::options().write(true).open("/dev/tty").ok(),
        };
        match terminal {
            Some(mut terminal) => {
                let _ = writeln!(terminal, "{text}");
            }
            None => render::err(text),
        }
    }

    /// Returns the width of the terminal in characters. Blocks while a message is being read.
    pub(crate) fn width(&self) -> Option<usize> {
        let (columns, _) = self.editor.lock().dimensions()?;
        Some(usize::from(columns)).filter(|columns| *columns > 0)
    }

    /// Restores the original terminal mode, even while a question is open.
    pub(crate) fn restore(&self) {
        self.mode.restore();
    }

    /// Appends a message to the history file, which other chats also append to. Failures are ignored: the
    /// history is only a convenience.
    fn remember(&self, editor: &mut Editor<MultilineRules, FileHistory>, input: &str) {
        let is_new = !input.trim().is_empty() && editor.add_history_entry(input).unwrap_or(false);
        if is_new {
            let _ = editor.append_history(&self.history);
        }
    }
}

impl InputLine {
    fn from_readline(read: rustyline::Result<String>) -> Self {
        match read {
            Ok(input) => Self::Text(input),
            Err(ReadlineError::Interrupted) => Self::Interrupted,
            Err(_) => Self::End,
        }
    }
}

/// Starts a thread that prints lines above the input. The editor accepts lines one at a time, and the sender
/// must not wait for a key press.
fn print_lines(mut printer: impl ExternalPrinter + Send + 'static) -> mpsc::Sender<String> {
    let (lines, to_print) = mpsc::channel();
    std::thread::spawn(move || {
        for line in to_print {
            if printer.print(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Terminal mode of stdin at the time it was saved.
#[cfg(unix)]
struct Mode(Option<rustix::termios::Termios>);

#[cfg(unix)]
impl Mode {
    fn now() -> Self {
        Self(rustix::termios::tcgetattr(std::io::stdin()).ok())
    }

    fn restore(&self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(mode) = &self.0 {
            // A closed terminal needs no mode.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, mode);
        }
    }

    fn discard_typed_input() {
        use rustix::termios::{QueueSelector, tcflush};
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    }
}

/// Terminal mode of stdin; not saved on this platform.
#[cfg(not(unix))]
struct Mode;

#[cfg(not(unix))]
impl Mode {
    fn now() -> Self {
        Self
    }

    fn restore(&self) {}

    fn discard_typed_input() {}
}

#[cfg(test)]
mod tests {
    use super::unfenced;

    #[test]
    fn multi_line_input_is_one_message() {
        assert_eq!(unfenced("one"), "one");
        assert_eq!(unfenced("one\\\ntwo"), "one\ntwo");
        assert_eq!(unfenced("\"\"\"\none\ntwo\n\"\"\""), "one\ntwo");
        assert_eq!(unfenced("a \\ b"), "a \\ b");
    }
}

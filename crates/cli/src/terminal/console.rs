//! Thread of the terminal: it alone reads keys and writes frames.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::Event;
use tokio::sync::{mpsc, oneshot};

use super::completion::Completer;
use super::entries::Entry;
use super::history::History;
use super::keys::Key;
use super::mode::{self, Mode};
use super::question::{Choice, Question, Reply};
use super::screen::Screen;
use super::ui::{Effect, Input, Ui};
use crate::interrupts::Signal;
use crate::render::style::Style;

/// The time between two frames while something is running.
const FRAME: Duration = Duration::from_millis(100);
/// The longest time without a look at the state.
const REST: Duration = Duration::from_secs(3_600);

/// Changes to the next mode of the program.
type NextMode = Box<dyn FnMut() + Send>;

/// A message to the thread.
enum Message {
    Run(Box<dyn FnOnce(&mut Driver) + Send>),
    Close,
}

/// The terminal in raw mode. It is restored when this is dropped.
pub(crate) struct Terminal {
    console: Console,
    thread: Option<JoinHandle<()>>,
    /// Ctrl-C and Esc.
    signals: Option<mpsc::UnboundedReceiver<Signal>>,
}

/// Sends output to the terminal and receives input from it. Clones share the terminal.
#[derive(Clone)]
pub(crate) struct Console {
    messages: Sender<Message>,
    width: Arc<AtomicUsize>,
    questions: Arc<AtomicU64>,
}

impl Terminal {
    /// Takes over the terminal. `history` is the file of earlier messages.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(crate) fn open(style: Style, history: PathBuf) -> std::io::Result<Self> {
        let device = mode::device()?;
        let mode = Mode::new()?;
        let (messages, received) = channel();
        let (interrupt, signals) = mpsc::unbounded_channel();
        let size = mode::size();
        let width = Arc::new(AtomicUsize::new(size.room()));
        let history = History::read(history);
        let screen = Screen::new(device, size, mode::is_reflowing());
        let ui = Ui::new(screen, style, history, Instant::now());
        let console = Console {
            messages,
            width: Arc::clone(&width),
            questions: Arc::default(),
        };
        let keys = console.clone();
        std::thread::spawn(move || read_keys(&keys));
        let thread = std::thread::spawn(move || {
            Driver {
                ui,
                mode,
                interrupt,
                width,
                resumed: Instant::now(),
                next_mode: None,
            }
            .run(&received);
        });
        Ok(Self {
            console,
            thread: Some(thread),
            signals: Some(signals),
        })
    }

    pub(crate) fn console(&self) -> &Console {
        &self.console
    }

    /// Takes the receiver of Ctrl-C and Esc, which exists once.
    pub(crate) fn signals(&mut self) -> Option<mpsc::UnboundedReceiver<Signal>> {
        self.signals.take()
    }

    /// Erases the region and restores the terminal. Later output is lost.
    pub(crate) fn close(&mut self) {
        let _ = self.console.messages.send(Message::Close);
        if let Some(thread) = self.thread.take() {
            // A panic was reported by its hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Console {
    /// Runs a function on the thread. Returns false if the terminal is closed, which shows nothing.
    fn run(&self, function: impl FnOnce(&mut Driver) + Send + 'static) -> bool {
        let message = Message::Run(Box::new(function));
        self.messages.send(message).is_ok()
    }

    /// Returns the number of cells of a line.
    pub(crate) fn width(&self) -> usize {
        self.width.load(Ordering::Relaxed)
    }

    /// Shows no running work from now on.
    pub(crate) fn hide_work(&self) {
        self.run(|driver| driver.ui.hide_work());
    }

    /// Prints lines above the region.
    pub(crate) fn print(&self, text: &str) {
        let text = text.to_owned();
        self.run(move |driver| driver.ui.print(&text));
    }

    /// Adds text of an answer that is streaming. It has no control characters.
    pub(crate) fn text(&self, text: &str) {
        let text = text.to_owned();
        self.run(move |driver| driver.ui.text(&text));
    }

    /// Ends the text of an answer.
    pub(crate) fn end_text(&self) {
        self.run(|driver| driver.ui.end_text());
    }

    /// Shows work as running. A label replaces the work with the same ID.
    pub(crate) fn begin_work(&self, id: &str, label: &str) {
        let (id, label) = (id.to_owned(), label.to_owned());
        self.run(move |driver| driver.ui.begin_work(id, label, Instant::now()));
    }

    /// Replaces the label of running work.
    pub(crate) fn label_work(&self, id: &str, label: &str) {
        let (id, label) = (id.to_owned(), label.to_owned());
        self.run(move |driver| driver.ui.label_work(&id, label));
    }

    /// Shows the output of running work below its label. `output` returns up to as many of the last lines as it
    /// is asked for, without control characters; it is called for each frame and must not block.
    pub(crate) fn show_output(
        &self,
        id: &str,
        output: impl Fn(usize) -> Vec<String> + Send + 'static,
    ) {
        let id = id.to_owned();
        self.run(move |driver| driver.ui.show_output(&id, Box::new(output)));
    }

    /// Ends running work.
    pub(crate) fn end_work(&self, id: &str) {
        let id = id.to_owned();
        self.run(move |driver| driver.ui.end_work(&id));
    }

    /// Sets the status line: the first of its forms that fits into the terminal is shown.
    pub(crate) fn set_status(&self, forms: Vec<String>) {
        self.run(move |driver| driver.ui.set_status(forms));
    }

    /// Waits for the next message of the user.
    pub(crate) async fn listen(&self) -> Input {
        let (listener, input) = oneshot::channel();
        self.run(|driver| driver.ui.listen(listener, Instant::now()));
        input.await.unwrap_or(Input::End)
    }

    /// Returns queued messages to the input line.
    pub(crate) fn return_queue(&self) {
        self.run(|driver| driver.ui.return_queue());
    }

    /// Returns a message that was not sent to the input line, before those that are queued.
    pub(crate) fn return_message(&self, text: &str) {
        let text = text.to_owned();
        self.run(move |driver| driver.ui.return_message(text));
    }

    /// Sets the sources of completions.
    pub(crate) fn set_completer(&self, completer: Completer) {
        self.run(|driver| driver.ui.set_completer(completer));
    }

    /// Sets the function that Shift-Tab calls.
    pub(crate) fn on_next_mode(&self, next: impl FnMut() + Send + 'static) {
        self.run(|driver| driver.next_mode = Some(Box::new(next)));
    }

    /// Prints a message of the user that was not typed here.
    pub(crate) fn show_message(&self, text: &str) {
        let text = text.to_owned();
        self.run(move |driver| driver.ui.show_message(&text));
    }

    /// Asks for a text, which may be empty. Returns `None` if the user gives none. If the user does not expect
    /// the question, keys count as the answer under the same conditions as for other questions.
    pub(crate) async fn ask_text(&self, label: &'static str, is_expected: bool) -> Option<String> {
        let text = Choice {
            key: '\0',
            label: String::new(),
            asks: Some(label),
        };
        let question = Question {
            text: String::new(),
            choices: vec![text],
            is_expected,
            answered_by_message: None,
        };
        match self.ask(question).await {
            Reply::Text(_, text) => Some(text),
            Reply::Choice(_) | Reply::Interrupted => None,
        }
    }

    /// Asks a question. It is closed when the future is dropped.
    pub(crate) async fn ask(&self, question: Question) -> Reply {
        let (reply, replied) = oneshot::channel();
        let open = Open(self, self.questions.fetch_add(1, Ordering::Relaxed));
        let id = open.1;
        self.run(move |driver| driver.ui.ask(id, question, reply, Instant::now()));
        replied.await.unwrap_or(Reply::Interrupted)
    }

    /// Lets the user choose an entry. Returns its index, or `None` if the user chooses none. The list is closed when
    /// the future is dropped.
    pub(crate) async fn pick(&self, label: &'static str, entries: Vec<Entry>) -> Option<usize> {
        let (reply, chosen) = oneshot::channel();
        let open = Open(self, self.questions.fetch_add(1, Ordering::Relaxed));
        let id = open.1;
        self.run(move |driver| driver.ui.pick(id, label, entries, reply));
        chosen.await.unwrap_or(None)
    }

    /// Restores the terminal and stops the process, as Ctrl-Z does.
    #[cfg(unix)]
    pub(crate) fn suspend(&self) {
        // The thread that owns the terminal restores it. Without that thread, it is restored already.
        if !self.run(Driver::suspend) {
            mode::stop();
        }
    }

    /// Takes the terminal over again after the process was continued.
    #[cfg(unix)]
    pub(crate) fn resume(&self) {
        self.run(Driver::continued);
    }

    /// Restores the terminal and ends the process as SIGQUIT does.
    #[cfg(unix)]
    pub(crate) fn quit(&self) {
        if !self.run(Driver::quit) {
            mode::quit();
        }
    }
}

/// A question or a list, which is closed when the program stops waiting for the answer.
struct Open<'a>(&'a Console, u64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let id = self.1;
        self.0.run(move |driver| {
            driver.ui.close_question(id);
            driver.ui.close_picker(id);
        });
    }
}

/// Reads keys until the terminal is closed.
fn read_keys(console: &Console) {
    while let Ok(event) = crossterm::event::read() {
        if !console.run(|driver| driver.event(event)) {
            return;
        }
    }
    // No key can arrive any more: a chat that waits for one would wait forever.
    console.run(|driver| driver.ui.end_input(Instant::now()));
}

/// State of the thread.
struct Driver {
    ui: Ui<Box<dyn std::io::Write + Send>>,
    mode: Mode,
    interrupt: mpsc::UnboundedSender<Signal>,
    width: Arc<AtomicUsize>,
    /// The time when the terminal was taken over last.
    resumed: Instant,
    next_mode: Option<NextMode>,
}

impl Driver {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let wait = if self.ui.is_animated() { FRAME } else { REST };
            let mut next = match messages.recv_timeout(wait) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Message::Close),
            };
            // One frame for everything that has arrived.
            while let Some(message) = next {
                match message {
                    Message::Run(function) => function(&mut self),
                    Message::Close => return self.close(),
                }
                next = messages.try_recv().ok();
            }
            let now = Instant::now();
            self.ui.tick(now);
            self.paint(now);
        }
    }

    fn event(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Key(event) => {
                let effect = Key::from_event(event).and_then(|key| self.ui.key(key, now));
                if let Some(effect) = effect {
                    self.run_effect(effect);
                }
            }
            Event::Paste(text) => self.ui.paste(&text, now),
            Event::FocusGained => self.ui.focus(true),
            Event::FocusLost => self.ui.focus(false),
            // The size is read before each frame.
            _ => {}
        }
    }

    /// Takes over the terminal after the process was continued, unless it was taken over at once, as after Ctrl-Z.
    #[cfg(unix)]
    fn continued(&mut self) {
        if self.resumed.elapsed() > FRAME {
            self.resume();
        }
    }

    fn run_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Interrupt => {
                let _ = self.interrupt.send(Signal::Interrupt);
            }
            Effect::End => {
                let _ = self.interrupt.send(Signal::End);
            }
            Effect::Redraw => {
                // Ignored, because a terminal that is gone ends the chat by a signal.
                let _ = self.ui.redraw();
            }
            Effect::Suspend if cfg!(unix) => self.suspend(),
            Effect::Suspend => {}
            Effect::NextMode => {
                if let Some(next) = &mut self.next_mode {
                    next();
                }
            }
        }
    }

    /// Restores the terminal, and stops the process until it is continued.
    fn suspend(&mut self) {
        self.leave();
        mode::stop();
        self.resume();
    }

    /// Restores the terminal, and ends the process.
    #[cfg(unix)]
    fn quit(&mut self) {
        self.leave();
        mode::quit();
    }

    /// Erases the region and restores the terminal.
    fn leave(&mut self) {
        let _ = self.ui.screen().clear(mode::size());
        self.mode.leave();
    }

    /// Takes over the terminal, on which others may have written.
    fn resume(&mut self) {
        // Without raw mode, keys still arrive, line by line.
        let _ = self.mode.enter();
        let _ = self.ui.screen().forget();
        self.resumed = Instant::now();
    }

    fn paint(&mut self, now: Instant) {
        // A panic of another thread has restored the terminal.
        if !self.mode.is_raw() {
            self.resume();
        }
        let size = mode::size();
        self.width.store(size.room(), Ordering::Relaxed);
        // A terminal that is gone ends the chat by a signal.
        let _ = self.ui.paint(size, now);
    }

    fn close(&mut self) {
        self.ui.end_text();
        self.paint(Instant::now());
        self.leave();
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::Command;

    use super::*;
    use crate::pty;

    /// Variable of the process that panics: the file of earlier messages.
    const PANICKING: &str = "CACHALOT_TEST_PANICKING";

    /// Not a test: a process at a terminal, in which a task panics after a line of input and the rest after the
    /// next one.
    #[test]
    fn panic_at_a_terminal() {
        let Some(history) = std::env::var_os(PANICKING) else {
            return;
        };
        let terminal = Terminal::open(Style::of_stderr(), history.into()).unwrap();
        let console = terminal.console();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.build().unwrap();
        console.print("it begins");
        runtime.block_on(console.listen());
        let panicked = std::thread::spawn(|| panic!("a task is gone")).join();
        assert!(panicked.is_err());
        console.print("it goes on");
        runtime.block_on(console.listen());
        panic!("the chat is gone");
    }

    /// Not a test: a process that panics in raw mode, in which nothing but the hook can restore the terminal.
    #[test]
    fn panic_in_raw_mode() {
        if std::env::var_os(PANICKING).is_some() {
            std::mem::forget(Mode::new().unwrap());
            std::io::stderr().write_all(b"it begins\n").unwrap();
            std::io::stdin().read_exact(&mut [0]).unwrap();
            panic!("the process is gone");
        }
    }

    fn start(test: &str, folder: &std::path::Path) -> pty::Terminal {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .arg(format!("terminal::console::tests::{test}"))
            .args(["--exact", "--nocapture"])
            .env(PANICKING, folder.join("history"));
        pty::Terminal::start(&mut command)
    }

    #[test]
    fn panics_restore_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminal = start("panic_at_a_terminal", folder.path());
        terminal.see("it begins").prompt();
        assert!(terminal.is_raw());
        // The chat survives the panic of a task.
        terminal
            .say("go")
            .see("a task is gone")
            .see("it goes on")
            .prompt();
        assert!(terminal.is_raw());
        terminal.say("go").see("the chat is gone");
        assert_eq!(terminal.ended(), Some(101), "{}", terminal.text());
        terminal.is_restored();

        let mut terminal = start("panic_in_raw_mode", folder.path());
        terminal.see("it begins");
        assert!(terminal.is_raw());
        terminal.press("x").see("the process is gone");
        assert_eq!(terminal.ended(), Some(101), "{}", terminal.text());
        terminal.is_restored();
    }
}

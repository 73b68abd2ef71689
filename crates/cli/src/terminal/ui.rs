//! State of the terminal: keys and events in, a region and finished lines out.

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::cells;
use super::completion::{Completer, SuggestionList};
use super::editor::{Direction, Editor, Unit};
use super::history::History;
use super::keys::Key;
use super::markdown::Markdown;
use super::multi_line::{FENCE, is_continued, unfenced};
use super::question::{OpenQuestion, QUIET, Question, Reply, SECOND_THOUGHT};
use super::region::{InputView, View, WorkView, output_lines};
use super::screen::{Screen, Size};
use super::search::{Search, SearchStep};
use crate::render::style::Style;
use crate::render::visible::visible;

/// The time in which a second Ctrl-C leaves, if the first one has interrupted a turn.
const TWICE: Duration = Duration::from_secs(2);
/// The time for which a hint is shown.
const HINT_TIME: Duration = Duration::from_secs(4);
const PROMPT: &str = "> ";

/// Input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A message or a command.
    Text(String),
    /// The user leaves, or the terminal cannot be read.
    End,
}

/// A request to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Stop the current work.
    Interrupt,
    /// Stop the current work and leave.
    End,
    /// Stop the process until it is continued.
    Suspend,
    /// Change to the next mode.
    NextMode,
}

/// Returns up to this number of the last lines of the output of running work.
pub(super) type WorkOutput = Box<dyn Fn(usize) -> Vec<String> + Send>;

/// Work in progress.
struct Work {
    id: String,
    label: String,
    since: Instant,
    output: Option<WorkOutput>,
}

/// State of the terminal.
pub(super) struct Ui<W> {
    screen: Screen<W>,
    style: Style,
    /// False if only answers are shown.
    shows_work: bool,
    editor: Editor,
    history: History,
    live: Markdown,
    /// Lines to print with the next frame.
    finished: Vec<String>,
    work: Vec<Work>,
    /// The time since when the user is not waited for.
    busy_since: Option<Instant>,
    queue: VecDeque<String>,
    listener: Option<oneshot::Sender<Input>>,
    question: Option<OpenQuestion>,
    completer: Completer,
    /// Suggestions for the text before the cursor.
    suggestions: SuggestionList,
    search: Option<Search>,
    status: String,
    hint: Option<(String, Instant)>,
    last_key: Option<Instant>,
    /// The time of the last Ctrl-C if no other key followed, and whether it interrupted something.
    interrupted: Option<(Instant, bool)>,
    /// Set when the user leaves after the queued messages.
    leaves: bool,
    /// The time when a text was the answer to a question.
    answered: Option<Instant>,
}

impl<W: Write> Ui<W> {
    pub(super) fn new(out: W, size: Size, style: Style, history: History, now: Instant) -> Self {
        Self {
            screen: Screen::new(out, size),
            style,
            shows_work: true,
            editor: Editor::default(),
            history,
            live: Markdown::new(style),
            finished: Vec::new(),
            work: Vec::new(),
            busy_since: Some(now),
            queue: VecDeque::new(),
            listener: None,
            question: None,
            completer: Completer::default(),
            suggestions: SuggestionList::default(),
            search: None,
            status: String::new(),
            hint: None,
            last_key: None,
            interrupted: None,
            leaves: false,
            answered: None,
        }
    }

    pub(super) fn screen(&mut self) -> &mut Screen<W> {
        &mut self.screen
    }

    fn room(&self) -> usize {
        self.screen.size().room()
    }

    /// Shows no running work and no status.
    pub(super) fn hide_work(&mut self) {
        self.shows_work = false;
    }

    /// Prints lines above the region.
    pub(super) fn print(&mut self, text: &str) {
        self.end_text();
        let text = cells::without_tabs(text.trim_end_matches('\n'));
        for line in text.split('\n') {
            let indent = line.len() - line.trim_start().len();
            self.finished.extend(cells::wrap(line, self.room(), indent));
        }
    }

    /// Adds text of the answer.
    pub(super) fn text(&mut self, text: &str) {
        let rows = self.live.push(text, self.room());
        self.finished.extend(rows);
    }

    /// Ends the text of the answer.
    pub(super) fn end_text(&mut self) {
        let rows = self.live.finish(self.room());
        self.finished.extend(rows);
    }

    pub(super) fn begin_work(&mut self, id: String, label: String, now: Instant) {
        self.work.retain(|work| work.id != id);
        self.work.push(Work {
            id,
            label,
            since: now,
            output: None,
        });
    }

    pub(super) fn label_work(&mut self, id: &str, label: String) {
        if let Some(work) = self.work.iter_mut().find(|work| work.id == id) {
            work.label = label;
        }
    }

    pub(super) fn show_output(&mut self, id: &str, output: WorkOutput) {
        if let Some(work) = self.work.iter_mut().find(|work| work.id == id) {
            work.output = Some(output);
        }
    }

    pub(super) fn end_work(&mut self, id: &str) {
        self.work.retain(|work| work.id != id);
    }

    pub(super) fn set_completer(&mut self, completer: Completer) {
        self.completer = completer;
    }

    pub(super) fn set_status(&mut self, status: String) {
        self.status = status;
    }

    /// Waits for a message of the user. A queued message is delivered at once.
    pub(super) fn listen(&mut self, listener: oneshot::Sender<Input>, now: Instant) {
        self.work.clear();
        self.busy_since = None;
        self.listener = Some(listener);
        if let Some(text) = self.queue.pop_front() {
            self.deliver(text, now);
        } else if self.leaves {
            self.leave(now);
        }
    }

    /// Returns queued messages to the input line: the turn before them did not end well.
    pub(super) fn return_queue(&mut self) {
        self.leaves = false;
        if self.queue.is_empty() {
            return;
        }
        let mut texts: Vec<String> = self.queue.drain(..).collect();
        match &mut self.question {
            // The input line holds the text of an answer.
            Some(OpenQuestion {
                asks: Some((_, typed)),
                ..
            }) => {
                texts.push(std::mem::take(typed));
                *typed = joined(texts);
            }
            _ => {
                texts.push(self.editor.take());
                self.editor.set(joined(texts));
            }
        }
    }

    /// Returns a message that was not sent to the input line, and the queued ones behind it.
    pub(super) fn return_message(&mut self, text: String) {
        self.queue.push_front(text);
        self.return_queue();
    }

    /// Asks a question.
    pub(super) fn ask(
        &mut self,
        id: u64,
        question: Question,
        reply: oneshot::Sender<Reply>,
        now: Instant,
    ) {
        self.end_text();
        // The next question of a form follows the last answer.
        let is_next = self.answered.is_some_and(|at| {
            now.duration_since(at) < QUIET && self.last_key.is_none_or(|key| key <= at)
        });
        let is_expected = question.is_expected || is_next;
        self.question = Some(OpenQuestion::new(id, question, reply, now));
        if is_expected {
            self.begin_text();
        }
    }

    /// Leads the keys to the text that the question asks for.
    fn begin_text(&mut self) {
        if let Some(open) = &mut self.question
            && open.asks.is_none()
            && let Some(only) = open.only_text()
        {
            open.asks = Some((only, self.editor.take()));
        }
    }

    /// Closes a question that needs no answer anymore.
    pub(super) fn close_question(&mut self, id: u64) {
        if self.question.as_ref().is_some_and(|open| open.id == id) {
            self.end_question();
        }
    }

    /// The terminal cannot be read anymore.
    pub(super) fn end_input(&mut self, now: Instant) {
        self.leaves = true;
        self.queue.clear();
        self.reply(Reply::Interrupted);
        self.leave(now);
    }

    /// Processes pasted text, which is never an answer or a command key.
    pub(super) fn paste(&mut self, text: &str, now: Instant) {
        self.settle_pending(true);
        self.touch(now);
        self.search = None;
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String = text
            .chars()
            .filter(|character| matches!(character, '\n' | '\t') || !character.is_control())
            .collect();
        self.editor.insert(&text);
    }

    /// Processes a key.
    pub(super) fn key(&mut self, key: Key, now: Instant) -> Option<Effect> {
        self.settle_pending(true);
        if key == Key::Interrupt {
            self.hint = None;
            self.last_key = Some(now);
            return self.interrupt(now);
        }
        // Before `touch`, which makes this key the last one.
        let may_answer = self.may_answer(now);
        self.touch(now);
        if self.search.is_some() && self.search_key(key) {
            return None;
        }
        let effect = self.edit_key(key, may_answer, now);
        match (key, &self.question) {
            (Key::Tab, _) => {}
            (_, Some(_)) => self.suggestions.clear(),
            (_, None) => self
                .suggestions
                .update(&self.completer, self.editor.before()),
        }
        effect
    }

    fn edit_key(&mut self, key: Key, may_answer: bool, now: Instant) -> Option<Effect> {
        if let Key::Sign(character) = key
            && may_answer
            && self.choose(character, now)
        {
            return None;
        }
        match key {
            Key::Sign(character) => self.editor.insert(character.encode_utf8(&mut [0; 4])),
            Key::Enter => self.enter(now),
            Key::NewLine => self.editor.insert("\n"),
            Key::Tab => self.tab(),
            Key::BackTab => return Some(Effect::NextMode),
            Key::Search => self.begin_search(),
            Key::Escape => return self.escape(),
            Key::Up => self.up(),
            Key::Down => self.down(),
            Key::Go(direction, unit) => {
                self.editor.go(direction, unit);
            }
            Key::Delete(direction, unit) => self.editor.delete(direction, unit),
            Key::InsertDeleted => self.editor.insert_deleted(),
            Key::End => self.end_or_delete(now),
            // The frame that follows repaints the region.
            Key::Redraw | Key::Interrupt => {}
            Key::Suspend => return Some(Effect::Suspend),
        }
        None
    }

    /// Processes the passing of time.
    pub(super) fn tick(&mut self, now: Instant) {
        let is_over = |since: Instant, time| now.duration_since(since) >= time;
        if self
            .hint
            .as_ref()
            .is_some_and(|(_, at)| is_over(*at, HINT_TIME))
        {
            self.hint = None;
        }
        let pending = self
            .question
            .as_ref()
            .and_then(|open| open.pending.as_ref());
        if pending.is_some_and(|(_, at)| is_over(*at, SECOND_THOUGHT)) {
            self.settle_pending(false);
        }
    }

    /// Returns true if the program works, and false if it waits for the user.
    fn is_busy(&self) -> bool {
        self.busy_since.is_some()
    }

    /// Returns true if the region changes without an event.
    pub(super) fn is_animated(&self) -> bool {
        self.is_busy() || self.hint.is_some() || self.question.is_some()
    }

    /// Writes finished lines and paints the region.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(super) fn paint(&mut self, size: Size, now: Instant) -> std::io::Result<()> {
        let region = self.view(size, now).region(size);
        let finished = std::mem::take(&mut self.finished);
        self.screen.paint(size, &finished, region)
    }

    fn view(&self, size: Size, now: Instant) -> View<'_> {
        let asks = self.question.as_ref().and_then(|open| open.asks.as_ref());
        let below = match &self.hint {
            Some((hint, _)) => vec![self.style.notable(hint)],
            None if !self.suggestions.is_empty() => self.suggestions.rows(size.room(), self.style),
            None if self.status.is_empty() => Vec::new(),
            None => vec![self.style.dim(&cells::cut(&self.status, size.room()))],
        };
        let label = match (&self.search, asks) {
            (Some(search), _) => search.label(),
            (None, Some((choice, _))) => choice.asks.unwrap_or(PROMPT).to_owned(),
            (None, None) => PROMPT.to_owned(),
        };
        View {
            style: self.style,
            live: self.live.live(size.room()),
            work: self.busy_since.map(|_| self.work_views(size, now)),
            queue: self.queue.iter().map(String::as_str).collect(),
            question: self
                .question
                .as_ref()
                .map_or_else(Vec::new, |open| open.rows(self.may_answer(now), self.style)),
            input: InputView {
                label,
                text: self.editor.text(),
                cursor: self.editor.cursor(),
            },
            below,
        }
    }

    fn work_views(&self, size: Size, now: Instant) -> Vec<WorkView<'_>> {
        if !self.shows_work || self.question.is_some() {
            return Vec::new();
        }
        let lines = output_lines(size, self.work.len());
        let work = self.work.iter().map(|work| WorkView {
            label: &work.label,
            elapsed: now.duration_since(work.since),
            output: work
                .output
                .as_ref()
                .map_or_else(Vec::new, |output| output(lines)),
        });
        work.collect()
    }

    /// Returns true if a key can answer the open question.
    fn may_answer(&self, now: Instant) -> bool {
        let open = self.question.as_ref();
        open.is_some_and(|open| open.may_answer(now, self.last_key, self.editor.is_empty()))
    }

    fn touch(&mut self, now: Instant) {
        self.last_key = Some(now);
        self.interrupted = None;
        self.hint = None;
    }

    fn hint(&mut self, hint: &str, now: Instant) {
        self.hint = Some((hint.to_owned(), now));
    }

    /// Takes a key as the answer to the question. Returns false if it is none.
    fn choose(&mut self, character: char, now: Instant) -> bool {
        let Some(open) = &mut self.question else {
            return false;
        };
        let is_focused = open.is_focused;
        let mut choices = open.question.choices.iter();
        let choice = choices.find(|choice| choice.key.eq_ignore_ascii_case(&character));
        let Some(choice) = choice.cloned() else {
            // Typed text must not follow the key that led to the question.
            return is_focused;
        };
        open.pending = Some((choice, now));
        if is_focused {
            self.settle_pending(false);
        }
        true
    }

    /// Decides about a key that can be an answer: it is one unless a further key follows soon.
    fn settle_pending(&mut self, is_typing: bool) {
        let Some(open) = &mut self.question else {
            return;
        };
        let Some((choice, _)) = open.pending.take() else {
            return;
        };
        if is_typing {
            self.editor.insert(choice.key.encode_utf8(&mut [0; 4]));
        } else if choice.asks.is_some() {
            open.asks = Some((choice, self.editor.take()));
        } else {
            self.reply(Reply::Choice(choice.key));
        }
    }

    fn reply(&mut self, reply: Reply) {
        if let Some(answer) = self.end_question() {
            // A turn that has ended needs no answer.
            let _ = answer.send(reply);
        }
    }

    /// Closes the question and restores the input line.
    fn end_question(&mut self) -> Option<oneshot::Sender<Reply>> {
        let open = self.question.take()?;
        if let Some((_, typed)) = open.asks {
            self.editor.set(typed);
        }
        Some(open.reply)
    }

    fn enter(&mut self, now: Instant) {
        if let Some(open) = &self.question {
            if let Some((choice, _)) = &open.asks {
                let reply = Reply::Text(choice.key, self.editor.text().trim().to_owned());
                self.answered = Some(now);
                self.reply(reply);
                return;
            }
            if open.is_focused {
                return;
            }
        }
        let input = self.editor.text();
        let is_fenced = input.starts_with(FENCE);
        let until = if is_fenced {
            input
        } else {
            self.editor.before()
        };
        if is_continued(until) {
            if !is_fenced {
                self.editor.delete(Direction::Left, Unit::Cluster);
            }
            self.editor.insert("\n");
            return;
        }
        if input.trim().is_empty() {
            return;
        }
        let input = self.editor.take();
        self.history.add(&input);
        let text = unfenced(&input);
        let answer = self.question.as_ref();
        if let Some(key) = answer.and_then(|open| open.question.answered_by_message) {
            self.queue.push_back(text);
            self.reply(Reply::Choice(key));
            return;
        }
        match self.listener {
            Some(_) => self.deliver(text, now),
            None => self.queue.push_back(text),
        }
    }

    /// Hands a message to the program and prints it.
    fn deliver(&mut self, text: String, now: Instant) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        self.busy_since = Some(now);
        self.show_message(&text);
        let _ = listener.send(Input::Text(text));
    }

    /// Prints a message of the user.
    pub(super) fn show_message(&mut self, text: &str) {
        let shown = visible(text).replace('\n', "\n  ");
        let lines = cells::without_tabs(&format!("{PROMPT}{shown}"));
        let rows = lines.split('\n');
        let rows: Vec<String> = rows
            .flat_map(|line| cells::wrap(line, self.room(), 2))
            .collect();
        self.finished
            .extend(rows.iter().map(|row| self.style.strong(row)));
    }

    fn leave(&mut self, now: Instant) {
        if let Some(listener) = self.listener.take() {
            self.busy_since = Some(now);
            let _ = listener.send(Input::End);
        }
    }

    fn tab(&mut self) {
        if let Some(open) = &mut self.question
            && open.asks.is_none()
        {
            open.is_focused = !open.is_focused;
            self.begin_text();
            return;
        }
        self.suggestions.accept(&self.completer, &mut self.editor);
    }

    /// Begins a search in the history.
    fn begin_search(&mut self) {
        if self.question.is_none() {
            let typed = self.editor.take();
            self.search = Some(Search::new(typed, self.history.len()));
        }
    }

    /// Processes a key of a search. Returns false if the key ends the search and means something else.
    fn search_key(&mut self, key: Key) -> bool {
        let Some(mut search) = self.search.take() else {
            return false;
        };
        match search.key(key, &self.history) {
            SearchStep::Show(message) => self.editor.set(message),
            SearchStep::Wait => {}
            SearchStep::GiveUp(typed) => {
                self.editor.set(typed);
                return true;
            }
            SearchStep::Accept { is_used } => return is_used,
        }
        self.search = Some(search);
        true
    }

    fn escape(&mut self) -> Option<Effect> {
        if let Some(open) = &mut self.question {
            if open.only_text().is_some() {
                self.reply(Reply::Interrupted);
                return None;
            }
            match open.asks.take() {
                Some((_, typed)) => self.editor.set(typed),
                None if open.is_focused => open.is_focused = false,
                None => self.reply(Reply::Interrupted),
            }
            return None;
        }
        self.is_busy().then(|| {
            self.return_queue();
            Effect::Interrupt
        })
    }

    fn interrupt(&mut self, now: Instant) -> Option<Effect> {
        let is_busy = self.is_busy();
        let is_second = self
            .interrupted
            .is_some_and(|(at, interrupts)| !interrupts || now.duration_since(at) < TWICE);
        self.interrupted = Some((now, is_busy));
        if is_second {
            self.reply(Reply::Interrupted);
            self.leave(now);
            return is_busy.then_some(Effect::End);
        }
        self.hint("Ctrl-C again, Ctrl-D or /quit ends the chat", now);
        if self.question.is_some() {
            self.reply(Reply::Interrupted);
            self.return_queue();
            return None;
        }
        if is_busy {
            self.return_queue()
        } else {
            self.editor.clear()
        }
        is_busy.then_some(Effect::Interrupt)
    }

    fn end_or_delete(&mut self, now: Instant) {
        if !self.editor.is_empty() {
            self.editor.delete(Direction::Right, Unit::Cluster);
        } else if self.question.is_some() {
            self.reply(Reply::Interrupted);
        } else if self.listener.is_some() {
            self.leave(now);
        } else {
            self.leaves = true;
            self.hint("the chat ends after this turn", now);
        }
    }

    fn up(&mut self) {
        if !self.editor.go_to_line(false)
            && let Some(message) = self.history.previous(self.editor.text())
        {
            self.editor.set(message);
        }
    }

    fn down(&mut self) {
        if !self.editor.go_to_line(true)
            && let Some(message) = self.history.next()
        {
            self.editor.set(message);
        }
    }
}

/// Joins messages that return to the input line.
fn joined(texts: Vec<String>) -> String {
    let texts = texts.into_iter().filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

//! State of the terminal: keys and events in, a region and finished lines out.

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::cells;
use super::completion::{Completer, SuggestionList};
use super::editor::{Direction, Editor, Unit};
use super::entries::{Entry, Step};
use super::history::History;
use super::keys::Key;
use super::line::Line;
use super::markdown::Markdown;
use super::multi_line::{FENCE, is_continued, unfenced};
use super::pastes::{Message, Pastes, without_signs};
use super::picker::Picker;
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
/// Precedes the lines of a pasted text that is shown.
const PASTED: &str = "  │ ";
/// Lets the terminal notify the user.
const BELL: &str = "\x07";

/// Input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A message or a command.
    Text {
        text: String,
        /// The text with the sizes of long pasted texts in their place.
        shown: String,
    },
    /// The user leaves, or the terminal cannot be read.
    End,
}

impl Input {
    /// Returns a text without long pasted texts.
    pub(crate) fn text(text: String) -> Self {
        Self::Text {
            shown: text.clone(),
            text,
        }
    }
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
    /// Paint the whole screen anew.
    Redraw,
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
    finished: Vec<Line>,
    /// Set after the first line.
    has_lines: bool,
    work: Vec<Work>,
    /// The time since when the user is not waited for.
    busy_since: Option<Instant>,
    queue: VecDeque<Message>,
    /// The message that was handed to the program last.
    sent: Option<Message>,
    /// Long pasted texts in the input line.
    pastes: Pastes,
    listener: Option<oneshot::Sender<Input>>,
    question: Option<OpenQuestion>,
    picker: Option<Picker>,
    completer: Completer,
    /// Suggestions for the text before the cursor.
    suggestions: SuggestionList,
    search: Option<Search>,
    /// Forms of the status, the longest one first.
    status: Vec<String>,
    hint: Option<(String, Instant)>,
    /// False if the terminal has reported that it lost the focus.
    is_focused: bool,
    /// Set if the bell is to ring with the next frame.
    rings: bool,
    last_key: Option<Instant>,
    /// The time of the last Ctrl-C if no other key followed, and whether it interrupted something.
    interrupted: Option<(Instant, bool)>,
    /// Set when the user has interrupted the turn and queued messages are back: what is queued since then follows the
    /// interrupted turn.
    has_interrupted: bool,
    /// Set when the user leaves after the queued messages.
    leaves: bool,
    /// The time when a text was the answer to a question.
    answered: Option<Instant>,
}

impl<W: Write> Ui<W> {
    pub(super) fn new(screen: Screen<W>, style: Style, history: History, now: Instant) -> Self {
        Self {
            screen,
            style,
            shows_work: true,
            editor: Editor::default(),
            history,
            live: Markdown::new(style),
            finished: Vec::new(),
            has_lines: false,
            work: Vec::new(),
            busy_since: Some(now),
            queue: VecDeque::new(),
            sent: None,
            pastes: Pastes::new(),
            listener: None,
            question: None,
            picker: None,
            completer: Completer::default(),
            suggestions: SuggestionList::default(),
            search: None,
            status: Vec::new(),
            hint: None,
            is_focused: true,
            rings: false,
            last_key: None,
            interrupted: None,
            has_interrupted: false,
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
        let lines = text.split('\n').map(Line::indented);
        self.finish(lines);
    }

    /// Wraps finished lines and prints them with the next frame.
    fn finish(&mut self, lines: impl IntoIterator<Item = Line>) {
        let room = self.room();
        let rows = lines.into_iter().flat_map(|line| line.wrap(room));
        self.finished.extend(rows);
        self.has_lines = true;
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

    /// Sets the forms of the status, the longest one first.
    pub(super) fn set_status(&mut self, status: Vec<String>) {
        self.status = status;
    }

    /// Processes that the terminal has got or lost the focus.
    pub(super) fn focus(&mut self, is_focused: bool) {
        self.is_focused = is_focused;
    }

    /// Rings the bell if the user may not look at the terminal.
    fn notify(&mut self) {
        self.rings |= !self.is_focused;
    }

    /// Waits for a message of the user. A queued message is delivered at once.
    pub(super) fn listen(&mut self, listener: oneshot::Sender<Input>, now: Instant) {
        self.work.clear();
        let was_busy = self.busy_since.take().is_some();
        self.has_interrupted = false;
        self.listener = Some(listener);
        if let Some(message) = self.queue.pop_front() {
            self.deliver(message, now);
        } else if self.leaves {
            self.leave(now);
        } else if was_busy {
            self.notify();
        }
    }

    /// Returns queued messages to the input line: the turn before them did not end well. Those that were queued after the
    /// user has interrupted the turn stay.
    pub(super) fn return_queue(&mut self) {
        if !std::mem::take(&mut self.has_interrupted) {
            self.take_queue_back();
        }
    }

    /// Returns queued messages to the input line at once, because the user interrupts the turn.
    fn interrupt_queue(&mut self) {
        self.take_queue_back();
        self.has_interrupted = true;
    }

    fn take_queue_back(&mut self) {
        self.leaves = false;
        if self.queue.is_empty() {
            return;
        }
        let queue = self.queue.drain(..);
        let mut texts: Vec<String> = queue
            .map(|message| self.pastes.returned(&message))
            .collect();
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
        let sent = self.sent.take().filter(|sent| sent.text == text);
        let message = sent.unwrap_or_else(|| Message::new(text));
        self.queue.push_front(message);
        self.take_queue_back();
    }

    /// Opens a list from which the user chooses an entry.
    pub(super) fn pick(
        &mut self,
        id: u64,
        label: &'static str,
        entries: Vec<Entry>,
        reply: oneshot::Sender<Option<usize>>,
    ) {
        self.end_text();
        self.search = None;
        self.suggestions.clear();
        let typed = self.editor.take();
        self.picker = Some(Picker::new(id, label, entries, typed, reply));
    }

    /// Closes a list that needs no answer anymore.
    pub(super) fn close_picker(&mut self, id: u64) {
        if self.picker.as_ref().is_some_and(|picker| picker.id == id) {
            self.cancel_picker();
        }
    }

    fn cancel_picker(&mut self) {
        if let Some(picker) = self.picker.take() {
            self.editor.set(picker.cancel());
        }
    }

    /// Processes a key of the open list. Returns false if there is none, or if the key edits its filter.
    fn picker_key(&mut self, key: Key) -> bool {
        let Some(picker) = &mut self.picker else {
            return false;
        };
        let filter = self.editor.text();
        match key {
            Key::Down | Key::Tab => picker.go(Step::Next, filter),
            Key::Up | Key::BackTab => picker.go(Step::Previous, filter),
            Key::Enter if !picker.has_selection(filter) => {}
            Key::Enter => {
                if let Some(picker) = self.picker.take() {
                    let typed = picker.choose(&self.editor.take());
                    self.editor.set(typed);
                }
            }
            Key::Escape | Key::Interrupt => self.cancel_picker(),
            Key::End if self.editor.is_empty() => self.cancel_picker(),
            Key::Search | Key::NewLine => {}
            Key::Sign(_) | Key::Delete(..) | Key::InsertDeleted => {
                picker.begin();
                return false;
            }
            _ => return false,
        }
        true
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
        self.notify();
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
        self.cancel_picker();
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
        let text = match &mut self.picker {
            Some(picker) => {
                picker.begin();
                without_signs(&text)
            }
            None => self.pastes.fold(&text),
        };
        self.editor.insert(&text);
    }

    /// Processes a key.
    pub(super) fn key(&mut self, key: Key, now: Instant) -> Option<Effect> {
        self.settle_pending(true);
        if self.picker_key(key) {
            self.touch(now);
            return None;
        }
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
            (_, Some(_)) => self.suggestions.clear(),
            _ if self.picker.is_some() => {}
            // These keys go through the suggestions or close them.
            (Key::Tab | Key::Up | Key::Down | Key::Escape | Key::Enter, _) => {}
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
            Key::Sign(character) => {
                let typed = without_signs(character.encode_utf8(&mut [0; 4]));
                self.editor.insert(&typed);
            }
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
            Key::Redraw => return Some(Effect::Redraw),
            Key::Unfold => self.unfold(now),
            Key::Interrupt => {}
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
        self.screen.paint(size, finished, region)?;
        if std::mem::take(&mut self.rings) {
            self.screen.write(BELL)?;
        }
        Ok(())
    }

    /// Erases the screen. The next frame paints it anew.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(super) fn redraw(&mut self) -> std::io::Result<()> {
        let lines = self.screen.erase()?;
        self.finished.splice(..0, lines);
        Ok(())
    }

    fn view(&self, size: Size, now: Instant) -> View<'_> {
        let asks = self.question.as_ref().and_then(|open| open.asks.as_ref());
        let label = match (&self.picker, &self.search, asks) {
            (Some(picker), ..) => picker.label.to_owned(),
            (None, Some(search), _) => search.label(),
            (None, None, Some((choice, _))) => choice.asks.unwrap_or(PROMPT).to_owned(),
            (None, None, None) => PROMPT.to_owned(),
        };
        View {
            style: self.style,
            live: self.live.live(size.room()),
            work: (self.busy_since)
                .filter(|_| self.picker.is_none())
                .map(|_| self.work_views(size, now)),
            queue: self
                .queue
                .iter()
                .map(|queued| queued.shown.as_str())
                .collect(),
            question: self.question.as_ref().map_or_else(Vec::new, |open| {
                open.rows(self.may_answer(now), size.room(), self.style)
            }),
            input: InputView {
                label,
                text: self.editor.text(),
                cursor: self.editor.cursor(),
                pastes: &self.pastes,
            },
            below: self.rows_below(size),
        }
    }

    /// Returns the rows below the input line: a list, a hint or the status.
    fn rows_below(&self, size: Size) -> Vec<String> {
        let (room, style) = (size.room(), self.style);
        if let Some(picker) = &self.picker {
            return picker.rows(self.editor.text(), size.rows / 2, room, style);
        }
        if let Some((hint, _)) = &self.hint {
            let rows = cells::wrap(hint, room, 0);
            return rows.iter().map(|row| style.notable(row)).collect();
        }
        if !self.suggestions.is_empty() {
            return self.suggestions.rows(room, style);
        }
        let mut forms = self.status.iter();
        let fitting = forms.find(|form| cells::width(form) <= room);
        let form = fitting
            .or(self.status.last())
            .filter(|form| !form.is_empty());
        form.map(|form| style.dim(&cells::cut(form, room)))
            .into_iter()
            .collect()
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

    /// Answers the question with an interrupt, which ends the turn, too.
    fn interrupt_question(&mut self) {
        self.reply(Reply::Interrupted);
        self.interrupt_queue();
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
                let text = self.pastes.whole(self.editor.text());
                let reply = Reply::Text(choice.key, text.trim().to_owned());
                self.answered = Some(now);
                self.reply(reply);
                return;
            }
            if open.is_focused {
                return;
            }
        }
        if self.question.is_none()
            && self
                .suggestions
                .settle_file(&self.completer, &mut self.editor)
        {
            return;
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
            self.suggestions.clear();
            return;
        }
        if input.trim().is_empty() {
            return;
        }
        let asking = self.question.as_ref();
        if let Some(open) = asking.filter(|open| open.only_text().is_none()) {
            let (question, input) = (&open.question, input.trim());
            let keys = question.keys();
            if question.is_answer(input) {
                let hint = format!("\"{input}\" was not sent: press the key {keys} to answer");
                self.editor.clear();
                self.hint(&hint, now);
                return;
            }
            if question.answered_by_message.is_none() {
                let hint = format!("sent after this turn: press the key {keys} to answer first");
                self.hint(&hint, now);
            }
        }
        self.submit(now);
    }

    /// Sends the input line, or queues it.
    fn submit(&mut self, now: Instant) {
        self.suggestions.clear();
        let mut input = self.editor.take();
        if let Some(name) = self.completer.only_command(input.trim_end()) {
            name.clone_into(&mut input);
        }
        self.history.add(&self.pastes.whole(&input));
        // A backslash in front of a line break was removed when Enter was pressed; one that was pasted is part of
        // the text.
        if input.starts_with(FENCE) {
            input = unfenced(&input);
        }
        let message = self.pastes.message(&input);
        if self.question.is_none() {
            // The input line holds no text aside, and neither does the text that was deleted last.
            self.pastes.clear();
            self.editor.forget_deleted();
        }
        let answer = self.question.as_ref();
        if let Some(key) = answer.and_then(|open| open.question.answered_by_message) {
            self.queue.push_back(message);
            self.reply(Reply::Choice(key));
            return;
        }
        match self.listener {
            Some(_) => self.deliver(message, now),
            None => self.queue.push_back(message),
        }
    }

    /// Hands a message to the program and prints it.
    fn deliver(&mut self, message: Message, now: Instant) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        self.busy_since = Some(now);
        self.show_message(&message.shown);
        let _ = listener.send(Input::Text {
            text: message.text.clone(),
            shown: message.shown.clone(),
        });
        self.sent = Some(message);
    }

    /// Prints a message of the user, apart from what is above it.
    pub(super) fn show_message(&mut self, text: &str) {
        if self.has_lines {
            self.finish([Line::default()]);
        }
        let text = cells::without_tabs(&visible(text));
        let style = self.style;
        let lines = text.split('\n').enumerate().map(|(number, line)| Line {
            first: match number {
                0 => style.strong(PROMPT),
                _ => "  ".to_owned(),
            },
            rest: "  ".to_owned(),
            ..Line::new(style.strong(line))
        });
        self.finish(lines);
    }

    /// Shows pasted text: in the input line if it has some, or else that of the message that was sent last.
    fn unfold(&mut self, now: Instant) {
        let whole = self.pastes.whole(self.editor.text());
        if whole != self.editor.text() {
            self.editor.set(whole);
            return;
        }
        let folded = self.sent.as_ref().filter(|sent| sent.is_folded());
        let Some(message) = folded else {
            self.hint("there is no pasted text to show", now);
            return;
        };
        let text = cells::without_tabs(&visible(&message.text));
        let prefix = self.style.dim(PASTED);
        self.end_text();
        self.finish(text.lines().map(|line| Line {
            first: prefix.clone(),
            rest: prefix.clone(),
            ..Line::new(line.to_owned())
        }));
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
        self.go_in_suggestions(Step::Next);
    }

    fn go_in_suggestions(&mut self, step: Step) {
        self.suggestions
            .accept(step, &self.completer, &mut self.editor);
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
                self.interrupt_question();
                return None;
            }
            match open.asks.take() {
                Some((_, typed)) => self.editor.set(typed),
                None if open.is_focused => open.is_focused = false,
                None => self.interrupt_question(),
            }
            return None;
        }
        if !self.suggestions.is_empty() {
            self.suggestions.clear();
            return None;
        }
        self.is_busy().then(|| {
            self.interrupt_queue();
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
            self.interrupt_question();
            return None;
        }
        if is_busy {
            self.interrupt_queue()
        } else {
            self.editor.clear()
        }
        is_busy.then_some(Effect::Interrupt)
    }

    fn end_or_delete(&mut self, now: Instant) {
        if !self.editor.is_empty() {
            self.editor.delete(Direction::Right, Unit::Cluster);
        } else if self.question.is_some() {
            self.interrupt_question();
        } else if self.listener.is_some() {
            self.leave(now);
        } else {
            self.leaves = true;
            self.hint("the chat ends after this turn", now);
        }
    }

    fn up(&mut self) {
        if !self.suggestions.is_empty() {
            self.go_in_suggestions(Step::Previous);
        } else if !self.editor.go_to_line(false)
            && let Some(message) = self.history.previous(self.editor.text())
        {
            self.editor.set(message);
        }
    }

    fn down(&mut self) {
        if !self.suggestions.is_empty() {
            self.go_in_suggestions(Step::Next);
        } else if !self.editor.go_to_line(true)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::terminal::screen::Size;

    fn ui(now: Instant) -> Ui<Vec<u8>> {
        let size = Size {
            columns: 60,
            rows: 20,
        };
        let screen = Screen::new(Vec::new(), size, true);
        let folder = tempfile::tempdir().unwrap();
        let history = History::read(folder.path().join("history"));
        Ui::new(screen, Style::none(), history, now)
    }

    fn say(ui: &mut Ui<Vec<u8>>, text: &str, now: Instant) {
        for character in text.chars() {
            ui.key(Key::Sign(character), now);
        }
        ui.key(Key::Enter, now);
    }

    /// The message that the chat gets when it asks for the next one.
    fn next(ui: &mut Ui<Vec<u8>>, now: Instant) -> Option<String> {
        let (listener, mut input) = oneshot::channel();
        ui.listen(listener, now);
        match input.try_recv() {
            Ok(Input::Text { text, .. }) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn a_message_after_an_interrupt_follows_the_turn_that_still_ends() {
        for (key, is_asked) in [
            (Key::Escape, false),
            (Key::Interrupt, false),
            (Key::Escape, true),
            (Key::Interrupt, true),
            (Key::End, true),
        ] {
            let now = Instant::now();
            let mut ui = ui(now);
            let (reply, mut answer) = oneshot::channel();
            if is_asked {
                let question = Question {
                    text: "allow it?".to_owned(),
                    choices: Vec::new(),
                    is_expected: false,
                    answered_by_message: None,
                };
                ui.ask(1, question, reply, now);
            }
            say(&mut ui, "one", now);
            let effect = ui.key(key, now);
            if is_asked {
                assert!(matches!(answer.try_recv(), Ok(Reply::Interrupted)));
            } else {
                assert_eq!(effect, Some(Effect::Interrupt));
            }
            // Back in the input line; the turn has not ended yet.
            ui.key(Key::Enter, now);
            ui.return_queue();
            assert_eq!(next(&mut ui, now).as_deref(), Some("one"));
            // The next turn fails without an interrupt.
            say(&mut ui, "two", now);
            ui.return_queue();
            assert_eq!(next(&mut ui, now), None);
            assert_eq!(ui.editor.take(), "two");
        }
    }
}

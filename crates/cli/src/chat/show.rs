//! Output of turns: the answer on stdout as it streams, everything else on stderr, line by line.

use std::io::{IsTerminal as _, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use cachalot_agent::definition::Notify;
use cachalot_agent::event::AnsweredRequest;
use cachalot_agent::{Event, Listener, ReviewReport};
use cachalot_core::Cost;
use cachalot_mcp::Reporter;
use cachalot_model::Usage;
use cachalot_prompt::Session;
use cachalot_tools::{CallOutcome, LiveOutput, ToolCall, ToolCallResult};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::command_output::{all_lines, folded, last_lines};
use super::pending_answers::{PendingAnswers, Waiter};
use super::review;
use super::status::ChatStatus;
use super::words;
use crate::agent_names::{DELEGATION, REVIEW};
use crate::command_error::{CommandError, Result};
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};
use crate::render::{self, Level, cut, grouped, time};
use crate::terminal::Console;

/// ID of the wait for a model among running work.
const MODEL: &str = "";
/// The usual number of bytes of a token.
const BYTES_PER_TOKEN: usize = 4;

/// Prints turns.
pub(crate) struct Show {
    level: Level,
    /// Streams the answer to stdout; otherwise the caller that runs the turn prints it.
    growing: bool,
    /// True if stdout is a terminal: stderr shares it, and control characters have to be escaped.
    terminal: bool,
    stderr_is_terminal: bool,
    style: Style,
    /// Name of the agent that the user talks to, and working directory of its tools.
    about: OnceLock<(String, String)>,
    /// Name of the agent that continues in the place of that agent.
    switched_to: Mutex<Option<String>>,
    /// Terminal in raw mode, through which everything is shown that goes to a terminal.
    console: OnceLock<Console>,
    windows: OnceLock<Windows>,
    status: Mutex<ChatStatus>,
    state: Mutex<State>,
}

/// Returns the maximum number of tokens of the conversations of a provider's model.
type Windows = Box<dyn Fn(&str, &str) -> Option<u64> + Send + Sync>;

struct State {
    stdout: Box<dyn Write + Send>,
    /// Error after which stdout accepts no more output.
    lost: Option<std::io::Error>,
    /// Set when the last text on stdout did not end with a line break.
    open: bool,
    line_buffer: LineBuffer,
    running: Vec<RunningCall>,
    pending_answers: PendingAnswers,
    /// Text of the newest answer, if it is not streamed.
    held: String,
    /// The number of bytes of the answer that is streaming, with its reasoning.
    streamed: usize,
    /// Reviews that have ended.
    reviews: Vec<Value>,
}

/// A tool call in progress.
struct RunningCall {
    id: String,
    label: String,
    since: Instant,
    output: LiveOutput,
}

/// Incomplete line of text that is shown beside the answer: reasoning, or text of other agents.
#[derive(Default)]
struct LineBuffer {
    who: String,
    text: String,
}

impl Show {
    /// Creates the output of a chat on stdout and stderr.
    ///
    /// # Errors
    /// The process has no stdout.
    pub(crate) fn new(level: Level, growing: bool) -> Result<Self> {
        let style = Style::of_stderr();
        Ok(Self {
            level,
            growing,
            terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
            style,
            about: OnceLock::new(),
            switched_to: Mutex::new(None),
            console: OnceLock::new(),
            windows: OnceLock::new(),
            status: Mutex::default(),
            state: Mutex::new(State {
                stdout: Box::new(render::stdout::open()?),
                lost: None,
                open: false,
                line_buffer: LineBuffer::default(),
                running: Vec::new(),
                pending_answers: PendingAnswers::default(),
                held: String::new(),
                streamed: 0,
                reviews: Vec::new(),
            }),
        })
    }

    /// Sets the agent that the user talks to and the workspace. Output of other agents is labeled with their
    /// names; paths are shown relative to the workspace.
    pub(crate) fn set_context(&self, agent: &str, workspace: &Path) {
        let workspace = workspace.to_string_lossy().into_owned();
        // Set once: `switched` follows the chat to other agents.
        let _ = self.about.set((agent.to_owned(), workspace));
    }

    /// Shows everything through a terminal in raw mode.
    pub(crate) fn set_console(&self, console: Console) {
        if self.level == Level::Quiet {
            console.hide_work();
        }
        // Set once: a chat has one terminal.
        let _ = self.console.set(console);
    }

    /// Sets the function that finds the maximum number of tokens of a model's conversations.
    pub(crate) fn set_windows(
        &self,
        windows: impl Fn(&str, &str) -> Option<u64> + Send + Sync + 'static,
    ) {
        // Set once: a chat has one catalog.
        let _ = self.windows.set(Box::new(windows));
    }

    /// Sets the agent that the user talks to, and its model.
    pub(crate) fn set_agent(&self, agent: &str, model: &str) {
        *self.switched_to.lock() = Some(agent.to_owned());
        self.change_status(|status| {
            agent.clone_into(&mut status.agent);
            model.clone_into(&mut status.model);
        });
    }

    /// Sets the name of the mode in the status line.
    pub(crate) fn set_mode(&self, mode: &'static str) {
        self.change_status(|status| status.mode = mode);
    }

    /// Sets the name of the sandbox of commands in the status line.
    pub(crate) fn set_sandbox(&self, sandbox: &'static str) {
        self.change_status(|status| status.sandbox = sandbox);
    }

    /// Shows the status of another conversation, which is empty.
    pub(crate) fn forget_conversation(&self) {
        self.change_status(ChatStatus::forget_conversation);
    }

    /// Shows the status of a session that continues.
    pub(crate) fn resume_status(&self, session: &Session) {
        let (totals, head) = (&session.totals, &session.head);
        let window = self.window(&head.provider, &head.model);
        let last = session.last_usage.as_ref();
        self.change_status(|status| {
            status.resume(&totals.usage, totals.spent.cost, last, window);
        });
    }

    /// Returns the maximum number of tokens of a model's conversations, if it is known.
    fn window(&self, provider: &str, model: &str) -> Option<u64> {
        self.windows.get().and_then(|find| find(provider, model))
    }

    fn change_status(&self, change: impl FnOnce(&mut ChatStatus)) {
        let Some(console) = self.console.get().filter(|_| self.level != Level::Quiet) else {
            return;
        };
        let mut status = self.status.lock();
        change(&mut status);
        console.set_status(status.forms());
    }

    /// Adds a model call to the status line. `agent` is the one that called; `None` for a fork.
    fn count_call(
        &self,
        agent: Option<&str>,
        usage: Option<&Usage>,
        cost: Cost,
        request: &AnsweredRequest<'_>,
    ) {
        let Some(usage) = usage else { return };
        if !agent.is_some_and(|agent| self.is_own(agent)) {
            self.change_status(|status| status.add_beside(usage, cost));
            return;
        }
        let window = self.window(request.provider, request.model);
        self.change_status(|status| {
            status.model = format!("{}/{}", request.provider, request.model);
            status.add(usage, cost, window);
        });
    }

    /// Returns the width of the terminal in characters, if it is known.
    pub(crate) fn width(&self) -> Option<usize> {
        self.console.get().map(Console::width)
    }

    /// Returns true if answers are shown on the terminal.
    pub(crate) fn is_on_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the terminal if the answer is shown on it.
    fn answer_console(&self) -> Option<&Console> {
        self.console.get().filter(|_| self.terminal)
    }

    fn begin_work(&self, id: &str, label: &str) {
        if let Some(console) = self.console.get() {
            console.begin_work(id, label);
        }
    }

    fn end_work(&self, id: &str) {
        if let Some(console) = self.console.get() {
            console.end_work(id);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends the wait for the model and the current line, at the end of a turn or before a question.
    pub(crate) fn pause(&self) {
        let mut state = self.state();
        self.flush_line_buffer(&mut state);
        self.end_work(MODEL);
        self.end_answer(&mut state);
    }

    /// Ends the current line of the answer.
    fn end_answer(&self, state: &mut State) {
        match self.answer_console() {
            Some(console) => console.end_text(),
            None => state.end_line(),
        }
    }

    /// Ends a turn and returns the number of answers that were cut off in it. An incomplete answer counts if
    /// part of it was shown, or if `under_way` is true.
    pub(super) fn end_turn(&self, under_way: bool) -> u32 {
        self.pause();
        self.end_calls();
        self.state().pending_answers.ended(Waiter::Turn, under_way)
    }

    /// Ends the calls that are still running: they were interrupted. On a terminal, what they have written so
    /// far is printed.
    pub(super) fn end_calls(&self) {
        let mut state = self.state();
        for call in std::mem::take(&mut state.running) {
            self.end_work(&call.id);
            if self.level == Level::Quiet || self.console.get().is_none() {
                continue;
            }
            let column = self.column();
            let (label, elapsed) = (&call.label, time(call.since.elapsed()));
            let outcome = self.style.error("interrupted");
            self.line(
                &mut state,
                &format!("  {label:<column$} {outcome} {elapsed:>7}"),
            );
            for line in folded(&call.output.text()) {
                self.line(&mut state, &self.style.dim(&line));
            }
        }
    }

    /// Ends a command of the user, and prints all of its output.
    pub(super) fn end_command(&self, answer: &ToolCallResult, output: &str) {
        let mut state = self.state();
        state.running.retain(|running| running.id != answer.call.id);
        self.end_work(&answer.call.id);
        self.line(&mut state, &all_lines(output).join("\n"));
    }

    /// Ends a fork and returns the number of answers that were cut off in it, by the same rule.
    pub(super) fn end_fork(&self, holder: &str, under_way: bool) -> u32 {
        let mut state = self.state();
        state.pending_answers.ended(Waiter::Fork(holder), under_way)
    }

    /// Returns the number of answers that were cut off so far, in turns and forks.
    pub(super) fn cut_off(&self) -> u32 {
        self.state().pending_answers.cut_off()
    }

    /// Takes the text of the newest answer, if it is not streamed.
    pub(super) fn take_held(&self) -> String {
        std::mem::take(&mut self.state().held)
    }

    /// Takes the reviews that have ended, as JSON.
    pub(super) fn take_reviews(&self) -> Vec<Value> {
        std::mem::take(&mut self.state().reviews)
    }

    /// Checks that stdout still accepts output.
    ///
    /// # Errors
    /// The error of the write that failed.
    pub(crate) fn stdout(&self) -> Result<()> {
        match self.state().lost.take() {
            Some(error) => Err(CommandError::from(error)),
            None => Ok(()),
        }
    }

    /// Prints a line.
    pub(crate) fn tell(&self, line: &str) {
        self.line(&mut self.state(), line);
    }

    /// Prints an informational line, unless only the answer is shown.
    pub(crate) fn note(&self, message: &str) {
        if self.level != Level::Quiet {
            self.line(&mut self.state(), &self.style.dim(&visible(message)));
        }
    }

    /// Prints a warning.
    pub(crate) fn warn(&self, message: &str) {
        let warning = self.style.notable("warning:");
        self.line(
            &mut self.state(),
            &format!("{warning} {}", visible(message)),
        );
    }

    /// Prints a complete answer.
    pub(crate) fn say(&self, text: &str) {
        self.text(text);
        self.pause();
    }

    /// Reports the end of a review, at any time.
    fn reviewed(&self, agent: &str, report: &ReviewReport, notify: Notify) {
        let cut_off = self.end_fork(REVIEW, false);
        self.state().reviews.push(review::json(report, cut_off));
        if self.level == Level::Quiet && report.failure.is_none() {
            return;
        }
        let told = format!("review: {}", review::line(report));
        let mut state = self.state();
        self.line(&mut state, &self.style.dim(&self.owned(agent, &told)));
        if self.level == Level::Verbose || notify == Notify::Verbose {
            let said = report.text.lines().filter(|line| !line.trim().is_empty());
            let said = said.map(|line| format!("  review | {}", on_one_line(line)));
            let details = format!("  review | {}", review::details(report));
            for line in said.chain([details]) {
                self.line(&mut state, &self.style.dim(&line));
            }
        }
    }

    /// Processes an event of a fork.
    fn beside(&self, holder: &str, event: &Event<'_>) {
        let waiting = Waiter::Fork(holder);
        match event {
            Event::ModelCallStarted { .. } => self.state().pending_answers.asked(waiting),
            Event::Text { .. } | Event::Reasoning { .. } => self.heard(waiting),
            Event::ModelCallEnded {
                usage,
                cost,
                request,
                ..
            } => {
                self.state().pending_answers.answered(waiting);
                self.count_call(None, *usage, *cost, request);
            }
            Event::Fork { event, .. } => self.beside(holder, event),
            Event::Warning { message, .. } => {
                self.warn(&format!("{}: {message}", on_one_line(holder)));
            }
            Event::ToolEnded { answer, .. } if self.level == Level::Verbose => {
                let line = self.outcome(holder, answer);
                self.line(&mut self.state(), &line);
            }
            _ => {}
        }
    }

    /// Shows `what` as running until an answer arrives.
    pub(crate) fn wait_for(&self, what: &str) {
        self.begin_work(MODEL, what);
    }

    /// Prints a part of the answer, or collects it if answers are not streamed.
    fn text(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut state = self.state();
        if !self.growing {
            state.held.push_str(text);
            return;
        }
        self.flush_line_buffer(&mut state);
        match self.answer_console() {
            Some(console) => console.text(&visible(text)),
            None if self.terminal => state.write(&visible(text)),
            None => state.write(text),
        }
    }

    /// Prints text beside the answer, line by line.
    fn line_buffer(&self, who: &str, text: &str) {
        let mut state = self.state();
        if state.line_buffer.who != who {
            self.flush_line_buffer(&mut state);
            who.clone_into(&mut state.line_buffer.who);
        }
        state.line_buffer.text.push_str(text);
        while let Some(end) = state.line_buffer.text.find('\n') {
            let line: String = state.line_buffer.text.drain(..=end).collect();
            self.print_buffered_line(&mut state, &line);
        }
    }

    fn flush_line_buffer(&self, state: &mut State) {
        let rest = std::mem::take(&mut state.line_buffer.text);
        self.print_buffered_line(state, &rest);
    }

    fn print_buffered_line(&self, state: &mut State, line: &str) {
        if !line.trim().is_empty() {
            let who = on_one_line(&state.line_buffer.who);
            let line = format!("  {who} | {}", on_one_line(line.trim_end()));
            self.line(state, &self.style.dim(&line));
        }
    }

    /// Prints a line on stderr, never in the middle of a line on the same terminal.
    fn line(&self, state: &mut State, line: &str) {
        match self.console.get().filter(|_| self.stderr_is_terminal) {
            Some(console) => console.print(line),
            None => {
                if self.terminal {
                    self.end_answer(state);
                }
                render::err(line);
            }
        }
    }

    fn is_own(&self, agent: &str) -> bool {
        if let Some(own) = &*self.switched_to.lock() {
            return own == agent;
        }
        self.about.get().is_none_or(|(own, _)| own == agent)
    }

    /// Processes a switch to another agent, of the chat or of a sub-agent.
    fn switched(&self, from: &str, agent: &str) {
        let note = format!("{} continues the conversation", on_one_line(agent));
        self.note(&self.owned(from, &note));
        if self.is_own(from) {
            *self.switched_to.lock() = Some(agent.to_owned());
            self.change_status(|status| agent.clone_into(&mut status.agent));
        }
    }

    /// Prefixes output of other agents than the one the user talks to with their names.
    fn owned(&self, agent: &str, what: &str) -> String {
        if self.is_own(agent) {
            what.to_owned()
        } else {
            format!("{}: {what}", on_one_line(agent))
        }
    }

    /// Returns a short description of a call, with the agent that makes it.
    pub(crate) fn label(&self, agent: &str, call: &ToolCall) -> String {
        self.owned(agent, &words::call(call))
    }

    /// Shows the size of the answer that is streaming.
    fn streaming(&self, agent: &str, what: &str, text: &str) {
        let mut state = self.state();
        state.streamed += text.len();
        let Some(console) = self.console.get() else {
            return;
        };
        // The provider counts the tokens at the end of the answer only.
        let tokens = grouped(state.streamed.div_ceil(BYTES_PER_TOKEN) as u64);
        let label = format!("{what} · about {tokens} tokens");
        console.label_work(MODEL, &self.owned(agent, &label));
    }

    fn asked(&self, agent: &str) {
        let mut state = self.state();
        state.pending_answers.asked(Waiter::Turn);
        state.streamed = 0;
        if self.is_own(agent) {
            state.held.clear();
        }
        let what = self.owned(agent, "waiting for the model");
        self.begin_work(MODEL, &what);
    }

    fn heard(&self, waiting: Waiter<'_>) {
        self.state().pending_answers.heard(waiting);
    }

    fn answered(&self) {
        let mut state = self.state();
        state.pending_answers.answered(Waiter::Turn);
        self.flush_line_buffer(&mut state);
        self.end_work(MODEL);
        // The next text belongs to another answer.
        self.end_answer(&mut state);
    }

    fn began(&self, agent: &str, call: &ToolCall, output: &LiveOutput) {
        let label = self.label(agent, call);
        let mut state = self.state();
        self.begin_work(&call.id, &label);
        if let Some(console) = self.console.get() {
            let output = output.clone();
            console.show_output(&call.id, move |count| last_lines(&output, count));
        }
        // A call that is repeated outside of the sandbox starts twice.
        state.running.retain(|running| running.id != call.id);
        state.running.push(RunningCall {
            id: call.id.clone(),
            label: label.clone(),
            since: Instant::now(),
            output: output.clone(),
        });
        // Output of the other agent appears between this line and the line for the end of the call.
        if call.name == DELEGATION && self.level != Level::Quiet {
            let begun = self.style.dim("begun");
            let column = self.column();
            self.line(&mut state, &format!("  {label:<column$} {begun}"));
        }
    }

    fn ended(&self, agent: &str, answer: &ToolCallResult) {
        let mut state = self.state();
        let mut running = state.running.iter();
        let at = running.position(|running| running.id == answer.call.id);
        let is_command = at.is_some_and(|at| state.running.remove(at).output.is_published());
        self.end_work(&answer.call.id);
        if self.level != Level::Quiet {
            let line = self.outcome(agent, answer);
            self.line(&mut state, &line);
            if self.console.get().is_some() {
                for line in words::output(answer, is_command) {
                    self.line(&mut state, &self.style.dim(&line));
                }
            }
        }
    }

    /// Returns the width of the column of calls, which is smaller on a narrow terminal.
    fn column(&self) -> usize {
        self.width()
            .map_or(40, |width| width.saturating_sub(24).clamp(16, 40))
    }

    /// Formats the result of a call: `  read_file notes.md    hit    12 ms`.
    fn outcome(&self, agent: &str, answer: &ToolCallResult) -> String {
        let outcome = match (&answer.outcome, answer.output.is_error) {
            (CallOutcome::Ran(_), true) => self.style.error(&format!("{:<9}", "failed")),
            (CallOutcome::Refused, _) => self.style.error(&format!("{:<9}", "refused")),
            (CallOutcome::Hit | CallOutcome::Coalesced, _) => self
                .style
                .success(&format!("{:<9}", answer.outcome.to_string())),
            (CallOutcome::Ran(_), false) => format!("{:<9}", "ran"),
        };
        let label = self.label(agent, &answer.call);
        let column = self.column();
        let line = format!("  {label:<column$} {outcome} {:>9}", time(answer.elapsed));
        let workspace = self.about.get().map_or("", |(_, workspace)| workspace);
        let Some(why) = words::why(answer, self.level == Level::Verbose, workspace) else {
            return line;
        };
        let before = 2 + label.chars().count().max(column) + 1 + 9 + 1 + 9 + 2;
        let room = self.width().map(|width| width.saturating_sub(before + 1));
        match room {
            // A reason that does not fit is printed on the next line.
            Some(room) if why.chars().count() > room => {
                let width = self.width().unwrap_or_default().saturating_sub(6);
                format!("{line}\n    {}", self.style.dim(&cut(&why, width)))
            }
            _ => format!("{line}  {}", self.style.dim(&why)),
        }
    }
}

impl State {
    fn write(&mut self, text: &str) {
        if self.lost.is_none() {
            // The turn continues; its caller checks `stdout` afterwards.
            self.lost = self.stdout.write_all(text.as_bytes()).err();
        }
        self.open = !text.ends_with('\n');
    }

    fn end_line(&mut self) {
        if self.open {
            self.write("\n");
        }
    }
}

impl Reporter for Show {
    fn warning(&self, message: &str) {
        self.warn(message);
    }

    fn server_output(&self, server: &str, line: &str) {
        if self.level == Level::Verbose {
            let line = format!("  {} | {}", on_one_line(server), on_one_line(line));
            self.line(&mut self.state(), &self.style.dim(&line));
        }
    }

    fn server_starting(&self, server: &str) {
        let label = format!("starting the MCP server `{}`", on_one_line(server));
        self.begin_work(&format!("server {server}"), &label);
    }

    fn server_started(&self, server: &str) {
        self.end_work(&format!("server {server}"));
    }

    fn progress(&self, tool: &str, text: &str) {
        self.server_output(tool, text);
        let text = on_one_line(text);
        let state = self.state();
        let mut running = state.running.iter().rev();
        let call = running.find(|call| call.label.contains(tool));
        if let (Some(call), Some(console)) = (call, self.console.get()) {
            console.label_work(&call.id, &format!("{} · {text}", call.label));
        }
    }

    fn list_changed(&self, server: &str) {
        self.warn(&render::tools_changed(server));
    }
}

impl Listener for Show {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::ModelCallStarted { agent, .. } => self.asked(agent),
            Event::Text { agent, text } => {
                self.heard(Waiter::Turn);
                self.streaming(agent, "answering", text);
                if self.is_own(agent) {
                    self.text(text);
                } else if self.level != Level::Quiet {
                    self.line_buffer(agent, text);
                }
            }
            Event::Reasoning { agent, text } => {
                self.heard(Waiter::Turn);
                self.streaming(agent, "thinking", text);
                if self.level == Level::Verbose {
                    self.line_buffer(&self.owned(agent, "thinking"), text);
                }
            }
            Event::ModelCallEnded {
                agent,
                usage,
                cost,
                request,
                ..
            } => {
                self.answered();
                self.count_call(Some(agent), *usage, *cost, request);
            }
            Event::ToolStarted {
                agent,
                call,
                output,
            } => self.began(agent, call, output),
            Event::ToolEnded { agent, answer } => self.ended(agent, answer),
            Event::Synthetic { agent, provenance } => {
                self.answered();
                self.note(&self.owned(agent, &words::synthetic(provenance)));
            }
            Event::AgentSwitched { agent, from } => self.switched(from, agent),
            Event::Compacted { agent, tokens, .. } => {
                let what = format!("the conversation ({tokens} tokens) was summarized");
                self.note(&self.owned(agent, &what));
            }
            Event::Reviewed {
                agent,
                report,
                notify,
            } => self.reviewed(agent, report, *notify),
            Event::Fork { holder, event } => self.beside(holder, event),
            Event::Note { agent, message } => {
                if self.level == Level::Verbose {
                    self.note(&self.owned(agent, message));
                }
            }
            Event::Warning { agent, message } => self.warn(&self.owned(agent, message)),
        }
    }
}

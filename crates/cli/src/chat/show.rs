//! What a turn shows: the answer on stdout as it grows, everything else on stderr, line by line.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cachalot_agent::{Event, Listener};
use cachalot_tools::{Answer, Answered, Call};
use serde_json::Value;

use crate::render::style::Style;
use crate::render::{self, time};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// The answer alone.
    Quiet,
    /// Tool calls and sums, too.
    Normal,
    /// What the model thinks and why tools ran, too.
    Verbose,
}

/// Shows turns.
pub(crate) struct Show {
    level: Level,
    /// Whether the answer is shown while it grows; otherwise whoever runs the turn prints it.
    growing: bool,
    style: Style,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Something was written to stdout, and no line end behind it.
    open: bool,
    /// What the model thinks, as far as it is no whole line yet.
    thought: String,
}

impl Show {
    pub(crate) fn new(level: Level, growing: bool) -> Self {
        Self {
            level,
            growing,
            style: Style::of_stderr(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the line that the answer is on, if it is on one.
    pub(crate) fn end_line(&self) {
        end_line(&mut self.state());
    }

    /// A line for those who want to know.
    pub(crate) fn note(&self, message: &str) {
        if self.level != Level::Quiet {
            let mut state = self.state();
            self.line(&mut state, &self.style.faint(message));
        }
    }

    /// Something that the user should know, and that is no failure.
    pub(crate) fn warn(&self, message: &str) {
        let mut state = self.state();
        let warning = self.style.notable("warning:");
        self.line(&mut state, &format!("{warning} {message}"));
    }

    fn text(&self, text: &str) {
        if !self.growing || text.is_empty() {
            return;
        }
        let mut state = self.state();
        let mut stdout = std::io::stdout().lock();
        // Whoever reads has gone, or the disk is full: the turn goes on, and its end is told.
        let _ = stdout.write_all(text.as_bytes());
        let _ = stdout.flush();
        state.open = !text.ends_with('\n');
    }

    fn thought(&self, text: &str) {
        if self.level != Level::Verbose {
            return;
        }
        let mut state = self.state();
        state.thought.push_str(text);
        while let Some(end) = state.thought.find('\n') {
            let line: String = state.thought.drain(..=end).collect();
            self.line(&mut state, &self.style.faint(line.trim_end()));
        }
    }

    fn rest_of_thought(&self) {
        let mut state = self.state();
        let rest = std::mem::take(&mut state.thought);
        if !rest.trim().is_empty() {
            self.line(&mut state, &self.style.faint(rest.trim_end()));
        }
    }

    /// A line on stderr, never in the middle of one on stdout.
    fn line(&self, state: &mut State, line: &str) {
        end_line(state);
        render::err(line);
    }

    fn tool(&self, agent: &str, answer: &Answer) {
        if self.level == Level::Quiet {
            return;
        }
        let how = match (&answer.how, answer.output.is_error) {
            (Answered::Ran(_), true) => self.style.bad(&format!("{:<9}", "failed")),
            (Answered::Hit | Answered::Coalesced, _) => {
                self.style.good(&format!("{:<9}", answer.how.to_string()))
            }
            (Answered::Refused, _) => self.style.bad(&format!("{:<9}", "refused")),
            (Answered::Ran(_), false) => self.style.notable(&format!("{:<9}", "ran")),
        };
        let mut line = format!(
            "  {:<40} {how} {:>9}",
            told(agent, &answer.call),
            time(answer.elapsed)
        );
        if let Answered::Ran(Some(why)) = &answer.how
            && self.level == Level::Verbose
        {
            line += &format!("  {}", self.style.faint(why));
        }
        let mut state = self.state();
        self.line(&mut state, &line);
    }
}

fn end_line(state: &mut State) {
    if std::mem::take(&mut state.open) {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(b"\n");
        let _ = stdout.flush();
    }
}

impl Listener for Show {
    fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Text { text, .. } => {
                self.rest_of_thought();
                self.text(text);
            }
            Event::Reasoning { text, .. } => self.thought(text),
            Event::Answered { .. } => self.rest_of_thought(),
            Event::ToolEnded { agent, answer } => self.tool(agent, answer),
            Event::Warning { agent, message } => self.warn(&format!("{agent}: {message}")),
            Event::Asked { .. } | Event::ToolBegan { .. } => {}
        }
    }
}

/// A call in a few words: `read_file notes.md`.
pub(crate) fn told(agent: &str, call: &Call) -> String {
    const LONGEST: usize = 60;
    let arguments = match serde_json::from_str::<Value>(&call.arguments) {
        Ok(Value::Object(fields)) => fields
            .values()
            .map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
            .collect::<Vec<_>>()
            .join(" "),
        _ => call.arguments.clone(),
    };
    let line: String = arguments
        .chars()
        .map(|sign| if sign.is_control() { ' ' } else { sign })
        .take(LONGEST)
        .collect();
    let cut = if arguments.chars().count() > LONGEST {
        "…"
    } else {
        ""
    };
    let agent = match agent {
        "root" => String::new(),
        other => format!("{other}: "),
    };
    format!("{agent}{} {line}{cut}", call.name)
}

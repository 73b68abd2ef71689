//! Progress of a run on stderr: on a terminal a spinner per running node and a bar per fan-out, and one line
//! per step.

use std::collections::HashMap;
use std::time::Duration;

use cachalot_core::Spend;
use cachalot_core::digest::abbreviate;
use cachalot_workflow::report::{Event, FAILED, Memoized, Reporter};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::style::Style;
use super::visible::on_one_line;
use super::{Level, count, err, out, spend, time, tools_changed, with_members};

/// Shows the progress of a run and sums it up.
pub(crate) struct Progress {
    level: Level,
    ndjson: bool,
    style: Style,
    bars: MultiProgress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: HashMap<String, ProgressBar>,
    answered: HashMap<String, Vec<Memoized>>,
    /// The number of runs of each node without an answer from the cache to report.
    plain: HashMap<String, u32>,
    sum: Sum,
}

/// The maximum number of such runs of one node that get a line each, except at the level `Verbose`.
const MAX_PLAIN_LINES: u32 = 20;

/// Steps, payments and savings of a run.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) steps: Vec<Step>,
    pub(crate) paid: Spend,
    /// Failed calls, which cost only time.
    pub(crate) failed: Spend,
    pub(crate) saved: Spend,
}

/// A step that has ended.
pub(crate) struct Step {
    pub(crate) node: String,
    /// `None` for a failed step.
    pub(crate) took: Option<Duration>,
    pub(crate) result: StepResult,
}

/// The result of a step.
pub(crate) enum StepResult {
    /// It ran without asking the cache.
    Ran,
    /// It asked the cache.
    Memoized(Memoized),
    /// It failed, with the message.
    Failed(String),
}

impl Step {
    pub(crate) fn json(&self) -> Value {
        let Self { node, took, result } = self;
        let took = milliseconds(took.unwrap_or_default());
        let step = json!({"node": node, "outcome": "ran", "ms": took});
        match result {
            StepResult::Ran => step,
            StepResult::Memoized(memoized) => with_members(step, memoized_fields(memoized)),
            StepResult::Failed(message) => {
                json!({"node": node, "outcome": "failed", "error": message})
            }
        }
    }
}

impl Progress {
    pub(crate) fn new(level: Level, ndjson: bool) -> Self {
        let bars = MultiProgress::new();
        if level == Level::Quiet || ndjson {
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self {
            level,
            ndjson,
            style: Style::of_stderr(),
            bars,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends all spinners and returns the totals.
    pub(crate) fn finish(&self) -> Sum {
        let mut state = self.state();
        for bar in state.running.drain().map(|(_, bar)| bar) {
            bar.finish_and_clear();
        }
        std::mem::take(&mut state.sum)
    }

    /// Prints the closing line.
    pub(crate) fn close(&self, sum: &Sum) {
        if self.level != Level::Quiet {
            let paid = format!(
                "paid {}, {}",
                count(sum.paid.calls, "call", "calls"),
                spend(&sum.paid)
            );
            let failed = match sum.failed.calls {
                0 => String::new(),
                calls => format!(
                    " · failed {}, {}",
                    count(calls, "call", "calls"),
                    spend(&sum.failed)
                ),
            };
            err(&format!(
                "{}{failed} · saved {}",
                self.style.strong(&paid),
                spend(&sum.saved)
            ));
        }
    }

    fn line(&self, text: &str) {
        if self.level != Level::Quiet {
            self.bars.suspend(|| err(text));
        }
    }

    fn started(&self, node: &str) {
        let bar = self.bars.add(ProgressBar::new_spinner());
        bar.set_message(node.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        if let Some(replaced) = self.state().running.insert(node.to_owned(), bar) {
            replaced.finish_and_clear();
        }
    }

    fn progressed(&self, node: &str, done: usize, total: usize) {
        if let Some(bar) = self.state().running.get(node) {
            if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}") {
                bar.set_style(style);
            }
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
    }

    fn ended(&self, node: &str) -> Vec<Memoized> {
        let mut state = self.state();
        if let Some(bar) = state.running.remove(node) {
            bar.finish_and_clear();
        }
        state.answered.remove(node).unwrap_or_default()
    }

    fn answered(&self, node: String, memoized: Memoized) {
        let mut state = self.state();
        match memoized.outcome {
            FAILED => state.sum.failed += memoized.paid,
            _ => state.sum.paid += memoized.paid,
        }
        state.sum.saved += memoized.saved;
        state.answered.entry(node).or_default().push(memoized);
    }

    fn finished(&self, node: &str, took: Duration) {
        let answers = self.ended(node);
        let is_plain = answers.is_empty();
        for memoized in answers {
            self.line(&self.memoized_line(node, took, &memoized));
            self.add_step(node, Some(took), StepResult::Memoized(memoized));
        }
        if is_plain {
            let mut state = self.state();
            let times = state.plain.entry(node.to_owned()).or_default();
            *times = times.saturating_add(1);
            let times = *times;
            drop(state);
            if times <= MAX_PLAIN_LINES || self.level == Level::Verbose {
                let ran = self.style.dim(&format!("{:<9}", "ran"));
                self.line(&format!("{node:<24} {ran} {:>9}", time(took)));
            } else if times == MAX_PLAIN_LINES + 1 {
                let more = self.style.dim("runs again; --verbose shows every time");
                self.line(&format!("{node:<24} {more}"));
            }
            self.add_step(node, Some(took), StepResult::Ran);
        }
    }

    fn add_step(&self, node: &str, took: Option<Duration>, result: StepResult) {
        self.state().sum.steps.push(Step {
            node: node.to_owned(),
            took,
            result,
        });
    }

    fn memoized_line(&self, node: &str, took: Duration, memoized: &Memoized) -> String {
        let outcome = format!("{:<9}", memoized.outcome);
        let outcome = match memoized.outcome {
            "hit" | "stale" | "coalesced" => self.style.success(&outcome),
            FAILED => self.style.error(&outcome),
            _ => self.style.notable(&outcome),
        };
        let handle = memoized.handle.as_deref().unwrap_or("-");
        let handle = match self.level {
            Level::Verbose => handle,
            _ => abbreviate(handle),
        };
        let mut line = format!(
            "{node:<24} {outcome} {:>9}  {}",
            time(took),
            self.style.dim(handle)
        );
        if let (Level::Verbose, Some(reason)) = (self.level, &memoized.reason) {
            line.push_str(&format!("  ({reason})"));
        }
        line
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Returns the JSON fields of a memoized step. The duration of the step is known when it ends.
fn memoized_fields(memoized: &Memoized) -> Value {
    let took = milliseconds(memoized.paid.time);
    let is_failed = memoized.outcome == FAILED;
    let mut fields = json!({
        "outcome": memoized.outcome,
        "key": memoized.handle,
        "reason": memoized.reason,
        "paid_ms": if is_failed { 0.0 } else { took },
        "saved_ms": milliseconds(memoized.saved.time),
    });
    if is_failed {
        fields["failed_ms"] = took.into();
    }
    fields
}

/// Returns an event as the JSON of an `--ndjson` line.
fn event_json(event: &Event) -> Value {
    match event {
        Event::Started { node } => json!({"event": "started", "node": node}),
        Event::Finished { node, time, .. } => {
            json!({"event": "finished", "node": node, "ms": milliseconds(*time)})
        }
        Event::Failed {
            node,
            time,
            message,
        } => {
            json!({"event": "failed", "node": node, "ms": milliseconds(*time), "error": message})
        }
        Event::Retrying {
            node,
            attempt,
            after,
            message,
        } => json!({
            "event": "retrying", "node": node, "attempt": attempt,
            "after_ms": milliseconds(*after), "error": message
        }),
        Event::Progress { node, done, total } => {
            json!({"event": "progress", "node": node, "done": done, "total": total})
        }
        Event::Answered { node, memoized } => {
            let answered = json!({"event": "answered", "node": node});
            with_members(answered, memoized_fields(memoized))
        }
        Event::Printed { node, text } => json!({"event": "printed", "node": node, "text": text}),
        Event::Warning { message } => json!({"event": "warning", "message": message}),
    }
}

impl Reporter for Progress {
    fn report(&self, event: Event) {
        if self.ndjson {
            // If the reader is gone, the run ends when it prints its result.
            let _ = out(&format!("{}\n", event_json(&event)));
        }
        match event {
            Event::Started { node } => self.started(&node),
            Event::Progress { node, done, total } => self.progressed(&node, done, total),
            Event::Answered { node, memoized } => self.answered(node, memoized),
            Event::Finished { node, time, .. } => self.finished(&node, time),
            Event::Failed {
                node,
                time,
                message,
            } => {
                self.ended(&node);
                let failed = self.style.error(&format!("{:<9}", "failed"));
                self.line(&format!(
                    "{node:<24} {failed} {:>9}  {message}",
                    super::time(time)
                ));
                self.add_step(&node, None, StepResult::Failed(message));
            }
            Event::Retrying {
                node,
                attempt,
                after,
                message,
            } => {
                let retry = self.style.notable("retrying ");
                let after = super::time(after);
                self.line(&format!(
                    "{node:<24} {retry} attempt {attempt} in {after}: {message}"
                ));
            }
            Event::Printed { node, text } => {
                for line in text.lines() {
                    self.line(&format!("{} {line}", self.style.dim(&format!("{node} |"))));
                }
            }
            Event::Warning { message } => {
                if self.level != Level::Quiet {
                    self.bars
                        .suspend(|| err(&format!("{} {message}", self.style.notable("warning:"))));
                }
            }
        }
    }
}

impl cachalot_mcp::Reporter for Progress {
    fn warning(&self, message: &str) {
        let message = message.to_owned();
        self.report(Event::Warning { message });
    }

    fn server_output(&self, server: &str, line: &str) {
        if self.level == Level::Verbose {
            let server = on_one_line(server);
            let said = self.style.dim(&format!("{server} |"));
            self.line(&format!("{said} {}", on_one_line(line)));
        }
    }

    fn progress(&self, tool: &str, text: &str) {
        self.server_output(tool, text);
    }

    fn list_changed(&self, server: &str) {
        self.warning(&tools_changed(server));
    }
}

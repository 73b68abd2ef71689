//! One question from a pipe; stdout receives only its answer.

use std::io::Read as _;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{
    Approval, ApprovalRequest, Approver, CancellationToken, ErrorKind, Stop, TurnReport,
    UsageTotals,
};
use cachalot_core::Problem;
use cachalot_hooks::input::PermissionMode;
use serde_json::{Value, json};

use super::approval::ApproveAll;
use super::setup::{ChatSetup, close, told};
use super::show::{Level, Show};
use super::sum;
use super::turn::{TurnEnd, UserMessage, end, turn};
use super::words;
use crate::command_error::{CommandError, Result};
use crate::interrupts::Interrupts;
use crate::render;
use crate::render::style::Style;

/// Answers the question on stdin.
///
/// # Errors
/// There is no question, or it could not be answered completely.
pub(crate) async fn answer(setup: &ChatSetup<'_>) -> Result<()> {
    let show = Arc::new(Show::new(setup.level(), false)?);
    let question = question()?;
    let mut interrupts = Interrupts::listen()?;
    let bench = setup.workbench(&show).await?;
    let approver: Arc<dyn Approver> = match setup.arguments.yes {
        true => Arc::new(ApproveAll),
        false => Arc::new(DenyUnattended),
    };
    let begun = setup.begin(&bench, &show, approver, &mut interrupts);
    let mut chat = match begun.await {
        Ok(chat) => chat,
        Err(trouble) => {
            close(&bench, &mut interrupts).await;
            return Err(trouble);
        }
    };
    let cancel = CancellationToken::default();
    let said = UserMessage {
        text: &question,
        is_fresh: false,
    };
    let turned = turn(&mut chat, said, &cancel, &show, &mut interrupts).await;
    let session = bench.keeps_sessions().then(|| chat.session().to_owned());
    let agent = chat.agent().name.clone();
    let held = show.take_held();
    let answer = PipeAnswer::new(&turned.ended, &held);
    let as_json = setup.arguments.json;
    // Text is printed at once. JSON includes the totals, which are known only when the chat has ended.
    let mut printed = match &answer {
        Some(answer) if !as_json => answer.print(),
        _ => Ok(()),
    };
    // Ending the chat also prints the statistics of the tool calls.
    let total = end(chat, &show, &mut interrupts).await;
    let answered = PipeReport {
        agent,
        session,
        total,
        cut_off: show.cut_off(),
        reviews: show.take_reviews(),
    };
    if let Some(answer) = answer.as_ref().filter(|_| as_json) {
        printed = answered.print(answer);
    }
    if setup.level() != Level::Quiet {
        answered.sum_up();
    }
    close(&bench, &mut interrupts).await;
    let ended = match &turned.ended {
        TurnEnd::Report(report) => match &report.stop {
            Stop::Interrupted => Err(answered.interrupted(setup)),
            stop => stop
                .notice()
                .map_or(Ok(()), |notice| Err(CommandError::failed(notice))),
        },
        TurnEnd::Failed(error) => Err(CommandError::failed(told(error))),
        TurnEnd::Left => Err(answered.interrupted(setup)),
    };
    ended.and(printed)
}

/// Reads the question from stdin.
fn question() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::failed(format!("the question on stdin: {error}")))?;
    let Ok(question) = String::from_utf8(bytes) else {
        let problem = Problem::new("not-utf8", "the question on stdin is not UTF-8 text");
        return Err(CommandError::usage(problem));
    };
    if question.trim().is_empty() {
        return Err(CommandError::usage(
            Problem::new("no-question", "there is no question on stdin")
                .help("write one: `echo 'How deep can it dive?' | cachalot chat FILE`"),
        ));
    }
    Ok(question.trim_end().to_owned())
}

/// Text of an answer, and its report.
struct PipeAnswer<'a> {
    text: &'a str,
    /// `None` if the session was continued elsewhere: the answer is paid for, but not part of the session.
    report: Option<&'a TurnReport>,
}

impl<'a> PipeAnswer<'a> {
    /// Returns the answer of a turn, or `None` if there is nothing to print. `held` is the text of the
    /// model's newest answer.
    fn new(ended: &'a TurnEnd, held: &'a str) -> Option<Self> {
        match ended {
            TurnEnd::Report(report) if report.stop != Stop::Interrupted => Some(Self {
                text: &report.text,
                report: Some(report),
            }),
            TurnEnd::Failed(error) if error.kind == ErrorKind::Conflict => Some(Self {
                text: held,
                report: None,
            }),
            _ => None,
        }
    }

    fn print(&self) -> Result<()> {
        match self.text.trim_end() {
            "" => Ok(()),
            text => render::out(&format!("{text}\n")),
        }
    }
}

/// Data that is reported with an answer.
struct PipeReport {
    agent: String,
    /// `None` if the session is not stored.
    session: Option<String>,
    /// Totals of the whole chat, reviews included.
    total: UsageTotals,
    cut_off: u32,
    reviews: Vec<Value>,
}

impl PipeReport {
    fn print(&self, answer: &PipeAnswer<'_>) -> Result<()> {
        let report = answer.report;
        render::json(&json!({
            "answer": answer.text,
            "ended": report.map_or("conflict", |report| word(&report.stop)),
            "answered_by": report.and_then(|report| report.synthetic.as_ref()).map(words::synthetic),
            "agent": self.agent,
            "session": self.session,
            "report": sum::json(&self.total, self.cut_off),
            "reviews": self.reviews,
            "prefix_breaks": report.map_or(&[][..], |report| &report.breaks),
        }))
    }

    fn sum_up(&self) {
        if self.total.model_calls > 0 || self.total.saved.calls > 0 || self.cut_off > 0 {
            let line = format!("in all {}", sum::line(&self.total, self.cut_off));
            render::err(&Style::of_stderr().strong(&line));
        }
        if let Some(session) = &self.session {
            render::err(&format!("session {session}"));
        }
    }

    fn interrupted(&self, setup: &ChatSetup<'_>) -> CommandError {
        CommandError::Interrupted(match &self.session {
            Some(session) => format!("to continue, {}", setup.resume_command(session)),
            None => "nothing of it is kept".to_owned(),
        })
    }
}

/// Returns the name of a stop reason for `--json`.
fn word(stop: &Stop) -> &'static str {
    match stop {
        Stop::End => "end",
        Stop::Refusal => "refusal",
        Stop::Length => "length",
        Stop::Iterations(_) => "iterations",
        Stop::Repetition(_) => "repetition",
        Stop::Budget(_) => "budget",
        Stop::Interrupted => "interrupted",
        Stop::Hook(_) => "hook",
    }
}

/// Approver for pipes: denies every call that needs approval, since the user cannot be asked.
struct DenyUnattended;

#[async_trait]
impl Approver for DenyUnattended {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        let remedy = question.refusal_message(Some("--yes"));
        Approval::No(Some(format!("no user is present to approve it; {remedy}")))
    }

    fn mode(&self) -> PermissionMode {
        PermissionMode::DontAsk
    }
}

//! One question from a pipe, and its answer alone on stdout.

use std::io::Read as _;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{Approval, Approver, Cancel, Question, Stop, Sum, TurnReport};
use cachalot_core::Problem;
use cachalot_hooks::input::PermissionMode;
use serde_json::json;

use super::approval::Everything;
use super::show::{Level, Show};
use super::sum;
use super::turn::{Ended, Said, end, turn};
use super::words;
use crate::commands::chat::{Setting, close, told};
use crate::interrupts::Interrupts;
use crate::outcome::{Result, Trouble};
use crate::render;
use crate::render::style::Style;

/// Answers the question on stdin.
///
/// # Errors
/// There is none, or it could not be answered to its end.
pub(crate) async fn answer(setting: &Setting<'_>) -> Result<()> {
    let show = Arc::new(Show::new(setting.level(), false)?);
    let question = question()?;
    let mut interrupts = Interrupts::listen()?;
    let bench = setting.workbench(&show)?;
    let approver: Arc<dyn Approver> = match setting.arguments.yes {
        true => Arc::new(Everything),
        false => Arc::new(NobodyThere),
    };
    let begun = setting.begin(&bench, &show, approver, &mut interrupts);
    let mut chat = match begun.await {
        Ok(chat) => chat,
        Err(trouble) => {
            close(&bench, &mut interrupts).await;
            return Err(trouble);
        }
    };
    let cancel = Cancel::default();
    let said = Said {
        text: &question,
        is_fresh: false,
    };
    let turned = turn(&mut chat, said, &cancel, &show, &mut interrupts).await;
    let session = bench.keeps_sessions().then(|| chat.session().to_owned());
    let mut answered = Answered {
        agent: chat.agent().name.clone(),
        session,
        total: chat.total(),
        cut_off: show.take_cut_off(),
    };
    let printed = match &turned.ended {
        Ended::Report(report) if report.stop != Stop::Interrupted => {
            answered.print(report, setting.arguments.json)
        }
        _ => Ok(()),
    };
    // Tells what the tool calls were answered from.
    answered.total = end(chat, &mut interrupts).await;
    if setting.level() != Level::Quiet {
        answered.sum_up();
    }
    close(&bench, &mut interrupts).await;
    let ended = match turned.ended {
        Ended::Report(report) => match report.stop {
            Stop::Interrupted => Err(answered.interrupted(setting)),
            stop => stop
                .notice()
                .map_or(Ok(()), |notice| Err(Trouble::failed(notice))),
        },
        Ended::Failed(error) => Err(Trouble::failed(told(&error))),
        Ended::Left => Err(answered.interrupted(setting)),
    };
    ended.and(printed)
}

/// The question on stdin.
fn question() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| Trouble::failed(format!("the question on stdin: {error}")))?;
    let Ok(question) = String::from_utf8(bytes) else {
        let problem = Problem::new("not-utf8", "the question on stdin is not UTF-8 text");
        return Err(Trouble::usage(problem));
    };
    if question.trim().is_empty() {
        return Err(Trouble::usage(
            Problem::new("no-question", "there is no question on stdin")
                .help("write one: `echo 'How deep can it dive?' | cachalot chat FILE`"),
        ));
    }
    Ok(question.trim_end().to_owned())
}

/// What is told of a question beside its answer.
struct Answered {
    agent: String,
    /// `None` if it is not kept.
    session: Option<String>,
    total: Sum,
    cut_off: u32,
}

impl Answered {
    fn print(&self, report: &TurnReport, as_json: bool) -> Result<()> {
        if as_json {
            return render::json(&json!({
                "answer": report.text,
                "ended": word(&report.stop),
                "answered_by": report.synthetic.as_ref().map(words::synthetic),
                "agent": self.agent,
                "session": self.session,
                "report": sum::json(&self.total, self.cut_off),
                "prefix_breaks": report.breaks,
            }));
        }
        match report.text.trim_end() {
            "" => Ok(()),
            text => render::out(&format!("{text}\n")),
        }
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

    fn interrupted(&self, setting: &Setting<'_>) -> Trouble {
        Trouble::Interrupted(match &self.session {
            Some(session) => format!("to go on, {}", setting.to_go_on(session)),
            None => "nothing of it is kept".to_owned(),
        })
    }
}

/// How a turn ended, for programs.
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

/// Nobody can be asked through a pipe.
struct NobodyThere;

#[async_trait]
impl Approver for NobodyThere {
    async fn approve(&self, question: &Question<'_>) -> Approval {
        Approval::No(Some(format!(
            "nobody can be asked here; `--yes`, or `{}` under `permissions.allow`, lets it",
            question.call.name
        )))
    }

    fn mode(&self) -> PermissionMode {
        PermissionMode::DontAsk
    }
}

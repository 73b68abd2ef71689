//! One prompt from the command line or a pipe; stdout receives only its answer.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{
    Approval, ApprovalRequest, Approver, CancellationToken, Chat, ErrorKind, Listener, Stop,
    TurnReport, UsageTotals,
};
use cachalot_core::Problem;
use cachalot_hooks::input::PermissionMode;
use serde_json::{Value, json};

use super::agent_command;
use super::attachments::{self, Folders};
use super::command::Command;
use super::event_stream::EventStream;
use super::pipe_command;
use super::resumption::Resumption;
use super::setup::{ChatCallbacks, ChatSetup, close, failure};
use super::show::Show;
use super::sum;
use super::turn::{TurnEnd, UserMessage, end, turn};
use super::words;
use crate::arguments::OutputFormat;
use crate::command_error::{CommandError, Result};
use crate::input::from_stdin;
use crate::interrupts::Interrupts;
use crate::render::style::Style;
use crate::render::visible::on_one_line;
use crate::render::{self, Level};
use crate::workbench::Workbench;

/// Time without the end of stdin after which the user is informed that the prompt is complete only then.
const STDIN_NOTICE_TIME: Duration = Duration::from_secs(3);

/// Answers the prompt of the command line and stdin. With an output format other than text, `document` gets
/// the report, also after most errors.
///
/// # Errors
/// There is no prompt, or it could not be answered completely.
pub(crate) async fn answer(setup: &ChatSetup<'_>, document: &mut Value) -> Result<()> {
    let show = Arc::new(Show::new(setup.level(), false)?);
    // The question comes first: without one, nothing is opened.
    let question = question(setup.prompt).await?;
    let command = pipe_command::find(&question)?;
    let mut interrupts = Interrupts::listen()?;
    let bench = setup.workbench(&show, setup.sandbox_settings()?).await?;
    let approver: Arc<dyn Approver> = if setup.arguments.yes {
        Arc::new(setup.approve_all(&bench))
    } else {
        Arc::new(DenyUnattended)
    };
    let approver = setup.with_sandbox(approver, &bench, None);
    let format = setup.arguments.output_format();
    let listener: Arc<dyn Listener> = match format {
        OutputFormat::StreamJson => Arc::new(EventStream::new(Arc::clone(&show))),
        _ => Arc::clone(&show) as _,
    };
    let callbacks = ChatCallbacks {
        listener,
        approver,
        user: None,
    };
    let begun = setup.begin(&bench, &show, &callbacks, None, &mut interrupts);
    let mut chat = begun.await?;
    let cancel = CancellationToken::default();
    // A command of the agent may have the name of none of the chat.
    let command = command.filter(|_| agent_command::find(chat.agent(), &question).is_none());
    let (question, is_fresh) = match command {
        None => (question, false),
        Some(Command::Fresh(Some(text))) => (text, true),
        Some(command) => {
            let running = pipe_command::run(&command, &mut chat, setup, &bench, &cancel);
            let ran = interruptible(running, &cancel, &mut interrupts).await;
            let answered = end_unsent(chat, setup, &bench, &show, &mut interrupts).await;
            let text = &ran.unwrap_or_else(|| Err(answered.interrupted(setup)))?;
            let output = PipeAnswer { text, report: None };
            if format == OutputFormat::Text {
                return output.print();
            }
            *document = answered.json(Some(&output), word(&Stop::End));
            return Ok(());
        }
    };
    let preparing = message(&mut chat, &question, setup, &bench, &show, &cancel);
    let message = match interruptible(preparing, &cancel, &mut interrupts).await {
        Some(Ok(message)) => message,
        unsent => {
            let ended = end_unsent(chat, setup, &bench, &show, &mut interrupts).await;
            return Err(match unsent {
                Some(Err(trouble)) => trouble,
                _ => ended.interrupted(setup),
            });
        }
    };
    let said = UserMessage {
        text: &message,
        typed: &question,
        is_fresh,
    };
    let turned = turn(&mut chat, said, &cancel, &show, &mut interrupts).await;
    let session = bench.keeps_sessions().then(|| chat.session().to_owned());
    let agent = chat.agent().name.clone();
    let held = show.take_held();
    let answer = PipeAnswer::new(&turned.ended, &held);
    let as_json = format != OutputFormat::Text;
    // Text is printed at once. JSON includes the totals, which are known only when the chat has ended.
    let printed = match &answer {
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
    if as_json {
        *document = answered.json(answer.as_ref(), end_word(&turned.ended));
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
        TurnEnd::Failed(error) => Err(failure(error)),
        TurnEnd::Left => Err(answered.interrupted(setup)),
    };
    ended.and(printed)
}

/// Runs work until a signal cancels it, and then until it has ended; a second signal abandons it. Returns `None` after
/// a signal.
async fn interruptible<T>(
    work: impl Future<Output = T>,
    cancel: &CancellationToken,
    interrupts: &mut Interrupts,
) -> Option<T> {
    let mut work = Box::pin(work);
    tokio::select! {
        done = &mut work => return Some(done),
        _ = interrupts.next() => cancel.cancel(),
    }
    tokio::select! {
        _ = work => {}
        _ = interrupts.next() => {}
    }
    None
}

/// Ends a chat in which nothing was sent. A session that this command has begun leaves nothing behind.
async fn end_unsent(
    chat: Chat,
    setup: &ChatSetup<'_>,
    bench: &Workbench,
    show: &Show,
    interrupts: &mut Interrupts,
) -> PipeReport {
    let (agent, session) = (chat.agent().name.clone(), chat.session().to_owned());
    let is_new = Resumption::read(setup.arguments) == Resumption::New;
    let is_forgotten = is_new && chat.messages().is_empty();
    let total = end(chat, show, interrupts).await;
    if is_forgotten {
        bench.forget(&session).await;
    }
    close(bench, interrupts).await;
    PipeReport {
        agent,
        session: Some(session).filter(|_| bench.keeps_sessions() && !is_forgotten),
        total,
        cut_off: show.cut_off(),
        reviews: show.take_reviews(),
    }
}

/// Returns the message to send, and attaches the files that the prompt of the command line names. Text from stdin may
/// come from a file, and attaches nothing.
///
/// # Errors
/// A file cannot be attached, or the command of the agent failed.
async fn message(
    chat: &mut Chat,
    question: &str,
    setup: &ChatSetup<'_>,
    bench: &Workbench,
    show: &Show,
    cancel: &CancellationToken,
) -> Result<String> {
    let message = command_message(chat, question, setup, cancel).await?;
    let folders = Folders::new(bench.workspace(), setup.process_environment);
    let typed = setup.prompt.unwrap_or_default();
    attachments::attach(chat, typed, folders, show, cancel).await?;
    Ok(message.unwrap_or_else(|| question.to_owned()))
}

/// Returns the message of the agent's command that the question calls; `None` if it calls none.
///
/// # Errors
/// The command failed, or sends no message.
async fn command_message(
    chat: &mut Chat,
    question: &str,
    setup: &ChatSetup<'_>,
    cancel: &CancellationToken,
) -> Result<Option<String>> {
    let Some((command, arguments)) = agent_command::find(chat.agent(), question) else {
        return Ok(None);
    };
    let environment = setup.process_environment;
    let run = agent_command::run(chat, &command, arguments, environment, cancel);
    let outcome = run.await.map_err(|error| failure(&error))?;
    match (outcome.message, outcome.url) {
        (Some(message), _) => Ok(Some(message)),
        (None, Some(url)) => Err(CommandError::failed(format!(
            "the command `/{}` only opens {}",
            command.name,
            on_one_line(&url)
        ))),
        (None, None) => Err(CommandError::failed(format!(
            "the command `/{}` sends no message; write one behind it",
            command.name
        ))),
    }
}

/// Returns the prompt of the command line, followed by the text on stdin if that is not a terminal.
async fn question(prompt: Option<&str>) -> Result<String> {
    let typed = if std::io::stdin().is_terminal() {
        String::new()
    } else {
        read_stdin().await?
    };
    let parts = [prompt.unwrap_or_default(), typed.trim_end()];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect();
    if parts.is_empty() {
        return Err(CommandError::usage(
            Problem::new(
                "no-question",
                "there is no prompt, neither as an argument nor on stdin",
            )
            .help("write one: `cachalot chat -p \"How deep can it dive?\"`"),
        ));
    }
    Ok(parts.join("\n\n"))
}

/// Reads stdin to its end. Prints a notice if that takes long: a caller may have left a pipe open.
async fn read_stdin() -> Result<String> {
    let reading = tokio::task::spawn_blocking(|| from_stdin("the prompt"));
    tokio::pin!(reading);
    let read = match tokio::time::timeout(STDIN_NOTICE_TIME, &mut reading).await {
        Ok(read) => read,
        Err(_) => {
            render::err(
                "waiting for the end of stdin, which is part of the prompt; `< /dev/null` leaves it out",
            );
            reading.await
        }
    };
    read.map_err(|error| CommandError::failed(format!("the prompt on stdin: {error}")))?
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
    fn json(&self, answer: Option<&PipeAnswer<'_>>, ended: &str) -> Value {
        let report = answer.and_then(|answer| answer.report);
        json!({
            "answer": answer.map(|answer| answer.text),
            "ended": ended,
            "answered_by": report.and_then(|report| report.synthetic.as_ref()).map(words::synthetic),
            "agent": self.agent,
            "session": self.session,
            "report": sum::json(&self.total, self.cut_off),
            "reviews": self.reviews,
            "prefix_breaks": report.map_or(&[][..], |report| &report.breaks),
        })
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

/// Returns the name of the end of a turn for `--json`.
fn end_word(ended: &TurnEnd) -> &'static str {
    match ended {
        TurnEnd::Report(report) => word(&report.stop),
        TurnEnd::Failed(error) if error.kind == ErrorKind::Conflict => "conflict",
        TurnEnd::Failed(_) => "error",
        TurnEnd::Left => "interrupted",
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

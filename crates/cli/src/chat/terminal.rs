//! Interactive chat on a terminal.

use std::sync::Arc;

use cachalot_agent::chat::{Reloaded, Retracted};
use cachalot_agent::definition::CommandDefinition;
use cachalot_agent::{Approver, CancellationToken, Chat, Stop, UsageTotals};
use parking_lot::Mutex;

use super::agent_command;
use super::approval::{ApproveAll, TerminalApprover};
use super::command::Command;
use super::prompt::{InputLine, Prompt};
use super::questions::TerminalPrompter;
use super::resumption::Resumption;
use super::setup::{ChatSetup, close, told};
use super::show::{Level, Show};
use super::sum;
use super::turn::{TurnEnd, UserMessage, end, is_truncated, turn};
use crate::agent_names::ASIDE;
use crate::command_error::Result;
use crate::interrupts::{Interrupts, Signal};
use crate::permissions;
use crate::render;
use crate::render::cut;
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};
use crate::workbench::Workbench;

/// Runs turns until the user leaves.
///
/// # Errors
/// The chat cannot be started, or stdout accepts no more output.
pub(crate) async fn run_chat(setup: &ChatSetup<'_>) -> Result<()> {
    let show = Arc::new(Show::new(setup.level(), true)?);
    let prompt = Arc::new(Prompt::new(setup.home.history.clone())?);
    let typing = Arc::clone(&prompt);
    show.interject_with(move |line| typing.interject(line));
    show.set_width(prompt.width());
    show.animate();
    let mut interrupts = Interrupts::listen()?;
    let bench = setup.workbench(&show).await?;
    let under_way = Arc::new(Mutex::new(CancellationToken::default()));
    let approver: Arc<dyn Approver> = match setup.arguments.yes {
        true => Arc::new(ApproveAll),
        false => Arc::new(TerminalApprover {
            saved: permissions::file(setup.process_environment),
            prompt: Arc::clone(&prompt),
            show: Arc::clone(&show),
            cancel: Arc::clone(&under_way),
        }),
    };
    let user = Arc::new(TerminalPrompter {
        prompt: Arc::clone(&prompt),
        show: Arc::clone(&show),
        cancel: Arc::clone(&under_way),
    });
    let listener = Arc::clone(&show) as _;
    let begun = setup.begin(
        &bench,
        &show,
        listener,
        approver,
        Some(user),
        &mut interrupts,
    );
    let chat = match begun.await {
        Ok(chat) => chat,
        Err(trouble) => {
            close(&bench, &mut interrupts).await;
            return Err(trouble);
        }
    };
    let chat_loop = ChatLoop {
        setup,
        show,
        prompt,
        under_way,
        bench,
        is_empty: Resumption::read(setup.arguments) == Resumption::New,
        is_fresh: false,
        chat,
    };
    chat_loop.run_to_end(&mut interrupts).await
}

/// The maximum number of characters that are shown of a message that is taken back.
const MAX_SHOWN_CHARS: usize = 60;

/// A running chat.
struct ChatLoop<'a> {
    setup: &'a ChatSetup<'a>,
    show: Arc<Show>,
    prompt: Arc<Prompt>,
    /// Cancellation of the current turn.
    under_way: Arc<Mutex<CancellationToken>>,
    bench: Workbench,
    chat: Chat,
    /// True until the first message in the session.
    is_empty: bool,
    /// Set when the next message bypasses the response cache.
    is_fresh: bool,
}

/// Next step of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    Continue,
    Leave,
}

impl ChatLoop<'_> {
    async fn run_to_end(mut self, interrupts: &mut Interrupts) -> Result<()> {
        self.greet();
        let begun = match self.setup.prompt {
            Some(prompt) => self.turn(prompt, false, interrupts).await,
            None => Ok(NextStep::Continue),
        };
        let ended = match begun {
            Ok(NextStep::Continue) => self.run_loop(interrupts).await,
            ended => ended.map(|_| ()),
        };
        self.prompt.restore();
        let session = self.chat.session().to_owned();
        let is_kept = self.bench.keeps_sessions() && !self.is_empty;
        if self.is_empty {
            self.bench.forget(&session).await;
        }
        if self.chat.is_reviewing() && !interrupts.is_ending() {
            self.show
                .note("the review is still running; Ctrl-C ends it");
        }
        let total = end(self.chat, &self.show, interrupts).await;
        close(&self.bench, interrupts).await;
        if self.setup.level() != Level::Quiet {
            sum_up(&total, self.show.cut_off());
            if is_kept {
                render::err(&format!(
                    "to continue: {}",
                    self.setup.resume_command(&session)
                ));
            }
        }
        ended
    }

    fn greet(&self) {
        if self.setup.level() == Level::Quiet {
            return;
        }
        let agent = self.chat.agent();
        let description = match agent.description.trim() {
            "" => String::new(),
            description => format!(": {}", on_one_line(description)),
        };
        render::err(&format!("{} ({}){description}", agent.name, agent.model));
        let welcome = agent.welcome_message.trim_end();
        if !welcome.is_empty() && self.is_empty {
            render::err(&visible(welcome));
        }
        self.tell_session();
    }

    fn tell_session(&self) {
        let session = match self.bench.keeps_sessions() {
            true => format!("session {} · ", self.chat.session()),
            false => String::new(),
        };
        render::err(&format!(
            "{session}/help lists the commands, Ctrl-D ends the chat"
        ));
    }

    /// Runs turns until the chat ends.
    async fn run_loop(&mut self, interrupts: &mut Interrupts) -> Result<()> {
        let mut was_interrupted = false;
        loop {
            let told = tokio::select! {
                () = self.chat.notify_waiting_for_user() => None,
                signal = interrupts.next() => Some(signal),
            };
            if told == Some(Signal::End) {
                return Ok(());
            }
            let line = self.listen(interrupts).await;
            let is_interrupted = line == InputLine::Interrupted;
            let next = match line {
                InputLine::End => NextStep::Leave,
                InputLine::Interrupted if was_interrupted => NextStep::Leave,
                InputLine::Interrupted => {
                    render::err("Ctrl-C again, Ctrl-D or /quit ends the chat");
                    NextStep::Continue
                }
                InputLine::Text(text) if text.trim().is_empty() => NextStep::Continue,
                InputLine::Text(text) => self.run_line(&text, interrupts).await?,
            };
            was_interrupted = is_interrupted;
            if next == NextStep::Leave {
                return Ok(());
            }
        }
    }

    /// Runs a command, or a turn with a message.
    async fn run_line(&mut self, text: &str, interrupts: &mut Interrupts) -> Result<NextStep> {
        if let Some((command, arguments)) = agent_command::find(self.chat.agent(), text) {
            return self.agent_command(&command, arguments, interrupts).await;
        }
        match Command::parse(text) {
            Some(command) => self.run_command(&command, interrupts).await,
            None => {
                let is_fresh = std::mem::take(&mut self.is_fresh);
                self.turn(text, is_fresh, interrupts).await
            }
        }
    }

    /// Runs a command of the agent, and a turn with its message.
    async fn agent_command(
        &mut self,
        command: &CommandDefinition,
        arguments: &str,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        let cancel = CancellationToken::default();
        *self.under_way.lock() = cancel.clone();
        let environment = self.setup.process_environment;
        let run = agent_command::run(&mut self.chat, command, arguments, environment, &cancel);
        let (outcome, next) = cancellable(Box::pin(run), &cancel, interrupts).await;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                complain(&error);
                return Ok(next);
            }
        };
        if let Some(url) = &outcome.url {
            render::err(&on_one_line(url));
        }
        match outcome.message {
            Some(message) if next == NextStep::Continue => {
                let is_fresh = std::mem::take(&mut self.is_fresh);
                self.turn(&message, is_fresh, interrupts).await
            }
            _ => Ok(next),
        }
    }

    /// Reads the user's next input.
    async fn listen(&self, interrupts: &mut Interrupts) -> InputLine {
        if interrupts.forget().await {
            return InputLine::End;
        }
        let reading = Arc::clone(&self.prompt).message();
        tokio::pin!(reading);
        loop {
            tokio::select! {
                line = &mut reading => return line,
                signal = interrupts.next() => match signal {
                    Signal::End => return InputLine::End,
                    // From a terminal without line editing, or from elsewhere; reading continues.
                    Signal::Interrupt => render::err("\nCtrl-D or /quit ends the chat"),
                }
            }
        }
    }

    async fn run_command(
        &mut self,
        command: &Command,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        match command {
            Command::Quit => return Ok(NextStep::Leave),
            Command::New => return Ok(self.renew(interrupts).await),
            Command::Compact => return Ok(self.compact(interrupts).await),
            Command::Review(focus) => self.review(focus.as_deref()),
            Command::Aside(question) => return self.aside(question, interrupts).await,
            Command::Reload => return Ok(self.reload(interrupts).await),
            Command::Retract => return Ok(self.retract(interrupts).await),
            Command::Fresh(None) => {
                self.is_fresh = true;
                render::err("the next message gets a new answer");
            }
            Command::Fresh(Some(text)) => return self.turn(text, true, interrupts).await,
            other => {
                self.show.set_width(self.prompt.width());
                other.tell(&self.chat, &self.bench, &self.show);
                if *other == Command::Help {
                    for line in agent_command::describe(self.chat.agent()) {
                        render::err(&on_one_line(&line));
                    }
                }
                if *other == Command::Stats {
                    let total = self.chat.total();
                    render::err(&format!("chat: {}", sum::line(&total, self.show.cut_off())));
                }
            }
        }
        Ok(NextStep::Continue)
    }

    /// Replaces the conversation with a summary. On failure, the conversation is unchanged.
    async fn compact(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let cancel = CancellationToken::default();
        let before = self.chat.total();
        let (compacted, next) = cancellable(self.chat.compact(&cancel), &cancel, interrupts).await;
        self.show.pause();
        let total = self.chat.total();
        match compacted {
            Ok(_) if total.model_calls > before.model_calls => {
                self.account("so far ", &total, self.show.cut_off());
            }
            Ok(_) => {}
            Err(error) => complain(&error),
        }
        next
    }

    /// Starts a review, which reports its own end.
    fn review(&mut self, focus: Option<&str>) {
        match self.chat.review(focus) {
            Ok(()) => self.show.note("the review runs in the background"),
            Err(error) => complain(&error),
        }
    }

    /// Answers a side question on a fork of the conversation.
    async fn aside(&mut self, question: &str, interrupts: &mut Interrupts) -> Result<NextStep> {
        let cancel = CancellationToken::default();
        self.show.wait_for("waiting for the model");
        let (answered, next) = cancellable(
            self.chat.side_question(question, &cancel),
            &cancel,
            interrupts,
        )
        .await;
        let under_way = match &answered {
            Ok(report) => report.stop == Stop::Interrupted,
            Err(error) => cancel.is_cancelled() || is_truncated(error),
        };
        let cut_off = self.show.end_fork(ASIDE, under_way);
        self.show.pause();
        match answered {
            Ok(report) => {
                self.show.say(&report.text);
                if let Some(notice) = report.stop.notice() {
                    render::err(&Style::of_stderr().notable(&visible(&notice)));
                }
                self.account("", &report.sum, cut_off);
            }
            Err(error) => {
                complain(&error);
                if cut_off > 0 {
                    self.account("so far ", &self.chat.total(), self.show.cut_off());
                }
            }
        }
        self.show.stdout()?;
        Ok(next)
    }

    /// Replaces the tools if they have changed since the session began.
    async fn reload(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let reloaded = tokio::select! {
            reloaded = self.chat.reload() => reloaded,
            signal = interrupts.next() => match signal {
                Signal::End => return NextStep::Leave,
                Signal::Interrupt => {
                    render::err("interrupted; the tools are those that they were");
                    return NextStep::Continue;
                }
            }
        };
        match reloaded {
            Ok(None) => render::err("the tools are those that the session has"),
            Ok(Some(reloaded)) => render::err(&describe_reload(&reloaded)),
            Err(error) => complain(&error),
        }
        NextStep::Continue
    }

    /// Takes back the last message and everything after it. On failure, the session is unchanged.
    async fn retract(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let retracted = tokio::select! {
            retracted = self.chat.retract() => retracted,
            signal = interrupts.next() => match signal {
                Signal::End => return NextStep::Leave,
                Signal::Interrupt => {
                    render::err("interrupted; /retract again takes the message back");
                    return NextStep::Continue;
                }
            }
        };
        match retracted {
            Ok(None) => render::err("there is no message to take back"),
            Ok(Some(retracted)) => render::err(&describe_retraction(&retracted)),
            Err(error) => complain(&error),
        }
        NextStep::Continue
    }

    /// Starts a new session. On failure, the old one continues.
    async fn renew(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let before = self.chat.session().to_owned();
        let renewed = tokio::select! {
            renewed = self.chat.start_new_session() => renewed,
            signal = interrupts.next() => match signal {
                Signal::End => return NextStep::Leave,
                Signal::Interrupt => {
                    render::err("interrupted; the session continues");
                    return NextStep::Continue;
                }
            }
        };
        match renewed {
            Ok(()) => {
                if std::mem::replace(&mut self.is_empty, true) {
                    self.bench.forget(&before).await;
                }
                self.tell_session();
            }
            Err(error) => complain(&error),
        }
        NextStep::Continue
    }

    /// Runs one turn. Errors of the turn are printed, and the chat continues.
    async fn turn(
        &mut self,
        text: &str,
        is_fresh: bool,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        let cancel = CancellationToken::default();
        self.under_way.lock().clone_from(&cancel);
        self.show.set_width(self.prompt.width());
        self.is_empty = false;
        let answers_before = self.chat.total().model_calls;
        let said = UserMessage { text, is_fresh };
        let turned = turn(&mut self.chat, said, &cancel, &self.show, interrupts).await;
        let style = Style::of_stderr();
        match &turned.ended {
            TurnEnd::Report(report) => {
                if let Some(notice) = report.stop.notice() {
                    render::err(&style.notable(&visible(&notice)));
                }
                self.account("", &report.sum, turned.cut_off);
            }
            TurnEnd::Failed(error) => {
                complain(error);
                advise(error);
                let total = self.chat.total();
                if total.model_calls > answers_before || turned.cut_off > 0 {
                    self.account("so far ", &total, self.show.cut_off());
                }
            }
            TurnEnd::Left => {
                render::err(&style.notable("interrupted; what had come of the turn may be lost"));
            }
        }
        if self.prompt.is_asking() && !turned.leave {
            // A time budget, or a signal from elsewhere, ended the turn while its question was open.
            render::err("the question is no longer open: press Enter to continue");
        }
        self.show.stdout()?;
        Ok(match turned.leave {
            true => NextStep::Leave,
            false => NextStep::Continue,
        })
    }

    /// Prints usage in one line.
    fn account(&self, what: &str, sum: &UsageTotals, cut_off: u32) {
        if self.setup.level() != Level::Quiet {
            let line = format!("{what}{}", sum::line(sum, cut_off));
            render::err(&Style::of_stderr().dim(&line));
        }
    }
}

/// Runs work that Ctrl-C cancels. Returns its result and the next step of the chat.
async fn cancellable<T>(
    work: impl Future<Output = T>,
    cancel: &CancellationToken,
    interrupts: &mut Interrupts,
) -> (T, NextStep) {
    tokio::pin!(work);
    let mut next = NextStep::Continue;
    loop {
        tokio::select! {
            done = &mut work => return (done, next),
            signal = interrupts.next() => {
                if signal == Signal::End {
                    next = NextStep::Leave;
                }
                cancel.cancel();
            }
        }
    }
}

/// Describes the new tools and their cost.
fn describe_reload(reloaded: &Reloaded) -> String {
    let changes = on_one_line(&reloaded.changes);
    match reloaded.tokens {
        0 => changes,
        tokens => format!(
            "{changes}; the provider reads about {tokens} tokens of this session anew with the next message"
        ),
    }
}

/// Describes the messages that were taken back.
fn describe_retraction(retracted: &Retracted) -> String {
    let text = on_one_line(&retracted.text);
    let behind = match retracted.others {
        0 => String::new(),
        1 => " and 1 message behind it".to_owned(),
        others => format!(" and {others} messages behind it"),
    };
    format!(
        "taken back: \"{}\"{behind}; what tools did is not undone",
        cut(&text, MAX_SHOWN_CHARS)
    )
}

/// Prints how to continue a session that its provider refuses; nothing for other errors.
fn advise(error: &cachalot_agent::Error) {
    let is_refused = (error.model.as_ref())
        .is_some_and(|error| error.kind == cachalot_model::ErrorKind::Rejected);
    if is_refused {
        render::err(
            "  help: if the provider refuses the next messages, too, /retract takes back the last one with what came of it",
        );
    }
}

fn complain(error: &cachalot_agent::Error) {
    let error_word = Style::of_stderr().error("error:");
    render::err(&format!("{error_word} {}", visible(&told(error))));
}

fn sum_up(total: &UsageTotals, cut_off: u32) {
    if total.model_calls > 0 || total.saved.calls > 0 || cut_off > 0 {
        let line = format!("in all {}", sum::line(total, cut_off));
        render::err(&Style::of_stderr().strong(&line));
    }
}

//! Interactive chat on a terminal.

use std::sync::Arc;

use cachalot_agent::definition::CommandDefinition;
use cachalot_agent::{Approver, CancellationToken, Chat, Stop, UsageTotals};
use cachalot_hooks::input::PermissionMode;
use parking_lot::Mutex;

use super::agent_command;
use super::approval::{ApproveAll, TerminalApprover};
use super::attachments::{self, Folders};
use super::command::{COMMANDS, Command};
use super::last_exchange::LastExchange;
use super::messages::{
    advise, complain, describe_reload, describe_retraction, list_agents, plan_question, sum_up,
};
use super::mode::{ChatMode, ModeApprover};
use super::model_names::ModelNames;
use super::open_terminal::{open_terminal, windows};
use super::prompt::{InputLine, Prompt};
use super::questions::TerminalPrompter;
use super::resumption::Resumption;
use super::setup::{ChatCallbacks, ChatSetup, close};
use super::show::{Level, Show};
use super::sum;
use super::turn::{TurnEnd, UserMessage, end, is_truncated, turn};
use crate::agent_names::ASIDE;
use crate::command_error::Result;
use crate::interrupts::{Interrupts, Signal};
use crate::permissions;
use crate::render;
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};
use crate::terminal::{CommandHint, Completer, Reply};
use crate::workbench::Workbench;

/// Runs turns until the user leaves.
///
/// # Errors
/// The chat cannot be started, or stdout accepts no more output.
pub(crate) async fn run_chat(setup: &ChatSetup<'_>) -> Result<()> {
    let show = Arc::new(Show::new(setup.level(), true)?);
    let mut interrupts = Interrupts::listen()?;
    let mut terminal = open_terminal(setup);
    let prompt = match &mut terminal {
        Some(terminal) => {
            show.set_console(terminal.console().clone());
            show.set_windows(windows(setup));
            interrupts.add_keys(terminal.signals());
            Prompt::Live(terminal.console().clone())
        }
        None => Prompt::Plain(Arc::default()),
    };
    let bench = setup.workbench(&show).await?;
    let under_way = Arc::new(Mutex::new(CancellationToken::default()));
    let approver: Arc<dyn Approver> = match setup.arguments.yes {
        true => Arc::new(ApproveAll),
        false => Arc::new(TerminalApprover {
            saved: permissions::file(setup.process_environment),
            prompt: prompt.clone(),
            workspace: bench.workspace().to_owned(),
            show: Arc::clone(&show),
            cancel: Arc::clone(&under_way),
        }),
    };
    let user = TerminalPrompter {
        prompt: prompt.clone(),
        show: Arc::clone(&show),
        cancel: Arc::clone(&under_way),
    };
    let mode = ChatMode::default();
    let approver: Arc<dyn Approver> = Arc::new(ModeApprover {
        next: approver,
        mode: mode.clone(),
    });
    if let Prompt::Live(console) = &prompt {
        let (mode, show) = (mode.clone(), Arc::downgrade(&show));
        console.on_next_mode(move || {
            mode.next();
            if let Some(show) = show.upgrade() {
                show.set_mode(mode.label());
            }
        });
    }
    let callbacks = ChatCallbacks {
        listener: Arc::clone(&show) as _,
        approver,
        user: Some(Arc::new(user)),
    };
    let begun = setup.begin(&bench, &show, &callbacks, Some(&prompt), &mut interrupts);
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
        callbacks,
        mode,
        earlier: UsageTotals::default(),
        model_names: ModelNames::of_chat(&setup.team, setup.process_environment),
        chat,
    };
    chat_loop.run_to_end(&mut interrupts).await
}

/// The message that accepts a plan.
const ACCEPTANCE: &str = "The plan is accepted. Carry it out.";

/// Width of lists if that of the terminal is unknown.
const LIST_WIDTH: usize = 80;

/// A running chat.
struct ChatLoop<'a> {
    setup: &'a ChatSetup<'a>,
    show: Arc<Show>,
    prompt: Prompt,
    /// Cancellation of the current turn.
    under_way: Arc<Mutex<CancellationToken>>,
    bench: Workbench,
    chat: Chat,
    callbacks: ChatCallbacks,
    mode: ChatMode,
    model_names: ModelNames,
    /// Usage of the chats that `chat` has replaced.
    earlier: UsageTotals,
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
        if !self.is_empty {
            self.show_last_exchange().await;
        }
        let begun = match self.setup.prompt {
            Some(prompt) => {
                self.prompt.show_message(prompt);
                self.turn(prompt, prompt, false, interrupts).await
            }
            None => Ok(NextStep::Continue),
        };
        let ended = match begun {
            Ok(NextStep::Continue) => self.run_loop(interrupts).await,
            ended => ended.map(|_| ()),
        };
        let session = self.chat.session().to_owned();
        let is_kept = self.bench.keeps_sessions() && !self.is_empty;
        if self.is_empty {
            self.bench.forget(&session).await;
        }
        if self.chat.is_reviewing() && !interrupts.is_ending() {
            self.show
                .note("the review is still running; Ctrl-C ends it");
        }
        let mut total = self.earlier;
        total += end(self.chat, &self.show, interrupts).await;
        close(&self.bench, interrupts).await;
        if self.setup.level() != Level::Quiet {
            sum_up(&total, &self.show);
            if is_kept {
                self.show.tell(&format!(
                    "to continue: {}",
                    self.setup.resume_command(&session)
                ));
            }
        }
        ended
    }

    fn greet(&self) {
        self.follow_agent();
        if self.setup.level() == Level::Quiet {
            return;
        }
        let agent = self.chat.agent();
        let description = match agent.description.trim() {
            "" => String::new(),
            description => format!(": {}", on_one_line(description)),
        };
        self.show
            .tell(&format!("{} ({}){description}", agent.name, agent.model));
        let welcome = agent.welcome_message.trim_end();
        if !welcome.is_empty() && self.is_empty {
            self.show.tell(&visible(welcome));
        }
        self.tell_session();
    }

    /// Shows the agent of the chat and its model, and completes commands for it.
    fn follow_agent(&self) {
        let agent = self.chat.agent();
        self.show.set_agent(&agent.name, &agent.model);
        let Prompt::Live(console) = &self.prompt else {
            return;
        };
        let agents = || {
            self.setup
                .team
                .agents
                .iter()
                .map(|it| it.name.clone())
                .collect()
        };
        let commands = COMMANDS.iter().map(|&(name, help)| CommandHint {
            name,
            help,
            values: match name {
                "/agent" => agents(),
                "/model" => self.model_names.all(),
                _ => Vec::new(),
            },
        });
        console.set_completer(Completer {
            commands: commands.collect(),
            root: self.bench.workspace().to_owned(),
        });
    }

    fn tell_session(&self) {
        let session = match self.bench.keeps_sessions() {
            true => format!("session {} · ", self.chat.session()),
            false => String::new(),
        };
        self.show.tell(&format!(
            "{session}/help lists the commands, Ctrl-D ends the chat"
        ));
    }

    /// Shows the end of the conversation that is resumed.
    async fn show_last_exchange(&self) {
        if self.setup.level() == Level::Quiet {
            return;
        }
        // The chat has opened it before.
        let Ok(Some(session)) = self.bench.sessions().open(self.chat.session()).await else {
            return;
        };
        let messages = session.prompt.messages();
        let count = render::count(messages.len() as u64, "message", "messages");
        self.show.note(&format!("resumed after {count}"));
        let last = LastExchange::find(messages.iter().map(|message| &**message));
        if let Some(question) = last.question {
            self.prompt.show_message(&question);
        }
        // Only what is answered now goes to stdout if that is redirected.
        if let Some(answer) = last.answer.filter(|_| self.show.is_on_terminal()) {
            self.show.say(&answer);
        }
    }

    /// Runs turns until the chat ends.
    async fn run_loop(&mut self, interrupts: &mut Interrupts) -> Result<()> {
        loop {
            let told = tokio::select! {
                () = self.chat.notify_waiting_for_user() => None,
                signal = interrupts.next() => Some(signal),
            };
            if told == Some(Signal::End) {
                return Ok(());
            }
            let next = match self.listen(interrupts).await {
                InputLine::End => NextStep::Leave,
                InputLine::Text(text) if text.trim().is_empty() => NextStep::Continue,
                InputLine::Text(text) => self.run_line(&text, interrupts).await?,
            };
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
                self.turn(text, text, is_fresh, interrupts).await
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
        self.show.end_calls();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                complain(&self.show, &error);
                return Ok(next);
            }
        };
        if let Some(url) = &outcome.url {
            self.show.tell(&on_one_line(url));
        }
        match outcome.message {
            Some(message) if next == NextStep::Continue => {
                let is_fresh = std::mem::take(&mut self.is_fresh);
                self.turn(&message, arguments, is_fresh, interrupts).await
            }
            _ => Ok(next),
        }
    }

    /// Reads the user's next input.
    async fn listen(&self, interrupts: &mut Interrupts) -> InputLine {
        if interrupts.forget().await {
            return InputLine::End;
        }
        let reading = self.prompt.message();
        tokio::pin!(reading);
        loop {
            tokio::select! {
                line = &mut reading => return line,
                signal = interrupts.next() => match signal {
                    Signal::End => return InputLine::End,
                    // From a terminal without line editing, or from elsewhere; reading continues.
                    Signal::Interrupt => self.show.tell("\nCtrl-D or /quit ends the chat"),
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
            Command::Model(None) => self.list_models(),
            Command::Model(Some(model)) => {
                let session = self.chat.session().to_owned();
                return Ok(self.reopen(&session, Some(model), interrupts).await);
            }
            Command::Agent(None) => list_agents(&self.setup.team, &self.chat, &self.show),
            Command::Agent(Some(name)) => return Ok(self.switch_agent(name, interrupts).await),
            Command::Resume(id) => return Ok(self.resume(id.as_deref(), interrupts).await),
            Command::Retract => return Ok(self.retract(interrupts).await),
            Command::Fresh(None) => {
                self.is_fresh = true;
                self.show.tell("the next message gets a new answer");
            }
            Command::Fresh(Some(text)) => return self.turn(text, text, true, interrupts).await,
            other => {
                other.tell(&self.chat, &self.bench, &self.show);
                if *other == Command::Help {
                    for line in agent_command::describe(self.chat.agent()) {
                        self.show.tell(&on_one_line(&line));
                    }
                }
                if *other == Command::Stats {
                    let total = self.total();
                    self.show
                        .tell(&format!("chat: {}", sum::line(&total, self.show.cut_off())));
                }
            }
        }
        Ok(NextStep::Continue)
    }

    fn list_models(&self) {
        let model = on_one_line(&self.chat.agent().model);
        self.show.tell(&format!(
            "{model}; /model NAME continues with another model:"
        ));
        let width = self.show.width().unwrap_or(LIST_WIDTH);
        for line in self.model_names.lines(width) {
            self.show.tell(&line);
        }
    }

    /// Continues with another agent. On failure, the current one continues.
    async fn switch_agent(&mut self, name: &str, interrupts: &mut Interrupts) -> NextStep {
        let switched = tokio::select! {
            switched = self.chat.switch_agent(name) => switched,
            signal = interrupts.next() => match signal {
                Signal::End => return NextStep::Leave,
                Signal::Interrupt => {
                    self.show.tell("interrupted; the agent is the one that it was");
                    return NextStep::Continue;
                }
            }
        };
        match switched {
            Ok(()) => {
                self.follow_agent();
                let agent = self.chat.agent();
                self.show
                    .tell(&format!("{} ({}) continues", agent.name, agent.model));
            }
            Err(error) => complain(&self.show, &error),
        }
        NextStep::Continue
    }

    /// Continues an earlier session, which the user chooses if no ID is given.
    async fn resume(&mut self, id: Option<&str>, interrupts: &mut Interrupts) -> NextStep {
        let resumption = match id {
            Some(id) => Resumption::Session(id.to_owned()),
            None => Resumption::Choice,
        };
        let workspace = self.bench.workspace().display().to_string();
        let sessions = self.bench.sessions();
        let team = &self.setup.team;
        let chosen = tokio::select! {
            chosen = resumption.session(sessions, team, &workspace, Some(&self.prompt)) => chosen,
            signal = interrupts.next() => match signal {
                Signal::End => return NextStep::Leave,
                Signal::Interrupt => return NextStep::Continue,
            }
        };
        match chosen {
            Ok(Some(session)) => self.reopen(&session, None, interrupts).await,
            Ok(None) => NextStep::Continue,
            Err(error) => {
                self.show.tell(&error.to_string());
                NextStep::Continue
            }
        }
    }

    /// Continues a session in place of the current one. On failure, the current one continues.
    async fn reopen(
        &mut self,
        session: &str,
        model: Option<&String>,
        interrupts: &mut Interrupts,
    ) -> NextStep {
        let model = model.map(String::as_str);
        if self.chat.is_reviewing() {
            self.show.tell("a review is running; wait for its end");
            return NextStep::Continue;
        }
        let opening = (self.setup).reopen(&self.bench, &self.callbacks, session, model);
        let opened = tokio::select! {
            opened = opening => opened,
            signal = interrupts.next() => match signal {
                Signal::End => return NextStep::Leave,
                Signal::Interrupt => {
                    self.show.tell("interrupted; the session continues");
                    return NextStep::Continue;
                }
            }
        };
        let chat = match opened {
            Ok(chat) => chat,
            Err(error) => {
                self.show.tell(&error.to_string());
                return NextStep::Continue;
            }
        };
        let before = self.chat.session().to_owned();
        let old = std::mem::replace(&mut self.chat, chat);
        self.earlier += old.close().await;
        let is_same = before == self.chat.session();
        if !is_same {
            if std::mem::replace(&mut self.is_empty, false) {
                self.bench.forget(&before).await;
            }
            self.mode.forget_announcement();
            self.show.forget_context();
            self.show_last_exchange().await;
            self.tell_session();
        }
        self.follow_agent();
        if model.is_some() {
            let agent = self.chat.agent();
            self.show
                .tell(&format!("{} continues with {}", agent.name, agent.model));
        }
        NextStep::Continue
    }

    /// Returns the usage of the chat since the program was started.
    fn total(&self) -> UsageTotals {
        let mut total = self.earlier;
        total += self.chat.total();
        total
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
            Err(error) => complain(&self.show, &error),
        }
        next
    }

    /// Starts a review, which reports its own end.
    fn review(&mut self, focus: Option<&str>) {
        match self.chat.review(focus) {
            Ok(()) => self.show.note("the review runs in the background"),
            Err(error) => complain(&self.show, &error),
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
                    self.show
                        .tell(&Style::of_stderr().notable(&visible(&notice)));
                }
                self.account("", &report.sum, cut_off);
            }
            Err(error) => {
                complain(&self.show, &error);
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
                    self.show.tell("interrupted; the tools are those that they were");
                    return NextStep::Continue;
                }
            }
        };
        match reloaded {
            Ok(None) => self.show.tell("the tools are those that the session has"),
            Ok(Some(reloaded)) => self.show.tell(&describe_reload(&reloaded)),
            Err(error) => complain(&self.show, &error),
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
                    self.show.tell("interrupted; /retract again takes the message back");
                    return NextStep::Continue;
                }
            }
        };
        match retracted {
            Ok(None) => self.show.tell("there is no message to take back"),
            Ok(Some(retracted)) => self.show.tell(&describe_retraction(&retracted)),
            Err(error) => complain(&self.show, &error),
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
                    self.show.tell("interrupted; the session continues");
                    return NextStep::Continue;
                }
            }
        };
        match renewed {
            Ok(()) => {
                if std::mem::replace(&mut self.is_empty, true) {
                    self.bench.forget(&before).await;
                }
                self.mode.forget_announcement();
                self.show.forget_context();
                self.tell_session();
            }
            Err(error) => complain(&self.show, &error),
        }
        NextStep::Continue
    }

    /// Runs one turn with a message, of which the user typed the part `typed`. Errors of the turn are printed,
    /// and the chat continues.
    async fn turn(
        &mut self,
        text: &str,
        typed: &str,
        is_fresh: bool,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        let folders = Folders::new(self.bench.workspace(), self.setup.process_environment);
        let attached = attachments::attach(&mut self.chat, typed, folders, &self.show).await;
        if let Err(why) = attached {
            self.show.warn(&why);
            self.is_fresh |= is_fresh;
            if text == typed {
                self.prompt.return_message(text);
            }
            return Ok(NextStep::Continue);
        }
        let cancel = CancellationToken::default();
        self.under_way.lock().clone_from(&cancel);
        self.is_empty = false;
        let answers_before = self.chat.total().model_calls;
        let was_planning = self.mode.get() == PermissionMode::Plan;
        let announced = self.mode.announce(text);
        let said = UserMessage {
            text: &announced,
            typed,
            is_fresh,
        };
        let turned = turn(&mut self.chat, said, &cancel, &self.show, interrupts).await;
        let style = Style::of_stderr();
        match &turned.ended {
            TurnEnd::Report(report) => {
                if let Some(notice) = report.stop.notice() {
                    self.show.tell(&style.notable(&visible(&notice)));
                }
                self.account("", &report.sum, turned.cut_off);
            }
            TurnEnd::Failed(error) => {
                complain(&self.show, error);
                advise(&self.show, error);
                let total = self.chat.total();
                if total.model_calls > answers_before || turned.cut_off > 0 {
                    self.account("so far ", &total, self.show.cut_off());
                }
            }
            TurnEnd::Left => {
                self.show
                    .tell(&style.notable("interrupted; what had come of the turn may be lost"));
            }
        }
        let is_complete = matches!(
            &turned.ended,
            TurnEnd::Report(report) if report.stop != Stop::Interrupted
        );
        if !is_complete {
            // The next message may not be what the user wants now.
            self.prompt.return_queue();
        }
        if self.prompt.is_asking() && !turned.leave {
            // A time budget, or a signal from elsewhere, ended the turn while its question was open.
            self.show
                .tell("the question is no longer open: press Enter to continue");
        }
        self.show.stdout()?;
        if turned.leave {
            return Ok(NextStep::Leave);
        }
        self.follow_agent();
        let is_plan = matches!(&turned.ended, TurnEnd::Report(report) if report.stop == Stop::End);
        match was_planning && is_plan && self.mode.get() == PermissionMode::Plan {
            true => self.offer_plan(interrupts).await,
            false => Ok(NextStep::Continue),
        }
    }

    /// Asks if the plan is to be carried out, which ends plan mode and sends the acceptance.
    async fn offer_plan(&mut self, interrupts: &mut Interrupts) -> Result<NextStep> {
        let Prompt::Live(console) = &self.prompt else {
            return Ok(NextStep::Continue);
        };
        let reply = tokio::select! {
            reply = console.ask(plan_question()) => reply,
            signal = interrupts.next() => match signal {
                Signal::End => return Ok(NextStep::Leave),
                Signal::Interrupt => Reply::Interrupted,
            }
        };
        let mode = match reply {
            Reply::Choice('y') => PermissionMode::Default,
            Reply::Choice('e') => PermissionMode::AcceptEdits,
            _ => return Ok(NextStep::Continue),
        };
        self.mode.set(mode);
        self.show.set_mode(self.mode.label());
        self.prompt.show_message(ACCEPTANCE);
        Box::pin(self.turn(ACCEPTANCE, ACCEPTANCE, false, interrupts)).await
    }

    /// Prints usage in one line.
    fn account(&self, what: &str, sum: &UsageTotals, cut_off: u32) {
        if self.setup.level() != Level::Quiet {
            let line = format!("{what}{}", sum::line(sum, cut_off));
            self.show.tell(&Style::of_stderr().dim(&line));
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

//! Interactive chat on a terminal.

use std::sync::Arc;

use cachalot_agent::definition::CommandDefinition;
use cachalot_agent::{Approver, CancellationToken, Stop, UsageTotals};
use cachalot_hooks::input::PermissionMode;
use parking_lot::Mutex;

use super::agent_command;
use super::approval::TerminalApprover;
use super::attachments::{self, Folders};
use super::command::{Command, Shown};
use super::messages::{advise, complain, plan_question};
use super::mode::{ChatMode, ModeApprover};
use super::model_names::ModelNames;
use super::open_terminal::{open_terminal, windows};
use super::prefix_guard;
use super::prompt::Prompt;
use super::questions::TerminalPrompter;
use super::resumption::Resumption;
use super::rewind::{self, Rewind};
use super::sandbox_offer;
use super::setup::{ChatCallbacks, ChatSetup};
use super::show::Show;
use super::sum;
use super::terminal_session::{NextStep, TerminalSession};
use super::turn::{TurnEnd, UserMessage, is_truncated, turn};
use super::user_command;
use crate::agent_names::ASIDE;
use crate::command_error::{CommandError, Result};
use crate::interrupts::{Interrupts, Signal};
use crate::permissions;
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};
use crate::terminal::{Input, Reply};

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
    let mut settings = setup.sandbox_settings()?;
    if let Some(file) = setup.sandbox_offer(&settings) {
        let workspace = setup.canonical_workspace();
        let offering = sandbox_offer::offer(&mut settings, &prompt, &file, &workspace);
        tokio::select! {
            () = offering => {}
            _ = interrupts.next() => {
                return Err(CommandError::Interrupted("the conversation is empty".to_owned()));
            }
        }
    }
    let bench = setup.workbench(&show, settings).await?;
    show.set_sandbox(bench.sandbox_label());
    let under_way = Arc::new(Mutex::new(CancellationToken::default()));
    let approver: Arc<dyn Approver> = if setup.arguments.yes {
        Arc::new(setup.approve_all(&bench))
    } else {
        Arc::new(TerminalApprover {
            saved: permissions::file(setup.process_environment),
            prompt: prompt.clone(),
            workspace: bench.workspace().to_owned(),
            show: Arc::clone(&show),
            cancel: Arc::clone(&under_way),
        })
    };
    let user = TerminalPrompter {
        prompt: prompt.clone(),
        show: Arc::clone(&show),
        cancel: Arc::clone(&under_way),
    };
    let environment = Arc::new(setup.process_environment.environment.clone());
    let copies = bench.copies().map(ToOwned::to_owned);
    let rewind = Arc::new(Rewind::new(bench.files(), environment, copies));
    let approver = setup.with_sandbox(approver, &bench, Some(Arc::clone(&rewind)));
    let mode = ChatMode::default();
    let approver: Arc<dyn Approver> = Arc::new(ModeApprover {
        next: approver,
        mode: mode.clone(),
    });
    if let Prompt::Live(console) = &prompt {
        // Weak, because `show` holds the console, and the console holds this closure.
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
    let chat = begun.await?;
    let session = TerminalSession {
        model_names: ModelNames::of_chat(&setup.team, setup.process_environment),
        is_empty: Resumption::read(setup.arguments) == Resumption::New,
        earlier: UsageTotals::default(),
        setup,
        show,
        prompt,
        bench,
        chat,
        callbacks,
        mode,
    };
    let chat_loop = ChatLoop {
        session,
        rewind,
        under_way,
        is_fresh: false,
        ran: Vec::new(),
        shown: String::new(),
    };
    chat_loop.run_to_end(&mut interrupts).await
}

/// The message that accepts a plan.
const ACCEPTANCE: &str = "The plan is accepted. Carry it out.";

/// A running chat: commands and turns of the user.
struct ChatLoop<'a> {
    session: TerminalSession<'a>,
    /// The changes of files, for `/rewind`.
    rewind: Arc<Rewind>,
    /// Cancellation of the current turn.
    under_way: Arc<Mutex<CancellationToken>>,
    /// Set when the next message bypasses the response cache.
    is_fresh: bool,
    /// The output of the user's commands since the last message, for the next one.
    ran: Vec<String>,
    /// The current input line without the content of long pasted texts, which attaches no files.
    shown: String,
}

impl ChatLoop<'_> {
    async fn run_to_end(mut self, interrupts: &mut Interrupts) -> Result<()> {
        self.session.greet();
        if !self.session.is_empty {
            self.session.show_last_exchange().await;
        }
        let begun = match self.session.setup.prompt {
            Some(prompt) => {
                self.session.prompt.show_message(prompt);
                prompt.clone_into(&mut self.shown);
                self.run_line(prompt, interrupts).await
            }
            None => Ok(NextStep::Continue),
        };
        let ended = match begun {
            Ok(NextStep::Continue) => self.run_loop(interrupts).await,
            ended => ended.map(|_| ()),
        };
        self.session.end(interrupts).await;
        ended
    }

    /// Runs turns until the chat ends.
    async fn run_loop(&mut self, interrupts: &mut Interrupts) -> Result<()> {
        loop {
            // The hooks of this event may be slow. Ctrl-C ends the wait for them, and not the chat.
            let told = tokio::select! {
                () = self.session.chat.notify_waiting_for_user() => None,
                signal = interrupts.next() => Some(signal),
            };
            if told == Some(Signal::End) {
                return Ok(());
            }
            let next = match self.listen(interrupts).await {
                Input::End => NextStep::Leave,
                Input::Text { text, .. } if text.trim().is_empty() => NextStep::Continue,
                Input::Text { text, shown } => {
                    self.shown = shown;
                    self.run_line(&text, interrupts).await?
                }
            };
            if next == NextStep::Leave {
                return Ok(());
            }
        }
    }

    /// Runs a command, or a turn with a message.
    async fn run_line(&mut self, text: &str, interrupts: &mut Interrupts) -> Result<NextStep> {
        if let Some((command, arguments)) = agent_command::find(self.session.chat.agent(), text) {
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

    /// Runs a command of the agent, whose calls belong to the turn with its message.
    async fn agent_command(
        &mut self,
        command: &CommandDefinition,
        arguments: &str,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        self.begin_turn().await;
        let next = self.calls_and_turn(command, arguments, interrupts).await;
        self.rewind.end_turn().await;
        next
    }

    async fn calls_and_turn(
        &mut self,
        command: &CommandDefinition,
        arguments: &str,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        let cancel = CancellationToken::default();
        *self.under_way.lock() = cancel.clone();
        let environment = self.session.setup.process_environment;
        let run = agent_command::run(
            &mut self.session.chat,
            command,
            arguments,
            environment,
            &cancel,
        );
        let (outcome, next) = cancellable(Box::pin(run), &cancel, interrupts).await;
        self.session.show.end_calls();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                complain(&self.session.show, &error);
                return Ok(next);
            }
        };
        if let Some(url) = &outcome.url {
            self.session.show.tell(&on_one_line(url));
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
    async fn listen(&self, interrupts: &mut Interrupts) -> Input {
        if interrupts.forget().await {
            return Input::End;
        }
        let reading = self.session.prompt.message();
        tokio::pin!(reading);
        loop {
            tokio::select! {
                line = &mut reading => return line,
                signal = interrupts.next() => match signal {
                    Signal::End => return Input::End,
                    // From a terminal without line editing, or from elsewhere; reading continues.
                    Signal::Interrupt => self.session.show.tell("\nCtrl-D or /quit ends the chat"),
                }
            }
        }
    }

    async fn run_command(
        &mut self,
        command: &Command,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        let before = self.session.chat.session().to_owned();
        let next = self.dispatch(command, interrupts).await;
        // A fork continues the conversation.
        if *command != Command::Fork && before != self.session.chat.session() {
            self.ran.clear();
            self.rewind.forget().await;
        }
        next
    }

    async fn dispatch(
        &mut self,
        command: &Command,
        interrupts: &mut Interrupts,
    ) -> Result<NextStep> {
        // On a terminal with line editing, the agents are a list to choose from.
        if *command != Command::Agent(None)
            && let Some(output) = self.output(command)
        {
            self.session.show.tell(&output);
            return Ok(NextStep::Continue);
        }
        match command {
            Command::Quit => return Ok(NextStep::Leave),
            Command::New => return Ok(self.session.renew(interrupts).await),
            Command::Compact => return Ok(self.compact(interrupts).await),
            Command::Review(focus) => self.review(focus.as_deref()),
            Command::Aside(question) => return self.aside(question, interrupts).await,
            Command::Reload => return Ok(self.session.reload(interrupts).await),
            Command::Model(name) => {
                return Ok(self.session.change_model(name.as_deref(), interrupts).await);
            }
            Command::Agent(name) => {
                return Ok(self.session.change_agent(name.as_deref(), interrupts).await);
            }
            Command::Resume(id) => return Ok(self.session.resume(id.as_deref(), interrupts).await),
            Command::Fork => return Ok(self.session.fork(interrupts).await),
            Command::Export(file) => self.session.export(file.as_deref()),
            Command::Shell(line) => return Ok(self.shell(line, interrupts).await),
            Command::Rewind => return Ok(self.rewind(interrupts).await),
            Command::Retract => return Ok(self.session.retract(interrupts).await),
            Command::Fresh(None) => {
                self.is_fresh = true;
                self.session.show.tell("the next message gets a new answer");
            }
            Command::Fresh(Some(text)) => return self.turn(text, text, true, interrupts).await,
            Command::Help
            | Command::Session
            | Command::Stats
            | Command::Tools
            | Command::Permissions
            | Command::Servers
            | Command::Unknown(_) => {}
        }
        Ok(NextStep::Continue)
    }

    /// Returns the output of a command that only shows information; `None` for others.
    fn output(&self, command: &Command) -> Option<String> {
        let TerminalSession {
            chat, bench, show, ..
        } = &self.session;
        let output = command.output(&Shown {
            chat,
            bench,
            width: show.width(),
            default_decision: self.default_decision(),
            agent_commands: agent_command::describe(chat.agent()),
        })?;
        if *command != Command::Stats {
            return Some(output);
        }
        let total = sum::line(&self.session.total(), show.cut_off());
        Some(format!("{output}\nchat: {total}"))
    }

    /// Describes what happens to calls that no permission rule is about.
    fn default_decision(&self) -> &'static str {
        match self.session.mode.get() {
            PermissionMode::Plan => "plan mode refuses others",
            _ if self.session.setup.arguments.yes => "others run, because of `--yes`",
            PermissionMode::AcceptEdits => "edits of files run, and others are asked about",
            _ => "others are asked about",
        }
    }

    /// Runs a command line of the user.
    async fn shell(&mut self, line: &str, interrupts: &mut Interrupts) -> NextStep {
        let cancel = CancellationToken::default();
        let TerminalSession {
            bench, show, chat, ..
        } = &self.session;
        let running = user_command::run(line, &chat.agent().name, bench, show, &cancel);
        let (ran, next) = cancellable(Box::pin(running), &cancel, interrupts).await;
        match ran {
            Ok(ran) => self.ran.extend(ran),
            Err(error) => show.warn(&error.to_string()),
        }
        next
    }

    /// Begins a turn, which `/rewind` takes back, unless one has begun that has not ended.
    async fn begin_turn(&self) {
        let messages = self.session.chat.messages().len();
        self.rewind.begin_turn(messages).await;
    }

    /// Takes back the last turn with the files that it has changed.
    async fn rewind(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let undoing = self.session.bench.changing_files(self.rewind.undo());
        let Some(turn) = undoing.await else {
            self.session.show.tell(
                "there is no turn to take back here: what turns of other processes have changed is not known; /retract takes back the last message only",
            );
            return NextStep::Continue;
        };
        let next = self.session.retract_to(turn.messages, interrupts).await;
        self.session.show.tell(&visible(&rewind::describe(&turn)));
        next
    }

    /// Replaces the conversation with a summary. On failure, the conversation is unchanged.
    async fn compact(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let cancel = CancellationToken::default();
        let has_own_model = self.session.chat.agent().compaction.model.is_none();
        // The user has asked for the summary, so that there is no question.
        let rewrite = self.session.chat.prefix_rewrite("/compact");
        if let Some(rewrite) = rewrite.filter(|_| has_own_model) {
            let note = prefix_guard::describe_summary(&rewrite);
            self.session.show.note(&note);
        }
        let before = self.session.chat.total();
        let (compacted, next) =
            cancellable(self.session.chat.compact(&cancel), &cancel, interrupts).await;
        self.session.show.pause();
        let after = self.session.chat.total();
        match compacted {
            Ok(_) if after.model_calls > before.model_calls => {
                self.session.account_so_far();
            }
            Ok(_) => {}
            Err(error) => complain(&self.session.show, &error),
        }
        next
    }

    /// Starts a review, which reports its own end.
    fn review(&mut self, focus: Option<&str>) {
        match self.session.chat.review(focus) {
            Ok(()) => self.session.show.note("the review runs in the background"),
            Err(error) => complain(&self.session.show, &error),
        }
    }

    /// Answers a side question on a fork of the conversation.
    async fn aside(&mut self, question: &str, interrupts: &mut Interrupts) -> Result<NextStep> {
        let cancel = CancellationToken::default();
        self.session.show.wait_for("waiting for the model");
        let (answered, next) = cancellable(
            self.session.chat.side_question(question, &cancel),
            &cancel,
            interrupts,
        )
        .await;
        let under_way = match &answered {
            Ok(report) => report.stop == Stop::Interrupted,
            Err(error) => cancel.is_cancelled() || is_truncated(error),
        };
        let cut_off = self.session.show.end_fork(ASIDE, under_way);
        self.session.show.pause();
        match answered {
            Ok(report) => {
                self.session.show.say(&report.text);
                if let Some(notice) = report.stop.notice() {
                    self.session
                        .show
                        .tell(&Style::of_stderr().notable(&visible(&notice)));
                }
                self.session.account(&report.sum, cut_off);
            }
            Err(error) => {
                complain(&self.session.show, &error);
                if cut_off > 0 {
                    self.session.account_so_far();
                }
            }
        }
        self.session.show.stdout()?;
        Ok(next)
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
        if let Some(next) = self.withhold(text, interrupts).await {
            // The message was not sent, so that `/fresh` still holds for the next one.
            self.is_fresh |= is_fresh;
            if text == typed {
                self.session.prompt.return_message(text);
            }
            return Ok(next);
        }
        let cancel = CancellationToken::default();
        // The approver and the prompter share this place: open questions end with the turn.
        self.under_way.lock().clone_from(&cancel);
        let (attached, next) = self.attach(&cancel, interrupts).await;
        if attached.is_err() || cancel.is_cancelled() {
            if let Err(error) = attached {
                self.session.show.warn(&error.to_string());
            }
            self.session.chat.clear_attachments();
            // The message was not sent, so that `/fresh` still holds for the next one.
            self.is_fresh |= is_fresh;
            if text == typed {
                self.session.prompt.return_message(text);
            }
            return Ok(next);
        }
        let ran = std::mem::take(&mut self.ran);
        ran.into_iter()
            .for_each(|ran| self.session.chat.attach_text(ran));
        self.begin_turn().await;
        // Before the turn: one that fails leaves its message in the session, too.
        self.session.is_empty = false;
        let answers_before = self.session.chat.total().model_calls;
        let was_planning = self.session.mode.get() == PermissionMode::Plan;
        let announced = self.session.mode.announce(text);
        let said = UserMessage {
            text: &announced,
            typed,
            is_fresh,
        };
        let turned = turn(
            &mut self.session.chat,
            said,
            &cancel,
            &self.session.show,
            interrupts,
        )
        .await;
        self.rewind.end_turn().await;
        let style = Style::of_stderr();
        match &turned.ended {
            TurnEnd::Report(report) => {
                if let Some(notice) = report.stop.notice() {
                    self.session.show.tell(&style.notable(&visible(&notice)));
                }
                self.session.account(&report.sum, turned.cut_off);
            }
            TurnEnd::Failed(error) => {
                complain(&self.session.show, error);
                advise(&self.session.show, error);
                let answers = self.session.chat.total().model_calls;
                if answers > answers_before || turned.cut_off > 0 {
                    self.session.account_so_far();
                }
            }
            TurnEnd::Left => {
                self.session
                    .show
                    .tell(&style.notable("interrupted; what had come of the turn may be lost"));
            }
        }
        let is_complete = matches!(
            &turned.ended,
            TurnEnd::Report(report) if report.stop != Stop::Interrupted
        );
        if !is_complete {
            // The next message may not be what the user wants now.
            self.session.prompt.return_queue();
        }
        if !turned.leave {
            // A time budget, or a signal from elsewhere, may have ended the turn while its question was open.
            self.tell_of_open_question();
        }
        self.session.show.stdout()?;
        if turned.leave {
            return Ok(NextStep::Leave);
        }
        self.session.follow_agent();
        let is_plan = matches!(&turned.ended, TurnEnd::Report(report) if report.stop == Stop::End);
        // The user may have left plan mode during the turn.
        if was_planning && is_plan && self.session.mode.get() == PermissionMode::Plan {
            self.offer_plan(interrupts).await
        } else {
            Ok(NextStep::Continue)
        }
    }

    /// Attaches the files that the input line names.
    async fn attach(
        &mut self,
        cancel: &CancellationToken,
        interrupts: &mut Interrupts,
    ) -> (Result<()>, NextStep) {
        let shown = std::mem::take(&mut self.shown);
        let TerminalSession {
            bench,
            setup,
            chat,
            show,
            ..
        } = &mut self.session;
        let folders = Folders::new(bench.workspace(), setup.process_environment);
        let attaching = attachments::attach(chat, &shown, folders, show, cancel);
        cancellable(Box::pin(attaching), cancel, interrupts).await
    }

    /// Asks about a message that makes the provider read an expired prefix anew, if the agent has a guard. Returns the
    /// next step if the user does not send it; the conversation is unchanged.
    async fn withhold(&self, text: &str, interrupts: &mut Interrupts) -> Option<NextStep> {
        let rewrite = self.session.chat.prefix_rewrite(text)?;
        self.session.show.pause();
        let is_confirmed = tokio::select! {
            is_confirmed = prefix_guard::confirm(&self.session.prompt, &rewrite) => is_confirmed,
            signal = interrupts.next() => match signal {
                Signal::End => return Some(NextStep::Leave),
                Signal::Interrupt => {
                    self.tell_of_open_question();
                    false
                }
            }
        };
        (!is_confirmed).then_some(NextStep::Continue)
    }

    /// Prints how to close a question whose answer is still being read although nothing waits for it.
    fn tell_of_open_question(&self) {
        if self.session.prompt.is_asking() {
            self.session
                .show
                .tell("the question is no longer open: press Enter to continue");
        }
    }

    /// Asks if the plan is to be carried out, which ends plan mode and sends the acceptance.
    async fn offer_plan(&mut self, interrupts: &mut Interrupts) -> Result<NextStep> {
        let Prompt::Live(console) = &self.session.prompt else {
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
        self.session.mode.set(mode);
        self.session.show.set_mode(self.session.mode.label());
        self.session.prompt.show_message(ACCEPTANCE);
        Box::pin(self.turn(ACCEPTANCE, ACCEPTANCE, false, interrupts)).await
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

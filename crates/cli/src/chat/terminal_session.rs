//! Session of a chat on a terminal: its start, its end, and its replacement by another session, agent or model.

use std::sync::Arc;

use cachalot_agent::chat::Retracted;
use cachalot_agent::{Chat, UsageTotals};

use super::agent_command;
use super::attachments::Folders;
use super::command::COMMANDS;
use super::export::export;
use super::fork::fork;
use super::last_exchange::LastExchange;
use super::messages::{
    agents, complain, describe_reload, describe_retraction, describe_taken_back, sum_up,
};
use super::mode::ChatMode;
use super::model_names::ModelNames;
use super::place;
use super::prompt::Prompt;
use super::resumption::Resumption;
use super::setup::{ChatCallbacks, ChatSetup, close};
use super::show::Show;
use super::sum;
use super::turn::end;
use crate::interrupts::{Interrupts, Signal};
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};
use crate::render::{self, Level};
use crate::terminal::{CommandHint, Completer, Console, Entry};
use crate::workbench::Workbench;

/// Width of lists if that of the terminal is unknown.
const LIST_WIDTH: usize = 80;

/// Session of a chat, with its agent and model.
pub(super) struct TerminalSession<'a> {
    pub(super) setup: &'a ChatSetup<'a>,
    pub(super) show: Arc<Show>,
    pub(super) prompt: Prompt,
    pub(super) bench: Workbench,
    pub(super) chat: Chat,
    pub(super) callbacks: ChatCallbacks,
    pub(super) mode: ChatMode,
    pub(super) model_names: ModelNames,
    /// Usage of the chats that `chat` has replaced.
    pub(super) earlier: UsageTotals,
    /// True until the first message in the session.
    pub(super) is_empty: bool,
}

/// Next step of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    Continue,
    Leave,
}

impl TerminalSession<'_> {
    pub(super) fn greet(&self) {
        self.follow_agent();
        if self.setup.level() == Level::Quiet {
            return;
        }
        let agent = self.chat.agent();
        let description = match agent.description.trim() {
            "" => String::new(),
            description => format!(": {}", on_one_line(description)),
        };
        let name = self.agent_and_model();
        self.show.tell(&format!("{name}{description}"));
        let place = place::describe(self.bench.workspace(), self.setup.process_environment);
        self.show.note(&place);
        let welcome = agent.welcome_message.trim_end();
        if !welcome.is_empty() && self.is_empty {
            self.show.tell(&visible(welcome));
        }
        self.tell_session();
    }

    /// Returns the agent of the chat and its model, as the status line names them.
    fn agent_and_model(&self) -> String {
        let agent = self.chat.agent();
        let model = self.model_names.full(&agent.model);
        format!("{} ({})", on_one_line(&agent.name), on_one_line(model))
    }

    /// Shows the agent of the chat and its model, and completes commands for it.
    pub(super) fn follow_agent(&self) {
        let agent = self.chat.agent();
        let model = self.model_names.full(&agent.model);
        self.show.set_agent(&agent.name, model);
        let Prompt::Live(console) = &self.prompt else {
            return;
        };
        let agents = || {
            self.setup
                .team
                .agents
                .iter()
                .map(|agent| agent.name.clone())
                .collect()
        };
        let commands = COMMANDS.iter().map(|&(name, help)| CommandHint {
            name: name.to_owned(),
            help: help.to_owned(),
            values: match name {
                "/agent" => agents(),
                "/model" => self.model_names.all(),
                _ => Vec::new(),
            },
        });
        console.set_completer(Completer {
            commands: commands.chain(agent_command::hints(agent)).collect(),
            root: self.bench.workspace().to_owned(),
        });
    }

    pub(super) fn tell_session(&self) {
        if self.bench.keeps_sessions() {
            self.show.tell(&format!("session {}", self.chat.session()));
        }
        let keys = match &self.prompt {
            Prompt::Live(_) => "Shift-Tab: mode · ",
            Prompt::Plain(_) => "",
        };
        self.show
            .tell(&format!("/help: commands · {keys}Ctrl-D: end"));
    }

    /// Shows the end of the conversation that is resumed.
    pub(super) async fn show_last_exchange(&self) {
        if self.setup.level() == Level::Quiet {
            return;
        }
        // The chat has opened it before.
        let Ok(Some(session)) = self.bench.sessions().open(self.chat.session()).await else {
            return;
        };
        self.show.resume_status(&session);
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

    /// Continues with a model, which the user chooses if no name is given. Without a terminal to choose at, the models
    /// are listed.
    pub(super) async fn change_model(
        &mut self,
        model: Option<&str>,
        interrupts: &mut Interrupts,
    ) -> NextStep {
        let names = self.model_names.all();
        let model = match (model, &self.prompt) {
            (Some(model), _) => model.to_owned(),
            (None, Prompt::Live(console)) if !names.is_empty() => {
                let current = &self.chat.agent().model;
                let entries = names.into_iter().map(|text| {
                    let now = (text == *current).then_some("now");
                    let full = Some(self.model_names.full(&text)).filter(|full| *full != text);
                    let help: Vec<&str> = now.into_iter().chain(full).collect();
                    let help = help.join(" · ");
                    Entry { text, help }
                });
                match pick(console, "model: ", entries.collect(), interrupts).await {
                    Ok(name) => name,
                    Err(next) => return next,
                }
            }
            (None, _) => {
                self.list_models();
                return NextStep::Continue;
            }
        };
        let session = self.chat.session().to_owned();
        self.reopen(&session, Some(&model), interrupts).await
    }

    /// Continues with an agent, which the user chooses if no name is given. Without a terminal to choose at, the agents
    /// are listed.
    pub(super) async fn change_agent(
        &mut self,
        name: Option<&str>,
        interrupts: &mut Interrupts,
    ) -> NextStep {
        let team = &self.setup.team.agents;
        let name = match (name, &self.prompt) {
            (Some(name), _) => name.to_owned(),
            (None, Prompt::Live(console)) if team.len() > 1 => {
                let entries = team.iter().map(|agent| Entry {
                    text: agent.name.clone(),
                    help: agent.description.trim().to_owned(),
                });
                match pick(console, "agent: ", entries.collect(), interrupts).await {
                    Ok(name) => name,
                    Err(next) => return next,
                }
            }
            (None, _) => {
                self.show.tell(&agents(&self.chat));
                return NextStep::Continue;
            }
        };
        self.switch_agent(&name, interrupts).await
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
        let switching = self.chat.switch_agent(name);
        let kept = "interrupted; the agent is the one that it was";
        match unless_interrupted(switching, kept, &self.show, interrupts).await {
            Err(next) => return next,
            Ok(Ok(())) => {
                self.follow_agent();
                let name = self.agent_and_model();
                self.show.tell(&format!("{name} continues"));
            }
            Ok(Err(error)) => complain(&self.show, &error),
        }
        NextStep::Continue
    }

    /// Continues an earlier session, which the user chooses if no ID is given.
    pub(super) async fn resume(
        &mut self,
        id: Option<&str>,
        interrupts: &mut Interrupts,
    ) -> NextStep {
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
    pub(super) async fn reopen(
        &mut self,
        session: &str,
        model: Option<&str>,
        interrupts: &mut Interrupts,
    ) -> NextStep {
        let before = self.chat.session().to_owned();
        if let Err(next) = self.replace(session, model, interrupts).await {
            return next;
        }
        if before != self.chat.session() {
            self.show_last_exchange().await;
            self.tell_session();
        }
        if model.is_some() {
            let agent = self.chat.agent();
            let model = self.model_names.full(&agent.model);
            self.show
                .tell(&format!("{} continues with {model}", agent.name));
        }
        NextStep::Continue
    }

    /// Replaces the chat by that of another session.
    ///
    /// # Errors
    /// The next step if the current chat continues; the reason is printed.
    async fn replace(
        &mut self,
        session: &str,
        model: Option<&str>,
        interrupts: &mut Interrupts,
    ) -> Result<(), NextStep> {
        if self.chat.is_reviewing() {
            self.show.tell("a review is running; wait for its end");
            return Err(NextStep::Continue);
        }
        // The new chat is opened before the old one is closed: after a failure, the old one continues.
        let opening = (self.setup).reopen(&self.bench, &self.callbacks, session, model);
        let kept = "interrupted; the session continues";
        let opened = unless_interrupted(opening, kept, &self.show, interrupts).await?;
        let chat = opened.map_err(|error| {
            self.show.tell(&error.to_string());
            NextStep::Continue
        })?;
        let before = self.chat.session().to_owned();
        let old = std::mem::replace(&mut self.chat, chat);
        self.earlier += old.close().await;
        if before != self.chat.session() {
            if std::mem::replace(&mut self.is_empty, false) {
                self.bench.forget(&before).await;
            }
            self.mode.forget_announcement();
            self.show.forget_conversation();
        }
        self.follow_agent();
        Ok(())
    }

    /// Starts a new session. On failure, the old one continues.
    pub(super) async fn renew(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let before = self.chat.session().to_owned();
        let renewing = self.chat.start_new_session();
        let kept = "interrupted; the session continues";
        match unless_interrupted(renewing, kept, &self.show, interrupts).await {
            Err(next) => return next,
            Ok(Ok(())) => {
                if std::mem::replace(&mut self.is_empty, true) {
                    self.bench.forget(&before).await;
                }
                self.mode.forget_announcement();
                self.show.forget_conversation();
                self.tell_session();
            }
            Ok(Err(error)) => complain(&self.show, &error),
        }
        NextStep::Continue
    }

    /// Replaces the tools if they have changed since the session began.
    pub(super) async fn reload(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let kept = "interrupted; the tools are those that they were";
        match unless_interrupted(self.chat.reload(), kept, &self.show, interrupts).await {
            Err(next) => return next,
            Ok(Ok(None)) => self.show.tell("the tools are those that the session has"),
            Ok(Ok(Some(reloaded))) => self.show.tell(&describe_reload(&reloaded)),
            Ok(Err(error)) => complain(&self.show, &error),
        }
        NextStep::Continue
    }

    /// Takes back the last message and everything after it. On failure, the session is unchanged.
    pub(super) async fn retract(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let kept = "interrupted; /retract again takes the message back";
        match unless_interrupted(self.chat.retract(), kept, &self.show, interrupts).await {
            Err(next) => return next,
            Ok(Ok(None)) => self.show.tell("there is no message to take back"),
            Ok(Ok(Some(retracted))) => self.show.tell(&describe_retraction(&retracted)),
            Ok(Err(error)) => complain(&self.show, &error),
        }
        NextStep::Continue
    }

    /// Takes back everything after the first `messages` messages.
    pub(super) async fn retract_to(
        &mut self,
        messages: usize,
        interrupts: &mut Interrupts,
    ) -> NextStep {
        let kept = "interrupted; /retract takes the message back";
        let mut all: Option<Retracted> = None;
        while self.chat.messages().len() > messages {
            match unless_interrupted(self.chat.retract(), kept, &self.show, interrupts).await {
                Err(next) => return next,
                Ok(Ok(None)) => break,
                Ok(Ok(Some(retracted))) => {
                    let later = all.map_or(0, |all| all.others + 1);
                    all = Some(Retracted {
                        others: retracted.others + later,
                        ..retracted
                    });
                }
                Ok(Err(error)) => {
                    complain(&self.show, &error);
                    break;
                }
            }
        }
        match all {
            Some(retracted) => self.show.tell(&describe_taken_back(&retracted)),
            None => self.show.tell("no message had to be taken back"),
        }
        NextStep::Continue
    }

    /// Continues in a new session with the conversation so far. On failure, the current one continues.
    pub(super) async fn fork(&mut self, interrupts: &mut Interrupts) -> NextStep {
        let before = self.chat.session().to_owned();
        let id = match fork(self.bench.sessions(), &before).await {
            Ok(id) => id,
            Err(error) => {
                self.show.tell(&error.to_string());
                return NextStep::Continue;
            }
        };
        if let Err(next) = self.replace(&id, None, interrupts).await {
            // Nothing refers to it yet.
            self.bench.forget(&id).await;
            return next;
        }
        self.show.tell(&format!(
            "session {id} continues; /resume {before} returns to the one before"
        ));
        NextStep::Continue
    }

    /// Writes the conversation to a new file.
    pub(super) fn export(&self, file: Option<&str>) {
        let environment = self.setup.process_environment;
        let folders = Folders::new(&environment.directory, environment);
        match export(&self.chat, file, folders, self.bench.secret_set()) {
            Ok(told) => self.show.tell(&visible(&told)),
            Err(error) => self.show.warn(&error.to_string()),
        }
    }

    /// Returns the usage of the chat since the program was started.
    pub(super) fn total(&self) -> UsageTotals {
        let mut total = self.earlier;
        total += self.chat.total();
        total
    }

    /// Prints usage in one line.
    pub(super) fn account(&self, sum: &UsageTotals, cut_off: u32) {
        self.print_usage(&sum::line(sum, cut_off));
    }

    /// Prints the usage of the chat in one line.
    pub(super) fn account_so_far(&self) {
        let line = sum::line(&self.chat.total(), self.show.cut_off());
        self.print_usage(&format!("so far {line}"));
    }

    fn print_usage(&self, line: &str) {
        if self.setup.level() != Level::Quiet {
            self.show.tell(&Style::of_stderr().dim(line));
        }
    }

    /// Ends the chat and prints its usage.
    pub(super) async fn end(self, interrupts: &mut Interrupts) {
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
    }
}

/// Runs work that a signal abandons. Returns its result, or the next step of the chat. `kept` is the message after
/// Ctrl-C.
async fn unless_interrupted<T>(
    work: impl Future<Output = T>,
    kept: &str,
    show: &Show,
    interrupts: &mut Interrupts,
) -> Result<T, NextStep> {
    tokio::select! {
        done = work => Ok(done),
        signal = interrupts.next() => match signal {
            Signal::End => Err(NextStep::Leave),
            Signal::Interrupt => {
                show.tell(kept);
                Err(NextStep::Continue)
            }
        }
    }
}

/// Lets the user choose an entry. Returns its text, or the next step of the chat if none is chosen.
async fn pick(
    console: &Console,
    label: &'static str,
    entries: Vec<Entry>,
    interrupts: &mut Interrupts,
) -> Result<String, NextStep> {
    let texts: Vec<String> = entries.iter().map(|entry| entry.text.clone()).collect();
    tokio::select! {
        chosen = console.pick(label, entries) => {
            let chosen = chosen.and_then(|place| texts.into_iter().nth(place));
            chosen.ok_or(NextStep::Continue)
        }
        signal = interrupts.next() => match signal {
            Signal::End => Err(NextStep::Leave),
            Signal::Interrupt => Err(NextStep::Continue),
        }
    }
}

//! A chat with a team of agents: consecutive turns in one session.

use std::sync::Arc;

use cachalot_hooks::Event as When;
use cachalot_tools::Toolbox;

pub use crate::conversation::Retracted;
use crate::definition::{AgentDefinition, Team};
use crate::desk::Desk;
use crate::fork::{ForkReport, ForkSpec, Inherit};
use crate::house::House;
use crate::report::{Stop, Sum, TurnReport};
use crate::review::Reviews;
use crate::shared::Shared;
use crate::turn::{Task, Turn};
use crate::{Cancel, Error, ErrorKind};

/// Maximum model calls of a side question. More than one, because a model may call a tool anyway: it receives
/// an error as the result and is called again.
const ASIDE_ITERATIONS: u32 = 3;

/// The result of [`Chat::reload`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Describes which tools were added, removed or changed.
    pub changes: String,
    /// Estimated tokens that the provider reads anew with the next request: the input tokens of the last
    /// request; 0 if none was sent.
    pub tokens: u64,
}

/// A chat with a team of agents.
pub struct Chat {
    shared: Shared,
    agent: AgentDefinition,
    desk: Desk,
    total: Sum,
    pub(crate) reviews: Reviews,
    /// Cancels the forks when the chat ends.
    forks: UntilDropped,
}

/// Triggers its signal when it is dropped.
#[derive(Default)]
struct UntilDropped(Cancel);

impl Drop for UntilDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Chat {
    /// Begins a new session with `agent`, or with the team's entry agent if `agent` is `None`.
    ///
    /// # Errors
    /// The agent does not exist, its model cannot be found, its tools cannot be initialized, or the session
    /// cannot be stored.
    pub async fn begin(house: House, team: Arc<Team>, agent: Option<&str>) -> Result<Self, Error> {
        let agent = match agent {
            None => team.entry().clone(),
            Some(name) => named(&team, name, String::new)?,
        };
        let shared = Shared::new(house, team);
        let mut desk = Desk::begin(&shared, &agent, None, 0).await?;
        desk.started("startup").await;
        Ok(Self::at(shared, agent, desk).await)
    }

    /// Resumes a session of this or another process. Everything that was sent is sent again, byte for byte,
    /// even if the agent's tools or instruction have changed since. If the agent's model has changed,
    /// everything is rendered anew. The listener receives a warning in both cases.
    ///
    /// # Errors
    /// The errors of [`Chat::begin`]; also if the session does not exist, or its agent is not in the team.
    pub async fn resume(house: House, team: Arc<Team>, session: &str) -> Result<Self, Error> {
        let opened = house
            .sessions
            .open(session)
            .await
            .map_err(|error| Error::session(&error))?
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::Session,
                    format!("there is no session `{session}`; `cachalot sessions ls` lists them"),
                )
            })?;
        let held = || {
            format!(
                "the session `{}` was held with `{}`: ",
                opened.head.id, opened.head.agent
            )
        };
        let agent = named(&team, &opened.head.agent, held)?;
        let shared = Shared::new(house, team);
        let mut desk = Desk::resume(&shared, &agent, opened).await?;
        desk.started("resume").await;
        Ok(Self::at(shared, agent, desk).await)
    }

    async fn at(shared: Shared, agent: AgentDefinition, desk: Desk) -> Self {
        let this = Self {
            reviews: Reviews::going_on(agent.review.as_ref(), &desk),
            shared,
            agent,
            desk,
            total: Sum::default(),
            forks: UntilDropped::default(),
        };
        this.check_review().await;
        this
    }

    /// The ID of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        self.desk.conversation.id()
    }

    /// The agent of the session.
    #[must_use]
    pub fn agent(&self) -> &AgentDefinition {
        &self.agent
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Triggered when the chat ends.
    pub(crate) fn over(&self) -> &Cancel {
        &self.forks.0
    }

    /// The tools of the agent.
    #[must_use]
    pub fn toolbox(&self) -> &Arc<dyn Toolbox> {
        &self.desk.toolbox
    }

    /// Usage of all turns and forks of this chat since it was begun or resumed in this process.
    #[must_use]
    pub fn total(&self) -> Sum {
        let mut total = self.total;
        total += self.shared.forks().sum();
        total
    }

    /// Records the URLs in a message that the user typed, so that tools may fetch them without an approval.
    /// The caller calls it before the turn of that message. A program that assembles a message from other
    /// texts does not call it.
    pub fn typed(&self, message: &str) {
        self.shared.typed.note(message);
    }

    /// Runs one turn. When `cancel` is triggered or the future is dropped, running work is stopped; the
    /// session is stored and can continue. If a review is due after the turn ([`AgentDefinition::review`]),
    /// it starts in the background and is not awaited.
    ///
    /// # Errors
    /// The message is empty, the model could not be called or did not answer, or the session could not be
    /// stored. The user's message and the part of the answer that was received stay in the session; the chat
    /// can continue.
    pub async fn turn(&mut self, said: &str, cancel: &Cancel) -> Result<TurnReport, Error> {
        self.turn_of(said, false, cancel).await
    }

    /// Runs one turn like [`Chat::turn`], without replaying an earlier answer: hooks that answer turns are
    /// notified that the user wants a new one.
    ///
    /// # Errors
    /// The errors of [`Chat::turn`].
    pub async fn turn_afresh(&mut self, said: &str, cancel: &Cancel) -> Result<TurnReport, Error> {
        self.turn_of(said, true, cancel).await
    }

    async fn turn_of(
        &mut self,
        said: &str,
        is_fresh: bool,
        cancel: &Cancel,
    ) -> Result<TurnReport, Error> {
        // Usage of an earlier turn whose future was dropped.
        self.total += self.shared.take_sum();
        let task = Task {
            said,
            is_implicit: false,
            is_fresh,
        };
        let turn = Turn::new(&self.shared, &self.agent, &mut self.desk, task);
        let ended = turn.run_until(cancel).await;
        let sum = self.shared.take_sum();
        self.total += sum;
        if let Ok(ended) = &ended
            && ended.stop == Stop::End
            && ended.synthetic.is_none()
        {
            self.completed_turn();
        }
        ended.map(|ended| TurnReport {
            text: ended.text,
            stop: ended.stop,
            sum,
            synthetic: ended.synthetic,
            breaks: ended.breaks,
        })
    }

    /// Summarizes the conversation and restarts it with the summary, with which the next message begins.
    /// Returns true if it did. If not, the listener receives a warning and the conversation continues
    /// unchanged. The cost is part of [`Chat::total`].
    ///
    /// # Errors
    /// The session could not be stored; it is unchanged.
    pub async fn compact(&mut self, cancel: &Cancel) -> Result<bool, Error> {
        self.total += self.shared.take_sum();
        let task = Task {
            said: "",
            is_implicit: false,
            is_fresh: false,
        };
        let turn = Turn::new(&self.shared, &self.agent, &mut self.desk, task);
        let compacted = turn.compact(cancel).await;
        self.total += self.shared.take_sum();
        compacted
    }

    /// Removes the last message of the user and everything after it: answers, tool calls and their results.
    /// Each repeated call removes the message before. Returns `None` if there is no message of the user. The
    /// session continues from what precedes the removed message, in this process and wherever it is resumed.
    /// This repairs a session whose end the provider refuses. Effects of tools are not undone.
    ///
    /// # Errors
    /// The session could not be stored; it is unchanged.
    pub async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        self.total += self.shared.take_sum();
        match self.desk.retract().await {
            // Another writer has appended to the session: retract from its end instead.
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.desk.reopen(&self.shared, &self.agent).await?;
                self.desk.retract().await
            }
            done => done,
        }
    }

    /// Answers a side question on a fork of the whole conversation, without tools. Neither the question nor
    /// the answer becomes part of the conversation. The cost is part of [`Chat::total`].
    ///
    /// # Errors
    /// The errors of [`Chat::turn`].
    pub async fn aside(&self, question: &str, cancel: &Cancel) -> Result<ForkReport, Error> {
        let fork = self.fork(ForkSpec {
            holder: "the side question".to_owned(),
            tools: Some(Vec::new()),
            approved: false,
            inherit: Inherit::Full,
            max_iterations: ASIDE_ITERATIONS,
            max_input_tokens: None,
            max_output_tokens: None,
        })?;
        fork.run(question, cancel).await
    }

    /// Adopts tools that were added, removed or changed since the session began, for example by an MCP
    /// server. The messages are kept; the provider reads the next request anew from its beginning. Returns
    /// `None` if the tools are the same; the next request is then unchanged.
    ///
    /// # Errors
    /// The tools cannot be initialized, or the session cannot be stored; it is unchanged.
    pub async fn reload(&mut self) -> Result<Option<Reloaded>, Error> {
        let tokens = self.desk.usage.map_or(0, |usage| usage.total_input());
        let changes = self.desk.reload(&self.shared, &self.agent).await?;
        Ok(changes.map(|changes| Reloaded { changes, tokens }))
    }

    /// Emits the `on_user_input` hook event: the chat waits for the user.
    pub async fn awaits_user(&self) {
        self.desk.herald.tell(When::OnUserInput, |_| {}).await;
    }

    /// Ends the session and begins a new one with the same agent. Permissions that the user granted for the
    /// rest of the chat stay granted; the spend so far continues to count.
    ///
    /// # Errors
    /// The errors of [`Chat::begin`]; the old session then continues.
    pub async fn renew(&mut self) -> Result<(), Error> {
        let mut desk = Desk::begin(&self.shared, &self.agent, None, 0).await?;
        self.desk.leave(&self.shared, "clear").await;
        desk.started("clear").await;
        self.desk = desk;
        self.reviews.begin();
        self.shared.typed.clear();
        Ok(())
    }

    /// Ends the chat. Releases what tools hold for the session and cancels a review that was not awaited with
    /// [`Chat::reviewed`]. The stored session is kept.
    pub async fn close(mut self) -> Sum {
        self.reviews.cancel().await;
        self.forks.0.cancel();
        self.desk.leave(&self.shared, "stream_ended").await;
        self.total += self.shared.take_sum();
        self.total()
    }
}

/// Returns the agent with this name. `about` is the beginning of the error message.
fn named(
    team: &Team,
    name: &str,
    about: impl FnOnce() -> String,
) -> Result<AgentDefinition, Error> {
    team.agent(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = team
            .agents
            .iter()
            .map(|agent| agent.name.as_str())
            .collect();
        Error::new(
            ErrorKind::Definition,
            format!(
                "{}there is no agent `{name}` in the file; {}",
                about(),
                cachalot_core::suggest::did_you_mean(name, &names)
            ),
        )
    })
}

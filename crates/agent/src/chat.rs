//! A chat with a team: turn after turn in one session.

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

/// Model calls of a side question: a model that calls a tool all the same is told that it may not.
const ASIDE_ITERATIONS: u32 = 3;

/// What [`Chat::reload`] took over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Which tools came, went or changed.
    pub changes: String,
    /// So many tokens the provider reads anew with the next request, as far as is known: those of the
    /// last one; 0 if nothing was sent.
    pub tokens: u64,
}

/// A chat with a team.
pub struct Chat {
    shared: Shared,
    agent: AgentDefinition,
    desk: Desk,
    total: Sum,
    pub(crate) reviews: Reviews,
    /// Ends the forks when the chat ends.
    forks: UntilDropped,
}

/// A switch that is thrown when this is dropped.
#[derive(Default)]
struct UntilDropped(Cancel);

impl Drop for UntilDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Chat {
    /// A new session with an agent of the team; its entry if none is named.
    ///
    /// # Errors
    /// The agent is not there, its model cannot be found, its tools cannot be made ready, or the
    /// session cannot be kept.
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

    /// Goes on with a session, in this process or another: what was sent is sent again, byte for
    /// byte, also if the agent's tools or its instruction are others now. If its model is another
    /// one, everything is sent anew. The listener is warned of either.
    ///
    /// # Errors
    /// As of [`Chat::begin`], and if there is no such session, or its agent is not in the team.
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

    /// The session.
    #[must_use]
    pub fn session(&self) -> &str {
        self.desk.conversation.id()
    }

    /// The agent.
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

    /// Thrown when the chat ends.
    pub(crate) fn over(&self) -> &Cancel {
        &self.forks.0
    }

    /// The tools.
    #[must_use]
    pub fn toolbox(&self) -> &Arc<dyn Toolbox> {
        &self.desk.toolbox
    }

    /// What all turns of this chat used since it was begun or resumed here, and its forks.
    #[must_use]
    pub fn total(&self) -> Sum {
        let mut total = self.total;
        total += self.shared.forks().sum();
        total
    }

    /// Takes up a message that the user typed, before it is said: the addresses in it may be fetched
    /// without being asked about. A program that puts a message together from other texts does not call
    /// this.
    pub fn typed(&self, message: &str) {
        self.shared.typed.note(message);
    }

    /// One turn. When `cancel` is thrown, or the future is dropped, what runs is stopped; the session
    /// is kept and can go on. If a review is due behind it ([`AgentDefinition::review`]), that begins,
    /// and is not waited for.
    ///
    /// # Errors
    /// Nothing was said, the model could not be asked or did not answer, or the session could not be
    /// kept. What was said stays in the session, and so does what had come of an answer; the chat can
    /// go on.
    pub async fn turn(&mut self, said: &str, cancel: &Cancel) -> Result<TurnReport, Error> {
        self.turn_of(said, false, cancel).await
    }

    /// As of [`Chat::turn`], for whoever does not want an answer that was given before: hooks that
    /// answer turns are told so.
    ///
    /// # Errors
    /// As of [`Chat::turn`].
    pub async fn turn_afresh(&mut self, said: &str, cancel: &Cancel) -> Result<TurnReport, Error> {
        self.turn_of(said, true, cancel).await
    }

    async fn turn_of(
        &mut self,
        said: &str,
        is_fresh: bool,
        cancel: &Cancel,
    ) -> Result<TurnReport, Error> {
        // Of a turn whose future was dropped.
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

    /// Summarizes what was said so far, and begins the conversation anew with the summary: the next
    /// message begins with it. Whether it did; where it did not, the listener is warned, and the
    /// conversation goes on as it was. What it costs is part of [`Chat::total`].
    ///
    /// # Errors
    /// The session could not be kept; then it is as it was.
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

    /// Takes back the last message of the user, with everything that came of it: answers, tool calls and
    /// their results. Repeated, the one before. `None` if there is none. The session goes on with what
    /// stood before, in this process and wherever it is resumed; so it can be repaired when its provider
    /// refuses what it ends with. What tools did is not undone.
    ///
    /// # Errors
    /// The session could not be kept; then it is as it was.
    pub async fn retract(&mut self) -> Result<Option<Retracted>, Error> {
        self.total += self.shared.take_sum();
        match self.desk.retract().await {
            // Somebody else has gone on with it: their end is the end.
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.desk.reopen(&self.shared, &self.agent).await?;
                self.desk.retract().await
            }
            done => done,
        }
    }

    /// Answers a question beside the conversation: on all that was said, without tools, and so that
    /// nothing of it is part of the conversation. What it costs is part of [`Chat::total`].
    ///
    /// # Errors
    /// As of [`Chat::turn`].
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

    /// Takes over tools that are others than those that the session began with: those that came,
    /// went or changed since, as servers do. The session goes on with what was said, and its next
    /// request is read anew from its beginning. `None` if they are the same: then it sends what it
    /// would have sent.
    ///
    /// # Errors
    /// The tools cannot be made ready, or the session cannot be kept; then it is as it was.
    pub async fn reload(&mut self) -> Result<Option<Reloaded>, Error> {
        let tokens = self.desk.usage.map_or(0, |usage| usage.total_input());
        let changes = self.desk.reload(&self.shared, &self.agent).await?;
        Ok(changes.map(|changes| Reloaded { changes, tokens }))
    }

    /// Tells hooks that the user is waited for.
    pub async fn awaits_user(&self) {
        self.desk.herald.tell(When::OnUserInput, |_| {}).await;
    }

    /// Ends the session and begins a new one with the same agent. What the user allowed for the rest
    /// of the chat stays allowed, and what was spent stays spent.
    ///
    /// # Errors
    /// As of [`Chat::begin`]; then the old session goes on.
    pub async fn renew(&mut self) -> Result<(), Error> {
        let mut desk = Desk::begin(&self.shared, &self.agent, None, 0).await?;
        self.desk.leave(&self.shared, "clear").await;
        desk.started("clear").await;
        self.desk = desk;
        self.reviews.begin();
        self.shared.typed.clear();
        Ok(())
    }

    /// Ends the chat: what the tools kept for the session is let go, and a review that is not
    /// [`Chat::reviewed`] is cancelled. The session itself is kept.
    pub async fn close(mut self) -> Sum {
        self.reviews.cancel().await;
        self.forks.0.cancel();
        self.desk.leave(&self.shared, "stream_ended").await;
        self.total += self.shared.take_sum();
        self.total()
    }
}

/// The agent of this name. `about` begins the message if there is none.
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

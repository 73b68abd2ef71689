//! A chat with a team: turn after turn in one session.

use std::sync::Arc;

use cachalot_tools::Toolbox;

use crate::definition::{AgentDefinition, Team};
use crate::desk::Desk;
use crate::house::House;
use crate::report::{Sum, TurnReport};
use crate::shared::Shared;
use crate::turn::Turn;
use crate::{Cancel, Error, ErrorKind};

/// A chat with a team.
pub struct Chat {
    shared: Shared,
    agent: AgentDefinition,
    desk: Desk,
    total: Sum,
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
        let desk = Desk::begin(&shared, &agent, None, 0).await?;
        Ok(Self {
            shared,
            agent,
            desk,
            total: Sum::default(),
        })
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
        let desk = Desk::resume(&shared, &agent, opened).await?;
        Ok(Self {
            shared,
            agent,
            desk,
            total: Sum::default(),
        })
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

    /// The tools.
    #[must_use]
    pub fn toolbox(&self) -> &Arc<dyn Toolbox> {
        &self.desk.toolbox
    }

    /// What all turns of this chat used since it was begun or resumed here.
    #[must_use]
    pub fn total(&self) -> Sum {
        self.total
    }

    /// One turn. When `cancel` is thrown, or the future is dropped, what runs is stopped; the session
    /// is kept and can go on.
    ///
    /// # Errors
    /// Nothing was said, the model could not be asked or did not answer, or the session could not be
    /// kept. What was said stays in the session, and so does what had come of an answer; the chat can
    /// go on.
    pub async fn turn(&mut self, said: &str, cancel: &Cancel) -> Result<TurnReport, Error> {
        // Of a turn whose future was dropped.
        self.total += self.shared.take_sum();
        let turn = Turn::new(&self.shared, &self.agent, &mut self.desk);
        let ended = turn.run_until(said, cancel).await;
        let sum = self.shared.take_sum();
        self.total += sum;
        ended.map(|ended| TurnReport {
            text: ended.text,
            stop: ended.stop,
            sum,
        })
    }

    /// Ends the session and begins a new one with the same agent. What the user allowed for the rest
    /// of the chat stays allowed, and what was spent stays spent.
    ///
    /// # Errors
    /// As of [`Chat::begin`]; then the old session goes on.
    pub async fn renew(&mut self) -> Result<(), Error> {
        let desk = Desk::begin(&self.shared, &self.agent, None, 0).await?;
        self.desk.leave().await;
        self.desk = desk;
        Ok(())
    }

    /// Ends the chat: what the tools kept for the session is let go. The session itself is kept.
    pub async fn close(self) -> Sum {
        self.desk.leave().await;
        let mut total = self.total;
        total += self.shared.take_sum();
        total
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

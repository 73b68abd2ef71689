//! A chat with a team: turn after turn in one session.

use std::sync::Arc;

use cachalot_model::budget::Meter;
use cachalot_tools::{Tool, Toolbox};

use crate::conversation::Conversation;
use crate::definition::{AgentDefinition, Team};
use crate::delegate::TransferTask;
use crate::event::Event;
use crate::house::House;
use crate::turn::{Shared, Sum, Turn, TurnReport};
use crate::{Cancel, Error, ErrorKind};

/// An agent at work: its tools and its conversation.
pub(crate) struct Desk {
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) conversation: Conversation,
}

impl Desk {
    /// A new session of an agent.
    pub(crate) async fn begin(
        shared: &Shared,
        agent: &AgentDefinition,
        parent: Option<String>,
        depth: u32,
    ) -> Result<Self, Error> {
        let id = (shared.house.name_session)();
        let toolbox = toolbox(shared, agent, &id, depth).await?;
        let definitions = toolbox.definitions();
        let conversation =
            Conversation::begin(&shared.house, agent, &definitions, id, parent).await?;
        toolbox.reset(conversation.id()).await;
        Ok(Self {
            toolbox,
            conversation,
        })
    }

    /// The session is over: what the tools kept for it is let go.
    pub(crate) async fn leave(&self) {
        self.toolbox.reset(self.conversation.id()).await;
    }
}

async fn toolbox(
    shared: &Shared,
    agent: &AgentDefinition,
    session: &str,
    depth: u32,
) -> Result<Arc<dyn Toolbox>, Error> {
    let own: Vec<Arc<dyn Tool>> = TransferTask::of(agent, shared, depth).into_iter().collect();
    let warn = |message: &str| {
        shared.house.listener.tell(&Event::Warning {
            agent: &agent.name,
            message,
        });
    };
    let toolboxes = &shared.house.toolboxes;
    toolboxes
        .toolbox(&shared.team, agent, session, own, &warn)
        .await
}

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
            Some(name) => named(&team, name)?,
        };
        let shared = shared(house, team);
        let desk = Desk::begin(&shared, &agent, None, 0).await?;
        Ok(Self {
            shared,
            agent,
            desk,
            total: Sum::default(),
        })
    }

    /// Goes on with a session, in this process or another: what was sent is sent again, byte for byte.
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
        let agent = named(&team, &opened.head.agent)?;
        let shared = shared(house, team);
        let toolbox = toolbox(&shared, &agent, &opened.head.id, 0).await?;
        let definitions = toolbox.definitions();
        let (conversation, notice) =
            Conversation::resume(&shared.house, &agent, &definitions, opened).await?;
        if let Some(message) = &notice {
            shared.house.listener.tell(&Event::Warning {
                agent: &agent.name,
                message,
            });
        }
        Ok(Self {
            shared,
            agent,
            desk: Desk {
                toolbox,
                conversation,
            },
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
    /// The model could not be asked or did not answer, or the session could not be kept. What was
    /// said stays in the session.
    pub async fn turn(&mut self, said: &str, cancel: &Cancel) -> Result<TurnReport, Error> {
        self.shared.cancel = cancel.clone();
        let turn = Turn {
            shared: &self.shared,
            agent: &self.agent,
            toolbox: &self.desk.toolbox,
            conversation: &mut self.desk.conversation,
        };
        let ended = turn.run(said).await;
        let sum = self.shared.take_sum();
        self.total += sum;
        ended.map(|ended| TurnReport {
            text: ended.text,
            stop: ended.stop,
            sum,
        })
    }

    /// Ends the session and begins a new one with the same agent.
    ///
    /// # Errors
    /// As of [`Chat::begin`].
    pub async fn renew(&mut self) -> Result<(), Error> {
        self.desk.leave().await;
        self.desk = Desk::begin(&self.shared, &self.agent, None, 0).await?;
        Ok(())
    }

    /// Ends the chat: what the tools kept for the session is let go. The session itself is kept.
    pub async fn close(self) -> Sum {
        self.desk.leave().await;
        self.total
    }
}

fn shared(house: House, team: Arc<Team>) -> Shared {
    let meter = Meter::new(team.budget.clone(), Arc::clone(&house.clock));
    Shared {
        house,
        team,
        meter,
        cancel: Cancel::default(),
        sum: Arc::default(),
        always: Arc::default(),
    }
}

fn named(team: &Team, name: &str) -> Result<AgentDefinition, Error> {
    team.agent(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = team.agents.iter().map(|agent| agent.name.as_str()).collect();
        Error::new(
            ErrorKind::Definition,
            format!(
                "there is no agent `{name}` in the file; {}",
                cachalot_core::suggest::did_you_mean(name, &names)
            ),
        )
    })
}

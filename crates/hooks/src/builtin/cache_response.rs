//! Answers that are given again: `cache_response`.
//!
//! Both legs of it: at `pre_user_turn` a question is looked up, and either answered or led by a ticket;
//! at `stop`, behind all other hooks, the ticket is ended with the answer, which is stored if it may be
//! given again. An answer that a stop hook rejects is never stored, and a stored one that it rejects is
//! erased before the turn goes on: no crash in between leaves it behind. Whether an
//! answer may still be served, for how long, and what it cost and saves is the engine's; what a question
//! is, and which answers are worth keeping, is decided here.

mod begin;
mod eligible;
mod finish;
mod kept;
mod question;
mod replay;
mod settings;
mod store;
mod turns;

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::tree::Node;
use cachalot_core::{Clock, Problem, Seals};
use serde_json::Value;

pub use settings::{Keeping, Matching, Settings, Sharing};
pub use store::{FlatFile, Opener, Store};

use crate::Event;
use crate::builtin::{Builtin, Injection, flag};
use crate::input::Input;
use crate::lookup::{AgentLookup, AgentView};
use crate::output::{Fault, Output};
use store::Stores;
use turns::Turns;

/// The section of an agent.
const SECTION: &str = "cache";

/// The events that an agent with the section hears of.
const INJECTED: [Event; 3] = [Event::PreUserTurn, Event::Stop, Event::TurnEnd];

/// The builtin `cache_response`.
pub struct CacheResponse {
    lookup: Arc<dyn AgentLookup>,
    stores: Stores,
    clock: Arc<dyn Clock>,
    seals: Arc<Seals>,
    turns: Turns,
}

impl CacheResponse {
    /// The builtin, for agents that `lookup` finds, with stores that `opener` opens. Secrets that
    /// `seals` knows are masked in what is stored.
    pub fn new(
        lookup: Arc<dyn AgentLookup>,
        opener: Opener,
        clock: Arc<dyn Clock>,
        seals: Arc<Seals>,
    ) -> Self {
        Self {
            lookup,
            stores: Stores::new(opener),
            clock,
            seals,
            turns: Turns::default(),
        }
    }
}

/// The section of an agent, if it is right and says that answers are kept.
fn settings_of(agent: &dyn AgentView) -> Option<Settings> {
    let mut problems = Vec::new();
    let settings = Settings::read(agent.section(SECTION)?, &mut problems)?;
    (settings.enabled && problems.is_empty()).then_some(settings)
}

#[async_trait]
impl Builtin for CacheResponse {
    fn name(&self) -> &'static str {
        "cache_response"
    }

    fn about(&self) -> &'static str {
        "Answers a question that was answered before without asking a model, and keeps the answers of \
         turns for that. Adds itself to agents whose section `cache` says `enabled: true`."
    }

    fn events(&self) -> &'static [Event] {
        &[
            Event::PreUserTurn,
            Event::Stop,
            Event::TurnEnd,
            Event::SessionEnd,
        ]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), String> {
        flag::no_arguments(self.name(), arguments)
    }

    fn sections(&self) -> &'static [&'static str] {
        &[SECTION]
    }

    fn section_schema(&self, _: &str) -> Value {
        settings::schema(self.about())
    }

    fn check_section(&self, _name: &str, section: &Node, problems: &mut Vec<Problem>) {
        let _ = Settings::read(section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        match settings_of(agent) {
            Some(_) => INJECTED.map(Injection::of).to_vec(),
            None => Vec::new(),
        }
    }

    /// A cache fault never fails the work.
    fn fails_open(&self) -> bool {
        true
    }

    /// An answer is stored only if all other stop hooks accept it.
    fn runs_last(&self, event: Event) -> bool {
        event == Event::Stop
    }

    async fn run(&self, _arguments: &[String], input: &Input) -> Result<Output, Fault> {
        match input.event {
            Event::PreUserTurn => self.begin(input).await,
            Event::Stop => self.finish(input).await,
            Event::TurnEnd => self.end(input).await,
            Event::SessionEnd => {
                self.turns.end_session(&input.session_id);
                Ok(Output::default())
            }
            _ => Ok(Output::default()),
        }
    }
}

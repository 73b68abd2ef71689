//! `cache_response`: stores the answers of turns and replays them.
//!
//! - `pre_user_turn` looks the question up. A hit is replayed; a miss starts the turn with a ticket.
//! - `stop`, after all other hooks, finishes the ticket with the answer. The answer is stored if it is
//!   eligible.
//!
//! An answer that a stop hook rejects is never stored. A stored answer that a stop hook rejects is
//! erased before the turn continues, so that a crash in between cannot leave it in the cache.
//!
//! The engine decides about validity, TTL, cost and savings of entries. This module defines the question
//! (the key) and which answers are eligible.

mod begin;
mod eligible;
mod finish;
mod question;
mod replay;
mod settings;
mod store;
mod stored_answer;
mod turns;
mod unsuitable;

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::config::Settings as _;
use cachalot_core::tree::Node;
use cachalot_core::{Clock, Problem, SecretSet};
use serde_json::Value;

pub use settings::{AnswerStorage, MatchingMode, ResponseCacheSettings, SharingScope};
pub use store::{FlatFile, FlatFileError, ResponseStore, StoreOpener};

use crate::Event;
use crate::builtin::{ArgumentsError, Builtin, Injection, flag};
use crate::input::Input;
use crate::lookup::{AgentLookup, AgentView};
use crate::output::{Fault, Output};
use store::ResponseStores;
use turns::ActiveTurns;

/// The name of the agent's configuration section.
const SECTION: &str = "cache";

/// The events that are injected into an agent that enables the section.
const INJECTED: [Event; 3] = [Event::PreUserTurn, Event::Stop, Event::TurnEnd];

/// The builtin `cache_response`.
pub struct CacheResponse {
    lookup: Arc<dyn AgentLookup>,
    stores: ResponseStores,
    clock: Arc<dyn Clock>,
    secret_set: Arc<SecretSet>,
    turns: ActiveTurns,
}

impl CacheResponse {
    /// Creates the builtin. `lookup` finds the agents and `opener` opens their stores. Secrets that
    /// `secret_set` contains are redacted in stored answers.
    pub fn new(
        lookup: Arc<dyn AgentLookup>,
        opener: StoreOpener,
        clock: Arc<dyn Clock>,
        secret_set: Arc<SecretSet>,
    ) -> Self {
        Self {
            lookup,
            stores: ResponseStores::new(opener),
            clock,
            secret_set,
            turns: ActiveTurns::default(),
        }
    }
}

/// The parsed section of an agent, if it is valid and enabled.
fn settings_of(agent: &dyn AgentView) -> Option<ResponseCacheSettings> {
    let mut problems = Vec::new();
    let settings = ResponseCacheSettings::read(agent.section(SECTION)?, &mut problems)?;
    (settings.enabled && problems.is_empty()).then_some(settings)
}

#[async_trait]
impl Builtin for CacheResponse {
    fn name(&self) -> &'static str {
        "cache_response"
    }

    fn about(&self) -> &'static str {
        "Response cache: replays the answer of an earlier turn without a model call. Enabled for agents with `cache: {enabled: true}`."
    }

    fn events(&self) -> &'static [Event] {
        &[
            Event::PreUserTurn,
            Event::Stop,
            Event::TurnEnd,
            Event::SessionEnd,
        ]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        flag::check_no_arguments(self.name(), arguments)
    }

    fn sections(&self) -> &'static [&'static str] {
        &[SECTION]
    }

    fn section_schema(&self, _: &str) -> Value {
        settings::schema(self.about())
    }

    fn check_section(&self, _name: &str, section: &Node, problems: &mut Vec<Problem>) {
        let _ = ResponseCacheSettings::read(section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        match settings_of(agent) {
            Some(_) => INJECTED.map(Injection::for_event).to_vec(),
            None => Vec::new(),
        }
    }

    /// A cache fault never fails the turn.
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

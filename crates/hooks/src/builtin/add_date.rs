//! `add_date`: the time.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::clock::iso8601;
use cachalot_core::tree::Node;
use cachalot_core::{Clock, Problem};

use super::{Builtin, Injection, Parts, flag};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::output::{Fault, Output};

const NAME: &str = "add_date";

/// Tells the model the time, each turn.
pub(super) struct AddDate {
    clock: Arc<dyn Clock>,
}

impl AddDate {
    pub(super) fn new(parts: &Parts) -> Self {
        Self {
            clock: Arc::clone(&parts.clock),
        }
    }
}

#[async_trait]
impl Builtin for AddDate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Tells the model the time (UTC), in each message of the user. Agents with `add_date: true` have it."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::TurnStart]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), String> {
        flag::no_arguments(NAME, arguments)
    }

    fn sections(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        flag::check(name, section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let is_on = flag::said(agent, NAME) == Some(true);
        is_on
            .then(|| Injection::of(Event::TurnStart))
            .into_iter()
            .collect()
    }

    async fn run(&self, _: &[String], _: &Input) -> Result<Output, Fault> {
        let now = iso8601(self.clock.now());
        Ok(Output {
            additional_context: Some(format!("The time is {now}.")),
            ..Output::default()
        })
    }
}

//! `add_date`: adds the current time.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Clock;
use cachalot_core::clock::iso8601;

use super::BuiltinDependencies;
use super::simple::SimpleBuiltin;
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output};

/// Adds the current time to each user message.
pub(super) struct AddDate {
    clock: Arc<dyn Clock>,
}

impl AddDate {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        Self {
            clock: Arc::clone(&dependencies.clock),
        }
    }
}

#[async_trait]
impl SimpleBuiltin for AddDate {
    const NAME: &'static str = "add_date";
    const ABOUT: &'static str =
        "Adds the time (UTC) to each message of the user. Agents with `add_date: true` have it.";
    const EVENTS: &'static [Event] = &[Event::TurnStart];
    const HAS_FLAG: bool = true;

    async fn handle(&self, _: &Input) -> Result<Output, Fault> {
        let now = iso8601(self.clock.now());
        Ok(Output {
            additional_context: Some(format!("The time is {now}.")),
            ..Output::default()
        })
    }
}

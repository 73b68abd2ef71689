//! Builtins without arguments: shared implementation of [`Builtin`]. An implementation consists of a
//! name, events and a handler.

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::tree::Node;

use super::{ArgumentsError, Builtin, Injection, flag};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::output::{Fault, Output};

/// A builtin that takes no arguments.
#[async_trait]
pub(super) trait SimpleBuiltin: Send + Sync {
    /// The name of the builtin, and of its section if it has one.
    const NAME: &'static str;

    /// A description in one or two sentences, for users.
    const ABOUT: &'static str;

    /// The supported events. The builtin is injected for all of them.
    const EVENTS: &'static [Event];

    /// Set if agents have a boolean section of this name that enables or disables the builtin.
    const HAS_FLAG: bool = false;

    /// True if the builtin is enabled for agents without a setting. Default: false.
    fn is_enabled_by_default(&self, agent: &dyn AgentView) -> bool {
        let _ = agent;
        false
    }

    /// Handles an event.
    ///
    /// # Errors
    /// A [`Fault`] if the builtin failed and has no output.
    async fn handle(&self, input: &Input) -> Result<Output, Fault>;
}

#[async_trait]
impl<T: SimpleBuiltin> Builtin for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn about(&self) -> &'static str {
        T::ABOUT
    }

    fn events(&self) -> &'static [Event] {
        T::EVENTS
    }

    /// They extend or shorten messages and guard nothing.
    fn fails_open(&self) -> bool {
        true
    }

    fn permits_live_output(&self, _: &[String]) -> bool {
        true
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        flag::check_no_arguments(T::NAME, arguments)
    }

    fn sections(&self) -> &'static [&'static str] {
        if T::HAS_FLAG {
            const { &[T::NAME] }
        } else {
            &[]
        }
    }

    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        flag::check(name, section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let said = flag::value(agent, T::NAME).filter(|_| T::HAS_FLAG);
        if said.unwrap_or_else(|| self.is_enabled_by_default(agent)) {
            T::EVENTS
                .iter()
                .copied()
                .map(Injection::for_event)
                .collect()
        } else {
            Vec::new()
        }
    }

    async fn run(&self, _: &[String], input: &Input) -> Result<Output, Fault> {
        self.handle(input).await
    }
}

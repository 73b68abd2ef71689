//! Builtins that take no arguments and are told of all their events: one piece for what they would
//! each say again. What is left of such a builtin is its name, its events, and what it does.

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::tree::Node;

use super::{Builtin, Injection, flag};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::output::{Fault, Output};

/// A builtin that takes no arguments.
#[async_trait]
pub(super) trait Plain: Send + Sync {
    /// By what name files name it; that of its section, too, if it has one.
    const NAME: &'static str;

    /// What it does, in a sentence or two.
    const ABOUT: &'static str;

    /// The events that it makes sense for. An agent that has it tells it of all of them.
    const EVENTS: &'static [Event];

    /// Whether agents have a section of its name that is `true` or `false` and turns it on or off.
    const HAS_FLAG: bool = false;

    /// Whether an agent has it that does not say. By default only those have it that name it.
    fn is_usual_for(&self, agent: &dyn AgentView) -> bool {
        let _ = agent;
        false
    }

    /// Hears, and says.
    ///
    /// # Errors
    /// It has nothing to say.
    async fn hear(&self, input: &Input) -> Result<Output, Fault>;
}

#[async_trait]
impl<T: Plain> Builtin for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn about(&self) -> &'static str {
        T::ABOUT
    }

    fn events(&self) -> &'static [Event] {
        T::EVENTS
    }

    /// They add to messages, or shorten them; none guards anything.
    fn fails_open(&self) -> bool {
        true
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), String> {
        flag::no_arguments(T::NAME, arguments)
    }

    fn sections(&self) -> &'static [&'static str] {
        match T::HAS_FLAG {
            true => const { &[T::NAME] },
            false => &[],
        }
    }

    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        flag::check(name, section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let said = flag::said(agent, T::NAME).filter(|_| T::HAS_FLAG);
        match said.unwrap_or_else(|| self.is_usual_for(agent)) {
            true => T::EVENTS.iter().copied().map(Injection::of).collect(),
            false => Vec::new(),
        }
    }

    async fn run(&self, _: &[String], input: &Input) -> Result<Output, Fault> {
        self.hear(input).await
    }
}

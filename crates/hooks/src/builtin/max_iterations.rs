//! `max_iterations`: limits the model calls of a turn.

use async_trait::async_trait;

use super::{ArgumentsError, Builtin};
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output};

const NAME: &str = "max_iterations";

/// Ends turns with too many model calls. Stateless: the input holds the number of the call.
pub(super) struct MaxIterations;

#[async_trait]
impl Builtin for MaxIterations {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Ends a turn that wants to make more than so many model calls, also where the agent's own `max_iterations` allows more."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::BeforeLlmCall]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        limit(arguments).map(|_| ())
    }

    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault> {
        let maximum = limit(arguments)?;
        let reason = || {
            let calls = if maximum == 1 { "call" } else { "calls" };
            format!(
                "the turn has made {maximum} model {calls}, and the hook `{NAME}` allows no more; raise its number, or ask for less at once"
            )
        };
        Ok(Output {
            block: (input.iteration > maximum).then(reason),
            ..Output::default()
        })
    }
}

fn limit(arguments: &[String]) -> Result<u32, ArgumentsError> {
    match arguments {
        [number] => match number.trim().parse() {
            Ok(0) | Err(_) => Err(ArgumentsError(format!(
                "`{NAME}` needs a whole number from 1 to {}, but is given `{number}`; write `args: [\"25\"]`",
                u32::MAX
            ))),
            Ok(maximum) => Ok(maximum),
        },
        [] => Err(ArgumentsError(format!(
            "`{NAME}` needs to know how many model calls a turn may make; write `args: [\"25\"]`"
        ))),
        [_, more, ..] => Err(ArgumentsError(format!(
            "`{NAME}` takes one number, but is given `{more}`, too; take it out"
        ))),
    }
}

//! Handlers that are builtins. They receive the input directly: no process, no JSON.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;

use super::Handler;
use crate::Event;
use crate::builtin::Builtin;
use crate::dispatch::Surroundings;
use crate::input::Input;
use crate::output::{Fault, Output};

struct Named {
    builtin: Arc<dyn Builtin>,
    arguments: Vec<String>,
}

pub(super) fn ready(
    name: &str,
    arguments: &[String],
    event: Event,
    surroundings: &Surroundings,
) -> Result<Arc<dyn Handler>, Problem> {
    let Some(builtin) = surroundings.builtins.get(name) else {
        return Err(unknown(name, surroundings));
    };
    let events = builtin.events();
    if !events.contains(&event) {
        let events: Vec<String> = events.iter().map(|event| format!("`{event}`")).collect();
        return Err(Problem::new(
            "wrong-event",
            format!("the builtin `{name}` makes no sense at `{event}`"),
        )
        .help(format!("it is for {}", events.join(", "))));
    }
    builtin.check_arguments(arguments).map_err(|why| {
        Problem::new("bad-arguments", format!("the builtin `{name}`: {why}"))
            .help(format!("what it does: {}", builtin.about()))
    })?;
    Ok(Arc::new(Named {
        builtin: Arc::clone(builtin),
        arguments: arguments.to_owned(),
    }))
}

fn unknown(name: &str, surroundings: &Surroundings) -> Problem {
    let names: Vec<&str> = surroundings.builtins.iter().map(|one| one.name()).collect();
    let message = match name.is_empty() {
        true => "a builtin without a name".to_owned(),
        false => format!("there is no builtin `{name}`"),
    };
    Problem::new("unknown-builtin", message).help(did_you_mean(name, &names))
}

#[async_trait]
impl Handler for Named {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        self.builtin.run(&self.arguments, input).await
    }
}

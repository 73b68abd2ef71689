//! Handlers that are builtins. They receive the input directly: no process, no JSON.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;

use super::Handler;
use crate::Event;
use crate::builtin::Builtin;
use crate::dependencies::HookDependencies;
use crate::input::Input;
use crate::output::{Fault, Output};

struct BuiltinHandler {
    builtin: Arc<dyn Builtin>,
    arguments: Vec<String>,
}

pub(super) fn create(
    name: &str,
    arguments: &[String],
    event: Event,
    dependencies: &HookDependencies,
) -> Result<Arc<dyn Handler>, Problem> {
    let Some(builtin) = dependencies.builtins.get(name) else {
        return Err(unknown(name, dependencies));
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
    Ok(Arc::new(BuiltinHandler {
        builtin: Arc::clone(builtin),
        arguments: arguments.to_owned(),
    }))
}

fn unknown(name: &str, dependencies: &HookDependencies) -> Problem {
    let names: Vec<&str> = dependencies.builtins.iter().map(|one| one.name()).collect();
    let message = if name.is_empty() {
        "a builtin without a name".to_owned()
    } else {
        format!("there is no builtin `{name}`")
    };
    Problem::new("unknown-builtin", message).help(did_you_mean(name, &names))
}

#[async_trait]
impl Handler for BuiltinHandler {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        self.builtin.run(&self.arguments, input).await
    }
}

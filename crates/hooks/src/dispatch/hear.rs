//! What one handler says, within its time, whatever it does.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::Ready;
use crate::contract::{Contract, Honoured};
use crate::definition::{Action, Entry};
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::verdict::Report;

/// Tells one handler, and waits for as long as it may take.
pub(super) async fn hear(ready: &Ready, input: &Input) -> Report {
    let began = Instant::now();
    let said = match answer(ready, input).await {
        Ok(output) => check(&ready.entry, output),
        Err(fault) => Err(fault),
    };
    Report {
        handler: ready.entry.definition.title().into_owned(),
        is_builtin: matches!(ready.entry.definition.action, Action::Builtin { .. }),
        elapsed: began.elapsed(),
        said,
    }
}

async fn answer(ready: &Ready, input: &Input) -> Result<Output, Fault> {
    let limit = ready.entry.definition.timeout;
    // A block of its own, so that a panic before there is a future is caught, too.
    let handling = async { ready.handler.handle(input).await };
    // A handler that panicked is asked again as if nothing had been: its state is its own affair.
    match timeout(limit, AssertUnwindSafe(handling).catch_unwind()).await {
        Ok(Ok(said)) => said,
        Ok(Err(panic)) => Err(Fault::new(format!("it panicked: {}", words(&*panic)))),
        Err(_) => Err(Fault::new(format!(
            "no answer within {limit:?}; a longer `timeout` gives it more time"
        ))),
    }
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => panic.downcast_ref::<&str>().unwrap_or(&"without a word"),
    }
}

/// Strict hooks say nothing that the event does not honour. A block is a message where nothing can be
/// blocked, also of strict hooks.
fn check(entry: &Entry, output: Output) -> Result<Output, Fault> {
    let contract = entry.event.contract();
    match unhonoured(contract, &output) {
        Some(what) if entry.definition.strict_output => Err(Fault::new(format!(
            "it said `{}`, which `{}` does not honour; `strict_output` makes that a failure",
            what.key(),
            entry.event
        ))),
        _ => Ok(output),
    }
}

fn unhonoured(contract: &Contract, output: &Output) -> Option<Honoured> {
    let said = [
        (
            Honoured::AdditionalContext,
            output.additional_context.is_some(),
        ),
        (Honoured::PermissionDecision, output.permission.is_some()),
        (Honoured::UpdatedInput, output.updated_input.is_some()),
        (Honoured::UpdatedMessages, output.updated_messages.is_some()),
        (
            Honoured::UpdatedToolResponse,
            output.updated_tool_response.is_some(),
        ),
        (Honoured::Summary, output.summary.is_some()),
        (Honoured::SyntheticResponse, output.synthetic.is_some()),
        (Honoured::Metadata, !output.metadata.is_empty()),
    ];
    said.into_iter()
        .find(|(what, is_said)| *is_said && !contract.honours(*what))
        .map(|(what, _)| what)
}

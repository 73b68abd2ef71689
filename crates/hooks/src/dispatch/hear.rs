//! Runs one handler within its timeout.

use std::any::Any;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::timeout;

use super::sessions::Left;
use super::{Ready, Sessions, writes};
use crate::Handler;
use crate::contract::{Contract, Honoured};
use crate::definition::Entry;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::verdict::Report;

/// Maximum number of files of one call that are passed to a handler concurrently.
const MOST_AT_ONCE: usize = 8;

/// Runs one handler and waits for it, at most for its timeout. A background handler is spawned; its
/// report is empty for now.
pub(super) async fn hear(ready: &Ready, input: &Input, sessions: &Arc<Sessions>) -> Report {
    let (entry, handler) = (&ready.entry, &ready.handler);
    let began = Instant::now();
    if entry.definition.background.is_some() {
        let (entry, handler, input) = (entry.clone(), Arc::clone(handler), input.clone());
        sessions.begin(&input.session_id);
        let sessions = Arc::clone(sessions);
        let report = Report::new(&entry, began, Ok(Output::default()));
        tokio::spawn(async move {
            let said = said(&entry, &*handler, &input).await;
            sessions.leave(&input.session_id, Left::of(&entry, began, said));
        });
        return report;
    }
    let said = said(entry, &**handler, input).await;
    Report::new(entry, began, said)
}

/// Runs a handler. A call that writes files is passed in the form that the handler's dialect knows.
async fn said(entry: &Entry, handler: &dyn Handler, input: &Input) -> Result<Output, Fault> {
    let is_of_tools = input.event.contract().tool_matched;
    let views = match input.tool.as_ref().filter(|_| is_of_tools) {
        Some(tool) => writes::views(entry, tool, input),
        None => Vec::new(),
    };
    let is_as_it_is = match views.as_slice() {
        [] => true,
        [only] => matches!(only, Cow::Borrowed(_)),
        _ => false,
    };
    if is_as_it_is {
        return said_of(entry, handler, input).await;
    }
    let mut inputs = Vec::with_capacity(views.len());
    for view in views {
        let is_of_file = matches!(view, Cow::Owned(_));
        let tool = Some(view.into_owned());
        inputs.push((
            is_of_file,
            Input {
                tool,
                ..input.clone()
            },
        ));
    }
    let said = inputs.into_iter().map(|(is_of_file, input)| async move {
        (is_of_file, said_of(entry, handler, &input).await)
    });
    let said = stream::iter(said).buffered(MOST_AT_ONCE);
    writes::together(said.collect::<Vec<_>>().await)
}

async fn said_of(entry: &Entry, handler: &dyn Handler, input: &Input) -> Result<Output, Fault> {
    match answer(entry, handler, input).await {
        Ok(output) => check(entry, output),
        Err(fault) => Err(fault),
    }
}

async fn answer(entry: &Entry, handler: &dyn Handler, input: &Input) -> Result<Output, Fault> {
    let limit = entry.definition.timeout;
    // An `async` block, so that a panic in the synchronous part of `handle` is caught as well.
    let handling = async { handler.handle(input).await };
    // Handlers stay in use after a panic and are responsible for their own state.
    match timeout(limit, AssertUnwindSafe(handling).catch_unwind()).await {
        Ok(Ok(said)) => said,
        Ok(Err(panic)) => Err(Fault::new(format!("it panicked: {}", words(&*panic)))),
        Err(_) => Err(Fault::new(format!(
            "no answer within {limit:?}; a longer `timeout` gives it more time"
        ))),
    }
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => panic.downcast_ref::<&str>().unwrap_or(&"without a word"),
    }
}

/// With strict output, an output that the event ignores is a failure. A block is accepted everywhere:
/// where nothing can be blocked, it is a message.
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
        (
            Honoured::UpdatedInput,
            output.updated_input.is_some() || !output.removed_input.is_empty(),
        ),
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

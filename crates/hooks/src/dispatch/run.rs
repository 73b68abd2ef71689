//! Runs one handler within its timeout.

use std::any::Any;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::timeout;

use super::{ReadyHook, Sessions, writes};
use crate::Handler;
use crate::contract::{Contract, SpecificOutput};
use crate::definition::HookEntry;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::sessions::BackgroundReport;
use crate::verdict::HandlerReport;

/// Maximum number of files of one call that are passed to a handler concurrently.
const MAX_CONCURRENT_FILES: usize = 8;

/// Runs one handler and waits for it, at most for its timeout. A background handler is spawned; its
/// report is empty for now.
pub(super) async fn run_handler(
    ready: &ReadyHook,
    input: &Input,
    sessions: &Arc<Sessions>,
) -> HandlerReport {
    let (entry, handler) = (&ready.entry, &ready.handler);
    let began = Instant::now();
    if entry.definition.background.is_some() {
        let (entry, handler, input) = (entry.clone(), Arc::clone(handler), input.clone());
        // Before the spawn: the end of the session must already see this hook as running.
        sessions.begin(&input.session_id);
        let sessions = Arc::clone(sessions);
        let report = HandlerReport::new(&entry, began, Ok(Output::default()));
        tokio::spawn(async move {
            let said = call_handler(&entry, &*handler, &input).await;
            sessions.add_background_report(
                &input.session_id,
                BackgroundReport::new(&entry, began, said),
            );
        });
        return report;
    }
    let said = call_handler(entry, &**handler, input).await;
    HandlerReport::new(entry, began, said)
}

/// Runs a handler. A call that writes files is passed in the form that the handler's dialect knows.
async fn call_handler(
    entry: &HookEntry,
    handler: &dyn Handler,
    input: &Input,
) -> Result<Output, Fault> {
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
        return call_checked(entry, handler, input).await;
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
        (is_of_file, call_checked(entry, handler, &input).await)
    });
    let said = stream::iter(said).buffered(MAX_CONCURRENT_FILES);
    writes::combine(said.collect::<Vec<_>>().await)
}

async fn call_checked(
    entry: &HookEntry,
    handler: &dyn Handler,
    input: &Input,
) -> Result<Output, Fault> {
    match call_with_timeout(entry, handler, input).await {
        Ok(output) => check(entry, output),
        Err(fault) => Err(fault),
    }
}

async fn call_with_timeout(
    entry: &HookEntry,
    handler: &dyn Handler,
    input: &Input,
) -> Result<Output, Fault> {
    let limit = entry.definition.timeout;
    // An `async` block, so that a panic in the synchronous part of `handle` is caught as well.
    let handling = async { handler.handle(input).await };
    // Handlers stay in use after a panic and are responsible for their own state.
    let handling = AssertUnwindSafe(handling).catch_unwind();
    let ended = if handler.applies_timeout() {
        Ok(handling.await)
    } else {
        timeout(limit, handling).await
    };
    match ended {
        Ok(Ok(said)) => said,
        Ok(Err(panic)) => Err(Fault::new(format!(
            "it panicked: {}",
            panic_message(&*panic)
        ))),
        Err(_) => Err(Fault::timed_out(limit)),
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => panic.downcast_ref::<&str>().unwrap_or(&"without a word"),
    }
}

/// With strict output, an output that the event ignores is a failure. A block is accepted everywhere:
/// where nothing can be blocked, it is a message.
fn check(entry: &HookEntry, output: Output) -> Result<Output, Fault> {
    let contract = entry.event.contract();
    match find_ignored_output(contract, &output) {
        Some(what) if entry.definition.strict_output => Err(Fault::new(format!(
            "it returned `{}`, which `{}` does not support; with `strict_output` that is a failure",
            what.key(),
            entry.event
        ))),
        _ => Ok(output),
    }
}

fn find_ignored_output(contract: &Contract, output: &Output) -> Option<SpecificOutput> {
    let is_said = |what: &SpecificOutput| match what {
        SpecificOutput::AdditionalContext => output.additional_context.is_some(),
        // Read into the additional context.
        SpecificOutput::InstructionContext => false,
        SpecificOutput::PermissionDecision => output.permission.is_some(),
        SpecificOutput::UpdatedInput => {
            output.updated_input.is_some() || !output.removed_input.is_empty()
        }
        SpecificOutput::UpdatedMessages => output.updated_messages.is_some(),
        SpecificOutput::UpdatedToolResponse => output.updated_tool_response.is_some(),
        SpecificOutput::Summary => output.summary.is_some(),
        SpecificOutput::SyntheticResponse => output.synthetic.is_some(),
        SpecificOutput::Metadata => !output.metadata.is_empty(),
    };
    let mut outputs = SpecificOutput::ALL.into_iter();
    outputs.find(|what| is_said(what) && !contract.honours(*what))
}

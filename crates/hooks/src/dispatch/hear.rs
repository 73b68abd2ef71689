//! What one handler says, within its time, whatever it does.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::sessions::Left;
use super::{Ready, Sessions};
use crate::Handler;
use crate::contract::{Contract, Honoured};
use crate::definition::{Action, Background, Entry, OnError};
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::verdict::Report;

/// Tells one handler, and waits for as long as it may take; or does not wait, and has nothing to report
/// yet.
pub(super) async fn hear(ready: &Ready, input: &Input, sessions: &Arc<Sessions>) -> Report {
    let (entry, handler) = (&ready.entry, &ready.handler);
    if let Some(background) = entry.definition.background {
        let left = leave(
            entry.clone(),
            background,
            Arc::clone(handler),
            input.clone(),
        );
        sessions.begin(&input.session_id);
        let sessions = Arc::clone(sessions);
        tokio::spawn(async move {
            let (session, left) = left.await;
            sessions.leave(&session, left);
        });
        return report(entry, Instant::now(), Ok(Output::default()));
    }
    let began = Instant::now();
    let said = said(entry, &**handler, input).await;
    report(entry, began, said)
}

fn report(entry: &Entry, began: Instant, said: Result<Output, Fault>) -> Report {
    Report {
        handler: entry.definition.title().into_owned(),
        is_builtin: matches!(entry.definition.action, Action::Builtin { .. }),
        elapsed: began.elapsed(),
        said,
    }
}

/// Tells a handler for which nobody waits, and makes of what it says what can still be told when the
/// next turn of the session starts.
async fn leave(
    mut entry: Entry,
    background: Background,
    handler: Arc<dyn Handler>,
    input: Input,
) -> (String, Left) {
    let began = Instant::now();
    let said = said(&entry, &*handler, &input).await.map(|output| {
        let block = output.block.filter(|_| background == Background::Heard);
        // Claude Code tells the model, whoever a message was for.
        let told = [output.additional_context, output.system_message, block];
        let told: Vec<String> = told.into_iter().flatten().collect();
        Output {
            additional_context: Some(told.join("\n")).filter(|told| !told.is_empty()),
            spent: output.spent,
            ..Output::default()
        }
    });
    // It is too late to forbid anything by failing.
    entry.definition.on_error = entry.definition.on_error.filter(|on| *on != OnError::Block);
    let report = report(&entry, began, said);
    (input.session_id, Left { entry, report })
}

async fn said(entry: &Entry, handler: &dyn Handler, input: &Input) -> Result<Output, Fault> {
    match answer(entry, handler, input).await {
        Ok(output) => check(entry, output),
        Err(fault) => Err(fault),
    }
}

async fn answer(entry: &Entry, handler: &dyn Handler, input: &Input) -> Result<Output, Fault> {
    let limit = entry.definition.timeout;
    // A block of its own, so that a panic before there is a future is caught, too.
    let handling = async { handler.handle(input).await };
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

//! Runs one call.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cachalot_core::{Millis, Spend, Witnesses};
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::Registry;
use super::result_witnesses::result_witnesses;
use super::schedule::schedule;
use crate::toolbox::{
    BatchContext, CallOutcome, PreparedCall, ReadyCall, RefusedCall, ToolCallResult,
};
use cachalot_operation::{Arguments, CacheClass, Tool, ToolContext, ToolOutput, WriteNotifier};

impl Registry {
    /// Runs calls; the engines of `write_notifier` are notified of their writes.
    pub(crate) async fn run_announced(
        &self,
        calls: Vec<PreparedCall>,
        batch: &BatchContext,
        write_notifier: &WriteNotifier,
    ) -> Vec<ToolCallResult> {
        schedule(
            calls,
            |prepared| self.concurrency_safe(prepared),
            |prepared| self.perform(prepared, batch, write_notifier),
        )
        .await
    }

    /// Runs one call, and notifies the watcher.
    async fn perform(
        &self,
        prepared: PreparedCall,
        batch: &BatchContext,
        write_notifier: &WriteNotifier,
    ) -> ToolCallResult {
        let (prepared, context) = batch.begin(prepared);
        let answer = match prepared {
            PreparedCall::Refused(refused) => refused.into(),
            PreparedCall::Ready(ReadyCall {
                call, arguments, ..
            }) => match self.tool(&call.name) {
                Some(tool) => {
                    let began = Instant::now();
                    let effects = tool.effects(&arguments, &context);
                    let call_run = run_guarded(&**tool, arguments, &context);
                    let root = context.workspace.root();
                    let output = write_notifier
                        .announce(&effects.writes, root, call_run)
                        .await;
                    let noted = context.witness.witnesses();
                    ToolCallResult {
                        call,
                        witnesses: result_witnesses(tool.metadata(), &effects, &output, noted),
                        expires: expires(&output, lifetime(&**tool), context.clock.now()),
                        output,
                        outcome: CallOutcome::Ran(None),
                        elapsed: began.elapsed(),
                        saved: Spend::default(),
                    }
                }
                None => {
                    let why = self.unknown(&call.name);
                    RefusedCall::new(call, why).into()
                }
            },
        };
        batch.observer.call_finished(&answer);
        answer
    }
}

impl From<RefusedCall> for ToolCallResult {
    fn from(RefusedCall { call, output }: RefusedCall) -> Self {
        Self {
            call,
            output,
            outcome: CallOutcome::Refused,
            elapsed: Duration::ZERO,
            saved: Spend::default(),
            witnesses: Witnesses::unknown("it did not run"),
            expires: None,
        }
    }
}

/// The lifetime of a tool's results that the tool declares.
pub(crate) fn lifetime(tool: &dyn Tool) -> Option<Duration> {
    match tool.metadata().cache_class {
        CacheClass::Ttl(lifetime) => Some(lifetime),
        _ => None,
    }
}

/// The expiry of a result that was produced now: by the lifetime that the result states, at most `most`.
pub(crate) fn expires(
    output: &ToolOutput,
    maximum: Option<Duration>,
    now: Millis,
) -> Option<Millis> {
    let lifetime = [output.lifetime, maximum].into_iter().flatten().min()?;
    let millis = Millis::try_from(lifetime.as_millis()).unwrap_or(Millis::MAX);
    Some(now.saturating_add(millis))
}

/// Runs a tool; a panic becomes a failure of this call only.
pub async fn run_guarded(
    tool: &dyn Tool,
    arguments: Arguments,
    context: &ToolContext,
) -> ToolOutput {
    // Unwind safe: the state that a panic leaves behind belongs to the call and is not used again.
    let work = AssertUnwindSafe(async { tool.run(arguments, context).await });
    match work.catch_unwind().await {
        Ok(output) => output,
        Err(panic) => {
            let name = &tool.metadata().name;
            let said = context.secret_set.redact(message_of(&*panic)).into_owned();
            ToolOutput::error(format!(
                "the tool `{name}` broke down ({said}); this is a fault of the tool, and the same \
                 call is likely to fail again"
            ))
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

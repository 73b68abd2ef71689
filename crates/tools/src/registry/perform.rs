//! Runs one call.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cachalot_cache::Witness;
use cachalot_core::{Millis, Spend, Witnesses};
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::Registry;
use super::built_from::{built_from, effects};
use crate::tool::{Arguments, CacheClass, Context, Output, Tool};
use crate::toolbox::{Answer, Answered, Batch, Call, Prepared, Verdict};

impl Registry {
    /// Runs one call, and notifies the watcher.
    pub(super) async fn perform(&self, prepared: Prepared, batch: &Batch) -> Answer {
        let Prepared { call, verdict } = prepared;
        batch.watcher.began(&call);
        let verdict = match batch.context.denial(&call.name) {
            Some(output) => Verdict::Refused(output),
            None => verdict,
        };
        let answer = match verdict {
            Verdict::Refused(output) => refuse(call, output),
            Verdict::Ready { arguments, .. } => match self.tool(&call.name) {
                Some(tool) => {
                    let context = Context {
                        witness: Witness::default(),
                        ..batch.context.clone()
                    };
                    let began = Instant::now();
                    let effects = effects(&**tool, &arguments, &context);
                    let output = run_guarded(&**tool, arguments, &context).await;
                    let noted = context.witness.witnesses();
                    Answer {
                        call,
                        witnesses: built_from(tool.about(), &effects, &output, noted),
                        expires: expires(&output, lifetime(&**tool), context.clock.now()),
                        output,
                        how: Answered::Ran(None),
                        elapsed: began.elapsed(),
                        saved: Spend::default(),
                    }
                }
                None => {
                    let output = Output::error(self.unknown(&call.name));
                    refuse(call, output)
                }
            },
        };
        batch.watcher.ended(&answer);
        answer
    }
}

/// Creates the answer of a call that must not run.
pub(crate) fn refuse(call: Call, output: Output) -> Answer {
    Answer {
        call,
        output,
        how: Answered::Refused,
        elapsed: Duration::ZERO,
        saved: Spend::default(),
        witnesses: Witnesses::unknown("it did not run"),
        expires: None,
    }
}

/// The lifetime of a tool's results that the tool declares.
pub(crate) fn lifetime(tool: &dyn Tool) -> Option<Duration> {
    match tool.about().class {
        CacheClass::Ttl(lifetime) => Some(lifetime),
        CacheClass::Never | CacheClass::Validated | CacheClass::Immutable => None,
    }
}

/// The expiry of a result that was produced now: by the lifetime that the result states, at most `most`.
pub(crate) fn expires(output: &Output, most: Option<Duration>, now: Millis) -> Option<Millis> {
    let lifetime = [output.lifetime, most].into_iter().flatten().min()?;
    let millis = Millis::try_from(lifetime.as_millis()).unwrap_or(Millis::MAX);
    Some(now.saturating_add(millis))
}

/// Runs a tool; a panic becomes a failure of this call only.
pub(crate) async fn run_guarded(
    tool: &dyn Tool,
    arguments: Arguments,
    context: &Context,
) -> Output {
    // Unwind safe: the state that a panic leaves behind belongs to the call and is not used again.
    let work = AssertUnwindSafe(async { tool.run(arguments, context).await });
    match work.catch_unwind().await {
        Ok(output) => output,
        Err(panic) => {
            let name = &tool.about().name;
            let said = context.seals.redact(message_of(&*panic)).into_owned();
            Output::error(format!(
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

//! Accounting of provider charges for actions. The innermost `cache.wrap` around an action accounts for
//! its charges, so that its entry records what a hit saves. Without a wrap, the action accounts for
//! itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{Call, CallKind, Policy, Reason, RunResult, Scope};
use cachalot_core::{Canonical, Spend};
use parking_lot::Mutex;
use serde_json::Value;

use crate::report::{self, Event, Memoized};
use crate::{Failure, Planned, Runtime};

tokio::task_local! {
    static INSIDE: Arc<Mutex<Inside>>;
}

/// Spend within a wrap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inside {
    /// All charged tokens and money.
    pub(crate) charged: Spend,
    /// The part of time, tokens and money that nested wraps have already accounted for.
    pub(crate) accounted: Spend,
    /// The reason why the result must not be stored although the action succeeded.
    pub(crate) declined: Option<String>,
    /// The time for which the result is valid, if its producer states one.
    pub(crate) lifetime: Option<Duration>,
    /// Set if the result is for the user of the run only.
    pub(crate) private: bool,
}

/// Runs the action of a wrap and returns its result with the spend inside it.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> (T, Inside) {
    let inside = Arc::new(Mutex::new(Inside::default()));
    let ended = INSIDE.scope(Arc::clone(&inside), work).await;
    let inside = std::mem::take(&mut *inside.lock());
    (ended, inside)
}

/// Adds a charge to the enclosing wrap. Returns false if there is none; the action then has to account
/// for the charge itself.
pub(crate) fn charge(spent: Spend) -> bool {
    note(|inside| inside.charged += spent)
}

/// Keeps the enclosing wrap, if any, from storing the result although the action succeeds.
pub(crate) fn decline(why: impl Into<String>) {
    note(|inside| inside.declined = Some(why.into()));
}

/// Limits the time for which the enclosing wrap, if any, may serve the result.
pub(crate) fn limit_lifetime(lifetime: Duration) {
    note(|inside| {
        inside.lifetime = Some(
            inside
                .lifetime
                .map_or(lifetime, |known| known.min(lifetime)),
        );
    });
}

/// Keeps the enclosing wrap, if any, from sharing the result with other users.
pub(crate) fn keep_private() {
    note(|inside| inside.private = true);
}

/// Reports to the wrap around this one, if any, that this spend is charged and already accounted for.
pub(crate) fn account_outside(spent: Spend) {
    note(|inside| {
        inside.charged += spent;
        inside.accounted += spent;
    });
}

fn note(change: impl FnOnce(&mut Inside)) -> bool {
    INSIDE.try_with(|inside| change(&mut inside.lock())).is_ok()
}

/// Accounts for the charge of an action: in the enclosing wrap, or, without one, as a call of its own
/// that bypasses the cache. Calls inside the action have already accounted for `saved`; it is only
/// reported here.
pub(crate) async fn account(
    runtime: &Runtime,
    name: &str,
    input: &Value,
    spent: Spend,
    mut saved: Spend,
) {
    if charge(spent) {
        return;
    }
    let input = Canonical::sealed(input, &runtime.secret_set);
    let scope = Scope::Agent(runtime.agent.clone());
    let call = Call {
        kind: CallKind::Action,
        scope: &scope,
        name,
        input: &input,
    };
    let ticket = runtime.cache.bypass(
        &call,
        &Policy::default(),
        Reason::Declined(UNWRAPPED.to_owned()),
    );
    let settled = ticket
        .finish(RunResult {
            value: Some(Bytes::new()),
            storable: Err(Reason::Off),
            spent,
            labels: Vec::new(),
        })
        .await;
    saved += settled.saved;
    tell(
        runtime,
        Memoized {
            outcome: "bypass".to_owned(),
            handle: None,
            reason: Some(UNWRAPPED.to_owned()),
            paid: settled.paid,
            saved,
        },
    );
}

/// Reports an action that cost nothing because the cache answered the calls inside it. Those calls have
/// already accounted for the savings.
pub(crate) fn tell_saved(runtime: &Runtime, saved: Spend) {
    tell(
        runtime,
        Memoized {
            outcome: "hit".to_owned(),
            handle: None,
            reason: None,
            paid: Spend::default(),
            saved,
        },
    );
}

fn tell(runtime: &Runtime, memoized: Memoized) {
    runtime.reporter.report(Event::Answered {
        node: report::current_node(),
        memoized,
    });
}

/// The plan of an action that accounts for itself because no wrap is around it.
pub(crate) fn planned() -> Planned {
    Planned::Pays {
        handle: None,
        reason: UNWRAPPED.to_owned(),
    }
}

/// Runs `work`, and drops it if the time limit of the run's budget passes first.
///
/// # Errors
/// `over_budget` if the time limit passed.
pub(crate) async fn in_time<T>(
    runtime: &Runtime,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        // Work that has finished counts even if the time limit passes at the same moment.
        biased;
        ended = work => Ok(ended),
        over = time_over(runtime) => Err(over),
    }
}

/// Resolves when the budget's time limit passes; never if there is no limit.
async fn time_over(runtime: &Runtime) -> Failure {
    loop {
        match runtime.meter.time_left() {
            None => std::future::pending().await,
            Some(left) => tokio::time::sleep(left).await,
        }
        if let Err(over) = runtime.meter.check() {
            return Failure::new("over_budget", over.to_string());
        }
        // The budget's clock differs from the timer's and may need a little longer.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The reason reported for a call without a `cache.wrap` around it.
const UNWRAPPED: &str = "there is no cache.wrap around it";

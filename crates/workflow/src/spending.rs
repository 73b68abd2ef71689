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
    static WRAP_SPEND: Arc<Mutex<WrapSpend>>;
}

/// Spend within a wrap.
#[derive(Debug, Clone, Default)]
pub(crate) struct WrapSpend {
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
pub(crate) async fn run_metered<T>(work: impl Future<Output = T>) -> (T, WrapSpend) {
    let wrap_spend = Arc::new(Mutex::new(WrapSpend::default()));
    let ended = WRAP_SPEND.scope(Arc::clone(&wrap_spend), work).await;
    let wrap_spend = std::mem::take(&mut *wrap_spend.lock());
    (ended, wrap_spend)
}

/// Adds a charge to the enclosing wrap. Returns false if there is none; the action then has to account
/// for the charge itself.
pub(crate) fn charge(spent: Spend) -> bool {
    update(|wrap_spend| wrap_spend.charged += spent)
}

/// Keeps the enclosing wrap, if any, from storing the result although the action succeeds.
pub(crate) fn decline_storing(why: impl Into<String>) {
    update(|wrap_spend| wrap_spend.declined = Some(why.into()));
}

/// Limits the time for which the enclosing wrap, if any, may serve the result.
pub(crate) fn limit_lifetime(lifetime: Duration) {
    update(|wrap_spend| {
        wrap_spend.lifetime = Some(
            wrap_spend
                .lifetime
                .map_or(lifetime, |known| known.min(lifetime)),
        );
    });
}

/// Keeps the enclosing wrap, if any, from sharing the result with other users.
pub(crate) fn keep_private() {
    update(|wrap_spend| wrap_spend.private = true);
}

/// Reports to the wrap around this one, if any, that this spend is charged and already accounted for.
pub(crate) fn add_accounted(spent: Spend) {
    update(|wrap_spend| {
        wrap_spend.charged += spent;
        wrap_spend.accounted += spent;
    });
}

fn update(change: impl FnOnce(&mut WrapSpend)) -> bool {
    WRAP_SPEND
        .try_with(|wrap_spend| change(&mut wrap_spend.lock()))
        .is_ok()
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
    let summary = ticket
        .finish(RunResult {
            value: Some(Bytes::new()),
            storable: Err(Reason::Off),
            spent,
            labels: Vec::new(),
        })
        .await;
    saved += summary.saved;
    report_memoized(
        runtime,
        Memoized {
            outcome: "bypass",
            handle: None,
            reason: Some(UNWRAPPED.to_owned()),
            paid: summary.paid,
            saved,
        },
    );
}

/// Reports an action that cost nothing because the cache answered the calls inside it. Those calls have
/// already accounted for the savings.
pub(crate) fn report_saved(runtime: &Runtime, saved: Spend) {
    report_memoized(
        runtime,
        Memoized {
            outcome: "hit",
            handle: None,
            reason: None,
            paid: Spend::default(),
            saved,
        },
    );
}

fn report_memoized(runtime: &Runtime, memoized: Memoized) {
    runtime.reporter.report(Event::Answered {
        node: report::current_node(),
        memoized,
    });
}

/// The plan of an action that accounts for itself because no wrap is around it.
pub(crate) fn unwrapped_plan() -> Planned {
    Planned::Miss {
        handle: None,
        reason: UNWRAPPED.to_owned(),
    }
}

/// Runs `work`, and drops it if the time limit of the run's budget passes first.
///
/// # Errors
/// `over_budget` if the time limit passed.
pub(crate) async fn with_time_limit<T>(
    runtime: &Runtime,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        // Work that has finished counts even if the time limit passes at the same moment.
        biased;
        ended = work => Ok(ended),
        over_budget = wait_for_time_limit(runtime) => Err(over_budget),
    }
}

/// Resolves when the budget's time limit passes; never if there is no limit.
async fn wait_for_time_limit(runtime: &Runtime) -> Failure {
    loop {
        match runtime.meter.time_left() {
            None => std::future::pending().await,
            Some(left) => tokio::time::sleep(left).await,
        }
        if let Err(over_budget) = runtime.meter.check() {
            return Failure::new("over_budget", over_budget.to_string());
        }
        // The budget's clock differs from the timer's and may need a little longer.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The reason reported for a call without a `cache.wrap` around it.
const UNWRAPPED: &str = "there is no cache.wrap around it";

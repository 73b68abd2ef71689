//! What providers charge for the work of actions, and who accounts for it: the innermost
//! `cache.wrap` around the action, so that its entry knows what a hit saves; without one, the action itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{Call, Kind, Policy, Product, Reason, Scope};
use cachalot_core::{Canonical, Spend};
use serde_json::Value;

use crate::report::{self, Event, Memoized};
use crate::{Failure, Planned, Runtime};

tokio::task_local! {
    static INSIDE: Arc<Mutex<Inside>>;
}

/// What was spent inside a wrap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inside {
    /// All tokens and money.
    pub(crate) charged: Spend,
    /// What of the time, tokens and money wraps further inside have accounted for themselves.
    pub(crate) accounted: Spend,
    /// Why the result must not be kept although the action did not fail.
    pub(crate) declined: Option<String>,
}

/// Runs the action of a wrap; also tells what was spent in it.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> (T, Inside) {
    let inside = Arc::new(Mutex::new(Inside::default()));
    let ended = INSIDE.scope(Arc::clone(&inside), work).await;
    let inside = std::mem::take(&mut *inside.lock().unwrap_or_else(PoisonError::into_inner));
    (ended, inside)
}

/// Tells the wrap around, if there is one, that this was charged. False if there is none: then the
/// action has to account for it.
pub(crate) fn charge(spent: Spend) -> bool {
    note(|inside| inside.charged += spent)
}

/// Tells the wrap around, if there is one, that the result must not be kept although the action does
/// not fail.
pub(crate) fn decline(why: impl Into<String>) {
    note(|inside| inside.declined = Some(why.into()));
}

/// Tells the wrap around this one, if there is one, that this much is accounted for.
pub(crate) fn account_outside(spent: Spend) {
    note(|inside| {
        inside.charged += spent;
        inside.accounted += spent;
    });
}

fn note(change: impl FnOnce(&mut Inside)) -> bool {
    INSIDE
        .try_with(|inside| change(&mut inside.lock().unwrap_or_else(PoisonError::into_inner)))
        .is_ok()
}

/// Accounts for what an action was charged: by the wrap around it, or, where there is none, as a call
/// of its own that the cache was not asked about. What calls inside of it saved is accounted for there,
/// and told with it.
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
    let input = Canonical::sealed(input, &runtime.seals);
    let scope = Scope::Agent(runtime.agent.clone());
    let call = Call {
        kind: Kind::Action,
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
        .finish(Product {
            value: Some(Bytes::new()),
            keep: Err(Reason::Off),
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

/// Tells of an action for which nothing had to be paid, because calls inside of it were answered by the
/// cache. They are accounted for already.
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

/// What a plan says of an action that pays by itself, where no wrap is around it.
pub(crate) fn planned() -> Planned {
    Planned::Pays {
        handle: None,
        reason: UNWRAPPED.to_owned(),
    }
}

/// Does the work, unless the time of the run's budget is over before it ends: then it is dropped.
///
/// # Errors
/// `over_budget`.
pub(crate) async fn in_time<T>(
    runtime: &Runtime,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        // What has ended in time counts.
        biased;
        ended = work => Ok(ended),
        over = time_over(runtime) => Err(over),
    }
}

/// Resolves when the budget's time is over; never if it has none.
async fn time_over(runtime: &Runtime) -> Failure {
    loop {
        match runtime.meter.time_left() {
            None => std::future::pending().await,
            Some(left) => tokio::time::sleep(left).await,
        }
        if let Err(over) = runtime.meter.check() {
            return Failure::new("over_budget", over.to_string());
        }
        // The clock is not that of the timer: it may need a little longer.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Why a call outside of any wrap is not cached.
const UNWRAPPED: &str = "there is no cache.wrap around it";

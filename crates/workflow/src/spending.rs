//! What providers charge for the work of actions, and who accounts for it: the innermost
//! `cache.wrap` around the action, so that its entry knows what a hit saves; without one, the action itself.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cachalot_cache::{Call, Kind, Policy, Product, Reason, Scope};
use cachalot_core::{Canonical, Spend};
use serde_json::Value;

use crate::Runtime;
use crate::report::{self, Event, Memoized};

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
    pub(crate) declined: Option<&'static str>,
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
pub(crate) fn decline(why: &'static str) {
    note(|inside| inside.declined = Some(why));
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
/// of its own that the cache was not asked about.
pub(crate) async fn account(runtime: &Runtime, name: &str, input: &Value, spent: Spend) {
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
    let ticket = runtime
        .cache
        .bypass(&call, &Policy::default(), Reason::Declined(UNWRAPPED.to_owned()));
    let settled = ticket
        .finish(Product {
            value: Some(Bytes::new()),
            keep: Err(Reason::Off),
            spent,
            labels: Vec::new(),
        })
        .await;
    runtime.reporter.report(Event::Answered {
        node: report::current_node(),
        memoized: Memoized {
            outcome: "bypass".to_owned(),
            handle: None,
            reason: Some(UNWRAPPED.to_owned()),
            paid: settled.paid,
            saved: settled.saved,
        },
    });
}

/// Why a call outside of any wrap is not cached.
const UNWRAPPED: &str = "there is no cache.wrap around it";

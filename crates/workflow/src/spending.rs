//! What providers charge for the work of actions, and who accounts for it: the innermost
//! `cache.wrap` around the action, so that its entry knows what a hit saves; without one, the action itself.

use std::sync::{Arc, Mutex, PoisonError};

use cachalot_core::Spend;

tokio::task_local! {
    static INSIDE: Arc<Mutex<Inside>>;
}

/// What was spent inside a wrap.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Inside {
    /// All tokens and money.
    pub(crate) charged: Spend,
    /// What of the time, tokens and money wraps further inside have accounted for themselves.
    pub(crate) accounted: Spend,
}

/// Runs the action of a wrap; also tells what was spent in it.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> (T, Inside) {
    let inside = Arc::new(Mutex::new(Inside::default()));
    let ended = INSIDE.scope(Arc::clone(&inside), work).await;
    let inside = *inside.lock().unwrap_or_else(PoisonError::into_inner);
    (ended, inside)
}

/// Tells the wrap around, if there is one, that this was charged. False if there is none: then the
/// action has to account for it.
#[expect(dead_code, reason = "for actions that ask models")]
pub(crate) fn charge(spent: Spend) -> bool {
    note(|inside| inside.charged += spent)
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

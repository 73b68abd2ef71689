//! A store that does not answer for as long as a test wants.

use std::sync::Arc;

use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Error, ErrorKind, Store, StoreReply};
use parking_lot::Mutex;

/// The behavior of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    Answers,
    /// Cannot be reached.
    Unreachable,
    /// Never answers.
    Hangs,
}

/// A store over another one.
pub(crate) struct SwitchedStore {
    inner: Arc<dyn Store>,
    state: Mutex<(Behavior, Vec<StoreOperation>)>,
}

impl SwitchedStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            state: Mutex::new((Behavior::Answers, Vec::new())),
        })
    }

    pub(crate) fn now(&self, behavior: Behavior) {
        self.state.lock().0 = behavior;
    }

    pub(crate) fn behavior(&self) -> Behavior {
        self.state.lock().0
    }

    /// Number of calls so far.
    pub(crate) fn count(&self, operation: StoreOperation) -> usize {
        let state = self.state.lock();
        state.1.iter().filter(|it| **it == operation).count()
    }
}

impl Interceptor for SwitchedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        operation: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        let behavior = {
            let mut state = self.state.lock();
            state.1.push(operation);
            state.0
        };
        match behavior {
            Behavior::Answers => pass(),
            Behavior::Unreachable => StoreReply::later(async {
                Err(Error::new(
                    ErrorKind::Unavailable,
                    "no connection to store.internal",
                ))
            }),
            Behavior::Hangs => StoreReply::later(std::future::pending()),
        }
    }
}

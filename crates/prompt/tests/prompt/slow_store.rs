//! A slow store with scripted failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Error, ErrorKind, Store, StoreReply};

/// Behavior of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallBehavior {
    Done,
    /// Fails without an effect.
    Refused,
    /// Has its effect, and fails.
    Unheard,
}

type Decide = Box<dyn Fn(u64) -> CallBehavior + Send + Sync>;

/// A store that yields before and after each call.
pub(crate) struct SlowStore {
    inner: Arc<dyn Store>,
    calls: AtomicU64,
    decide: Decide,
    /// By what calls differ in how long they take; 0: they do not.
    pace: u64,
}

impl SlowStore {
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        decide: impl Fn(u64) -> CallBehavior + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            calls: AtomicU64::new(0),
            decide: Box::new(decide),
            pace: 0,
        }
    }

    /// Calls take more or less time than others, those made at once as well.
    pub(crate) fn at_pace(self, pace: u64) -> Self {
        Self { pace, ..self }
    }

    /// The number of yields before a call has its effect: mostly one, sometimes up to 24.
    fn turns(&self, number: u64) -> u64 {
        let mixed = (number ^ self.pace).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        match self.pace {
            0 => 1,
            _ if !mixed.is_multiple_of(3) => 1,
            _ => 1 + mixed / 3 % 24,
        }
    }
}

impl Interceptor for SlowStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        _: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        StoreReply::later(async move {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            for _ in 0..self.turns(number) {
                tokio::task::yield_now().await;
            }
            let behavior = (self.decide)(number);
            let failure = || Error::new(ErrorKind::Unavailable, format!("call {number} fails"));
            if behavior == CallBehavior::Refused {
                return Err(failure());
            }
            let answer = pass().settle().await;
            tokio::task::yield_now().await;
            match behavior {
                CallBehavior::Unheard => Err(failure()),
                _ => answer,
            }
        })
    }
}

//! What was used, and on whose behalf.

use std::sync::{Arc, Mutex, PoisonError};

use crate::report::Sum;

/// What was used since it was last taken. What is added to an account within another one is added to
/// both. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Account(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sum: Mutex<Sum>,
    outer: Option<Account>,
}

impl Account {
    /// An account of its own, within this one.
    pub(crate) fn inner(&self) -> Self {
        Self(Arc::new(Inner {
            sum: Mutex::default(),
            outer: Some(self.clone()),
        }))
    }

    pub(crate) fn add(&self, part: Sum) {
        let mut account = Some(self);
        while let Some(Self(inner)) = account {
            *inner.sum.lock().unwrap_or_else(PoisonError::into_inner) += part;
            account = inner.outer.as_ref();
        }
    }

    pub(crate) fn sum(&self) -> Sum {
        *self.0.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Sum {
        std::mem::take(&mut *self.0.sum.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! Accounts that accumulate the usage and spend of model calls.

use std::sync::Arc;

use crate::report::UsageTotals;
use parking_lot::Mutex;

/// Usage accumulated since the account was last taken. An amount that is added to an inner account is also
/// added to the accounts around it. Clones share the account.
#[derive(Clone, Default)]
pub(crate) struct Account(Arc<Inner>);

#[derive(Default)]
struct Inner {
    totals: Mutex<UsageTotals>,
    outer: Option<Account>,
}

impl Account {
    /// Returns a new account within this one.
    pub(crate) fn inner(&self) -> Self {
        Self(Arc::new(Inner {
            totals: Mutex::default(),
            outer: Some(self.clone()),
        }))
    }

    pub(crate) fn add(&self, part: UsageTotals) {
        let mut account = Some(self);
        while let Some(Self(inner)) = account {
            *inner.totals.lock() += part;
            account = inner.outer.as_ref();
        }
    }

    pub(crate) fn totals(&self) -> UsageTotals {
        *self.0.totals.lock()
    }

    pub(crate) fn take(&self) -> UsageTotals {
        std::mem::take(&mut *self.0.totals.lock())
    }
}

//! The account that a cache gives of a call which the server answered.

use std::time::Duration;

use tokio::sync::watch;

/// The account that a cache gives of a call which the server answered. It is attached to the response.
#[derive(Debug, Clone)]
pub struct CacheAccount {
    /// True if the cache was not asked.
    is_bypass: bool,
    reason: String,
    refusal: watch::Receiver<Option<Refusal>>,
}

/// The reason why an answer was not stored; `None` if it was stored.
type Refusal = Option<String>;

/// Completes an account when it is decided if the answer is stored.
#[derive(Debug)]
pub(crate) struct AccountCompletion(watch::Sender<Option<Refusal>>);

impl CacheAccount {
    /// Returns the account of a call that was passed on without a lookup. Nothing is stored.
    pub(crate) fn bypass(reason: String) -> Self {
        Self {
            is_bypass: true,
            reason,
            refusal: watch::Sender::new(Some(None)).subscribe(),
        }
    }

    /// Returns the account of a call for which there was no answer.
    pub(crate) fn miss(reason: String) -> (Self, AccountCompletion) {
        let (sender, refusal) = watch::channel(None);
        let account = Self {
            is_bypass: false,
            reason,
            refusal,
        };
        (account, AccountCompletion(sender))
    }

    /// `miss` or `bypass`.
    #[must_use]
    pub fn status(&self) -> &'static str {
        if self.is_bypass { "bypass" } else { "miss" }
    }

    /// The reason why the cache did not answer, in plain words.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns true if it is decided if the answer is stored.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.refusal.borrow().is_some() || self.refusal.has_changed().is_err()
    }

    /// Returns the reason why the answer was not stored, as far as it is decided.
    #[must_use]
    pub fn known_refusal(&self) -> Option<String> {
        self.refusal.borrow().clone().flatten()
    }

    /// Waits until it is decided if the answer is stored, up to a limit. Returns the reason why it was not.
    pub async fn refusal(&self, limit: Duration) -> Option<String> {
        let mut refusal = self.refusal.clone();
        let decided = refusal.wait_for(Option::is_some);
        let decided = tokio::time::timeout(limit, decided).await.ok()?.ok()?;
        decided.clone().flatten()
    }
}

impl AccountCompletion {
    /// Completes the account. `refusal` is the reason why the answer was not stored.
    pub(crate) fn complete(self, refusal: Option<String>) {
        self.0.send_replace(Some(refusal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_account_is_complete_when_it_is_decided_or_never_will_be() {
        let (account, completion) = CacheAccount::miss("expired".to_owned());
        assert!(!account.is_complete());
        completion.complete(Some("too large".to_owned()));
        assert!(account.is_complete());
        let refusal = account.refusal(Duration::MAX).await;
        assert_eq!(refusal.as_deref(), Some("too large"));
        let (account, completion) = CacheAccount::miss("expired".to_owned());
        drop(completion);
        assert!(account.is_complete());
        assert_eq!(account.refusal(Duration::MAX).await, None);
        let account = CacheAccount::bypass("off".to_owned());
        assert!(account.is_complete());
        assert_eq!(account.refusal(Duration::MAX).await, None);
    }
}

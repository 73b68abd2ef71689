//! Prefix warm-up: of several requests with the same prefix, the first is sent alone.
//!
//! A request that only fills the provider's cache (`prompt_cache_options.prewarm` of OpenAI, `max_tokens: 0` of
//! Anthropic) would cost more: the first request is needed anyway, pays for no other output than its own, and writes the
//! same prefix, which it would have to read after such a request.

use tokio::sync::watch;

/// Coordinates requests with the same prefix. The first request is sent alone; the others wait until its
/// response begins, and then read the prefix that it wrote to the provider's cache. If the first request
/// fails before that, the others are sent anyway. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct PrefixWarmup(std::sync::Arc<watch::Sender<Stage>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// No request was sent.
    #[default]
    NotStarted,
    /// The first request was sent, and the others wait.
    InFlight,
    /// All requests may be sent.
    Released,
}

/// Guard of the first request, held until its response begins. Dropping it releases the others.
pub(crate) struct WarmupGuard(PrefixWarmup);

impl PrefixWarmup {
    /// Waits until a request may be sent. The first caller gets a guard.
    pub(crate) async fn join(&self) -> Option<WarmupGuard> {
        let leads = self.0.send_if_modified(|stage| {
            let is_first = *stage == Stage::NotStarted;
            if is_first {
                *stage = Stage::InFlight;
            }
            is_first
        });
        if leads {
            return Some(WarmupGuard(self.clone()));
        }
        // The sender lives as long as `self`: the wait cannot fail.
        let _ = self
            .0
            .subscribe()
            .wait_for(|stage| *stage == Stage::Released)
            .await;
        None
    }
}

impl Drop for WarmupGuard {
    fn drop(&mut self) {
        // Also if the first request failed or was dropped: the others must not wait forever.
        self.0.0.send_replace(Stage::Released);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn other_requests_wait_until_the_first_response_begins() {
        let prefix_warmup = PrefixWarmup::default();
        let mut first = pin!(prefix_warmup.join());
        let mut second = pin!(prefix_warmup.join());
        let mut third = pin!(prefix_warmup.join());
        let Poll::Ready(Some(lead)) = poll(first.as_mut()) else {
            panic!("the first waits");
        };
        assert!(poll(second.as_mut()).is_pending());
        assert!(poll(third.as_mut()).is_pending());
        drop(lead);
        assert!(matches!(poll(second.as_mut()), Poll::Ready(None)));
        assert!(matches!(poll(third.as_mut()), Poll::Ready(None)));
        // Requests that come later do not wait.
        assert!(matches!(
            poll(pin!(prefix_warmup.join())),
            Poll::Ready(None)
        ));
    }

    #[test]
    fn dropped_waiter_does_not_block_others() {
        let prefix_warmup = PrefixWarmup::default();
        let Poll::Ready(Some(lead)) = poll(pin!(prefix_warmup.join())) else {
            panic!("the first waits");
        };
        {
            let mut second = pin!(prefix_warmup.join());
            assert!(poll(second.as_mut()).is_pending());
        }
        drop(lead);
        assert!(matches!(
            poll(pin!(prefix_warmup.join())),
            Poll::Ready(None)
        ));
    }

    #[test]
    fn unpolled_warmup_does_not_become_the_leader() {
        let prefix_warmup = PrefixWarmup::default();
        // The future was never polled, so it is not the first request.
        drop(prefix_warmup.join());
        assert!(matches!(
            poll(pin!(prefix_warmup.join())),
            Poll::Ready(Some(_))
        ));
    }
}

//! Answers that are available at once, and answers to be awaited.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::{Error, ErrorKind};

/// The answer of a store. It is `Now` only if it waited neither for another machine nor for a lock that
/// another process may hold; only `Later` can time out.
pub enum StoreReply<'a, T> {
    /// The answer.
    Now(Result<T, Error>),
    /// The future of the answer.
    Later(BoxFuture<'a, Result<T, Error>>),
}

impl<'a, T: Send + 'a> StoreReply<'a, T> {
    /// Creates an answer that is awaited.
    pub fn later(future: impl Future<Output = Result<T, Error>> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Begins to make an answer, which is there at once if it did not have to wait. For futures that wait for nothing but
    /// locks of this process and other machines. Await it before another answer of the same store: it may have a lock, or
    /// the next place in the queue of one.
    pub fn begun(future: impl Future<Output = Result<T, Error>> + Send + 'a) -> Self {
        let mut future: BoxFuture<'a, _> = Box::pin(future);
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(answer) => Self::Now(answer),
            Poll::Pending => Self::Later(future),
        }
    }

    /// Continues with the answer: at once if it is there, otherwise once it was awaited.
    pub fn and_then<U: Send + 'a>(
        self,
        next: impl FnOnce(T) -> StoreReply<'a, U> + Send + 'a,
    ) -> StoreReply<'a, U> {
        match self {
            Self::Now(Ok(answer)) => next(answer),
            Self::Now(Err(error)) => StoreReply::Now(Err(error)),
            Self::Later(future) => {
                StoreReply::later(async move { next(future.await?).settle().await })
            }
        }
    }

    /// Makes a call, and repeats it if it fails for a reason that may be over soon, such as the restart of a server;
    /// returns the last result after `budget`. Repeating the call has to be safe
    /// ([`Store`](crate::Store), "Retries").
    ///
    /// # Errors
    /// The store's own, or [`ErrorKind::TimedOut`].
    pub async fn repeat(budget: Duration, call: impl Fn() -> Self) -> Result<T, Error> {
        const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
        let until = Instant::now() + budget;
        let mut pause = PAUSES[0];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match call().within(left).await {
                Err(error) if error.is_retryable() && error.remedy.is_none() && pause < left => {
                    tokio::time::sleep(pause).await;
                    pause = PAUSES[1].min(2 * pause);
                }
                result => return result,
            }
        }
    }

    /// Waits without a timeout.
    ///
    /// # Errors
    /// The store's own.
    pub async fn settle(self) -> Result<T, Error> {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => future.await,
        }
    }

    /// Waits for at most `patience`.
    ///
    /// # Errors
    /// The store's own, or [`ErrorKind::TimedOut`].
    pub async fn within(self, patience: Duration) -> Result<T, Error> {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => match tokio::time::timeout(patience, future).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::new(
                    ErrorKind::TimedOut,
                    format!("the store did not answer within {patience:?}"),
                )),
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/reply.rs"]
mod tests;

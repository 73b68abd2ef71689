//! Answers that are available at once, and answers to be awaited.

use std::time::Duration;

use futures_util::future::BoxFuture;

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

//! Answers that are there at once, and answers that are waited for.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::{Error, ErrorKind};

/// What a memory answers. `Now` only if it waited neither for another machine nor for a lock that
/// another process may hold; only `Later` can be timed out.
pub enum Answer<'a, T> {
    /// The answer.
    Now(Result<T, Error>),
    /// The answer will come.
    Later(BoxFuture<'a, Result<T, Error>>),
}

impl<'a, T: Send + 'a> Answer<'a, T> {
    /// An answer that is awaited.
    pub fn later(future: impl Future<Output = Result<T, Error>> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Waits for as long as it takes.
    ///
    /// # Errors
    /// The memory's own.
    pub async fn settle(self) -> Result<T, Error> {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => future.await,
        }
    }

    /// Waits for at most `patience`.
    ///
    /// # Errors
    /// The memory's own, or [`ErrorKind::TimedOut`].
    pub async fn within(self, patience: Duration) -> Result<T, Error> {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => match tokio::time::timeout(patience, future).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::new(
                    ErrorKind::TimedOut,
                    format!("the memory did not answer within {patience:?}"),
                )),
            },
        }
    }
}

//! Scheduling of concurrent calls.

use std::future::Future;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

/// Maximum number of concurrent calls.
const MAX_CONCURRENT_CALLS: usize = 8;

/// Runs calls and returns one result for each, in call order: consecutive safe calls concurrently, every
/// other call alone. Calls start in call order. Dropping the future drops the running calls.
///
/// The calls of a group run as parts of one task: blocking work has to be done on other threads.
pub(crate) async fn schedule<C, T, W>(
    calls: Vec<C>,
    is_safe: impl Fn(&C) -> bool,
    run: impl Fn(C) -> W,
) -> Vec<T>
where
    W: Future<Output = T>,
{
    let mut results = Vec::with_capacity(calls.len());
    let mut group = Vec::new();
    for call in calls {
        if is_safe(&call) {
            group.push(call);
        } else {
            results.extend(run_concurrently(std::mem::take(&mut group), &run).await);
            results.push(run(call).await);
        }
    }
    results.extend(run_concurrently(group, &run).await);
    results
}

async fn run_concurrently<C, T, W>(group: Vec<C>, run: &impl Fn(C) -> W) -> Vec<T>
where
    W: Future<Output = T>,
{
    let indexes = Semaphore::new(MAX_CONCURRENT_CALLS);
    join_all(group.into_iter().map(|call| {
        let indexes = &indexes;
        async move {
            // Fails only if the semaphore is closed, which never happens.
            let _place = indexes.acquire().await;
            run(call).await
        }
    }))
    .await
}

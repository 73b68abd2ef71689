//! Which calls run beside which.

use std::future::Future;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

/// At most so many calls run at the same time.
const AT_ONCE: usize = 8;

/// Runs calls and gives their results in call order, one for each: consecutive safe ones beside each
/// other, every other alone, each beginning in call order. Dropping the future drops what runs.
///
/// The calls of a group run as parts of one task: work that blocks belongs on other threads.
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
            results.extend(beside(std::mem::take(&mut group), &run).await);
            results.push(run(call).await);
        }
    }
    results.extend(beside(group, &run).await);
    results
}

async fn beside<C, T, W>(group: Vec<C>, run: &impl Fn(C) -> W) -> Vec<T>
where
    W: Future<Output = T>,
{
    let places = Semaphore::new(AT_ONCE);
    join_all(group.into_iter().map(|call| {
        let places = &places;
        async move {
            // Never closed: a result is either a place or nothing to worry about.
            let _place = places.acquire().await;
            run(call).await
        }
    }))
    .await
}

//! Unit tests of `src/reply.rs`.

use std::cell::Cell;

use super::*;

#[tokio::test(start_paused = true)]
async fn calls_are_repeated_until_they_succeed_or_the_time_is_over() {
    let budget = Duration::from_secs(30);
    let failing = |times: u32, kind: ErrorKind, remedy: Option<&'static str>| {
        let calls = Cell::new(0);
        let began = Instant::now();
        async move {
            let done = StoreReply::repeat(budget, || {
                calls.set(calls.get() + 1);
                StoreReply::Now(if calls.get() <= times {
                    Err(Error {
                        remedy,
                        ..Error::new(kind, "down")
                    })
                } else {
                    Ok(calls.get())
                })
            });
            let done = done.await.map_err(|error| error.kind);
            (done, calls.get(), began.elapsed())
        }
    };
    let (done, _, took) = failing(6, ErrorKind::Unavailable, None).await;
    assert_eq!(done, Ok(7));
    assert!(took < Duration::from_secs(4), "{took:?}");
    let (done, calls, took) = failing(u32::MAX, ErrorKind::Busy, None).await;
    assert_eq!(done, Err(ErrorKind::Busy));
    assert!(
        calls > 20 && took <= budget && took > budget / 2,
        "{calls} {took:?}"
    );
    for (kind, remedy) in [(ErrorKind::Full, None), (ErrorKind::Unavailable, Some("x"))] {
        assert_eq!(failing(1, kind, remedy).await.1, 1);
    }
}

#[tokio::test]
async fn answers_are_there_at_once_unless_they_have_to_wait() {
    let at_once = StoreReply::begun(async { Ok(1) });
    assert!(matches!(at_once, StoreReply::Now(Ok(1))));
    let later = StoreReply::begun(async {
        tokio::task::yield_now().await;
        Ok(2)
    });
    assert!(matches!(later, StoreReply::Later(_)));
    assert_eq!(later.settle().await.ok(), Some(2));
}

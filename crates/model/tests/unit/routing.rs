//! Unit tests of `src/routing.rs`.

use super::*;

#[test]
fn shard_at_its_rate_limit_is_skipped() {
    let rates = RequestRates::default();
    let (one, other) = (Digest::sha256(b"one"), Digest::sha256(b"other"));
    let first = rates.assign(one, 0);
    assert!(first.ends_with("-0") && first.len() <= 64, "{first}");
    (1..PER_MINUTE).for_each(|_| rates.count(&first, 1_000));
    let second = rates.assign(one, 2_000);
    assert!(second.ends_with("-1"), "{second}");
    assert_eq!(first.trim_end_matches('0'), second.trim_end_matches('1'));
    assert!(rates.assign(other, 2_000).ends_with("-0"));
    // A minute later the first shard has room again.
    assert_eq!(rates.assign(one, 60_000), first);
}

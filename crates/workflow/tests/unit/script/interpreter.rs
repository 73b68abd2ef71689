//! Unit tests of `src/script/interpreter.rs`.

use super::*;

#[test]
fn dates_across_leap_days_and_the_epoch() {
    assert_eq!(civil(0), (1970, 1, 1));
    assert_eq!(civil(-1), (1969, 12, 31));
    assert_eq!(civil(11_016), (2000, 2, 29));
    assert_eq!(civil(11_017), (2000, 3, 1));
    assert_eq!(civil(20_513), (2026, 3, 1));
    assert_eq!(civil(i64::MIN), (1, 1, 1));
    assert_eq!(civil(i64::MAX), (9999, 12, 31));
}

//! Unit tests of `src/duration.rs`.

use super::*;

#[test]
fn durations_have_limits() {
    let ParameterKind::Duration(range) = DURATION else {
        panic!("no duration");
    };
    let read = |text: &str| {
        let node = cachalot_core::tree::parse("a.yaml", text).unwrap();
        range.read(&node).ok()
    };
    for (text, milliseconds) in [
        ("90", 90_000),
        ("2.5", 2_500),
        ("1h30m", 5_400_000),
        ("1ms", 1),
    ] {
        let expected = Some(Duration::from_millis(milliseconds));
        assert_eq!(read(text), expected, "{text}");
    }
    for wrong in [
        "0", "0s", "0.1ms", "-1", "367d", "soon", ".nan", ".inf", "[1]",
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn ages_require_a_unit_and_may_be_long() {
    let day = Duration::from_secs(86_400);
    for (text, age) in [("90d", day * 90), ("3650d", day * 3_650), ("12h", day / 2)] {
        assert_eq!(AGE.read_text(text), Ok(age), "{text}");
    }
    for wrong in ["90", " 90 ", "1.5", "0", "", "d", "-3d", "inf", "1000000d"] {
        assert!(AGE.read_text(wrong).is_err(), "{wrong}");
    }
}

//! Unit tests of `src/builtin/cache_response/replay.rs`.

use super::*;

#[test]
fn ages_are_formatted_for_reading() {
    for (seconds, said) in [
        (0, "just now"),
        (1, "1 second ago"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (7_199, "1 hour ago"),
        (86_399, "23 hours ago"),
        (172_800, "2 days ago"),
    ] {
        assert_eq!(format_age(Duration::from_secs(seconds)), said);
    }
}

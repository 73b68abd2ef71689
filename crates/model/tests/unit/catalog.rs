//! Unit tests of `src/catalog.rs`.

use super::*;

#[test]
fn snapshots_are_distinguished_from_other_models() {
    for yes in [
        "-latest",
        "-2024-07-18",
        "-20250805",
        "@20250805",
        "@default",
        "-0613",
        "-001",
    ] {
        assert!(is_snapshot_suffix(yes), "{yes}");
    }
    for no in [
        "",
        "-",
        "-mini",
        "-1",
        "-10",
        "-1-20250805",
        "-audio-preview",
        "x",
        "-preview-05-20",
        ":free",
        "2024",
        "-pro-2025-10-06",
    ] {
        assert!(!is_snapshot_suffix(no), "{no}");
    }
}

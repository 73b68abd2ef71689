//! Canonical bytes of any text: no panic, and the same texts accepted as by `serde_json`.

use cachalot_core::Canonical;
use serde_json::Value;

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let theirs = serde_json::from_slice::<Value>(bytes);
    match (Canonical::json(bytes), theirs) {
        (Ok(ours), Ok(value)) => {
            // Written anew, only the lexemes of numbers may have changed.
            let again = serde_json::to_vec(&value).map(|text| Canonical::json(&text));
            assert!(matches!(again, Ok(Ok(_))));
            let _ = ours.readable();
        }
        (Err(_), Err(_)) => {}
        // Keys that occur twice: the last counts for them, we refuse.
        (Err(ours), Ok(_)) => assert!(ours.reason.starts_with("a key occurs twice"), "{ours}"),
        // Nesting of exactly 128, and numbers beyond the largest float.
        (Ok(_), Err(theirs)) => {
            let reason = theirs.to_string();
            assert!(
                reason.starts_with("number out of range") || reason.starts_with("recursion limit"),
                "{reason}"
            );
        }
    }
}

//! Unit tests of `src/sqlite/labels.rs`.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn labels_round_trip(labels in prop::collection::vec((any::<String>(), ".{0,300}"), 0..6)) {
        let labels: Vec<Label> = labels.into_iter().map(|(name, value)| Label { name, value }).collect();
        prop_assert_eq!(decode(&encode(&labels)).unwrap(), labels);
    }

    #[test]
    fn arbitrary_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode(&bytes);
    }
}

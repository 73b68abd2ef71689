//! Recorded answers of the gateway from any bytes: no panic, and what is decoded is encoded as the same answer.

use cachalot_gateway::fuzzing::recorded;

/// Checks one input.
pub fn check(bytes: &[u8]) {
    if let Some(encoded) = recorded(bytes) {
        assert_eq!(recorded(&encoded).as_deref(), Some(&*encoded));
        // One byte less is not the same answer.
        let shorter = encoded.get(..encoded.len() - 1).and_then(recorded);
        assert_ne!(shorter.as_deref(), Some(&*encoded));
    }
}

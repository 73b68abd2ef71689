//! Bodies of requests from any bytes: what is known by their pieces is what is known of their whole texts.
//!
//! The first byte selects the endpoint. `0xff` separates the bodies of one client, of which each may repeat pieces of those
//! before it.

use cachalot_gateway::fuzzing::pieces;

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let Some((api, bodies)) = bytes.split_first() else {
        return;
    };
    for [pieces, whole] in pieces(*api, bodies) {
        assert_eq!(pieces, whole);
    }
}

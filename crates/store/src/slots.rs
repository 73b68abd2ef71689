//! Slots of names: stamps are kept per group of names, not per name.

/// Number of groups. Names in one group change stamps together: a stamp may change without need, but never
/// stays when it has to change.
pub(crate) const SLOTS: usize = 8192;

/// The slot of a record or counter. Part of the file format: the same in every process and version.
pub(crate) fn slot(space: &str, name: &str) -> usize {
    let hash = mix(mix(0, space.as_bytes()), name.as_bytes());
    (hash >> 32) as usize % SLOTS
}

/// Hashes eight bytes at a time by multiplication and folding: a few nanoseconds for a key of 64 bytes.
fn mix(seed: u64, bytes: &[u8]) -> u64 {
    const FIRST: u64 = 0x9E37_79B9_7F4A_7C15;
    const SECOND: u64 = 0xD6E8_FEB8_6659_FD93;
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(FIRST);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let mut state = seed ^ SECOND ^ (bytes.len() as u64).wrapping_mul(FIRST);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        state = fold(state, u64::from_le_bytes(*chunk)).wrapping_add(SECOND);
    }
    let mut last = [0u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(fold(state, u64::from_le_bytes(last)), SECOND)
}

#[cfg(test)]
#[path = "../tests/unit/slots.rs"]
mod tests;

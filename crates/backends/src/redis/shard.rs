//! The parts of a space, each in one slot of a cluster.

use cachalot_store::space;

/// The number of slots of a cluster.
pub(super) const SLOTS: u16 = 16384;

/// The number of parts of the cache and of long-term memory in a cluster.
const SHARDS: u16 = 64;

/// A part of a space. Scripts and commands are atomic within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    /// The beginning of its keys.
    pub(super) prefix: String,
    /// Its slot in a cluster.
    pub(super) slot: u16,
}

impl Shard {
    fn new(tag: &str, rest: &str) -> Self {
        Self {
            prefix: format!("cachalot:{{{tag}}}:{rest}"),
            slot: crc16(tag.as_bytes()) % SLOTS,
        }
    }
}

/// Returns all parts of a space.
pub(super) fn shards(space: &str, is_cluster: bool) -> Vec<Shard> {
    if is_cluster && is_divided(space) {
        (0..SHARDS).map(|number| numbered(space, number)).collect()
    } else {
        vec![undivided(space, is_cluster)]
    }
}

/// Returns the part of a space that has a key.
pub(super) fn shard(space: &str, key: &str, is_cluster: bool) -> Shard {
    if is_cluster && is_divided(space) {
        numbered(space, crc16(key.as_bytes()) % SHARDS)
    } else {
        undivided(space, is_cluster)
    }
}

/// The other spaces, such as those of sessions, are in one slot: their records are stored together.
fn is_divided(of: &str) -> bool {
    of == space::CACHE || of == space::USER
}

fn numbered(space: &str, number: u16) -> Shard {
    Shard::new(&format!("{space}/{number}"), "")
}

fn undivided(space: &str, is_cluster: bool) -> Shard {
    // A brace would end the part of a key that determines its slot.
    let name = space
        .replace('%', "%25")
        .replace('{', "%7B")
        .replace('}', "%7D");
    if is_cluster {
        Shard::new("other", &format!("{name}:"))
    } else {
        Shard::new(&name, "")
    }
}

/// CRC-16/XMODEM, of which the slot is the remainder (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
#[path = "../../tests/unit/redis/shard.rs"]
mod tests;

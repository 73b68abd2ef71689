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
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // `CLUSTER KEYSLOT cachalot:{other}:x`
        assert_eq!(shard("x", "key", true).slot, crc16(b"other") % SLOTS);
    }

    #[test]
    fn every_key_is_in_one_of_the_shards_of_its_space() {
        let mut used = std::collections::BTreeSet::new();
        for number in 0..1000 {
            let shard = shard(space::CACHE, &number.to_string(), true);
            let place = shards(space::CACHE, true)
                .iter()
                .position(|known| *known == shard);
            assert!(place.is_some());
            used.insert(place);
        }
        assert_eq!(used.len(), 64);
        assert_eq!(shards("sessions", true).len(), 1);
        assert_eq!(
            shards(space::CACHE, false),
            [shard(space::CACHE, "key", false)]
        );
        assert_eq!(
            shard(space::CACHE, "key", false).prefix,
            "cachalot:{cache}:"
        );
    }
}

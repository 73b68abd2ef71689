//! Unit tests of `src/redis/shard.rs`.

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

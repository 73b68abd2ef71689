//! Unit tests of `src/encrypted.rs`.

use super::*;

fn encryption() -> Encryption {
    Encryption::parse(&Secret::new("a".repeat(64))).unwrap()
}

fn nonce(value: &[u8]) -> &[u8] {
    &value[HEADER.len() + ID_LENGTH..][..NONCE_LEN]
}

#[test]
fn equal_texts_of_another_key_and_value_have_another_nonce() {
    let encryption = encryption();
    let encrypt = |space, key, value: &[u8]| encryption.encrypt(space, key, value).unwrap();
    let first = encrypt("space", "k12", b"X");
    assert_eq!(first, encrypt("space", "k12", b"X"));
    for (space, key, value) in [
        ("space", "k", &b"12X"[..]),
        ("space", "k12X", b""),
        ("spac", "ek12", b"X"),
    ] {
        assert_ne!(nonce(&first), nonce(&encrypt(space, key, value)), "{key}");
    }
}

#[test]
fn values_of_earlier_versions_are_read() {
    let stored = "454e430126aa892ab5049b309aca0f63ef1e1cc40ed24eb60b4aa025c4c2a49d556102ae4c7e4df8ba7e9af288";
    let stored = hex::decode(stored).unwrap();
    let value = encryption().decrypt("space", "key", &stored).unwrap();
    assert_eq!(value, "value");
}

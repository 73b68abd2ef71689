//! Unit tests of `src/provider/key.rs`.

use cachalot_core::DigestKey;

use super::*;

#[test]
fn keys_are_learned_as_secrets_and_placeholders_are_not() {
    for (text, key) in [
        ("sk-proj-4f9aQ2", Some("sk-proj-4f9aQ2")),
        ("Bearer sk-proj-4f9aQ2", Some("sk-proj-4f9aQ2")),
        (" sk-proj-4f9aQ2\n", Some("sk-proj-4f9aQ2")),
        (
            "QWxhZGRpbkpvcHBlblNlc2FtZQ",
            Some("QWxhZGRpbkpvcHBlblNlc2FtZQ"),
        ),
        ("", None),
        ("x", None),
        ("sk-1234", None),
        ("12345678", None),
        ("simulated", None),
        ("not-needed", None),
        ("sk-no-key-required", None),
    ] {
        let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
        register_secrets(text, &secret_set);
        let shown = secret_set
            .redact("sk-proj-4f9aQ2 QWxhZGRpbkpvcHBlblNlc2FtZQ")
            .into_owned();
        match key {
            Some(key) => assert!(!shown.contains(key), "{text}: {shown}"),
            None => assert!(secret_set.is_empty(), "{text}"),
        }
    }
}

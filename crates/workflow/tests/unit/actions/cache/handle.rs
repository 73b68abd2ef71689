//! Unit tests of `src/actions/cache/handle.rs`.

use super::*;

#[test]
fn key_normalization_is_idempotent() {
    for key in ["x", "cache:x", "cache:me:x", "me:x"] {
        assert_eq!(
            for_key(key, Some("me"), &SecretSet::empty()),
            "cache:me:x",
            "{key}"
        );
    }
    assert_eq!(
        for_key("cache:other:x", Some("me"), &SecretSet::empty()),
        "cache:me:other:x"
    );
    assert_eq!(for_key("cache:a:b", None, &SecretSet::empty()), "cache:a:b");
    assert_eq!(
        for_key("mex", Some("me"), &SecretSet::empty()),
        "cache:me:mex"
    );
    let handle = for_key("a:b:c", Some("me"), &SecretSet::empty());
    assert_eq!(for_key(&handle, Some("me"), &SecretSet::empty()), handle);
}

#[test]
fn short_secret_seals_the_key_and_not_the_prefix() {
    let secret_set = SecretSet::with_key(cachalot_core::DigestKey::new([7; 32]));
    secret_set.learn("a");
    let handle = for_key("cache:agent:a-1", Some("agent"), &secret_set);
    assert!(handle.starts_with("cache:agent:secret-"), "{handle}");
    assert!(handle.ends_with("-1"), "{handle}");
}

#[test]
fn special_characters_of_names_are_escaped() {
    assert_eq!(escape("a:b*c d%\n"), "a%3Ab%2Ac%20d%25%0A");
    assert_eq!(escape("Übersetzer-1.0_x"), "Übersetzer-1.0_x");
}

#[test]
fn unnamed_agents_have_different_handles() {
    let one = agent_segment(None, Some(" "), Path::new("/a/agent.yaml"));
    let two = agent_segment(Some(""), None, Path::new("/b/agent.yaml"));
    assert_ne!(one, two);
    assert!(one.starts_with("agent-"));
    assert_eq!(agent_segment(Some("s"), Some("n"), Path::new("x")), "s");
    assert_eq!(agent_segment(None, Some("n"), Path::new("x")), "n");
}

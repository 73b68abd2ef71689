//! Unit tests of `src/permissions/analyzed_request.rs`.

use super::*;

#[test]
fn paths_are_normalized_relative_to_the_root() {
    let relative_to_root = |path: &str| relative_to_root(Path::new("/w"), Path::new(path));
    assert_eq!(relative_to_root("./a/../.env"), ".env");
    assert_eq!(relative_to_root("/w/a"), "a");
    assert_eq!(relative_to_root("a/.."), ".");
    assert_eq!(relative_to_root("../x"), "/x");
    assert_eq!(relative_to_root("/etc//passwd"), "/etc/passwd");
}

#[test]
fn hosts_are_normalized_as_by_a_url_parser() {
    for url in [
        "https://EVIL.com/",
        "https://evil.com./",
        "http://a:b@evil.com:80",
        " https://evil.com\\@x.org",
    ] {
        assert_eq!(host(url).as_deref(), Some("evil.com"), "{url}");
    }
    assert_eq!(host("evil.com"), None);
    for url in [
        "http://127.0.0.2:80/",
        "http://[::ffff:127.0.0.2]/",
        "http://[::127.0.0.2]/",
        "http://[64:ff9b::7f00:2]/",
        "http://0x7f000002/",
    ] {
        assert_eq!(host(url).as_deref(), Some("127.0.0.2"), "{url}");
    }
    assert_eq!(host("http://[::1]/").as_deref(), Some("[::1]"));
    assert_eq!(decoded("/forb%69dden%2"), "/forbidden%2");
}

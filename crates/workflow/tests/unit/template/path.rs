//! Unit tests of `src/template/path.rs`.

use super::*;

#[test]
fn plain_lookups_are_recognized_as_paths() {
    for path in [
        "state.a",
        " state.a.b ",
        "state['a b'].c",
        "state.a[0][\"x\"]",
        "result.data",
        "env.HOME",
    ] {
        assert!(Path::parse(path).is_some(), "{path}");
    }
    for other in [
        "state",
        "a",
        "state.a | upper",
        "state.a + 1",
        "state.a()",
        "state[0]",
        "state.a[-1]",
        "state.a[1:]",
        "secrets.X",
        "state.a[b]",
        "state.a['x\\n']",
        "state .a",
        "state.a[",
        "state.",
        "state.1a",
        "",
        "state.a['x' ~ 'y']",
        "state.a[+1]",
    ] {
        assert_eq!(Path::parse(other), None, "{other}");
    }
}

//! Unit tests of `src/firestore/name.rs`.

use super::*;

const NAMES: [&str; 22] = [
    "",
    "\0",
    "\0\0",
    "\u{1f}",
    " ",
    " a",
    "!",
    "!!",
    "!0",
    "\"",
    "-",
    ".",
    "..",
    "./",
    "/",
    "/a",
    "0",
    "__a__",
    "a",
    "a/b",
    "ü",
    "\u{10ffff}",
];

#[test]
fn identifiers_are_allowed_and_ordered_like_the_names() {
    for name in NAMES {
        let id = id(name);
        assert!(id.starts_with('k') && !id.contains('/'), "{id}");
        assert!(id.chars().all(|c| c > ' '), "{id:?}");
        for other in NAMES {
            assert_eq!(
                name.cmp(other),
                id.cmp(&super::id(other)),
                "{name:?} {other:?}"
            );
            let labels = [label("tag", name, "x"), label("tag", other, "x")];
            assert_eq!(name == other, labels[0] == labels[1], "{name:?} {other:?}");
            let keys = [label("tag", "x", name), label("tag", "x", other)];
            assert_eq!(name.cmp(other), keys[0].cmp(&keys[1]), "{name:?} {other:?}");
            let range = IdRange::of(label_value_prefix("tag", name));
            let is_inside = range.start <= labels[1] && labels[1] < range.end;
            assert!(is_inside || !other.starts_with(name), "{name:?} {other:?}");
            let range = IdRange::of(label_prefix("tag", name));
            let is_inside = range.start <= labels[1] && labels[1] < range.end;
            assert_eq!(is_inside, name == other, "{name:?} {other:?}");
        }
    }
}

#[test]
fn long_labels_have_short_identifiers() {
    for c in ["a", "ü", ".", "\u{10ffff}"] {
        let long = c.repeat(super::super::LONGEST_NAME as usize / c.len());
        let other = format!("{}x", &long[..long.len() - c.len()]);
        assert!(label(&long, &long, &long).len() <= 1500);
        assert_ne!(label("tag", &long, "k"), label("tag", &other, "k"));
        for length in [1, 50, 100, long.len() / c.len()] {
            let range = IdRange::of(label_value_prefix("tag", &c.repeat(length)));
            let id = label("tag", &long, "k");
            assert!(range.start <= id && id < range.end, "{c} {length}");
        }
    }
}

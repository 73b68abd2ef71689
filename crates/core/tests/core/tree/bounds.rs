//! Costs of a hostile file.

use super::{codes, problems, read};
use cachalot_core::tree::{MAX_COPIED_BYTES, MAX_DEPTH};

#[test]
fn nesting_is_limited() {
    let lists = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    read(&lists(MAX_DEPTH));
    assert!(codes(&lists(MAX_DEPTH + 1))[0].starts_with("too-deep@1:"));
    assert!(codes(&"[".repeat(100_000))[0].starts_with("too-deep@"));
    assert!(codes(&"{a: ".repeat(100_000))[0].starts_with("too-deep@"));
    let dashes = |depth: usize| format!("{}1", "- ".repeat(depth));
    read(&dashes(MAX_DEPTH));
    assert!(codes(&dashes(MAX_DEPTH + 1))[0].starts_with("too-deep@"));
    let block: String = (0..1000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    assert!(codes(&block)[0].starts_with("too-deep@129:"));
}

#[test]
fn alias_counts_with_the_depth_of_its_anchor() {
    let half = MAX_DEPTH / 2;
    let text = |outer: usize| {
        let inner = format!("{}1{}", "[".repeat(half), "]".repeat(half));
        format!(
            "a: &x {inner}\nb: {}*x{}\n",
            "[".repeat(outer),
            "]".repeat(outer)
        )
    };
    read(&text(half - 1));
    assert_eq!(codes(&text(half)), [format!("too-deep@2:{}", 4 + half)]);
}

#[test]
fn alias_bombs_are_refused() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..20 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert_eq!(problems(&laughs).last().unwrap().code, "alias-bomb");

    let merges: String = (0..2000)
        .map(|n| format!("m{n}: {{<<: *base}}\n"))
        .collect();
    let keys: String = (0..100).map(|n| format!("  k{n}: 1\n")).collect();
    assert_eq!(
        problems(&format!("base: &base\n{keys}{merges}"))[0].code,
        "alias-bomb"
    );

    let text = "x".repeat(MAX_COPIED_BYTES / 8);
    let aliases = |count: usize| format!("a: &a {text}\nb: [{}]\n", vec!["*a"; count].join(", "));
    read(&aliases(7));
    assert_eq!(problems(&aliases(8))[0].code, "alias-bomb");
}

#[test]
fn large_file_is_accepted() {
    let text: String = (0..50_000)
        .map(|n| format!("key{n}: [é, {n}, \"{n}\"] # ü\n"))
        .collect();
    let node = read(&text);
    assert_eq!(node.as_map().unwrap().len(), 50_000);
    let last = &node.as_map().unwrap()[49_999].value.as_list().unwrap()[2];
    assert_eq!(
        &text[last.place.start..last.place.start + last.place.len],
        "\"49999\""
    );
    assert_eq!((last.place.line, last.place.column), (50_000, 22));
}

#[test]
fn very_long_line_is_accepted() {
    let items: Vec<String> = (0..50_000).map(|n| format!("\"é{n}\"")).collect();
    let text = format!("[{}]", items.join(", "));
    assert_eq!(read(&text).as_list().unwrap().len(), 50_000);
}

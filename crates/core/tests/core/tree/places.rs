use cachalot_core::tree::{Node, NodeKind, parse};

use super::read;

/// `line:column` and what is written there.
fn at<'t>(text: &'t str, node: &Node) -> (String, &'t str) {
    let place = &node.place;
    (
        format!("{}:{}", place.line, place.column),
        &text[place.start..place.start + place.len],
    )
}

#[test]
fn places_have_one_based_lines_and_columns_and_byte_offsets() {
    let text = "é: 'ü' # ñandú\nb: \"x\ty\" # ñ\n🐋: [é, {ö: ä}] # c\nd: !!str  &a  plain text # no\ne:\n- - ß\n- \"a\\\"b\" # q\n";
    let node = read(text);
    let get = |key: &str| node.get(key).unwrap();
    assert_eq!(at(text, get("é")), ("1:4".to_owned(), "'ü'"));
    assert_eq!(at(text, get("b")), ("2:4".to_owned(), "\"x\ty\""));
    assert_eq!(at(text, get("🐋")), ("3:4".to_owned(), "[é, {ö: ä}]"));
    assert_eq!(
        at(text, &get("🐋").as_list().unwrap()[1]),
        ("3:8".to_owned(), "{ö: ä}")
    );
    assert_eq!(at(text, get("d")), ("4:15".to_owned(), "plain text"));
    assert_eq!(
        at(text, get("e")),
        ("6:1".to_owned(), "- - ß\n- \"a\\\"b\"")
    );
    let items = get("e").as_list().unwrap();
    assert_eq!(at(text, &items[0]), ("6:3".to_owned(), "- ß"));
    assert_eq!(at(text, &items[1]), ("7:3".to_owned(), "\"a\\\"b\""));
    let entry = &node.as_map().unwrap()[2];
    assert_eq!(
        (
            entry.key_place.line,
            entry.key_place.column,
            entry.key_place.len
        ),
        (3, 1, 4)
    );
    assert_eq!(entry.key_place.to_string(), "agent.yaml:3:1");
    assert_eq!(at(text, &node).0, "1:1");
    assert_eq!(
        node.place.start + node.place.len,
        text.trim_end_matches(" # q\n").len()
    );
}

#[test]
fn byte_order_mark_counts_in_offsets_and_not_in_columns() {
    let text = "\u{feff}a: b\n";
    let node = read(text);
    let value = node.get("a").unwrap();
    assert_eq!(
        (value.place.column, value.place.start, value.place.len),
        (4, 6, 1)
    );
}

#[test]
fn omitted_value_has_an_empty_place() {
    let text = "a:\nb: {c, d: }\ne:\n-\n- x\n";
    let node = read(text);
    assert_eq!(at(text, node.get("a").unwrap()), ("1:3".to_owned(), ""));
    assert_eq!(
        at(text, node.get("b").unwrap().get("d").unwrap()),
        ("2:10".to_owned(), "")
    );
    assert_eq!(
        at(text, &node.get("e").unwrap().as_list().unwrap()[0]),
        ("4:2".to_owned(), "")
    );
}

#[test]
fn alias_has_the_place_of_its_anchor() {
    let text = "a: &x {b: 1}\nc: *x\n";
    let node = read(text);
    assert_eq!(
        at(text, node.get("c").unwrap()),
        ("1:7".to_owned(), "{b: 1}")
    );
}

#[test]
fn first_line_of_a_block_text_is_found_in_every_style() {
    for (text, line) in [
        ("run: |\n  code\n", 2),
        ("# c | c\nrun: |- # why | not\n\n\n  code\n", 3),
        ("run: !!str &anchor |2\n   code\n", 2),
        ("run:\n  # comment > x\n  !!str\n  >+\n  code\n", 5),
        ("\u{feff}run: >-\r\n  code\r\n", 2),
        ("run: code\n", 1),
        ("run:\n  'code'\n", 2),
        ("run: |\n", 2),
        ("a: \"x # y\" # é | é\nrun: |\n  code\n", 3),
        ("steps:\n- - x\n- run: |\n    code\n", 4),
        ("x: &b |\n  1\n\n# |\nrun: *b\n", 2),
    ] {
        let node = read(text);
        let run = node
            .get("run")
            .or_else(|| node.get("steps")?.as_list()?.last()?.get("run"));
        assert_eq!(run.unwrap().text_first_line(text), line, "{text:?}");
    }
    for (text, line) in [
        ("|\n code\n", 2),
        ("# a\n\n--- |\n code\n", 4),
        ("- |\n code\n- >\n x\n", 2),
    ] {
        let node = read(text);
        let node = node.as_list().map_or(&node, |items| &items[0]);
        assert_eq!(node.text_first_line(text), line, "{text:?}");
    }
}

#[test]
fn block_texts_in_lists_start_at_their_indicator() {
    let text = "- |\n  a | b\n\n- # | no\n  >\n  c\n- x: 1\n  y: |\n    z\n? |\n  k\n"
        .replace("? |\n  k\n", "");
    let node = read(&text);
    let items = node.as_list().unwrap();
    assert_eq!(at(&text, &items[0]), ("1:3".to_owned(), "|\n  a | b"));
    assert_eq!(at(&text, &items[1]), ("5:3".to_owned(), ">\n  c"));
    assert_eq!(
        at(&text, items[2].get("y").unwrap()),
        ("8:6".to_owned(), "|\n    z")
    );
}

#[test]
fn place_of_a_collection_is_its_head() {
    let text = "a:\n  bcd: 1\n  e: 2\nf: [[x, y], z]\ng: {}\nh: {<<: {i: 1}, j: 2}\n";
    let node = read(text);
    let head = |key: &str| {
        let place = node.get(key).unwrap().head();
        &text[place.start..place.start + place.len]
    };
    assert_eq!((head("a"), head("f"), head("g")), ("bcd", "[[x", "{}"));
    assert!(head("h").starts_with("{<<: {i"));
}

/// Every node lies within its parent, and children do not overlap and come in order.
pub(super) fn check_nesting(node: &Node) {
    let (start, end) = (node.place.start, node.place.start + node.place.len);
    let mut from = start;
    let mut child = |place: &cachalot_core::SourceSpan| {
        assert!(
            place.start >= from && place.start + place.len <= end,
            "{place:?} in {:?}",
            node.place
        );
        from = place.start + place.len;
    };
    match &node.kind {
        NodeKind::List(items) => items.iter().for_each(|item| {
            child(&item.place);
            check_nesting(item);
        }),
        NodeKind::Map(entries) => entries.iter().for_each(|entry| {
            child(&entry.key_place);
            child(&entry.value.place);
            check_nesting(&entry.value);
        }),
        _ => {}
    }
}

#[test]
fn places_of_nested_nodes_are_nested() {
    for text in [
        "a: {b, c: , ? d : e, f: [g: h, [i]: j]}\n".replace("[i]: j", "i: j"),
        "- - 1\n  -\n- a:\n  - b\n  c: |\n   d\n\n".to_owned(),
        "? a\n? b\n: c\n".to_owned(),
    ] {
        check_nesting(&parse("x", &text).unwrap());
    }
}

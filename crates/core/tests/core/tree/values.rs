use serde_json::json;

use super::{read, value};
use cachalot_core::tree::NodeKind;

#[test]
fn scalars_follow_the_core_schema() {
    for (text, expected) in [
        ("null", json!(null)),
        ("Null", json!(null)),
        ("NULL", json!(null)),
        ("~", json!(null)),
        ("", json!(null)),
        ("nULL", json!("nULL")),
        ("true", json!(true)),
        ("True", json!(true)),
        ("TRUE", json!(true)),
        ("tRue", json!("tRue")),
        ("false", json!(false)),
        ("False", json!(false)),
        ("FALSE", json!(false)),
        ("0", json!(0)),
        ("-0", json!(0)),
        ("+1", json!(1)),
        ("-17", json!(-17)),
        ("0x1F", json!(31)),
        ("0xff", json!(255)),
        ("0o17", json!(15)),
        ("0o18", json!("0o18")),
        ("-0x1", json!("-0x1")),
        ("0x", json!("0x")),
        ("0X1", json!("0X1")),
        ("0b1", json!("0b1")),
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("9223372036854775808", json!(9_223_372_036_854_775_808_u64)),
        ("18446744073709551615", json!(u64::MAX)),
        ("0xFFFFFFFFFFFFFFFF", json!(u64::MAX)),
        ("9007199254740993", json!(9_007_199_254_740_993_u64)),
        ("1.0", json!(1.0)),
        ("1.10", json!(1.1)),
        ("1.", json!(1.0)),
        (".5", json!(0.5)),
        ("-.5", json!(-0.5)),
        ("1e3", json!(1000.0)),
        ("1.5E-3", json!(0.0015)),
        ("0.1", json!(0.1)),
        ("0e0", json!(0.0)),
        ("-0.0", json!(-0.0)),
        (".", json!(".")),
        ("-", json!([null])),
        ("+", json!("+")),
        ("e3", json!("e3")),
        ("1e", json!("1e")),
        ("1e+", json!("1e+")),
        ("1.2.3", json!("1.2.3")),
        ("1 2", json!("1 2")),
        (".e1", json!(".e1")),
        ("inf", json!("inf")),
        ("nan", json!("nan")),
        (".Nan", json!(".Nan")),
    ] {
        assert_eq!(
            value(&format!("k: {text}\n").replace("k: -\n", "k:\n- \n")),
            json!({"k": expected}),
            "{text:?}"
        );
    }
}

#[test]
fn yaml_1_1_scalars_are_text() {
    for text in [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "N",
        "010",
        "007",
        "-01",
        "00",
        "01.5",
        "08",
        "1_000",
        "12:30",
        "2024-01-02",
        "2024-01-02T03:04:05Z",
        "1,000",
        "٣",
    ] {
        assert_eq!(
            value(&format!("k: {text}\n")),
            json!({"k": text}),
            "{text:?}"
        );
    }
}

#[test]
fn quoted_scalars_and_block_scalars_are_text() {
    assert_eq!(
        value("a: '1'\nb: \"true\"\nc: ''\nd: \"\"\ne: |\n  12\nf: >-\n  null\n"),
        json!({"a": "1", "b": "true", "c": "", "d": "", "e": "12\n", "f": "null"}),
    );
}

#[test]
fn numbers_that_json_lacks_become_text() {
    let node = read("[.inf, -.INF, +.Inf, .NaN, .nan]");
    assert_eq!(
        node.to_value(),
        json!([".inf", "-.inf", ".inf", ".nan", ".nan"])
    );
    assert_eq!(
        node.as_list().unwrap()[1].kind,
        NodeKind::Float(f64::NEG_INFINITY)
    );
    assert!(node.as_list().unwrap()[3].as_f64().unwrap().is_nan());
}

#[test]
fn explicit_tags_of_the_core_schema_are_honoured() {
    assert_eq!(
        value(
            "a: !!str 1\nb: !!int \"3\"\nc: !!float 2\nd: !!bool 'true'\ne: !!null ''\nf: !!seq [1]\n\
             g: !!map {a: 1}\nh: ! 12\ni: !!int 010\nj: !<tag:yaml.org,2002:str> null\nk: ! [1]\n\
             l: !!str\nm: !!float .inf\nn: !!int 0x10\no: !!float 012345678901234567890123\n\
             !!str p: &x !!str |\n  1\n"
        ),
        json!({
            "a": "1", "b": 3, "c": 2.0, "d": true, "e": null, "f": [1], "g": {"a": 1}, "h": "12",
            "i": 10, "j": "null", "k": [1], "l": "", "m": ".inf", "n": 16,
            "o": 1.234_567_890_123_456_8e22, "p": "1\n",
        }),
    );
}

#[test]
fn texts_are_read_exactly() {
    assert_eq!(
        value(concat!(
            "literal: |\n\n  one\n    two\ttabs \n\n  three\n\n\n",
            "kept: |+\n  x\n\n",
            "stripped: |-\n  x\n",
            "indented: |2\n    four\n",
            "folded: >\n  a\n  b\n\n  c\n",
            "double: \"tab\\t \\u00e9 \\U0001F40B \\\"q\\\" \\\n  joined\"\n",
            "single: 'it''s'\n",
            "plain: a # not a comment?\n",
            "url: http://x/y#z\n",
            "long: first\n  second\n",
        )),
        json!({
            "literal": "\none\n  two\ttabs \n\nthree\n",
            "kept": "x\n\n",
            "stripped": "x",
            "indented": "  four\n",
            "folded": "a b\nc\n",
            "double": "tab\t é 🐋 \"q\" joined",
            "single": "it's",
            "plain": "a",
            "url": "http://x/y#z",
            "long": "first second",
        }),
    );
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_tolerated() {
    assert_eq!(
        value("\u{feff}a:\r\n  - 1\r\n  - |\r\n    x\r\n    y\r\n"),
        json!({"a": [1, "x\ny\n"]}),
    );
}

#[test]
fn non_text_keys_become_text() {
    assert_eq!(
        value(
            "1: a\ntrue: b\n~: c\n1.10: d\n99999999999999999999999: e\n'q': f\n? long\n: g\n\"\": h\n"
        ),
        json!({
            "1": "a", "true": "b", "~": "c", "1.10": "d", "99999999999999999999999": "e",
            "q": "f", "long": "g", "": "h",
        }),
    );
    assert_eq!(value("a: &k 1\n*k : b\n"), json!({"a": 1, "1": "b"}));
    assert_eq!(value("&k 010: 1\nb: *k\n"), json!({"010": 1, "b": "010"}));
}

#[test]
fn json_is_valid_yaml() {
    let text = r#"{"a": [1, -2.5, "x\ny", {"b": null}], "c": true, "d": "é\u00e9/\/"}"#;
    assert_eq!(
        value(text),
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    );
}

#[test]
fn alias_has_the_value_of_its_anchor() {
    assert_eq!(
        value("a: &x [1, {b: 2}]\nc: *x\nd: &s text\ne: *s\nf: &x 3\ng: *x\n"),
        json!({"a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": "text", "e": "text", "f": 3, "g": 3}),
    );
}

#[test]
fn merged_keys_have_lower_precedence_than_own_and_earlier_ones() {
    let node = read(concat!(
        "base: &base {a: 1, b: 1}\n",
        "more: &more {b: 2, c: 2}\n",
        "one:\n  b: 9\n  <<: *base\n  d: 9\n",
        "two:\n  <<: [*more, *base, {e: 3}]\n",
        "three: {'<<': *base}\n",
        "four: {<<: {a: 1}}\n",
    ));
    let keys = |name: &str| -> Vec<String> {
        node.get(name)
            .unwrap()
            .as_map()
            .unwrap()
            .iter()
            .map(|entry| entry.key.clone())
            .collect()
    };
    assert_eq!(keys("one"), ["b", "a", "d"]);
    assert_eq!(
        node.get("one").unwrap().to_value(),
        json!({"b": 9, "a": 1, "d": 9})
    );
    assert_eq!(
        node.get("two").unwrap().to_value(),
        json!({"b": 2, "c": 2, "a": 1, "e": 3})
    );
    assert_eq!(keys("three"), ["<<"]);
    assert_eq!(node.get("four").unwrap().to_value(), json!({"a": 1}));
}

#[test]
fn document_markers_are_accepted_and_any_value_is_a_document() {
    assert_eq!(
        value("%YAML 1.2\n---\na: 1\n...\n# after\n"),
        json!({"a": 1})
    );
    assert_eq!(value("--- text\n"), json!("text"));
    assert_eq!(value("~"), json!(null));
    assert_eq!(value("'' # empty, but there"), json!(""));
}

#[test]
fn nodes_describe_their_kind() {
    let node =
        read("{a: [1], b: text, c: 2, d: 1.5, e: true, f: , g: 18446744073709551615, h: -1}");
    let names: Vec<_> = node
        .as_map()
        .unwrap()
        .iter()
        .map(|entry| entry.value.kind_name())
        .collect();
    let number = "a number";
    assert_eq!(
        names,
        [
            "a list",
            "text",
            number,
            number,
            "true or false",
            "empty",
            number,
            number
        ]
    );
    assert_eq!(node.kind_name(), "a mapping");
    let get = |key: &str| node.get(key).unwrap();
    assert_eq!(get("b").as_text(), Some("text"));
    assert_eq!(get("e").as_boolean(), Some(true));
    assert_eq!(
        (get("c").as_u64(), get("g").as_u64(), get("h").as_u64()),
        (Some(2), Some(u64::MAX), None)
    );
    assert_eq!(
        (get("c").as_f64(), get("d").as_f64(), get("b").as_f64()),
        (Some(2.0), Some(1.5), None)
    );
    assert!(get("f").is_null() && node.get("z").is_none() && get("b").get("x").is_none());
}

#[test]
fn surrogate_escapes_are_one_character() {
    for (text, expected) in [
        (r#"{"a": "\ud83d\ude00"}"#, json!({"a": "😀"})),
        (
            r#"{"\uD83D\uDE00": ["x\ud83d\udc0by\ud83d\ude00", 1]}"#,
            json!({"😀": ["x🐋y😀", 1]}),
        ),
        // Within YAML, too.
        (
            "- \"\\ud83d\\ude00\" # \\ud83d\\ude00\n- &a \"\\uD83D\\uDC0B\"\n- *a\n",
            json!(["😀", "🐋", "🐋"]),
        ),
        // A backslash behind a backslash begins no escape.
        (r#""\\ud83d\\ude00""#, json!("\\ud83d\\ude00")),
        (r#""\\\ud83d\ude00""#, json!("\\😀")),
        // Elsewhere it is no escape at all.
        (r"'\ud83d\ude00'", json!("\\ud83d\\ude00")),
        (r"\ud83d\ude00", json!("\\ud83d\\ude00")),
        ("|-\n  x\\ud83d\\ude00\n", json!("x\\ud83d\\ude00")),
        // Characters of the private area stay what they are, however they are written.
        (
            "[\"\u{e000}\\ud83d\\ude00\\ue001\\uE002\", \"\u{e003}\"]",
            json!(["\u{e000}😀\u{e001}\u{e002}", "\u{e003}"]),
        ),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    let text = r#"{"\ud83d\ude00": "é\ud83d\ude00", "b": 1}"#;
    let node = read(text);
    let entry = &node.as_map().unwrap()[0];
    assert_eq!(entry.key_place.len, 14);
    let place = &entry.value.place;
    assert_eq!(
        &text[place.start..place.start + place.len],
        r#""é\ud83d\ude00""#
    );
    assert_eq!(node.get("b").unwrap().place.column, 40);
}

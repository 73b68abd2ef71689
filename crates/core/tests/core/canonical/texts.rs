use std::collections::BTreeMap;

use cachalot_core::Canonical;
use proptest::prelude::*;
use serde_json::Value;

use super::mutation::Choices;
use super::oracle::{Tree, read};
use super::values::{text, value};

/// Digests that versions before this one stored as keys: entries in databases are found by them.
#[test]
fn canonical_bytes_of_texts_are_stable() {
    let long = format!("\"{}\"", "a".repeat(300));
    for (text, digest) in [
        (
            "null",
            "1b16b1df538ba12dc3f97edbb85caa7050d46c148134290feba80f8236c83db9",
        ),
        (
            "true",
            "e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8",
        ),
        (
            " [1, 1.0, 1e0, -0.0, 0.10, 1E+5, 123456789012345678901234567890] ",
            "44bad56f3d1c4184bfe92b970e4d96f4784c3993cd3908e705a0c0c7e3f21079",
        ),
        (
            r#"{"b": [1, {"d": null, "c": "x"}], "a": "\u00e9\n\ud83d\udc0b\/", "": {}}"#,
            "b24d0e76d47b0538d6a34ef8055d6d3ae0f547863dc76979efb82be920338181",
        ),
        (
            r#""plain text longer than eight bytes, with \"quotes\" and \\ \t \b\f\r""#,
            "3d9b07dc189e2335eeaa9bd4f2e6e03fa102f5366fde484cd145b01129b68282",
        ),
        (
            r#"{"messages":[{"role":"user","content":"How deep?"}],"model":"large","temperature":0.7,"max_tokens":4096}"#,
            "24cfacfc850b9a37755185edc0036439e62b063f0d4b1421ea7f336c6c721cf4",
        ),
        (
            r#"{"z":1,"y":2,"x":{"k2":[],"k10":[],"k1":"🐋"}}"#,
            "711e7b8ad1abc506456235b54a496eb5427768f2ce357efe6ac5608567817514",
        ),
        (
            long.as_str(),
            "bda3854a354f05dd1fc8a128c78766c8696729189e7b0ed533fefc21a378fa97",
        ),
    ] {
        let found = Canonical::json(text.as_bytes()).unwrap().digest();
        assert_eq!(found.to_hex(), digest, "{text}");
    }
}

/// Number lexemes, of which many mean the same number.
fn lexeme() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "0",
            "-0",
            "0.0",
            "-0.0",
            "0e0",
            "1",
            "1.0",
            "1.00",
            "1e0",
            "1E0",
            "1e+0",
            "1e-0",
            "10e-1",
            "-1",
            "10",
            "1e1",
            "1E+1",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551616",
            "1e999",
            "-1e-999",
            "18446744073709551615",
            "0.1",
            "0.10",
            "1000000000000000000000000000000000000001",
        ])
        .prop_map(str::to_owned),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?",
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let scalar = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(Tree::Word),
        lexeme().prop_map(Tree::Number),
        text().prop_map(Tree::Text),
    ];
    scalar.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::List),
            prop::collection::btree_map(text(), inner, 0..5).prop_map(Tree::Map),
        ]
    })
}

/// Writes `tree` as the choices say: white space, escapes, and the order of keys vary.
fn write(tree: &Tree, choices: &mut Choices<'_>, out: &mut String) {
    write_blank(choices, out);
    match tree {
        Tree::Word(word) => out.push_str(word),
        Tree::Number(lexeme) => out.push_str(lexeme),
        Tree::Text(text) => write_text(text, choices, out),
        Tree::List(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "," });
                write(item, choices, out);
            }
            write_blank(choices, out);
            out.push(']');
        }
        Tree::Map(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            let by = choices.next(fields.len());
            fields.rotate_left(by);
            if choices.next(2) == 1 {
                fields.reverse();
            }
            out.push('{');
            for (n, (key, field)) in fields.into_iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "," });
                write_blank(choices, out);
                write_text(key, choices, out);
                write_blank(choices, out);
                out.push(':');
                write(field, choices, out);
            }
            write_blank(choices, out);
            out.push('}');
        }
    }
    write_blank(choices, out);
}

fn write_blank(choices: &mut Choices<'_>, out: &mut String) {
    out.push_str(["", "", "", " ", "\n", "\r\n  ", "\t"][choices.next(7)]);
}

fn write_text(text: &str, choices: &mut Choices<'_>, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        let short = match c {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            _ => None,
        };
        let must = c < ' ' || c == '"' || c == '\\';
        match (choices.next(4), short) {
            (1, Some(short)) => out.push_str(short),
            (0 | 1, _) if !must => out.push(c),
            (2, _) if !must => out.push(c),
            (upper, _) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let escape = if upper == 3 {
                        format!("\\u{unit:04X}")
                    } else {
                        format!("\\u{unit:04x}")
                    };
                    out.push_str(&escape);
                }
            }
        }
    }
    out.push('"');
}

/// Changes one place of the tree, mostly into something easily confused with it.
fn mutate(tree: &mut Tree, choices: &mut Choices<'_>) {
    let descend = choices.next(4) > 0;
    match tree {
        Tree::List(items) if descend && !items.is_empty() => {
            let at = choices.next(items.len());
            mutate(&mut items[at], choices);
        }
        Tree::Map(fields) if descend && !fields.is_empty() => {
            let at = choices.next(fields.len());
            mutate(fields.values_mut().nth(at).unwrap(), choices);
        }
        Tree::Word(word) => *tree = Tree::Text((*word).to_owned()),
        Tree::Number(lexeme) => {
            *tree = match choices.next(6) {
                0 => Tree::Text(lexeme.clone()),
                1 => Tree::Number("1.0".to_owned()),
                2 => Tree::Number("1e0".to_owned()),
                3 => Tree::Number(lexeme.to_uppercase()),
                4 if !lexeme.contains(['.', 'e', 'E']) => Tree::Number(format!("{lexeme}.0")),
                _ => Tree::Number(lexeme.trim_start_matches('-').to_owned()),
            }
        }
        Tree::Text(text) => match choices.next(4) {
            0 => text.push('\0'),
            1 => *text = text.replace('a', "b"),
            2 => *tree = Tree::List(vec![Tree::Text(std::mem::take(text))]),
            _ => *tree = read(text).unwrap_or(Tree::Word("null")),
        },
        Tree::List(items) => match choices.next(4) {
            0 => items.push(Tree::Word("null")),
            1 => items.reverse(),
            2 if items.is_empty() => *tree = Tree::Map(BTreeMap::new()),
            _ => drop(items.pop()),
        },
        Tree::Map(fields) => match choices.next(4) {
            0 => drop(fields.insert("a".to_owned(), Tree::Word("null"))),
            1 => drop(fields.pop_first()),
            2 if fields.is_empty() => *tree = Tree::List(Vec::new()),
            _ => {
                if let Some((key, field)) = fields.pop_first() {
                    fields.insert(format!("{key}b"), field);
                }
            }
        },
    }
}

/// The value with number lexemes in shortest form: the plus sign that some write says nothing.
fn tree_of(value: &Value) -> Tree {
    match value {
        Value::Null => Tree::Word("null"),
        Value::Bool(truth) => Tree::Word(if *truth { "true" } else { "false" }),
        Value::Number(number) => Tree::Number(number.to_string().replace("e+", "e")),
        Value::String(text) => Tree::Text(text.clone()),
        Value::Array(items) => Tree::List(items.iter().map(tree_of).collect()),
        Value::Object(fields) => Tree::Map(
            fields
                .iter()
                .map(|(key, field)| (key.clone(), tree_of(field)))
                .collect(),
        ),
    }
}

fn written(tree: &Tree, numbers: &[u8]) -> String {
    let mut text = String::new();
    write(tree, &mut Choices::new(numbers), &mut text);
    text
}

fn agrees(a: &str, b: &str) -> Result<(), TestCaseError> {
    let equal = read(a).unwrap() == read(b).unwrap();
    let (left, right) = (Canonical::json(a.as_bytes()), Canonical::json(b.as_bytes()));
    prop_assert!(left.is_ok() && right.is_ok(), "{:?} {:?}", left, right);
    prop_assert_eq!(left == right, equal, "{} and {}", a, b);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn texts_have_equal_bytes_exactly_if_they_are_equal_by_lexeme(
        a in tree(), b in tree(),
        style in prop::collection::vec(any::<u8>(), 0..60),
        other in prop::collection::vec(any::<u8>(), 0..60),
        change in prop::collection::vec(any::<u8>(), 12),
    ) {
        let mut near = a.clone();
        mutate(&mut near, &mut Choices::new(&change));
        let text = written(&a, &style);
        prop_assert_eq!(read(&text), Some(a.clone()), "the oracle reads {}", text);
        agrees(&text, &written(&a, &other))?;
        agrees(&text, &written(&near, &style))?;
        agrees(&text, &written(&near, &other))?;
        agrees(&text, &written(&b, &other))?;
    }

    #[test]
    fn a_value_and_its_text_with_shortest_lexemes_have_the_same_bytes(
        value in value(), style in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let text = written(&tree_of(&value), &style);
        prop_assert_eq!(Canonical::json(text.as_bytes()).unwrap(), Canonical::value(&value), "{}", text);
    }

    /// Texts changed letter by letter: most are no JSON any more, and some are another JSON.
    #[test]
    fn texts_with_one_changed_character_agree_with_the_oracle(
        tree in tree(),
        style in prop::collection::vec(any::<u8>(), 0..30),
        at: prop::sample::Index,
        with in prop::sample::select(vec!["", "0", "1", "-", ".", "e", "\"", "\\", "u", "[", "]", "{", "}", ",", ":", " ", "\n", "\u{0}", "é", "\\u0061", "\\ud83d", "t"]),
        insert: bool,
    ) {
        let text = written(&tree, &style);
        let characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len());
        let rest = if insert { at } else { at + 1 };
        let changed: String =
            characters[..at].iter().copied().chain(with.chars()).chain(characters[rest..].iter().copied()).collect();
        let found = Canonical::json(changed.as_bytes());
        prop_assert_eq!(found.is_ok(), read(&changed).is_some(), "{}", changed);
        if found.is_ok() {
            agrees(&text, &changed)?;
        }
    }
}

#[test]
fn numbers_keep_their_lexeme() {
    let lexemes = [
        "0",
        "-0",
        "0.0",
        "0e0",
        "1",
        "1.0",
        "1e0",
        "1E0",
        "1e+0",
        "10e-1",
        "18446744073709551616",
        "18446744073709551617",
        "1e999",
        "9007199254740993",
    ];
    for (n, a) in lexemes.iter().enumerate() {
        for b in &lexemes[n + 1..] {
            let bytes = |lexeme: &str| Canonical::json(format!("[{lexeme}]").as_bytes()).unwrap();
            assert_ne!(bytes(a), bytes(b), "{a} and {b}");
        }
    }
}

#[test]
fn escapes_white_space_and_key_order_are_insignificant() {
    let bytes = |text: &str| Canonical::json(text.as_bytes()).unwrap();
    let plain = bytes(r#"{"a":"A/🐋\n","b":{"c":[],"d":{}}}"#);
    assert_eq!(
        bytes(
            "\t{\"\\u0062\" : { \"d\":{ }\n,\"c\":[\r\n] } , \"\\u0061\":\"\\u0041\\/\\ud83D\\uDC0b\\u000A\" }\n"
        ),
        plain
    );
    assert_eq!(
        plain.as_bytes(),
        "{s\u{1}as\u{7}A/🐋\ns\u{1}b{s\u{1}c[es\u{1}d{eee".as_bytes()
    );
}

/// The end of a run of plain bytes is found at every offset.
#[test]
fn strings_of_any_length_are_scanned_to_their_end() {
    for length in 0..40 {
        for neighbour in [
            "", "!", "#", "[", "]", " ", "\u{7f}", "é", "\u{20ac}", "🐋", "\\\"", "\\\\", "\\n",
        ] {
            for after in ["", "x", "\u{a2}\u{dc}"] {
                let text = format!("[\"{}{neighbour}{after}\",\"\"]", "y".repeat(length));
                let tree = read(&text).unwrap();
                let again = written(&tree, &[2; 200]);
                agrees(&text, &again).unwrap();
                let read = Canonical::json(text.as_bytes()).unwrap().readable();
                assert_eq!(read, serde_json::from_str::<Value>(&text).unwrap());
            }
        }
    }
}

#[test]
fn omitted_members_have_no_effect_but_are_checked() {
    let without = |text: &str| Canonical::json_without(text.as_bytes(), &["stream", "user"]);
    let expected = Canonical::json(br#"{"a": {"stream": 1}, "b": 2}"#).unwrap();
    for text in [
        r#"{"a": {"stream": 1}, "b": 2}"#,
        r#"{"stream": true, "a": {"stream": 1}, "b": 2}"#,
        r#"{"b": 2, "user": {"x": [1]}, "a": {"stream": 1}, "stream": false}"#,
        r#"{"b": 2, "str\u0065am": null, "a": {"stream": 1}}"#,
    ] {
        assert_eq!(without(text).unwrap(), expected, "{text}");
    }
    assert_ne!(
        without(r#"{"a": {"stream": 2}, "b": 2}"#).unwrap(),
        expected
    );
    for text in [
        r#"{"stream": 1, "b": 2, "stream": 1}"#,
        r#"{"stream": 1, "str\u0065am": 1}"#,
        r#"{"stream": {"x": 1, "x": 1}}"#,
        r#"{"stream": }"#,
        r#"{"stream": true, }"#,
    ] {
        assert!(without(text).is_err(), "{text}");
    }
    // Only an object has members.
    let array = without(r#"[{"stream": 1}]"#).unwrap();
    assert_eq!(array, Canonical::json(br#"[{"stream": 1}]"#).unwrap());
}

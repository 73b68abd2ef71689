use cachalot_core::tree::{Node, NodeKind, parse};
use proptest::prelude::*;
use serde_json::Value;

use super::places::check_nesting;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "[a-zé🐋 \\n\\t\"'#:{}\\[\\],&*!|>%@`?-]{0,12}",
        Just("null".to_owned()),
        Just("010".to_owned()),
        "[0-9.eE+-]{1,6}",
    ]
}

fn document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Writes `value` in block style, with comments, blank lines and odd indentation on the way.
fn write_block(value: &Value, indent: usize, noise: &mut impl FnMut() -> usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write_noise(noise, out);
                out.push_str(&format!("{pad}-"));
                write_child(item, indent + 1, noise, out);
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                write_noise(noise, out);
                out.push_str(&format!("{pad}{}:", Value::from(key.as_str())));
                write_child(field, indent + 1, noise, out);
            }
        }
        scalar => out.push_str(&format!("{pad}{scalar}\n")),
    }
}

fn write_noise(noise: &mut impl FnMut() -> usize, out: &mut String) {
    out.push_str(["", "", "\n", "# é: | x\n", "# - y\n"][noise() % 5]);
}

fn write_child(value: &Value, indent: usize, noise: &mut impl FnMut() -> usize, out: &mut String) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push_str(["\n", " # ö\n", " !!seq\n", " &a # |\n"][noise() % 4]);
            write_block(value, indent + noise() % 3, noise, out);
        }
        Value::Object(fields) if !fields.is_empty() => {
            out.push_str(["\n", " # ö\n", " !!map &m\n", " &a # |\n"][noise() % 4]);
            write_block(value, indent + noise() % 3, noise, out);
        }
        // A block text keeps what begins and ends with something visible.
        Value::String(text) if noise().is_multiple_of(2) && fits_a_block_text(text) => {
            out.push_str([" |-\n", " !!str |-\n", " |- # | é\n"][noise() % 3]);
            let pad = " ".repeat(indent + 1);
            for line in text.split('\n') {
                out.push_str(&format!("{pad}{line}\n"));
            }
        }
        scalar => out.push_str(&format!(" {scalar}{}\n", ["", " # ñ", "  "][noise() % 3])),
    }
}

fn fits_a_block_text(text: &str) -> bool {
    let visible = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
    visible(text.chars().next()) && visible(text.chars().last())
}

/// The text at the place of every scalar has the value of that scalar.
fn check_places(source: &str, node: &Node) {
    let place = &node.place;
    let written = &source[place.start..place.start + place.len];
    let before = &source[..place.start];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    assert_eq!(place.line as usize, before.matches('\n').count() + 1);
    assert_eq!(
        place.column as usize,
        before[line_start..].chars().count() + 1
    );
    match &node.kind {
        NodeKind::List(items) => items.iter().for_each(|item| check_places(source, item)),
        NodeKind::Map(entries) => entries.iter().for_each(|entry| {
            let place = &entry.key_place;
            let key = &source[place.start..place.start + place.len];
            assert_eq!(serde_json::from_str::<String>(key).unwrap(), entry.key);
            check_places(source, &entry.value);
        }),
        NodeKind::Text(text) if written.starts_with('|') => {
            let first = source
                .split('\n')
                .nth(node.text_first_line(source) as usize - 1)
                .unwrap();
            assert_eq!(
                first.trim_start(),
                text.split('\n').next().unwrap().trim_start()
            );
        }
        // Not by serde_json: it reads some floats one step beside their value.
        NodeKind::Float(float) => {
            assert_eq!(written.parse::<f64>().unwrap().to_bits(), float.to_bits())
        }
        _ => assert_eq!(
            serde_json::from_str::<Value>(written).unwrap(),
            node.to_value()
        ),
    }
}

/// JSON text with escapes for all that is not ASCII, as many writers write it.
fn in_ascii(text: &str) -> String {
    let escape = |character: char| match character {
        ascii if ascii.is_ascii() => ascii.to_string(),
        other => {
            let mut units = [0; 2];
            let units = other.encode_utf16(&mut units).iter();
            units.map(|unit| format!("\\u{unit:04x}")).collect()
        }
    };
    text.chars().map(escape).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn json_is_read_as_by_a_json_reader(value in document(), pretty: bool, escaped: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = if escaped { in_ascii(&text.unwrap()) } else { text.unwrap() };
        let node = parse("x", &text).unwrap();
        prop_assert_eq!(node.to_value(), value);
        check_places(&text, &node);
        check_nesting(&node);
    }

    #[test]
    fn block_style_equals_json_and_places_are_exact(
        value in document(),
        noise in prop::collection::vec(0_usize..60, 1..40),
        mark: bool,
    ) {
        let mut at = 0;
        let mut next = || { at += 1; noise[at % noise.len()] };
        let mut text = if mark { "\u{feff}".to_owned() } else { String::new() };
        write_block(&value, 0, &mut next, &mut text);
        let node = parse("x", &text);
        prop_assert!(node.is_ok(), "{}\n{:?}", text, node);
        let node = node.unwrap();
        prop_assert_eq!(node.to_value(), value, "{}", text);
        let unmarked = text.trim_start_matches('\u{feff}');
        if !mark {
            check_places(unmarked, &node);
        }
        check_nesting(&node);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse("x", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn yaml_fragments_do_not_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "a", "é", "1", ": ", ":", "- ", "-", "? ", "\n", "\r\n", "  ", " ", "\t", "|", ">", "+", "2",
                "'", "\"", "\\", "[", "]", "{", "}", ",", "#", " #", "&a", "*a", "&a ", "*a ", "!", "!!str ",
                "!!int ", "!<x>", "<<: ", "---", "...", "%YAML 1.2\n", "%TAG ! x\n", "\u{feff}", "\0", "🐋",
                "\\ud83d\\ude00", "\\ud83d", "\\ue000", "\u{e000}", "\u{85}", "\u{2028}", "~", "null", "0x", ".inf", "key: ", "{{ x }}",
            ]),
            0..40,
        )
    ) {
        let text = parts.concat();
        match parse("x", &text) {
            Ok(node) => {
                let _ = (node.to_value(), node.head(), node.text_first_line(&text));
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    let place = problem.place.unwrap();
                    prop_assert!(text.get(place.start..place.start + place.len).is_some());
                }
            }
        }
    }
}

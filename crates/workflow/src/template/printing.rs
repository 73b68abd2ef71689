//! The text of values, as Python prints them.

use minijinja::Value;
use minijinja::value::ValueKind;

/// The maximum nesting depth that is printed. Python has no such limit but that of its stack.
const MAX_DEPTH: usize = 150;

/// Returns the text that Python's `str` gives for a value.
pub(super) fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let mut text = String::new();
            write(value, 0, &mut text);
            text
        }
    }
}

/// Writes the text that Python's `repr` gives for a value.
fn write(value: &Value, depth: usize, out: &mut String) {
    if depth > MAX_DEPTH {
        return out.push('…');
    }
    match value.kind() {
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Number if !value.is_integer() => {
            out.push_str(&float(f64::try_from(value.clone()).unwrap_or(f64::NAN)));
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if is_tuple(value) {
                ('(', ')')
            } else {
                ('[', ']')
            };
            out.push(open);
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                separate(count, out);
                count += 1;
                write(&item, depth + 1, out);
            }
            if count == 1 && open == '(' {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (count, key) in value.try_iter().into_iter().flatten().enumerate() {
                separate(count, out);
                write(&key, depth + 1, out);
                out.push_str(": ");
                write(&value.get_item(&key).unwrap_or_default(), depth + 1, out);
            }
            out.push('}');
        }
        ValueKind::Undefined if depth > 0 => out.push_str("Undefined"),
        _ => out.push_str(&value.to_string()),
    }
}

fn separate(count: usize, out: &mut String) {
    if count > 0 {
        out.push_str(", ");
    }
}

/// True for what is a tuple in Jinja2.
fn is_tuple(value: &Value) -> bool {
    value.is_tuple() || value.downcast_object_ref::<super::group::Group>().is_some()
}

/// Returns the text of a float: the shortest digits that identify it, with an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    // The thresholds of `Debug` are those of Python; the exponent has neither its sign nor two digits.
    let text = format!("{value:?}");
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

/// Writes a text in quotes: in single ones, unless it has some and no double ones.
fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            character if character == quote => out.extend(['\\', quote]),
            character if is_printable(character) => out.push(character),
            character => match u32::from(character) {
                code @ ..=0xff => out.push_str(&format!("\\x{code:02x}")),
                code @ ..=0xffff => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    out.push(quote);
}

/// True for characters that Python prints as they are. `Debug` escapes those that it does not print, and combining
/// marks at the beginning of a text, which it prints.
fn is_printable(character: char) -> bool {
    let after_letter = || String::from_iter(['a', character]);
    matches!(character, ' '..='~') || after_letter().escape_debug().eq(after_letter().chars())
}

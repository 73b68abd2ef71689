//! Filters of texts.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, State, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::arguments::{self, Given};
use crate::template::error::invalid;
use crate::template::operators::checked_undefined;
use crate::template::{bounds, printing};

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter("string", text);
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
    environment.add_filter("striptags", striptags);
    environment.add_filter("replace", replace);
    environment.add_filter("indent", indent);
    environment.add_filter("truncate", truncate);
    environment.add_filter("urlencode", urlencode);
    environment.add_filter("wordcount", wordcount);
}

/// Returns the text of a value.
fn text(state: &State, value: &Value) -> Result<String, Error> {
    checked_undefined(state, value)?;
    bounds::check(value)?;
    Ok(printing::text(value))
}

/// Escapes a text for HTML, once.
fn escape(state: &State, value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let mut escaped = String::new();
    for character in text(state, value)?.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    Ok(Value::from_safe_string(escaped))
}

fn striptags(state: &State, value: &Value) -> Result<String, Error> {
    Ok(minijinja_contrib::filters::striptags(text(state, value)?))
}

fn replace(state: &State, value: &Value, given: Given) -> Result<String, Error> {
    let [old, new, count] = arguments::read(given, ["old", "new", "count"])?;
    let part = |part: Option<Value>, name: &str| match part {
        Some(part) => text(state, &part),
        None => Err(invalid(format!("replace: `{name}` is missing"))),
    };
    let (old, new) = (part(old, "old")?, part(new, "new")?);
    let value = text(state, value)?;
    bounds::check_replaced(&value, &old, &new)?;
    Ok(match count.filter(|count| !count.is_none()) {
        None => value.replace(&old, &new),
        count => value.replacen(&old, &new, arguments::size(count, 0)?),
    })
}

fn indent(state: &State, value: &Value, given: Given) -> Result<String, Error> {
    let [width, first, blank] = arguments::read(given, ["width", "first", "blank"])?;
    let indentation = match width.as_ref().and_then(|width| width.as_str()) {
        Some(indentation) => indentation.to_owned(),
        None => {
            let width = arguments::size(width, 4)?;
            bounds::check_count(width)?;
            " ".repeat(width)
        }
    };
    let value = text(state, value)?;
    let lines: Vec<&str> = value.split('\n').collect();
    bounds::check_size(lines.len().checked_mul(indentation.len()))?;
    let (first, blank) = (arguments::is_set(first), arguments::is_set(blank));
    let indented = lines.iter().enumerate().map(|(at, line)| {
        let is_indented = match at {
            0 => first,
            _ => blank || !line.is_empty(),
        };
        if is_indented {
            format!("{indentation}{line}")
        } else {
            (*line).to_owned()
        }
    });
    Ok(indented.collect::<Vec<String>>().join("\n"))
}

/// Shortens a text of more than `length` and `leeway` characters to `length` characters, at a blank.
fn truncate(state: &State, value: &Value, given: Given) -> Result<String, Error> {
    let names = ["length", "killwords", "end", "leeway"];
    let [length, killwords, end, leeway] = arguments::read(given, names)?;
    let (length, leeway) = (arguments::size(length, 255)?, arguments::size(leeway, 5)?);
    let end = end.as_ref().map_or("...".to_owned(), printing::text);
    let value = text(state, value)?;
    let Some(kept) = length.checked_sub(end.chars().count()) else {
        return Err(invalid(format!(
            "truncate: `end` is longer than {length} characters"
        )));
    };
    if value.chars().count() <= length.saturating_add(leeway) {
        return Ok(value);
    }
    let kept: String = value.chars().take(kept).collect();
    let words = if arguments::is_set(killwords) {
        &kept
    } else {
        kept.rsplit_once(' ')
            .map_or(kept.as_str(), |(words, _)| words)
    };
    Ok(format!("{words}{end}"))
}

/// The characters that stay as they are in the query of a URL.
const QUERY: AsciiSet = NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~');

/// The characters that stay as they are in a URL.
const URL: AsciiSet = QUERY.remove(b'/');

fn urlencode(state: &State, value: &Value) -> Result<String, Error> {
    let query = |part: &Value| -> Result<String, Error> {
        let encoded = utf8_percent_encode(&text(state, part)?, &QUERY).to_string();
        Ok(encoded.replace("%20", "+"))
    };
    let pair = |key: &Value, field: &Value| -> Result<String, Error> {
        Ok(format!("{}={}", query(key)?, query(field)?))
    };
    let pairs: Vec<String> = match value.kind() {
        ValueKind::Map => {
            let pairs = value
                .try_iter()?
                .map(|key| pair(&key, &value.get_item(&key)?));
            pairs.collect::<Result<_, Error>>()?
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let pairs = value.try_iter()?.map(|item| match item.len() {
                Some(2) => pair(&item.get_item_by_index(0)?, &item.get_item_by_index(1)?),
                _ => Err(invalid(
                    "urlencode takes a text, a mapping or pairs: an item is no pair",
                )),
            });
            pairs.collect::<Result<_, Error>>()?
        }
        _ => return Ok(utf8_percent_encode(&text(state, value)?, &URL).to_string()),
    };
    Ok(pairs.join("&"))
}

/// Counts the sequences of letters, digits and `_`.
fn wordcount(state: &State, value: &Value) -> Result<usize, Error> {
    let value = text(state, value)?;
    let words = value.split(|character: char| !character.is_alphanumeric() && character != '_');
    Ok(words.filter(|word| !word.is_empty()).count())
}

//! Bounds for the memory of a template. The steps of a template are limited, but one step can double a text: sixty
//! of them would make more than any machine has.
//!
//! The operands of `~`, `+` and `*` and the values of variables are checked ([`OPERAND`], which [`super::compile`]
//! inserts), the results of filters and methods that multiply a text, all text that is printed, and the result.

use std::ops::ControlFlow;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value, filters};

use super::printing;

/// The maximum size of a value in bytes; an element of a list counts as [`ELEMENT_BYTES`].
pub(super) const MAX_VALUE_BYTES: usize = 64 << 20;

/// The maximum size of all text that a template prints, also into variables and by macros.
const MAX_PRINTED_BYTES: usize = 128 << 20;

/// The size of a value without its content.
const ELEMENT_BYTES: usize = 32;

/// The maximum number of spaces and of parts that a filter adds, and the maximum width of a formatted value.
const MAX_COUNT: usize = 1_000_000;

/// The maximum depth at which the size of a value is measured. Deeper values cannot be printed.
const MAX_DEPTH: usize = 150;

/// The filter that checks an operand and returns it unchanged.
pub(super) const OPERAND: &str = "__operand";

/// Adds the checks to an engine.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter(OPERAND, |value: Value| checked(value));
    environment.add_filter("format", format);
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.set_formatter(print);
    environment.set_unknown_method_callback(call_method);
}

/// Returns an error if a value is too large.
pub(super) fn check(value: &Value) -> Result<(), Error> {
    size(value).map(drop)
}

/// Returns the size of a value, or an error if it is too large.
fn size(value: &Value) -> Result<usize, Error> {
    match measure(value, MAX_VALUE_BYTES, 0) {
        ControlFlow::Continue(left) => Ok(MAX_VALUE_BYTES - left),
        ControlFlow::Break(()) => Err(too_large("a value", MAX_VALUE_BYTES)),
    }
}

fn checked(value: Value) -> Result<Value, Error> {
    check(&value).map(|()| value)
}

fn too_large(what: &str, limit: usize) -> Error {
    let message = format!("the template makes {what} of more than {} MiB", limit >> 20);
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Returns an error if a text of this size is too large.
pub(super) fn check_size(bytes: Option<usize>) -> Result<(), Error> {
    if bytes.is_some_and(|bytes| bytes <= MAX_VALUE_BYTES) {
        Ok(())
    } else {
        Err(too_large("a value", MAX_VALUE_BYTES))
    }
}

/// Subtracts the size of a value from `left`; breaks if less is left. Stops as soon as that is known, because a
/// small value can contain another one many times.
fn measure(value: &Value, left: usize, depth: usize) -> ControlFlow<(), usize> {
    let subtract = |left: usize, bytes: usize| match left.checked_sub(bytes) {
        Some(left) => ControlFlow::Continue(left),
        None => ControlFlow::Break(()),
    };
    let mut left = subtract(left, ELEMENT_BYTES)?;
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => {
            return subtract(left, value.as_bytes().map_or(0, <[u8]>::len));
        }
        // Without a length, it may be iterable once only.
        ValueKind::Iterable if value.len().is_none() => {}
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable if depth < MAX_DEPTH => {
            // At once for one that is far too long.
            let length = value.len().unwrap_or_default();
            subtract(left, length.saturating_mul(ELEMENT_BYTES))?;
            let is_map = value.kind() == ValueKind::Map;
            for item in value.try_iter().into_iter().flatten() {
                left = measure(&item, left, depth + 1)?;
                if let (true, Ok(field)) = (is_map, value.get_item(&item)) {
                    left = measure(&field, left, depth + 1)?;
                }
            }
        }
        _ => {}
    }
    ControlFlow::Continue(left)
}

/// The size of the text that a template has printed.
#[derive(Default)]
struct Printed(usize);

fn print(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let size = size(value)?;
    let bytes = value.as_bytes().map_or(size, <[u8]>::len);
    let printed = state.get_or_insert_extension(Printed::default());
    printed.0 = printed.0.saturating_add(bytes);
    if printed.0 > MAX_PRINTED_BYTES {
        return Err(too_large("a text", MAX_PRINTED_BYTES));
    }
    match (state.auto_escape(), value.as_str()) {
        (AutoEscape::None, Some(text)) => Ok(output.write_str(text)?),
        (AutoEscape::None, None) => Ok(output.write_str(&printing::text(value))?),
        _ => minijinja::escape_formatter(output, state, value),
    }
}

pub(super) fn check_replaced(text: &str, from: &str, to: &str) -> Result<(), Error> {
    let more = to.len().saturating_sub(from.len());
    if more == 0 {
        return Ok(());
    }
    let found = text.matches(from).count();
    let added = found.checked_mul(more);
    check_size(added.and_then(|added| added.checked_add(text.len())))
}

fn check_joined(items: &Value, joiner: &str) -> Result<(), Error> {
    check(items)?;
    let length = items.len().unwrap_or_default();
    check_size(joiner.len().checked_mul(length))
}

/// Checks a text with places, each of which begins with `mark`: one per argument, or several for one.
fn check_formatted<'a>(
    text: &str,
    mark: char,
    arguments: impl Iterator<Item = &'a Value>,
) -> Result<(), Error> {
    let places = Places::new(text, mark)?;
    let (mut sum, mut largest) = (0_usize, 0);
    for argument in arguments {
        let size = size(argument)?;
        (sum, largest) = (sum.saturating_add(size), largest.max(size));
    }
    let inserted = if places.name_arguments {
        // Any of them may insert the largest.
        places.count.saturating_mul(largest)
    } else {
        sum
    };
    let fixed = text.len().saturating_add(places.fill_bytes);
    check_size(inserted.checked_add(fixed))
}

/// The places of a text for `format`.
#[derive(Default)]
struct Places {
    count: usize,
    /// True if a place names its argument, so that several places can insert the same one.
    name_arguments: bool,
    /// The maximum size of the text that fills values up to their widths.
    fill_bytes: usize,
}

impl Places {
    /// Finds the places, each of which begins with `mark`, as the engine does. Fails if a width is too large.
    fn new(text: &str, mark: char) -> Result<Self, Error> {
        /// The maximum size of the character with which a value is filled.
        const FILL_BYTES: usize = 4;
        let mut places = Self::default();
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(mark) {
            if let Some(escaped) = after.strip_prefix(mark) {
                rest = escaped;
                continue;
            }
            let (name, numbers) = match mark {
                '%' => printf_place(after),
                _ => braced_place(after),
            };
            let (numbers, after) = numbers.split_at(spec_length(numbers));
            rest = after;
            places.count += 1;
            places.name_arguments |= !name.is_empty();
            let digits = numbers.split(|character: char| !character.is_ascii_digit());
            for digits in digits.filter(|digits| !digits.is_empty()) {
                let width = digits.parse().unwrap_or(usize::MAX);
                check_count(width)?;
                places.fill_bytes = places.fill_bytes.saturating_add(width * FILL_BYTES);
            }
        }
        Ok(places)
    }
}

/// Returns the length of the flags, the width and the precision with which a text begins.
fn spec_length(text: &str) -> usize {
    let is_part = |character: char| character.is_ascii_digit() || "+- #,_.".contains(character);
    text.find(|character: char| !is_part(character))
        .unwrap_or(text.len())
}

/// Splits the text after `%` into the name of the argument and the rest.
fn printf_place(text: &str) -> (&str, &str) {
    let named = text
        .strip_prefix('(')
        .and_then(|named| named.split_once(')'));
    named.unwrap_or(("", text))
}

/// Splits the text after `{` into the name of the argument, and the text after the colon, the fill character and
/// the alignment.
fn braced_place(text: &str) -> (&str, &str) {
    let mut is_in_key = false;
    let end = text.find(|character: char| {
        match character {
            '[' => is_in_key = true,
            ']' => is_in_key = false,
            _ => {}
        }
        !is_in_key && matches!(character, ':' | '}')
    });
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let Some(spec) = rest.strip_prefix(':') else {
        return (name, rest);
    };
    let mut characters = spec.chars();
    let (first, second) = (characters.next(), characters.next());
    let is_alignment =
        |character: Option<char>| character.is_some_and(|character| "<>^".contains(character));
    let fill = first
        .filter(|_| is_alignment(second))
        .map_or(0, char::len_utf8);
    let spec = &spec[fill..];
    (name, spec.strip_prefix(['<', '>', '^']).unwrap_or(spec))
}

pub(super) fn check_count(count: usize) -> Result<(), Error> {
    if count <= MAX_COUNT {
        Ok(())
    } else {
        Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("the template asks for {count} parts or spaces; the maximum is {MAX_COUNT}"),
        ))
    }
}

fn format(state: &mut State, text: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let values = arguments.iter().map(|argument| &**argument);
    check_formatted(text.as_str().unwrap_or_default(), '%', values)?;
    filters::format(state, text, arguments)
}

fn batch(state: &State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    check_count(count)?;
    filters::batch(state, value, count, fill)
}

fn slice(state: &State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    check_count(count)?;
    filters::slice(state, value, count, fill)
}

/// Calls a method of Python that a value has.
fn call_method(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match (method, value.as_str(), arguments) {
        ("replace", Some(text), [from, to, ..]) => {
            if let (Some(from), Some(to)) = (from.as_str(), to.as_str()) {
                check_replaced(text, from, to)?;
            }
        }
        ("join", Some(joiner), [items, ..]) => check_joined(items, joiner)?,
        ("format", Some(text), arguments) => check_formatted(text, '{', arguments.iter())?,
        _ => {}
    }
    let result =
        minijinja_contrib::pycompat::unknown_method_callback(state, value, method, arguments)?;
    checked(result)
}

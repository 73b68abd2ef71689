//! Checks at run time, for constructs of the [allow-list](super::supported) that compute what CPython
//! computes for some values only. A guard returns its argument, or refuses the block.

use std::collections::BTreeSet;

/// The beginning of the message with which a guard refuses a value.
pub(super) const PREFIX: &str = "embedded Python: ";

/// A check of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Guard {
    /// An operand of `/`.
    Divided,
    /// An operand of `//`.
    Whole,
    /// A key of a dict, or an index.
    Key,
    /// The argument of `dict`.
    Pairs,
    /// The argument of `update`.
    Mapping,
    /// Text whose white space is looked for.
    Text,
    /// Text whose letters are looked at.
    Ascii,
    /// The argument of `int` and `float`.
    Numeral,
    /// The text of `json.loads`.
    Document,
    /// A value that becomes text.
    Shown,
    /// A value with a format specification.
    Formatted,
    /// The argument of an exception.
    Message,
}

impl Guard {
    /// Returns the name of the function.
    pub(super) fn function(self) -> &'static str {
        match self {
            Self::Divided => "__divided__",
            Self::Whole => "__whole__",
            Self::Key => "__key__",
            Self::Pairs => "__pairs__",
            Self::Mapping => "__mapping__",
            Self::Text => "__text__",
            Self::Ascii => "__ascii__",
            Self::Numeral => "__numeral__",
            Self::Document => "__document__",
            Self::Shown => "__shown__",
            Self::Formatted => "__formatted__",
            Self::Message => "__message__",
        }
    }

    /// The guards that this one calls.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Pairs => &[Self::Key],
            Self::Formatted => &[Self::Shown],
            _ => &[],
        }
    }

    /// Returns the text of the function.
    fn source(self) -> &'static str {
        match self {
            // CPython rounds the exact quotient, the interpreter its operands first.
            Self::Divided => {
                "\
def __divided__(value):
    if type(value) is int and not -9007199254740992 <= value <= 9007199254740992:
        __refuse__('`/` with an integer beyond 2**53')
    return value
"
            }
            // CPython computes the floor from the exact remainder, the interpreter from the quotient.
            Self::Whole => {
                "\
def __whole__(value):
    if type(value) is float:
        __refuse__('`//` with a float')
    return value
"
            }
            // CPython keeps the first of several equal keys (`1`, `1.0`, `True`), the interpreter the last.
            Self::Key => {
                "\
def __key__(key):
    kind = type(key)
    if kind is tuple:
        for part in key:
            __key__(part)
    elif kind is bool or kind is float:
        __refuse__('a ' + kind.__name__ + ' as a key')
    return key
"
            }
            Self::Pairs => {
                "\
def __pairs__(items):
    if type(items) is not dict:
        items = list(items)
        for pair in items:
            if type(pair) is not tuple and type(pair) is not list or len(pair) != 2:
                __refuse__('`dict` of anything but pairs')
            __key__(pair[0])
    return items
"
            }
            Self::Mapping => {
                "\
def __mapping__(items):
    if type(items) is not dict:
        __refuse__('`update` with anything but a dict')
    return items
"
            }
            // White space in Python, but not in Unicode.
            Self::Text => {
                "\
def __text__(text):
    if type(text) is str and ('\\x1c' in text or '\\x1d' in text or '\\x1e' in text or '\\x1f' in text):
        __refuse__('white space in text with a character from U+001C to U+001F')
    return text
"
            }
            // The class and the case of some letters of other scripts differ.
            Self::Ascii => {
                "\
def __ascii__(text):
    if type(text) is str:
        for char in text:
            if char > '~':
                __refuse__('classes of characters, and case, in text beyond ASCII')
    return text
"
            }
            // CPython reads digits of other scripts and `_`. It compares NaNs in containers by identity.
            Self::Numeral => {
                "\
def __numeral__(value):
    if type(value) is str:
        for char in value:
            if char > '~' or char == '_' or '\\x1c' <= char <= '\\x1f':
                __refuse__('a number written as ' + repr(value))
        if value.strip().lower().lstrip('+-') == 'nan':
            __refuse__('a NaN')
    return value
"
            }
            Self::Document => {
                "\
def __document__(text):
    if type(text) is str and 'NaN' in text:
        __refuse__('`NaN` in JSON')
    return text
"
            }
            // CPython takes the even one of two shortest texts at the same distance. Functions show their
            // addresses.
            Self::Shown => {
                "\
def __shown__(value, depth=100):
    kind = type(value)
    if kind is float:
        digits = repr(value).partition('e')[0].replace('.', '').strip('-0')
        if len(digits) > 15:
            exact = f'{value:.60e}'.partition('e')[0].replace('.', '').strip('-')[len(digits):]
            if exact.startswith('50000000000000000000'):
                __refuse__('the text of the float ' + f'{value:.25e}')
    elif kind is list or kind is tuple or kind is dict:
        if depth == 0:
            __refuse__('the text of a value nested more than 100 levels deep')
        for part in value:
            __shown__(part, depth - 1)
        if kind is dict:
            for part in value.values():
                __shown__(part, depth - 1)
    elif value is not None and kind is not str and kind is not int and kind is not bool:
        __refuse__('the text of a value of type `' + kind.__name__ + '`')
    return value
"
            }
            Self::Formatted => {
                "\
def __formatted__(value):
    kind = type(value)
    if kind is not str and kind is not int and kind is not float and kind is not bool:
        __refuse__('a format of a value of type `' + kind.__name__ + '`')
    return __shown__(value)
"
            }
            Self::Message => {
                "\
def __message__(text):
    if type(text) is not str:
        __refuse__('an exception with anything but text')
    return text
"
            }
        }
    }
}

/// Returns the text of the guards, for the front of a block; empty without guards.
pub(super) fn text(guards: &BTreeSet<Guard>) -> String {
    if guards.is_empty() {
        return String::new();
    }
    let mut all = guards.clone();
    all.extend(guards.iter().flat_map(|guard| guard.needs()));
    let mut text =
        format!("def __refuse__(what):\n    raise NotImplementedError('{PREFIX}' + what)\n");
    for guard in all {
        text.push_str(guard.source());
    }
    text
}

//! Turns errors of the embedded interpreter into failures with a hint.
//!
//! The interpreter implements a part of Python. Where a block uses something beyond that part, the
//! interpreter's own message would blame the block; this module names the missing feature and a
//! workaround.

use std::time::Duration;

use cachalot_core::text::word_list;
use monty_types::{ExcType, MontyException};

use super::block::{BlockError, MAX_BYTES, Program};
use super::python_builtins::{METHODS, lacks_builtin};
use super::unsupported::{self, NO_ACCESS, Unsupported, WORKAROUND};
use super::{ScriptFailure, limits};

/// Prefix of an exception's message if a helper rejects something.
const HELPER_PREFIX: &str = "embedded Python: ";

/// Returns the failure of a block that was rejected before it ran.
pub(super) fn block_error(block_error: &BlockError, first_line: u32) -> ScriptFailure {
    let of_file = |line: u32| first_line.saturating_add(line.saturating_sub(1));
    match block_error {
        BlockError::Syntax { message, line } => ScriptFailure::new(
            "script_error",
            format!("SyntaxError: {message}"),
            Some(of_file(*line)),
        ),
        BlockError::Unsupported { what, line } => unsupported(what, Some(of_file(*line))),
        BlockError::TooLong { bytes } => ScriptFailure::new(
            "script_error",
            format!(
                "the block is {bytes} bytes long; the limit is {MAX_BYTES}: move data into a file"
            ),
            Some(first_line),
        ),
    }
}

/// Returns the failure for an exception of a program whose block begins on line `first_line` of the file.
/// `time_limit` is that of the run; `None` if the exception was raised before the first statement ran.
pub(super) fn exception(
    raised: &MontyException,
    program: &Program,
    first_line: u32,
    time_limit: Option<Duration>,
) -> ScriptFailure {
    let line = raised
        .traceback()
        .iter()
        .rev()
        .find_map(|frame| program.line_of_block(frame.start.line))
        .map(|line| first_line.saturating_add(line - 1));
    let message = raised.message().unwrap_or_default();
    // True if a function of the block was called with wrong arguments.
    let is_own_function = message.split_once("() ").is_some_and(|(function, _)| {
        let name = function.rsplit('.').next().unwrap_or(function);
        program.text.contains(&format!("def {name}("))
    });
    let limitation = match is_own_function {
        true => None,
        false => limitation(raised.exc_type(), message, time_limit.is_none()),
    };
    match (raised.exc_type(), limitation) {
        (_, Some(what)) => unsupported(&what, line),
        (ExcType::TimeoutError, None) if message.starts_with("time limit exceeded") => {
            ScriptFailure::new(
                "script_timeout",
                limits::timed_out(time_limit.unwrap_or_default()),
                line,
            )
        }
        (ExcType::MemoryError, None) if message.starts_with("memory limit exceeded") => {
            ScriptFailure::new("script_memory", format!("MemoryError: {message}"), line)
        }
        _ => ScriptFailure::new("script_error", format_exception(raised), line),
    }
}

/// Formats the exception like the last line of a Python traceback.
fn format_exception(raised: &MontyException) -> String {
    match (raised.exc_type(), raised.message()) {
        // Python shows the `repr` of the key; the interpreter keeps only its text.
        (ExcType::KeyError, Some(key)) if !looks_like_a_literal(key) => {
            format!("KeyError: {}", monty_types::StringRepr(key))
        }
        _ => raised.summary(),
    }
}

fn looks_like_a_literal(key: &str) -> bool {
    key.parse::<f64>().is_ok()
        || matches!(key, "None" | "True" | "False")
        || key.starts_with(['\'', '"', '('])
}

/// Returns true if the text that was refused as a number is one in Python: with digits of other scripts, or
/// with `_` between the digits of a float.
fn is_number_of_python(message: &str) -> bool {
    let is_float = message.starts_with("could not convert string to float");
    if !is_float && !message.starts_with("invalid literal for int()") {
        return false;
    }
    let Some((_, shown)) = message.split_once(": ") else {
        return false;
    };
    let shown = shown.trim_matches(['\'', '"']).trim();
    // The message shows the `repr` of the text. Around a number, these characters are white space in Python.
    let text = ["\\x1c", "\\x1d", "\\x1e", "\\x1f"]
        .iter()
        .fold(shown, |text, escape| {
            text.trim_start_matches(escape).trim_end_matches(escape)
        });
    let has_foreign_digits = text.chars().any(|c| !c.is_ascii() && c.is_numeric());
    let has_separators = text.len() < shown.len();
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    has_foreign_digits
        || (has_separators || is_float && text.contains('_')) && plain.parse::<f64>().is_ok()
}

/// Returns the limitation of the interpreter that an exception indicates, if it indicates one.
pub(super) fn limitation(kind: ExcType, message: &str, compiling: bool) -> Option<Unsupported> {
    let plain = |what: String| Some(Unsupported::new(what, None));
    if kind == ExcType::NotImplementedError
        && let Some(what) = message.strip_prefix(HELPER_PREFIX)
    {
        return plain(what.to_owned());
    }
    if message.contains("not yet support") && !compiling {
        return plain(format!("this use of Python: {message}"));
    }
    match kind {
        ExcType::NotImplementedError if compiling => {
            let prefix = "The monty syntax parser does not yet support ";
            plain(message.strip_prefix(prefix).unwrap_or(message).to_owned())
        }
        ExcType::PermissionError if message.starts_with(NO_ACCESS) => plain(message.to_owned()),
        ExcType::RuntimeError if message.starts_with("Internal error in monty") => {
            plain(message.replacen("Internal error in monty: ", "this use of Python: ", 1))
        }
        ExcType::ModuleNotFoundError => plain(format!(
            "the module `{}`",
            quoted(message).unwrap_or(message)
        )),
        ExcType::ImportError => {
            let mut names = message.split('\'').skip(1).step_by(2);
            let (name, module) = (names.next()?, names.next()?);
            let part = plain(format!("`{name}` of the module `{module}`"));
            part.filter(|_| unsupported::is_module(module))
        }
        ExcType::NameError => {
            let name = quoted(message)?;
            plain(format!("the built-in `{name}`")).filter(|_| lacks_builtin(name))
        }
        ExcType::AttributeError => attribute(message).and_then(plain),
        ExcType::TypeError if message.contains("RegexFlag") => {
            plain(format!("this use of a flag of `re`: {message}"))
        }
        ExcType::TypeError => operation(message),
        ExcType::JsonDecodeError if message.contains("hex escape") => {
            plain(format!("half a surrogate pair in JSON: {message}"))
        }
        ExcType::LookupError if message.starts_with("unknown encoding") => {
            plain(format!("the text encoding in this: {message}"))
        }
        ExcType::ValueError if is_number_of_python(message) => {
            plain(format!("this number as text: {message}"))
        }
        ExcType::ValueError if message.starts_with("pow() ") => {
            plain(format!("this use of `pow`: {message}"))
        }
        _ => None,
    }
}

/// Returns the text between the first pair of quotes.
fn quoted(message: &str) -> Option<&str> {
    message.split('\'').nth(1)
}

/// Types of modules, whose methods are not listed here.
const OTHER_TYPES: [&str; 14] = word_list(
    "range function generator HASH Match Pattern Random RegexFlag UUID struct_time map zip filter \
     enumerate",
);

/// Returns a method or a part of a module that Python has and the interpreter lacks.
fn attribute(message: &str) -> Option<String> {
    let mut quoted = message.split('\'').skip(1).step_by(2);
    let (owner, name) = (quoted.next()?, quoted.next()?);
    if message.starts_with("module ") {
        return Some(format!("`{owner}.{name}`"));
    }
    if owner == "module" {
        return Some(format!("`{name}` of this module"));
    }
    let internal = name.starts_with("__") && name.ends_with("__");
    let foreign = owner.contains('.') || OTHER_TYPES.contains(&owner);
    let known = |(kind, names): &(&str, &str)| {
        *kind == owner && names.split(' ').any(|known| known == name)
    };
    (internal || foreign || METHODS.iter().any(known))
        .then(|| format!("this use of `{owner}.{name}`"))
}

/// Returns an operation between built-in types that Python has and the interpreter lacks.
fn operation(message: &str) -> Option<Unsupported> {
    let this_use = || Unsupported::new(format!("this use of Python: {message}"), None);
    if message.ends_with("not supported between instances of 'set' and 'set'") {
        return Some(Unsupported::new(
            format!("`{}` between sets", quoted(message)?),
            Some("`a.issubset(b)` and `a.issuperset(b)` compare sets"),
        ));
    }
    if let Some(operands) = message.strip_prefix("unsupported operand type(s) for ") {
        let mut kinds = operands.split('\'').skip(1).step_by(2);
        let (left, right) = (kinds.next()?, kinds.next()?);
        let number = |kind| matches!(kind, "bool" | "int" | "float");
        if (left == "bool" || right == "bool") && number(left) && number(right) {
            return Some(Unsupported::new(
                "arithmetic with a bool",
                Some("`int(flag)` makes a number of it"),
            ));
        }
    }
    if let Some((function, rest)) = message.split_once("() ")
        && !function.contains(' ')
        && (rest.starts_with("got an unexpected keyword")
            || rest.starts_with("takes ")
            || rest.starts_with("expected at most"))
    {
        return Some(Unsupported::new(
            format!("these arguments of `{function}`"),
            None,
        ));
    }
    if message.contains("'datetime.") && message.starts_with("unsupported operand") {
        return Some(this_use());
    }
    if let Some(kind) = message.strip_suffix(" object is not subscriptable")
        && ["'Match'", "'struct_time'"].contains(&kind)
    {
        return Some(Unsupported::new(
            format!("an item (`x[…]`) of {kind}"),
            None,
        ));
    }
    let lacking = [
        "can only concatenate list (not \"tuple\")",
        "can only concatenate list (not \"str\")",
        "can only concatenate list (not \"dict",
        "can only concatenate list (not \"range",
        "can only concatenate list (not \"set",
        "can only concatenate list (not \"generator",
        "can only concatenate list (not \"map",
        "can only concatenate list (not \"filter",
        "can only concatenate list (not \"zip",
        "cannot convert 'list' object to bytes",
        "cannot convert 'tuple' object to bytes",
        "isinstance() arg 2 must be",
        "float() argument must be a string or a real number, not 'int'",
        "must be real number, not int",
        "'float' object cannot be interpreted as an integer",
        "exceptions can only be called",
        "a bytes-like object is required",
    ];
    if lacking.iter().any(|it| message.starts_with(it)) {
        return Some(this_use());
    }
    let (what, instead) = if message.starts_with("unsupported operand type(s) for %: 'str' and") {
        (
            "`%` formatting of text",
            Some("an f-string or `.format()` does the same"),
        )
    } else if message == "unsupported operand type(s) for |: 'dict' and 'dict'" {
        ("`|` between dicts", Some("`{**a, **b}` does the same"))
    } else if message == "list indices must be integers or slices, not slice" {
        (
            "assigning to a slice",
            Some("build a new list from the parts"),
        )
    } else if message == "'type' object is not subscriptable"
        || (message.starts_with("unsupported operand type(s) for |: 'type'"))
    {
        (
            "types as values (`list[int]`, `int | None`)",
            Some("`isinstance(x, (a, b))` asks for one of several"),
        )
    } else if message.starts_with("print() ") && message.ends_with(" is not supported") {
        (
            "`print` to a file",
            Some("`print(value)` goes to the report"),
        )
    } else {
        return None;
    };
    Some(Unsupported::new(what, instead))
}

/// Returns the failure that names a limitation, its line and a workaround.
fn unsupported(limitation: &Unsupported, line: Option<u32>) -> ScriptFailure {
    let at = line.map_or_else(String::new, |line| format!(" (line {line})"));
    let what = &limitation.what;
    let said = if what.starts_with(NO_ACCESS) {
        format!("{what}{at}")
    } else {
        format!("the embedded Python does not know {what}{at}")
    };
    let instead = limitation
        .instead
        .map_or_else(String::new, |instead| format!("; {instead}"));
    ScriptFailure::new(
        "script_unsupported",
        format!("{said}{instead}; {WORKAROUND}"),
        line,
    )
}

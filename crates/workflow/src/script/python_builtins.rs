//! Names of Python's built-in functions, classes and methods.

use monty_types::BuiltinsFunctions;

/// Built-in names of Python that the embedded interpreter lacks, sorted.
const BUILTINS: &str = "BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning \
        ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError \
        ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError \
        ExceptionGroup FloatingPointError FutureWarning GeneratorExit IOError ImportWarning \
        IndentationError InterruptedError PendingDeprecationWarning ProcessLookupError \
        ReferenceError ResourceWarning RuntimeWarning StopAsyncIteration SyntaxWarning SystemError \
        TabError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning Warning __import__ \
        aiter anext ascii breakpoint bytearray callable classmethod compile complex delattr dir eval \
        exec exit format globals hash help input issubclass locals memoryview quit staticmethod super \
        vars";

/// Methods of Python's built-in types. A missing method in this list is a limitation of the interpreter,
/// any other name an error of the block.
pub(super) const METHODS: [(&str, &str); 9] = [
    (
        "str",
        "capitalize casefold center count encode endswith expandtabs find format format_map index \
            isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable \
            isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix \
            removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines \
            startswith strip swapcase title translate upper zfill",
    ),
    (
        "list",
        "append clear copy count extend index insert pop remove reverse sort",
    ),
    (
        "dict",
        "clear copy fromkeys get items keys pop popitem setdefault update values",
    ),
    (
        "set",
        "add clear copy difference difference_update discard intersection intersection_update \
            isdisjoint issubset issuperset pop remove symmetric_difference \
            symmetric_difference_update union update",
    ),
    (
        "frozenset",
        "copy difference intersection isdisjoint issubset issuperset symmetric_difference union",
    ),
    ("tuple", "count index"),
    (
        "bytes",
        "capitalize center count decode endswith expandtabs find fromhex hex index isalnum \
            isalpha isascii isdigit islower isspace istitle isupper join ljust lower lstrip \
            maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition \
            rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill",
    ),
    (
        "int",
        "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator \
            real to_bytes",
    ),
    (
        "float",
        "as_integer_ratio conjugate fromhex hex imag is_integer real",
    ),
];

/// True if Python has the built-in name and the interpreter lacks it.
pub(super) fn lacks_builtin(name: &str) -> bool {
    BUILTINS.split_ascii_whitespace().any(|it| it == name)
}

/// True for a built-in type whose methods are listed here.
pub(super) fn is_type(name: &str) -> bool {
    METHODS.iter().any(|(kind, _)| *kind == name)
}

/// True if the interpreter has the built-in function or type.
pub(super) fn has_builtin(name: &str) -> bool {
    let is_other_type = ["bool", "iter", "object", "range", "slice"].contains(&name);
    is_type(name) || is_other_type || name.parse::<BuiltinsFunctions>().is_ok()
}

//! The functions and methods of the [allow-list](super::supported): every one computes what CPython
//! computes, for the listed arguments and with the listed guard.

use super::guards::Guard;

/// Kinds of values that may differ from CPython unless their reader takes all of them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    /// Ordinary values only.
    pub(super) const NONE: Self = Self(0);
    /// Views of a dict and ranges, which a block may only read.
    pub(super) const VIEW: Self = Self(1);
    /// `enumerate`, `zip` and `reversed`: lists in the embedded Python.
    pub(super) const PAIRED: Self = Self(2);
    /// `map` and `filter`: lists in the embedded Python, made by calls of the block's functions.
    pub(super) const MAPPED: Self = Self(4);
    /// Generator expressions: lists in the embedded Python.
    pub(super) const GENERATOR: Self = Self(8);
    /// Sets, whose order differs.
    pub(super) const SET: Self = Self(16);
    /// Everything but sets.
    pub(super) const ORDERED: Self = Self(1 | 2 | 4 | 8);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True if all of `other` is in `self`.
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The value that a guard checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarded {
    Nothing,
    /// The first argument.
    First(Guard),
    /// Every positional argument.
    Each(Guard),
    /// The value that the method belongs to.
    Receiver(Guard),
}

/// A function or method.
#[derive(Debug)]
pub(super) struct Callee {
    pub(super) name: &'static str,
    /// The minimum number of positional arguments.
    pub(super) minimum: usize,
    /// The maximum number of positional arguments.
    pub(super) maximum: usize,
    /// The keyword arguments; `*` stands for any.
    pub(super) keywords: &'static [&'static str],
    /// The kinds of values that the positional arguments may be.
    pub(super) takes: Kinds,
    /// The kind of the result.
    pub(super) gives: Kinds,
    pub(super) guarded: Guarded,
}

/// The maximum number of arguments of a function that takes any number.
pub(super) const ANY: usize = usize::MAX;

impl Callee {
    const fn new(name: &'static str, minimum: usize, maximum: usize) -> Self {
        Self {
            name,
            minimum,
            maximum,
            keywords: &[],
            takes: Kinds::NONE,
            gives: Kinds::NONE,
            guarded: Guarded::Nothing,
        }
    }

    const fn keywords(mut self, keywords: &'static [&'static str]) -> Self {
        self.keywords = keywords;
        self
    }

    const fn takes(mut self, kinds: Kinds) -> Self {
        self.takes = kinds;
        self
    }

    const fn gives(mut self, kinds: Kinds) -> Self {
        self.gives = kinds;
        self
    }

    const fn guarded(mut self, guarded: Guarded) -> Self {
        self.guarded = guarded;
        self
    }
}

const ORDERED_OR_SET: Kinds = Kinds::ORDERED.and(Kinds::SET);

/// Built-in functions. `isinstance` has a rule of its own.
pub(super) const FUNCTIONS: &[Callee] = &[
    Callee::new("abs", 1, 1),
    // Reads only as far as it has to.
    Callee::new("all", 1, 1).takes(Kinds::VIEW),
    Callee::new("any", 1, 1).takes(Kinds::VIEW),
    Callee::new("bool", 0, 1),
    Callee::new("dict", 0, 1)
        .keywords(&["*"])
        .takes(Kinds::ORDERED)
        .guarded(Guarded::First(Guard::Pairs)),
    Callee::new("enumerate", 1, 2)
        .keywords(&["start"])
        .takes(Kinds::VIEW)
        .gives(Kinds::PAIRED),
    Callee::new("filter", 2, 2)
        .takes(Kinds::VIEW)
        .gives(Kinds::MAPPED),
    Callee::new("float", 0, 1).guarded(Guarded::First(Guard::Numeral)),
    Callee::new("int", 0, 1).guarded(Guarded::First(Guard::Numeral)),
    Callee::new("len", 1, 1).takes(Kinds::VIEW.and(Kinds::SET)),
    Callee::new("list", 0, 1).takes(Kinds::ORDERED),
    Callee::new("map", 2, 2)
        .takes(Kinds::VIEW)
        .gives(Kinds::MAPPED),
    Callee::new("max", 1, ANY)
        .keywords(&["default", "key"])
        .takes(Kinds::ORDERED),
    Callee::new("min", 1, ANY)
        .keywords(&["default", "key"])
        .takes(Kinds::ORDERED),
    Callee::new("print", 0, ANY)
        .keywords(&["end", "sep"])
        .guarded(Guarded::Each(Guard::Shown)),
    Callee::new("range", 1, 3).gives(Kinds::VIEW),
    Callee::new("repr", 1, 1).guarded(Guarded::First(Guard::Shown)),
    Callee::new("reversed", 1, 1).gives(Kinds::PAIRED),
    // With a number of digits, it rounds what CPython computes exactly.
    Callee::new("round", 1, 1),
    Callee::new("set", 0, 1)
        .takes(ORDERED_OR_SET)
        .gives(Kinds::SET),
    Callee::new("sorted", 1, 1)
        .keywords(&["key", "reverse"])
        .takes(ORDERED_OR_SET),
    Callee::new("str", 0, 1).guarded(Guarded::First(Guard::Shown)),
    Callee::new("tuple", 0, 1).takes(Kinds::ORDERED),
    Callee::new("zip", 0, ANY)
        .takes(Kinds::VIEW)
        .gives(Kinds::PAIRED),
];

/// Methods of all types. A name stands for the methods of every type that has it.
pub(super) const METHODS: &[Callee] = &[
    Callee::new("append", 1, 1),
    Callee::new("capitalize", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("casefold", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("clear", 0, 0),
    Callee::new("copy", 0, 0),
    Callee::new("count", 1, 1),
    Callee::new("endswith", 1, 1),
    Callee::new("extend", 1, 1).takes(Kinds::VIEW),
    Callee::new("find", 1, 1),
    Callee::new("get", 1, 2),
    Callee::new("index", 1, 1),
    Callee::new("insert", 2, 2),
    Callee::new("isalnum", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("isalpha", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("isdigit", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("islower", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("isspace", 0, 0).guarded(Guarded::Receiver(Guard::Text)),
    Callee::new("isupper", 0, 0),
    Callee::new("items", 0, 0).gives(Kinds::VIEW),
    Callee::new("join", 1, 1).takes(Kinds::ORDERED),
    Callee::new("keys", 0, 0).gives(Kinds::VIEW),
    Callee::new("ljust", 1, 2),
    Callee::new("lower", 0, 0),
    Callee::new("lstrip", 0, 1).guarded(Guarded::Receiver(Guard::Text)),
    Callee::new("partition", 1, 1),
    Callee::new("pop", 0, 2),
    Callee::new("remove", 1, 1),
    Callee::new("removeprefix", 1, 1),
    Callee::new("removesuffix", 1, 1),
    Callee::new("replace", 2, 3),
    Callee::new("reverse", 0, 0),
    Callee::new("rfind", 1, 1),
    Callee::new("rjust", 1, 2),
    Callee::new("rpartition", 1, 1),
    Callee::new("rsplit", 0, 2)
        .keywords(&["maxsplit", "sep"])
        .guarded(Guarded::Receiver(Guard::Text)),
    Callee::new("rstrip", 0, 1).guarded(Guarded::Receiver(Guard::Text)),
    Callee::new("setdefault", 1, 2).guarded(Guarded::First(Guard::Key)),
    Callee::new("sort", 0, 0).keywords(&["key", "reverse"]),
    Callee::new("split", 0, 2)
        .keywords(&["maxsplit", "sep"])
        .guarded(Guarded::Receiver(Guard::Text)),
    Callee::new("startswith", 1, 1),
    Callee::new("strip", 0, 1).guarded(Guarded::Receiver(Guard::Text)),
    Callee::new("swapcase", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("title", 0, 0).guarded(Guarded::Receiver(Guard::Ascii)),
    Callee::new("to_dict", 0, 0),
    Callee::new("update", 0, 1)
        .keywords(&["*"])
        .guarded(Guarded::First(Guard::Mapping)),
    Callee::new("upper", 0, 0),
    Callee::new("values", 0, 0).gives(Kinds::VIEW),
    Callee::new("zfill", 1, 1),
];

/// Functions of `json`.
pub(super) const JSON: &[Callee] = &[
    Callee::new("dumps", 1, 1)
        .keywords(&["ensure_ascii", "indent", "separators", "sort_keys"])
        .guarded(Guarded::First(Guard::Shown)),
    Callee::new("loads", 1, 1).guarded(Guarded::First(Guard::Document)),
];

/// Functions of `math` whose results are exact or correctly rounded.
pub(super) const MATH: &[Callee] = &[
    Callee::new("ceil", 1, 1),
    Callee::new("copysign", 2, 2),
    Callee::new("fabs", 1, 1),
    Callee::new("floor", 1, 1),
    Callee::new("fmod", 2, 2),
    Callee::new("gcd", 0, ANY),
    Callee::new("isclose", 2, 2).keywords(&["abs_tol", "rel_tol"]),
    Callee::new("isfinite", 1, 1),
    Callee::new("isinf", 1, 1),
    Callee::new("isnan", 1, 1),
    Callee::new("isqrt", 1, 1),
    Callee::new("lcm", 0, ANY),
    Callee::new("sqrt", 1, 1),
    Callee::new("trunc", 1, 1),
];

/// Constants of `math`.
pub(super) const CONSTANTS: [&str; 4] = ["e", "inf", "pi", "tau"];

/// Built-in functions that may be passed to others, as in `sorted(words, key=len)`.
pub(super) const PASSED: [&str; 3] = ["abs", "bool", "len"];

/// Types that `isinstance` may ask for.
pub(super) const TYPES: [&str; 7] = ["bool", "dict", "float", "int", "list", "str", "tuple"];

/// Exceptions that a block may raise.
pub(super) const EXCEPTIONS: [&str; 12] = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "Exception",
    "IndexError",
    "KeyError",
    "LookupError",
    "NotImplementedError",
    "RuntimeError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
];

/// The other built-in functions and types of Python.
pub(super) const OTHER_BUILTINS: &str = "\
    __import__ aiter anext ascii bin breakpoint bytearray bytes callable chr classmethod compile complex \
    delattr dir divmod eval exec exit format frozenset getattr globals hasattr hash help hex id input \
    isinstance issubclass iter locals memoryview next object oct open ord pow property quit setattr slice \
    staticmethod sum super type vars";

/// Returns the entry of a name.
pub(super) fn named(table: &'static [Callee], name: &str) -> Option<&'static Callee> {
    table.iter().find(|callee| callee.name == name)
}

/// True for the name of a built-in function, type or exception of Python.
pub(super) fn is_builtin(name: &str) -> bool {
    named(FUNCTIONS, name).is_some()
        || EXCEPTIONS.contains(&name)
        || OTHER_BUILTINS.split(' ').any(|other| other == name)
}

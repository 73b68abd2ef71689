//! The allow-list of the embedded Python: what is not on it is refused before anything runs, with its line
//! and a remedy; what depends on a value is refused when the block runs.

use cachalot_workflow::script::{ScriptFailure, check};
use serde_json::{Value, json};

use crate::harness::{failing, python, tests, wait, with_state};

tests!(
    constructs_that_are_not_on_the_list_are_refused_before_anything_runs,
    values_that_cpython_treats_differently_are_refused_at_run_time,
    constructs_on_the_list_run,
);

/// A block, the line of the construct, and what the message must name.
const IN_THE_TEXT: &[(&str, u32, &str)] = &[
    (
        "x = 1\ntry:\n  x = 2\nexcept Exception:\n  x = 3",
        2,
        "`try`",
    ),
    ("with open('x') as f: pass", 1, "`with`"),
    ("class C: pass", 1, "a class"),
    ("match 1:\n  case 1: pass", 1, "`match`"),
    ("x = {'a': 1}\ndel x['a']", 2, "`del`; `d.pop(key)`"),
    ("def f():\n  global x", 2, "`global`"),
    ("x: int = 1", 1, "an annotation"),
    ("def f(a: int): return a", 1, "an annotation"),
    ("def f() -> int: return 1", 1, "an annotation"),
    ("def f(a, /): return a", 1, "positional-only parameters"),
    ("@len\ndef f(): pass", 1, "a decorator"),
    ("async def f(): pass", 1, "`async`"),
    ("def f():\n  yield 1", 2, "a generator (`yield`)"),
    ("import re", 1, "the module `re`"),
    ("import json, os", 1, "the module `os`"),
    ("from datetime import date", 1, "the module `datetime`"),
    ("from math import pi", 1, "`from … import`"),
    ("import math as m", 1, "`import … as`"),
    ("x = 2 ** 3", 1, "`**`"),
    ("x = pow(2, 3)", 1, "the built-in `pow`"),
    ("x = sum([1])", 1, "the built-in `sum`; a loop adds"),
    ("x = 6 & 3", 1, "the operator `&`"),
    ("x = {'a': 1} | {}", 1, "the operator `|`"),
    ("x = ~5", 1, "the operator `~`"),
    ("x = 'a%s' % 1", 1, "`%` formatting of text"),
    ("x = 2\nx *= 3", 2, "`*=`"),
    ("x = [1]\nx[0:1] = [2]", 2, "assigning to a slice"),
    ("x = [1, 2]\nx[0], x[1] = 3, 4", 2, "assigning to this"),
    ("x = {1, 2}", 1, "a set here"),
    ("for x in set([1]): pass", 1, "`set` here"),
    ("x = max({1}, key=lambda v: -v)", 1, "a set here"),
    ("x = sorted({1}, key=str)", 1, "a set here"),
    ("x = (v for v in [1])", 1, "a generator expression here"),
    ("x = any(v for v in [1])", 1, "a generator expression here"),
    ("x = map(len, ['a'])", 1, "`map` here; `list(…)`"),
    (
        "for i, x in enumerate([1]): pass",
        1,
        "`enumerate` here; `list(…)`",
    ),
    (
        "x = [1]\ny = [x.append(1) for i, v in enumerate(x)]",
        2,
        "`enumerate` here",
    ),
    (
        "f = len\nx = [sorted([v], key=f) for i, v in enumerate([1])]",
        2,
        "`enumerate` here",
    ),
    ("x = range(3)", 1, "`range` here"),
    ("x = {}.keys()", 1, "`keys` here"),
    (
        "x = sorted([1], key=str)",
        1,
        "the built-in `str` here; a `lambda`",
    ),
    ("x = [].append", 1, "the attribute `append`"),
    ("x = ''.format(1)", 1, "the method `format`"),
    ("x = 'a'.encode()", 1, "the method `encode`"),
    ("x = 'a'.center(3)", 1, "the method `center`"),
    ("x = 'a'.splitlines()", 1, "the method `splitlines`"),
    ("x = 'abc'.find('', 4)", 1, "these arguments of `find`"),
    ("x = round(2.5, 1)", 1, "these arguments of `round`"),
    ("x = int('1', 2)", 1, "these arguments of `int`"),
    (
        "print(1, file=None)",
        1,
        "these keyword arguments of `print`",
    ),
    (
        "x = json.dumps(1, default=len)",
        1,
        "these keyword arguments of `dumps`",
    ),
    ("x = json.load(1)", 1, "`json.load`"),
    ("import math\nx = math.sin(1)", 2, "`math.sin`"),
    ("import math\nx = math.nan", 2, "`math.nan` here"),
    ("x = isinstance(1, object)", 1, "this use of `isinstance`"),
    ("x = open('a')", 1, "the built-in `open`"),
    ("x = eval('1')", 1, "the built-in `eval`"),
    ("x = hasattr(1, 'a')", 1, "the built-in `hasattr`"),
    ("list = [1]", 1, "`list` as the name of something else"),
    (
        "def f(sum): return sum",
        1,
        "`sum` as the name of something else",
    ),
    (
        "x = [id for id in [1]]",
        1,
        "`id` as the name of something else",
    ),
    ("json = 1", 1, "`json` as the name of something else"),
    ("x = json", 1, "the module `json` as a value"),
    ("x = __name__", 1, "`__name__`"),
    ("x = ().__class__", 1, "the attribute `__class__`"),
    ("x = {True: 1}", 1, "a bool or a float as a key"),
    ("x = {}\nx[1.5] = 1", 2, "a bool or a float as a key"),
    ("x = 1 is 1", 1, "`is` with a value"),
    ("x = (y := 1)", 1, "`:=`"),
    ("x = b'a'", 1, "bytes"),
    ("x = 2j", 1, "a complex number"),
    ("x = 1\ny = f'{x=}'", 2, "`{…=}`"),
    ("x = f'{65:c}'", 1, "this format"),
    ("x = f'{1.5:._f}'", 1, "this format"),
    ("x = f'{1:{2}}'", 1, "this format"),
    ("x = f'{1!a}'", 1, "`{…!a}`"),
    ("x = '\\ud800'", 1, "half a surrogate pair"),
    ("x = ...", 1, "this expression"),
    ("raise OSError('x')", 1, "this `raise`"),
    ("raise ValueError('x') from None", 1, "this `raise`"),
];

/// The same for what the text does not show.
const WHEN_RUN: &[(&str, u32, &str)] = &[
    (
        "x = 1\ny = (x == 1) + 1",
        2,
        "unsupported operand type(s) for +: 'bool' and 'int'",
    ),
    (
        "x = 9007199254740993\ny = x / 3",
        2,
        "`/` with an integer beyond 2**53",
    ),
    ("x = 7.5\ny = x // 2", 2, "`//` with a float"),
    (
        "x = 'a%s'\ny = x % 1",
        2,
        "unsupported operand type(s) for %",
    ),
    ("x = {}\nk = 1 == 1\nx[k] = 1", 3, "a bool as a key"),
    ("x = {(1, 0.5 + v): v for v in [1]}", 1, "a float as a key"),
    ("x = dict([[1 == 1, 2]])", 1, "a bool as a key"),
    ("x = dict([[1]])", 1, "`dict` of anything but pairs"),
    (
        "x = {}\nx.update([('a', 1)])",
        2,
        "`update` with anything but a dict",
    ),
    (
        "x = 'a\\x1cb'.split()",
        1,
        "a character from U+001C to U+001F",
    ),
    ("x = 'Straße'.title()", 1, "text beyond ASCII"),
    ("x = int('٣')", 1, "a number written as '٣'"),
    ("x = float('1_0')", 1, "a number written as '1_0'"),
    ("x = float(' NaN')", 1, "a NaN"),
    ("x = json.loads('[NaN]')", 1, "`NaN` in JSON"),
    (
        "x = json.loads('\"\\\\ud800\"')",
        1,
        "half a surrogate pair in JSON",
    ),
    (
        "x = str(562949953421312.25)",
        1,
        "the text of the float 5.6294995342131225",
    ),
    (
        "x = [{'a': [-562949953421312.25]}]\nprint(x)",
        2,
        "the text of the float -5.62",
    ),
    (
        "def f(): pass\nprint(f)",
        2,
        "the text of a value of type `function`",
    ),
    (
        "x = []\nx.append(x)\ny = f'{x}'",
        3,
        "nested more than 100 levels",
    ),
    (
        "x = None\ny = f'{x:>5}'",
        2,
        "a format of a value of type `NoneType`",
    ),
    ("x = [1]\nx += (2,)", 2, "can only concatenate list"),
    ("x = {}\ny = x[1:]", 2, "a slice of a dict"),
    ("x = 1\ny = [1].index", 2, "the method `index` as a value"),
    ("x = 9223372036854775808\ny = round(x)", 2, "__round__"),
    (
        "x = 9223372036854775808\ny = float(x)",
        2,
        "float() argument",
    ),
    (
        "x = 1\nassert False, [1]",
        2,
        "an exception with anything but text",
    ),
    (
        "raise KeyError(5)",
        1,
        "an exception with anything but text",
    ),
];

/// Blocks that run, and what they return.
fn on_the_list() -> Vec<(&'static str, Value)> {
    vec![
        ("return sorted({3, 1} | set([2]) - {1})", json!([1, 2, 3])),
        (
            "return [len({1, 2}), 2 in {1, 2}, 5 in range(3)]",
            json!([2, true, false]),
        ),
        (
            "return [f'{i}{v}' for i, v in enumerate('ab')]",
            json!(["0a", "1b"]),
        ),
        ("return ', '.join(str(v) for v in [1, 2])", json!("1, 2")),
        (
            "return dict((k, v) for k, v in zip('ab', [1, 2]))",
            json!({"a": 1, "b": 2}),
        ),
        (
            "d = {}\nfor w in 'a b a'.split():\n  d[w] = d.get(w, 0) + 1\nreturn d",
            json!({"a": 2, "b": 1}),
        ),
        ("d = {}\nd[1, 2] = 3\nreturn d[1, 2]", json!(3)),
        (
            "x = 0\nfor i, v in list(enumerate([5, 6])):\n  x += i * v\nreturn x",
            json!(6),
        ),
        (
            "m = [[1, 2], [3, 4]]\nreturn [list(r) for r in zip(*m)]",
            json!([[1, 3], [2, 4]]),
        ),
        (
            "print(*[1, 'a'], sep='-')\nreturn f'{1.5:.2f} {\"a\":>3} {[1]} {2 / 4}'",
            json!("1.50   a [1] 0.5"),
        ),
        (
            "def f(a, *b, c=2, **d): return [a, b, c, d]\nreturn f(1, 2, c=3, e=4)",
            json!([1, [2], 3, {"e": 4}]),
        ),
        (
            "n = 0\ndef f():\n  nonlocal n\n  n += 1\nf()\nreturn n",
            json!(1),
        ),
        (
            "import math\nreturn [math.floor(2.5), math.sqrt(9), math.pi > 3]",
            json!([2, 3.0, true]),
        ),
        (
            "return isinstance(1, (int, str)) and not isinstance('', dict)",
            json!(true),
        ),
        (
            "a, *b = [1, 2, 3]\n(c, d), e = (4, 5), 6\nreturn [a, b, c, d, e]",
            json!([1, [2, 3], 4, 5, 6]),
        ),
        (
            "x = '\u{fffd}'\nreturn x + '\\U0001F600'",
            json!("\u{fffd}\u{1f600}"),
        ),
    ]
}

fn names(failure: &ScriptFailure, source: &str, line: u32, what: &str) {
    assert_eq!(failure.kind, "script_unsupported", "{source}: {failure}");
    assert_eq!(failure.line, Some(line), "{source}: {failure}");
    assert!(failure.message.contains(what), "{source}: {failure}");
    for part in [
        &format!("(line {line})"),
        "`language: python3`",
        "`settings.python.runner: python3`",
        "`--python python3`",
    ] {
        assert!(failure.message.contains(part), "{source}: {failure}");
    }
}

fn constructs_that_are_not_on_the_list_are_refused_before_anything_runs() {
    wait(async {
        let runner = python();
        for &(source, line, what) in IN_THE_TEXT {
            let checked = check(source, 1).expect_err(source);
            let run = failing(&runner, source).await;
            assert_eq!(checked, run, "{source}");
            let (construct, instead) = match what.split_once("; ") {
                Some((construct, instead)) => (construct, instead),
                None => (what, ""),
            };
            names(&run, source, line, construct);
            assert!(run.message.contains(instead), "{source}: {run}");
            let moved = check(source, 31).unwrap_err();
            assert_eq!(moved.line, Some(line + 30), "{source}");
        }
    });
}

fn values_that_cpython_treats_differently_are_refused_at_run_time() {
    wait(async {
        let runner = python();
        for &(source, line, what) in WHEN_RUN {
            assert_eq!(check(source, 1), Ok(()), "{source}");
            names(&failing(&runner, source).await, source, line, what);
        }
    });
}

fn constructs_on_the_list_run() {
    wait(async {
        let runner = python();
        for (source, expected) in on_the_list() {
            assert_eq!(check(source, 1), Ok(()), "{source}");
            let ended = with_state(&runner, source, json!({})).await;
            let ended = ended.unwrap_or_else(|failure| panic!("{source}: {failure}"));
            assert_eq!(ended.returned, expected, "{source}");
        }
    });
}

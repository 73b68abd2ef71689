//! Unsupported parts of the embedded Python: each is named, with its line and a remedy.

use cachalot_workflow::script::check;

use crate::harness::{alone, failing, python, tests, wait, with_state};
use serde_json::json;

tests!(
    unsupported_syntax_is_named_at_load_and_run_time,
    unsupported_behavior_is_named_at_run_time,
    guarded_unsupported_code_is_accepted,
    supported_code_is_not_refused,
    white_space_functions_are_refused_if_the_state_has_separators,
);

/// A block, the line of the construct, and what the message must name.
const IN_THE_TEXT: &[(&str, u32, &str)] = &[
    ("import sys\nsys.exit(1)", 2, "`sys.exit`"),
    ("import sys as s\nx = s.version", 2, "`sys.version`"),
    (
        "from sys import platform",
        1,
        "`platform` of the module `sys`",
    ),
    ("x = 1\ny = 'a\\x1cb'.split()", 2, "U+001C to U+001F"),
    ("x = f'{28:c}'.strip()", 1, "U+001C to U+001F"),
    (
        "x = {1: 2,\n  True: 3}",
        2,
        "equal keys of several types in a dict",
    ),
    ("def f(a, /, **kw): pass", 1, "positional-only parameters"),
    (
        "try:\n  json.loads('')\nexcept ValueError as e:\n  x = f'{e!r}'",
        4,
        "`{…!r}` with a caught error",
    ),
    ("def f():\n  yield 1", 2, "a generator (`yield`)"),
    (
        "def f():\n  yield from [1]",
        2,
        "a generator (`yield from`)",
    ),
    ("x = lambda: (yield)", 1, "a generator (`yield`)"),
    ("class E(Exception):\n  pass", 1, "class inheritance"),
    ("class C(metaclass=type): pass", 1, "class inheritance"),
    ("x = 1\nmatch x:\n  case 1:\n    pass", 2, "`match`"),
    ("import json, decimal", 1, "the module `decimal`"),
    ("def f():\n  import enum", 2, "the module `enum`"),
    ("x = 1\nif x:\n  del x", 3, "this `del` statement"),
    (
        "import os.path\nx = os.path.exists('/')",
        2,
        "files (`os.path.exists`)",
    ),
    (
        "import os\nx = os.environ.get('HOME')",
        2,
        "the environment (`os.environ`)",
    ),
    ("import time\nx = time.tzset()", 2, "`time.tzset`"),
    (
        "from random import SystemRandom",
        1,
        "`SystemRandom` of the module `random`",
    ),
    (
        "try:\n  x = open('a').read()\nexcept Exception:\n  x = ''",
        2,
        "files (`open`)",
    ),
    ("x = 1\nprint(globals())", 2, "the built-in `globals`"),
    ("x = super()", 1, "the built-in `super`"),
    (
        "class C:\n  x, y = 1, 2",
        2,
        "complex class variable targets",
    ),
    (
        "try:\n  pass\nexcept Exception as e:\n  x = type(e) == ValueError",
        4,
        "comparing the type of an exception",
    ),
    (
        "x = next((y := v) for v in [1])",
        1,
        "this generator expression",
    ),
    ("import requests", 1, "the module `requests`"),
    ("from json import *", 1, "import *"),
    ("async def f():\n  async for x in y: pass", 2, "`async for`"),
    ("async def f():\n  async with y: pass", 2, "`async with`"),
    (
        "async def f():\n  return [x async for x in y]",
        2,
        "an async comprehension",
    ),
    ("try:\n  pass\nexcept* ValueError: pass", 1, "`except*`"),
    (
        "class C:\n  @property\n  def x(self): return 1",
        2,
        "a decorated method",
    ),
    ("x = 2j", 1, "a complex number"),
    ("a @ b", 1, "matrix multiplication"),
    (
        "class C:\n  def __init__(self): pass\n  def __bool__(self): return False",
        3,
        "the method `__bool__` of a class",
    ),
    (
        "for i, x.y in []: pass",
        1,
        "unpacking into an attribute or an item",
    ),
    (
        "[0 for x[0] in []]",
        1,
        "unpacking into an attribute or an item",
    ),
];

/// The same for what the text does not show.
const WHEN_RUN: &[(&str, u32, &str)] = &[
    ("x = sorted([float('nan'), 1.0])", 1, "sorting with a NaN"),
    (
        "x = [float(t) for t in ['nan', 'NaN']]\ny = x[0] in x",
        2,
        "several NaNs",
    ),
    (
        "x = [chr(n).isspace() for n in range(40)]",
        1,
        "U+001C to U+001F",
    ),
    (
        "x = json.loads('\"\\\\u001f\"').split()",
        1,
        "`\\u001f` in JSON",
    ),
    ("x = int('\\x1c5')", 1, "this number as text"),
    ("import uuid\nx = uuid.uuid4().fields", 2, "`UUID.fields`"),
    (
        "try:\n  x = json.loads('\"\\\\ud800\"')\nexcept ValueError:\n  x = 1",
        4,
        "half a surrogate pair in JSON",
    ),
    (
        "import re\nx = re.sub('a', 'b', 'a', re.I)",
        2,
        "a flag of `re`",
    ),
    (
        "import re\nx = isinstance(re.I, int)",
        2,
        "`isinstance` of a flag",
    ),
    (
        "from collections import OrderedDict",
        1,
        "`OrderedDict` of the module `collections`",
    ),
    ("print(1, file=[])", 1, "`print` to a file"),
    (
        "import re\nx = re.compile('(a)?(?(1)b)')",
        2,
        "a conditional group",
    ),
    ("import random\nrandom.seed('a')", 2, "a seed of `random`"),
    (
        "import hashlib\nx = hashlib.new('sm3')",
        2,
        "the digest `sm3`",
    ),
    ("x = 'ß'.title()", 1, "`str.title` of 'ß'"),
    ("x = (-8) ** 0.5", 1, "a complex number"),
    ("x = b'%d' % 3", 1, "`%` formatting of bytes"),
    ("x = [1]\nx += (2,)", 2, "can only concatenate list"),
    ("x = 'é'.encode('latin-1')", 1, "unknown encoding"),
    (
        "import datetime\nx = datetime.date(2024, 1, 1).isocalendar()",
        2,
        "`datetime.date.isocalendar`",
    ),
    (
        "try:\n  x = getattr([], 'sort')\nexcept Exception:\n  x = 1",
        4,
        "`getattr` of a method",
    ),
    (
        "try:\n  x = {}.__len__()\nexcept:\n  x = 1",
        4,
        "`dict.__len__`",
    ),
    ("def f(): pass\nx = f.__name__", 2, "`function.__name__`"),
    ("x = isinstance(1, int | str)", 1, "types as values"),
    ("x = list[int]", 1, "types as values"),
    ("x = ''.__class__", 1, "`str.__class__`"),
    ("x = True + 1", 1, "arithmetic with a bool"),
    ("x = {1} <= {1, 2}", 1, "`<=` between sets"),
];

fn white_space_functions_are_refused_if_the_state_has_separators() {
    wait(async {
        let runner = python();
        let state = json!({"rows": [{"a\u{1f}b": 1}]});
        for source in [
            "x = 1\nreturn state['x'].split()",
            "x = 1\nreturn list(map(str.strip, state))",
            "x = 1\nreturn [c.isspace() for c in 'a']",
            "x = 1\nreturn 'a'.split(maxsplit=1)",
        ] {
            let failure = with_state(&runner, source, state.clone())
                .await
                .unwrap_err();
            assert_eq!(
                (failure.kind, failure.line),
                ("script_unsupported", Some(2)),
                "{failure}"
            );
            assert!(failure.message.contains("U+001C to U+001F"), "{failure}");
        }
        for source in [
            "return ' a '.strip(' ')",
            "return ' a'.split(' ')[1]",
            "return 'a'",
        ] {
            let ended = with_state(&runner, source, state.clone()).await.unwrap();
            assert_eq!(ended.returned, json!("a"), "{source}");
        }
        let ended = with_state(
            &runner,
            "return state['x'].split()",
            json!({"x": "a\u{1b} \u{20}b"}),
        );
        assert_eq!(ended.await.unwrap().returned, json!(["a\u{1b}", "b"]));
    });
}

fn unsupported_syntax_is_named_at_load_and_run_time() {
    wait(async {
        let runner = python();
        for &(source, line, what) in IN_THE_TEXT {
            let checked = check(source, 1).unwrap_err();
            let run = failing(&runner, source).await;
            assert_eq!(checked, run, "{source}");
            names(&run, source, line, what);
            assert_eq!(
                check(source, 31).unwrap_err().line,
                Some(line + 30),
                "{source}"
            );
        }
    });
}

fn unsupported_behavior_is_named_at_run_time() {
    wait(async {
        let runner = python();
        for &(source, line, what) in WHEN_RUN {
            assert_eq!(check(source, 1), Ok(()), "{source}");
            names(&failing(&runner, source).await, source, line, what);
        }
    });
}

fn names(failure: &cachalot_workflow::script::ScriptFailure, source: &str, line: u32, what: &str) {
    assert_eq!(failure.kind, "script_unsupported", "{source}: {failure}");
    assert_eq!(failure.line, Some(line), "{source}: {failure}");
    assert!(failure.message.contains(what), "{source}: {failure}");
    assert!(
        failure.message.contains(&format!("(line {line})")),
        "{source}: {failure}"
    );
    assert!(
        failure.message.contains("`language: python3`"),
        "{source}: {failure}"
    );
}

fn guarded_unsupported_code_is_accepted() {
    wait(async {
        let runner = python();
        let source = "try:\n  import numpy\n  x = numpy.pi\nexcept ImportError:\n  x = 3";
        assert_eq!(check(source, 1), Ok(()));
        assert_eq!(
            alone(&runner, source).await.unwrap().returned,
            serde_json::json!({"x": 3})
        );
        for (source, message) in [
            (
                "return [].foo",
                "AttributeError: 'list' object has no attribute 'foo'",
            ),
            (
                "return callble(1)",
                "NameError: name 'callble' is not defined",
            ),
            (
                "return 'a' | 1",
                "TypeError: unsupported operand type(s) for |: 'str' and 'int'",
            ),
        ] {
            let failure = failing(&runner, source).await;
            assert_eq!(
                (failure.kind, failure.message.as_str()),
                ("script_error", message)
            );
        }
    });
}

fn supported_code_is_not_refused() {
    wait(async {
        let runner = python();
        for source in [
            "try:\n  x = 1\nfinally:\n  y = 2",
            "class C:\n  kind = 1\n  def __enter__(self): return self\n  def __exit__(self, *a): return False\nwith C() as c:\n  x = c.kind\n_c = c\nc = None",
            "def twice(f): return lambda x: f(f(x))\n@twice\ndef add(x): return x + 1\nx = add(1)",
            "import asyncio\nasync def f(): return 3\nx = asyncio.run(f())",
            "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nx = P(3).x",
            "from __future__ import annotations\nx: int = 1",
            "import base64, binascii, collections, functools, itertools, math, re, sys, typing, unicodedata, pathlib, os",
            "x = 7 % 3\nx %= 2\ny = {1} | {2}\ny = list(y)",
        ] {
            assert_eq!(check(source, 1), Ok(()), "{source}");
            alone(&runner, source)
                .await
                .unwrap_or_else(|failure| panic!("{source}: {failure}"));
        }
    });
}

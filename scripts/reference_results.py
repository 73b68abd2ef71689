#!/usr/bin/env python3
"""Writes the results of Jinja2 and Lua into the tables of expressions, or compares them with those.

    scripts/reference_results.py [--check] [TABLE…]

It needs the versions of the reference implementation: `pip install jinja2==3.1.6 lupa==2.8`. The tables are
crates/workflow/tests/workflow/jinja2.yaml and crates/workflow/tests/script/lua.yaml; their tops explain their lines.
`--check` changes nothing, prints each case whose recorded result is another one, and exits with 1 if there is any.

The environment of Jinja2 is that of the reference implementation: undefined values are errors (`StrictUndefined`), the
last line feed is kept, and `fromjson` exists. A condition that reads a field that is not set reads None, as there.
Addresses in texts of objects are left out. Lua is what `lupa.LuaRuntime` is, and gives the text of an expression.
"""

import json
import pathlib
import re
import sys
from importlib.metadata import version

import jinja2
import lupa
from jinja2.runtime import Undefined

VERSIONS = {"jinja2": "3.1.6", "lupa": "2.8"}
TESTS = pathlib.Path(__file__).parent.parent / "crates/workflow/tests"
TABLES = [TESTS / "workflow/jinja2.yaml", TESTS / "script/lua.yaml"]
RESULTS = ("gives", "error")

JINJA = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
JINJA.filters["fromjson"] = json.loads


class Fields(dict):
    """A mapping of the state in a condition: a field that is not set is None."""

    def __getattr__(self, name):
        value = self.get(name)
        return Fields(value) if isinstance(value, dict) else value


def as_json(value):
    """Returns a value as JSON holds it: lazy values become lists, undefined ones null."""
    if isinstance(value, Undefined):
        return None
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): as_json(field) for key, field in value.items()}
    return [as_json(item) for item in value]


def evaluate(case, state):
    """Returns the result of a case."""
    if "lua" in case:
        return lupa.LuaRuntime().execute(f"return tostring(({case['lua']}))")
    if "text" in case:
        text = JINJA.from_string(case["text"]).render(state=state)
        return re.sub(r" at 0x[0-9a-f]+", "", text)
    if "if" in case:
        return bool(JINJA.compile_expression(case["if"])(state=Fields(state)))
    return as_json(JINJA.compile_expression(case["value"], undefined_to_none=False)(state=state))


def record(case, state):
    """Returns a case with its result in place of the recorded one."""
    try:
        result = {"gives": evaluate(case, state)}
    except Exception as error:  # Any exception is a result.
        result = {"error": type(error).__name__}
    kept = {key: value for key, value in case.items() if key not in RESULTS}
    first = next(iter(kept))
    return {first: kept.pop(first), **result, **kept}


def update(table, check):
    """Writes or checks a table; returns the number of cases with another result than the recorded one."""
    written, differ = [], 0
    state = "{}"
    for line in table.read_text().splitlines():
        if line.startswith("state: "):
            state = line.removeprefix("state: ")
        if line.startswith("- "):
            # A case may change the state.
            recorded = record(json.loads(line[2:]), json.loads(state))
            new = "- " + json.dumps(recorded, ensure_ascii=False)
            if new != line:
                differ += 1
                print(f"recorded: {line}\nnow:      {new}")
            line = new
        written.append(line)
    if not check:
        table.write_text("\n".join(written) + "\n")
    return differ


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) < len(sys.argv) - 1
    for package, needed in VERSIONS.items():
        if version(package) != needed:
            sys.exit(f"{package} {needed} is needed, not {version(package)}: pip install {package}=={needed}")
    tables = [pathlib.Path(argument) for argument in arguments] or TABLES
    differ = sum(update(table, check) for table in tables)
    sys.exit(check and differ > 0)


main()

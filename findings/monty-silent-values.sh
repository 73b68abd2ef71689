#!/usr/bin/env bash
# monty computes some everyday expressions of Python differently from CPython, without an error.
#
# monty, an interpreter of a part of Python for code of models, refuses what it does not support, so one would expect that
# what it runs gives CPython's values. The differences are in common places: money that is rounded, powers, division, the
# text of a number, keys of a dict, splitting of text, equality of lists.
#
# Seen on 2026-11-29 with pydantic-monty 0.0.23 and CPython 3.11.7:
#   round(2.675, 2): monty 2.68, CPython 2.67
#   1.05 ** 10: monty 1.6288946267774416, CPython 1.628894626777442
#   7.5 // 0.1: monty 75.0, CPython 74.0
#   9007199254740993 / 3: monty 3002399751580330.5, CPython 3002399751580331.0
#   str(595897928712159.25): monty '595897928712159.3', CPython '595897928712159.2'
#   list({1: 'a', 1.0: 'b'}): monty [1.0], CPython [1]
#   'a\x1cb'.split(): monty ['a\x1cb'], CPython ['a', 'b']
#   [float('nan')] == [float('nan')]: monty True, CPython False
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pydantic-monty==0.0.23
sed -n 's/^#   \(.*: monty .*\)/\1/p' "$0" >"$work/expected"
"$work/venv/bin/python" - >"$work/seen" <<'PYTHON'
import pydantic_monty

EXPRESSIONS = r"""
round(2.675, 2)
1.05 ** 10
7.5 // 0.1
9007199254740993 / 3
str(595897928712159.25)
list({1: 'a', 1.0: 'b'})
'a\x1cb'.split()
[float('nan')] == [float('nan')]
"""
with pydantic_monty.Monty() as pool:
    for expression in EXPRESSIONS.split("\n")[1:-1]:
        with pool.checkout() as session:
            print(f"{expression}: monty {session.feed_run(expression)!r}, CPython {eval(expression)!r}")
PYTHON
cat "$work/seen"
diff "$work/expected" "$work/seen"

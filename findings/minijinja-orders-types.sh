#!/usr/bin/env bash
# minijinja compares the sizes of values of any two types; Jinja2 raises TypeError.
#
# minijinja runs templates of Jinja2, and refuses `1 + none` as Python does. But `<`, `>`, `sort`, `min` and `max` order
# values by their types first: none is less than any number, and a number less than any text. A condition such as
# `score < 5` is true for a score of none, and `'9' > 10` is true, without an error. minijinja has no hook for operators.
#
# Seen on 2026-11-29 with minijinja 3.1.0 (also with the crate 3.0.5) and Jinja2 3.1.6:
#   none < 1: Jinja2 TypeError, minijinja True
#   '9' > 10: Jinja2 TypeError, minijinja True
#   [3, 'a', none] | sort | last: Jinja2 TypeError, minijinja a
#   1 + none: Jinja2 TypeError, minijinja TemplateError
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q minijinja==3.1.0 jinja2==3.1.6
cat >"$work/expected" <<'TEXT'
none < 1: Jinja2 TypeError, minijinja True
'9' > 10: Jinja2 TypeError, minijinja True
[3, 'a', none] | sort | last: Jinja2 TypeError, minijinja a
1 + none: Jinja2 TypeError, minijinja TemplateError
TEXT
"$work/venv/bin/python" - >"$work/seen" <<'PYTHON'
import jinja2
import minijinja

ENGINES = {"Jinja2": lambda source: jinja2.Environment().compile_expression(source)(),
           "minijinja": minijinja.Environment().eval_expr}


def result(evaluate, source):
    try:
        return evaluate(source)
    except Exception as error:
        return type(error).__name__


for source in ("none < 1", "'9' > 10", "[3, 'a', none] | sort | last", "1 + none"):
    results = (f"{name} {result(evaluate, source)}" for name, evaluate in ENGINES.items())
    print(f"{source}: {', '.join(results)}")
PYTHON
cat "$work/seen"
diff "$work/expected" "$work/seen"

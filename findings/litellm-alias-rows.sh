#!/usr/bin/env bash
# 98 rows of litellm's table of prices have no price, no provider and no mode: only `alias_of`, the name of another row.
#
# The table's own specification (`sample_spec`) does not mention them, and all other rows but one have `litellm_provider` and
# `mode`. A program that reads these of every row ends with a KeyError, or finds `claude-opus-latest` without a price.
#
# Seen on 2026-11-28 with litellm 1.110.2:
#   4878 rows, 98 with only alias_of, 1 other without litellm_provider
#   alias_of in sample_spec: False
#   claude-opus-latest -> claude-opus-5-5
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" download -q --no-deps --only-binary=:all: --python-version=3.14 --implementation=cp --abi=abi3 \
    --platform=manylinux_2_28_x86_64 -d "$work" litellm==1.110.2
cat >"$work/expected" <<'TEXT'
4878 rows, 98 with only alias_of, 1 other without litellm_provider
alias_of in sample_spec: False
claude-opus-latest -> claude-opus-5-5
TEXT
cat >"$work/read.py" <<'PYTHON'
import json
import pathlib
import sys
import zipfile

wheel = next(pathlib.Path(sys.argv[1]).glob("litellm-*.whl"))
with zipfile.ZipFile(wheel) as package:
    table = json.loads(package.read("litellm/model_prices_and_context_window_backup.json"))
aliases = [name for name, row in table.items() if list(row) == ["alias_of"]]
others = [name for name, row in table.items() if "litellm_provider" not in row and name not in aliases]
print(f"{len(table)} rows, {len(aliases)} with only alias_of, {len(others)} other without litellm_provider")
print(f"alias_of in sample_spec: {'alias_of' in table['sample_spec']}")
print(f"claude-opus-latest -> {table['claude-opus-latest']['alias_of']}")
PYTHON
"$work/venv/bin/python" "$work/read.py" "$work" >"$work/seen"
cat "$work/seen"
diff "$work/expected" "$work/seen"

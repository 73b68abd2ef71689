#!/usr/bin/env bash
# The kinds of transcript lines of Claude Code and Codex can be read from their binaries, which their npm packages lack.
#
# `@anthropic-ai/claude-code` and `@openai/codex` have only a launcher; the program is in the package of a platform, for
# Codex a version of the same package. The binary of Claude Code has its JavaScript as text, with tables whose keys are
# all kinds of lines. Codex is compiled Rust: the names of the variants follow each other without separators, so that
# unknown names can be found only between known ones.
#
# Downloads 358 MB. Seen on 2026-11-28 with Claude Code 2.1.332 and Codex 0.171.0:
#   claude-code launcher: 500 bytes
#   claude-code: 47 kinds, api-request-shape cost-state tools-used among them
#   codex launcher: 1 file, bin/codex.js
#   codex: session_metadynamic_tools_updatedresponse_iteminter_agent_communicationinter_agent_communication_metadatacompactedturn_contexttoken_usage_recordworld_statesecurity_risk_scoreevent_msgrealtime_item
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^#   \(c.*\)/\1/p' "$0" >"$work/expected"
cd "$work"
for package in @anthropic-ai/claude-code@2.1.332 @anthropic-ai/claude-code-linux-x64@2.1.332 @openai/codex@0.171.0 @openai/codex@0.171.0-linux-x64; do
    mkdir package
    tar -xzf "$(npm pack --silent "$package")" -C package --strip-components=1
    mv package "$(echo "$package" | tr / -)"
done
cat >read.py <<'PYTHON'
import pathlib
import re

launcher = pathlib.Path("@anthropic-ai-claude-code@2.1.332/bin/claude.exe")
print(f"claude-code launcher: {launcher.stat().st_size} bytes")
binary = pathlib.Path("@anthropic-ai-claude-code-linux-x64@2.1.332/claude").read_bytes()
kinds, marker = set(), b'"queue-operation":"'
for found in re.finditer(re.escape(marker), binary):
    table = binary[binary.rfind(b"{", 0, found.start()) : binary.find(b"}", found.start())]
    kinds |= {one or other for one, other in re.findall(rb'(?:"([\w-]+)"|\b([a-z]+)):"[\w-]+"', table)}
some = [kind for kind in (b"api-request-shape", b"cost-state", b"tools-used") if kind in kinds]
print(f"claude-code: {len(kinds)} kinds, {b' '.join(some).decode()} among them")
files = [path for path in pathlib.Path("@openai-codex@0.171.0").rglob("*.*") if path.suffix not in (".json", ".md")]
print(f"codex launcher: {len(files)} file, bin/{files[0].name}")
binary = next(pathlib.Path("@openai-codex@0.171.0-linux-x64").glob("vendor/*/bin/codex")).read_bytes()
print(f"codex: {re.search(rb'session_meta[a-z_]{20,600}?event_msgrealtime_item', binary).group().decode()}")
PYTHON
python3 read.py >seen
cat seen
diff expected seen

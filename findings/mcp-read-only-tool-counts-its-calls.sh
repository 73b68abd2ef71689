#!/usr/bin/env bash
# A reference server of MCP declares its tool read-only and idempotent, and the second of two equal calls has another
# result: the server remembers the first one. The annotations do not say that a result may be used again.
#
# MCP, 2025-11-25, schema: `readOnlyHint`: the tool does not modify its environment.
#
# Seen on 2026-12-01 with @modelcontextprotocol/server-sequential-thinking 2026.8.31:
#   declared: readOnlyHint True, idempotentHint True
#   first call: thoughtHistoryLength 1
#   the same call: thoughtHistoryLength 2
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^#   \(.*: .*\)/\1/p' "$0" >"$work/expected"
cd "$work"
npm install --silent --no-fund --no-audit --prefix server @modelcontextprotocol/server-sequential-thinking@2026.8.31
cat >ask.py <<'PYTHON'
import json
import subprocess

command = ["server/node_modules/.bin/mcp-server-sequential-thinking"]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def result(number):
    while True:
        message = json.loads(server.stdout.readline())
        if message.get("id") == number:
            return message["result"]


client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}}
send(id=1, method="initialize", params=client)
result(1)
send(method="notifications/initialized")
send(id=2, method="tools/list")
hints = result(2)["tools"][0]["annotations"]
print(f"declared: readOnlyHint {hints['readOnlyHint']}, idempotentHint {hints['idempotentHint']}")
thought = {"thought": "One.", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
for number, what in ((3, "first call"), (4, "the same call")):
    send(id=number, method="tools/call", params={"name": "sequentialthinking", "arguments": thought})
    answer = json.loads(result(number)["content"][0]["text"])
    print(f"{what}: thoughtHistoryLength {answer['thoughtHistoryLength']}")
server.stdin.close()
server.wait()
PYTHON
python3 ask.py >seen
cat seen
diff expected seen

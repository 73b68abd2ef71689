#!/usr/bin/env bash
# Two reference servers of MCP state the same `serverInfo.version` in releases whose tools differ: it is not the version of
# the package. The name and version of a server do not identify its definitions.
#
# MCP, 2025-11-25, Lifecycle: `serverInfo` is the implementation information of the server, with its name and version.
#
# Seen on 2026-12-01:
#   filesystem 2025.8.21: secure-filesystem-server 0.2.0, tools without annotations 14
#   filesystem 2026.8.31: secure-filesystem-server 0.2.0, tools without annotations 0
#   memory 2025.8.4: memory-server 0.6.3, tools without annotations 9
#   memory 2026.8.31: memory-server 0.6.3, tools without annotations 0
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^#   \(.*: .*\)/\1/p' "$0" >"$work/expected"
cd "$work"
cat >ask.py <<'PYTHON'
import json
import subprocess
import sys

label, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def result(number):
    while True:
        message = json.loads(server.stdout.readline())
        if message.get("id") == number:
            return message["result"]


client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}}
send(id=1, method="initialize", params=client)
info = result(1)["serverInfo"]
send(method="notifications/initialized")
send(id=2, method="tools/list")
plain = sum("annotations" not in tool for tool in result(2)["tools"])
print(f"{label}: {info['name']} {info['version']}, tools without annotations {plain}")
server.stdin.close()
server.wait()
PYTHON
for release in filesystem@2025.8.21 filesystem@2026.8.31 memory@2025.8.4 memory@2026.8.31; do
    name=${release%@*}
    npm install --silent --no-fund --no-audit --prefix "$release" "@modelcontextprotocol/server-$release"
    arguments=()
    [ "$name" != filesystem ] || arguments=("$work")
    python3 ask.py "${release/@/ }" "$release/node_modules/.bin/mcp-server-$name" "${arguments[@]}"
done >seen
cat seen
diff expected seen

#!/usr/bin/env bash
# A tool of FastMCP that asks the user (`ctx.elicit`) works in MCP 2025-11-25 and fails in 2026-07-28, on the same server.
#
# The server accepts both revisions. In the newer one, a question has to be in the result of the call (`input_required`),
# and FastMCP neither returns it nor offers only the older revision: the call fails although the client has declared that
# it can ask. A client that begins with the newer revision, as the specification asks for, loses the question.
#
# Seen on 2026-12-01 with fastmcp 4.2.3 and mcp 2.3.0:
#   2025-11-25: the server asks: elicitation/create
#   2026-07-28: isError True, elicitation via server-initiated requests is unavailable: True
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^#   \(20.*\)/\1/p' "$0" >"$work/expected"
cd "$work"
python3 -m venv venv
venv/bin/pip install -q fastmcp==4.2.3 mcp==2.3.0
cat >server.py <<'PYTHON'
from fastmcp import Context, FastMCP

server = FastMCP("asks")


@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Which color?", response_type=str)
    return f"{answer.action}"


server.run(show_banner=False)
PYTHON
cat >client.py <<'PYTHON'
import json
import subprocess
import sys

CLIENT = {"name": "client", "version": "1"}
CAPABILITIES = {"elicitation": {"form": {}}}


def talk(messages, until):
    server = subprocess.Popen(
        [sys.executable, "server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    for message in messages:
        print(json.dumps({"jsonrpc": "2.0", **message}), file=server.stdin, flush=True)
        if "id" in message and message["method"] != "tools/call":
            json.loads(server.stdout.readline())
    for line in server.stdout:
        message = json.loads(line)
        if until(message):
            server.kill()
            return message


handshake = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": CLIENT}
asked = talk(
    [
        {"id": 1, "method": "initialize", "params": handshake},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "ask", "arguments": {}}},
    ],
    lambda message: message.get("method", "").startswith("elicitation") or message.get("id") == 2,
)
print("2025-11-25: the server asks:", asked.get("method"))
prefix = "io.modelcontextprotocol/"
meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientInfo": CLIENT, f"{prefix}clientCapabilities": CAPABILITIES}
answer = talk(
    [
        {"id": 1, "method": "server/discover", "params": {"_meta": meta}},
        {"id": 2, "method": "tools/call", "params": {"name": "ask", "arguments": {}, "_meta": meta}},
    ],
    lambda message: message.get("id") == 2,
)
text = json.dumps(answer)
unavailable = "elicitation via server-initiated requests is unavailable"
print(f"2026-07-28: isError {answer.get('result', {}).get('isError')}, {unavailable}: {unavailable in text.lower()}")
PYTHON
venv/bin/python client.py >seen
cat seen
diff expected seen

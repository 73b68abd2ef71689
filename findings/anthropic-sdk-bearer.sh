#!/usr/bin/env bash
# The Python SDK of Anthropic sends an API key as `Authorization: Bearer`, not as `x-api-key`.
#
# The API's documentation and the SDK's earlier versions use `x-api-key` for `api_key`, and `Authorization` for
# `auth_token` only. A server in between that takes `x-api-key` for the sign of Anthropic's API does not recognize these
# requests; `anthropic-version` is still there.
#
# Seen on 2026-11-28 with anthropic 2.14.0:
#   api_key: anthropic-version, authorization
#   auth_token: anthropic-version, authorization
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q anthropic==2.14.0
cat >"$work/expected" <<'TEXT'
api_key: anthropic-version, authorization
auth_token: anthropic-version, authorization
TEXT
cat >"$work/ask.py" <<'PYTHON'
import http.server
import json
import threading

import anthropic

ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "x"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
NAMES = ("anthropic-version", "authorization", "x-api-key")
seen = []


class Recorder(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        seen.append(sorted(name.lower() for name in self.headers if name.lower() in NAMES))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
threading.Thread(target=server.serve_forever, daemon=True).start()
for option in ("api_key", "auth_token"):
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", **{option: "secret"})
    client.messages.create(model="claude", max_tokens=5, messages=[{"role": "user", "content": "x"}])
    print(f"{option}: {', '.join(seen[-1])}")
PYTHON
env -u ANTHROPIC_API_KEY -u ANTHROPIC_AUTH_TOKEN -u ANTHROPIC_BASE_URL "$work/venv/bin/python" "$work/ask.py" >"$work/seen"
cat "$work/seen"
diff "$work/expected" "$work/seen"

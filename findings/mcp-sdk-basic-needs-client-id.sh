#!/usr/bin/env bash
# The authorization server of MCP's Python SDK states `client_secret_basic`, and refuses it unless `client_id` is in the
# body, too.
#
# RFC 6749, 2.3.1: a client that authenticates with HTTP Basic has its identifier in the header; the parameter is for
# clients that do not. A client that is registered with `client_secret_basic` cannot get tokens by the header alone.
#
# Seen on 2026-12-01 with mcp 2.3.0 and fastmcp 4.2.3:
#   stated: client_secret_basic True
#   registered: client_secret_basic
#   Basic alone: 401 Missing client_id
#   Basic, and client_id in the body: 401 authorization code does not exist
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^#   \(.*: .*\)/\1/p' "$0" >"$work/expected"
cd "$work"
python3 -m venv venv
venv/bin/pip install -q mcp==2.3.0 fastmcp==4.2.3 httpx
cat >ask.py <<'PYTHON'
import asyncio
import base64

import httpx
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

URL = "http://localhost:8000"
REDIRECT = "http://127.0.0.1:1/callback"


async def main():
    options = ClientRegistrationOptions(enabled=True)
    server = FastMCP("protected", auth=InMemoryOAuthProvider(base_url=URL, client_registration_options=options))
    transport = httpx.ASGITransport(app=server.http_app())
    async with httpx.AsyncClient(transport=transport, base_url=URL) as http:
        metadata = (await http.get("/.well-known/oauth-authorization-server")).json()
        stated = metadata["token_endpoint_auth_methods_supported"]
        print("stated: client_secret_basic", "client_secret_basic" in stated)
        wanted = {
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "client_secret_basic",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        client = (await http.post("/register", json=wanted)).json()
        print("registered:", client["token_endpoint_auth_method"])
        pair = f"{client['client_id']}:{client['client_secret']}"
        basic = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        form = {"grant_type": "authorization_code", "code": "x", "redirect_uri": REDIRECT, "code_verifier": "v" * 43}
        for what, more in (("Basic alone", {}), ("Basic, and client_id in the body", {"client_id": client["client_id"]})):
            answer = await http.post("/token", data=form | more, headers=basic)
            print(f"{what}: {answer.status_code} {answer.json().get('error_description')}")


asyncio.run(main())
PYTHON
venv/bin/python ask.py >seen
cat seen
diff expected seen

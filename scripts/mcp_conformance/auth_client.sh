#!/usr/bin/env bash
# The client for the scenarios auth/* of the conformance suite of MCP: logs in at the server at URL, and calls its tool.
#
# usage: auth_client.sh URL
#
# CACHALOT names the program (default: target/debug/cachalot of this repository). The suite sets
# MCP_CONFORMANCE_SCENARIO, and MCP_CONFORMANCE_CONTEXT to JSON with a registered client. Its authorization servers
# approve each login at once, so `open_url.py` stands for the browser. Logins that become necessary during the run
# (more scopes, another authorization server) use it, too.
set -u
url=${*: -1}
here=$(cd "$(dirname "$0")" && pwd)
cachalot=${CACHALOT:-$here/../../target/debug/cachalot}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder XDG_DATA_HOME=$folder/data XDG_CONFIG_HOME=$folder/config NO_COLOR=1
export CACHALOT_MCP_BROWSER="python3 $here/open_url.py"

context() {
    python3 -c 'import json, os, sys
print(json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get(sys.argv[1]) or "")' "$1"
}

client=$(context client_id)
CLIENT_SECRET=$(context client_secret)
export CLIENT_SECRET
# The document that the suite expects of a client; servers that do not read documents register the client.
arguments=(--client-id https://conformance-test.local/client-metadata.json)
if [ -n "$client" ]; then
    arguments=(--client-id "$client")
    [ -n "$CLIENT_SECRET" ] && arguments+=(--client-secret-env CLIENT_SECRET)
fi

# The URL to open is the first line of stderr that begins with a scheme.
timeout 25 "$cachalot" mcp login --no-browser "${arguments[@]}" "$url" \
    2> >(while IFS= read -r line; do
        printf '%s\n' "$line" >&2
        case $line in http://* | https://*) python3 "$here/open_url.py" "$line" ;; esac
    done) < /dev/null || exit 1

cat > "$folder/workflow.yaml" <<END
mcps:
  server: {url: "$url", required: true}
nodes:
  - name: call
    uses: mcp.server.test-tool
    output: answer
END
timeout 25 "$cachalot" run "$folder/workflow.yaml" < /dev/null

#!/usr/bin/env bash
# The official Python and JavaScript clients of OpenAI (Azure too), Anthropic (Bedrock and Vertex AI too)
# and Google, with their tool loops, boto3, and the Vercel AI SDK against a simulator with script.yaml.
#
#     cachalot simulate --port 4010 --script tests/sdks/script.yaml &
#     tests/sdks/run.sh http://127.0.0.1:4010
#
# With a second URL, that of a gateway (cachalot serve) in front of another such simulator, the clients of OpenAI and
# Anthropic are run against it, too.
#
# Installs the clients into a temporary folder. What cannot be run for want of Python, Node or the
# package registries is skipped with a notice; a failing check fails the script.
set -euo pipefail

if [ $# -ne 1 ] && [ $# -ne 2 ]; then
    echo "usage: $0 URL [GATEWAY]    (of a simulator with $(dirname "$0")/script.yaml, for instance http://127.0.0.1:4010)" >&2
    exit 2
fi
url=${1%/}
gateway=${2:-}
gateway=${gateway%/}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A registry that does not answer is as good as none.
install_limit=600
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

skip() {
    echo "skipped: $*"
}

python_checks() {
    command -v python3 >/dev/null || { skip "python: python3 is not installed"; return 0; }
    if ! python3 -m venv "$work/venv" >"$work/venv.log" 2>&1; then
        skip "python: python3 has no venv module"
        return 0
    fi
    if ! timeout "$install_limit" "$work/venv/bin/pip" install --quiet --disable-pip-version-check openai 'anthropic[bedrock,vertex]' openai-agents google-genai boto3 >"$work/pip.log" 2>&1; then
        skip "python: the packages cannot be installed: $(tail -n 1 "$work/pip.log" | grep . || echo "they took more than $install_limit s")"
        return 0
    fi
    local failed=0
    "$work/venv/bin/python" "$here/check_python.py" "$url" || failed=1
    if [ -n "$gateway" ]; then
        echo 'through the gateway:'
        "$work/venv/bin/python" "$here/check_python.py" "$gateway" || failed=1
    fi
    "$work/venv/bin/python" "$here/check_clouds.py" "$url" || failed=1
    "$work/venv/bin/python" "$here/check_converse.py" "$url" || failed=1
    return "$failed"
}

node_checks() {
    command -v node >/dev/null || { skip "node: node is not installed"; return 0; }
    command -v npm >/dev/null || { skip "node: npm is not installed"; return 0; }
    mkdir "$work/node"
    cp "$here/check_node.mjs" "$work/node/"
    echo '{"private": true, "type": "module"}' >"$work/node/package.json"
    if ! (cd "$work/node" && timeout "$install_limit" npm install --no-audit --no-fund --loglevel=error openai @anthropic-ai/sdk @openai/agents ai @ai-sdk/openai @ai-sdk/anthropic zod >"$work/npm.log" 2>&1); then
        skip "node: the packages cannot be installed: $(grep -m 1 -i error "$work/npm.log" || echo "they took more than $install_limit s")"
        return 0
    fi
    (cd "$work/node" && node check_node.mjs "$url")
    if [ -n "$gateway" ]; then
        echo 'through the gateway:'
        (cd "$work/node" && node check_node.mjs "$gateway")
    fi
}

python_checks || failed=1
node_checks || failed=1
exit "$failed"

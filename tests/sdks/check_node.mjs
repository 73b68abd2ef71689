// The official JavaScript clients of OpenAI and Anthropic, and the Vercel AI SDK, against a simulator
// with `script.yaml`.

import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from "@openai/agents";
import { generateText, stepCountIs, tool as aiTool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const url = process.argv[2];
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-node", maxRetries: 0 });
const claude = new Anthropic({ baseURL: url, apiKey: "sk-node", maxRetries: 0 });

const gpt = "gpt-5-mini";
const sonnet = "claude-sonnet-5";
const question = "Translate to French: good morning";
const answer = "[simulated French] good morning";
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const user = (content) => ({ role: "user", content });

const lookup = "Look up Bergen";
const found = "Found: Bergen is in Norway.";
const place = ({ city }) => `${city} is in Norway`;
const input = z.object({ city: z.string() });

const checks = {
  async chatWhole() {
    const got = await openai.chat.completions.create({ model: gpt, messages: [user(question)] });
    assert.equal(got.choices[0].message.content, answer);
    assert.equal(got.usage.total_tokens, got.usage.prompt_tokens + got.usage.completion_tokens);
  },

  async chatStreamed() {
    const stream = await openai.chat.completions.create({
      model: gpt, messages: [user(question)], stream: true, stream_options: { include_usage: true },
    });
    let text = "";
    let usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, answer);
    assert.ok(usage.completion_tokens > 0);
  },

  async chatTools() {
    const tools = [{ type: "function", function: { name: "find", parameters: schema, strict: true } }];
    const messages = [user("Where?")];
    const first = openai.chat.completions.stream({ model: gpt, messages, tools, tool_choice: "required" });
    const message = (await first.finalChatCompletion()).choices[0].message;
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "simulated" });
    messages.push(
      { role: "assistant", content: message.content, tool_calls: message.tool_calls.map(({ id, type, function: f }) => ({ id, type, function: { name: f.name, arguments: f.arguments } })) },
      { role: "tool", tool_call_id: message.tool_calls[0].id, content: "in Bergen" },
    );
    const second = await openai.chat.completions.create({ model: gpt, messages, tools });
    assert.match(second.choices[0].message.content, /in Bergen/);
  },

  async chatStructured() {
    const format = { type: "json_schema", json_schema: { name: "place", schema, strict: true } };
    const got = await openai.chat.completions.parse({ model: gpt, messages: [user("Plan.")], response_format: format });
    assert.deepEqual(JSON.parse(got.choices[0].message.content), { city: "simulated" });
  },

  async responsesWhole() {
    const got = await openai.responses.create({ model: gpt, input: question });
    assert.equal(got.output_text, answer);
    assert.equal(got.status, "completed");
  },

  async responsesStreamed() {
    const stream = openai.responses.stream({ model: gpt, input: question });
    let text = "";
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.equal(text, answer);
    assert.equal((await stream.finalResponse()).output_text, answer);
  },

  async responsesTools() {
    const tools = [{ type: "function", name: "find", parameters: schema, strict: true }];
    const more = { model: gpt, tools, store: false, include: ["reasoning.encrypted_content"] };
    const input = [user("Where?")];
    const first = await openai.responses.create({ ...more, input, tool_choice: "required" });
    assert.deepEqual(first.output.map((item) => item.type), ["reasoning", "function_call"]);
    input.push(...first.output);
    input.push({ type: "function_call_output", call_id: first.output[1].call_id, output: "in Bergen" });
    const second = await openai.responses.create({ ...more, input });
    assert.match(second.output_text, /in Bergen/);
  },

  async responsesStructured() {
    const format = { type: "json_schema", name: "place", schema, strict: true };
    const got = await openai.responses.create({ model: gpt, input: "Plan.", text: { format } });
    assert.deepEqual(JSON.parse(got.output_text), { city: "simulated" });
  },

  async messagesWhole() {
    const got = await claude.messages.create({ model: sonnet, max_tokens: 500, messages: [user(question)] });
    assert.equal(got.content[0].text, answer);
    assert.equal(got.stop_reason, "end_turn");
    const counted = await claude.messages.countTokens({ model: sonnet, messages: [user(question)] });
    assert.equal(counted.input_tokens, got.usage.input_tokens);
  },

  async messagesStreamed() {
    const stream = claude.messages.stream({ model: sonnet, max_tokens: 500, messages: [user(question)] });
    let text = "";
    stream.on("text", (piece) => { text += piece; });
    const final = await stream.finalMessage();
    assert.equal(text, answer);
    assert.equal(final.content[0].text, answer);
  },

  async messagesToolsAndThinking() {
    const tools = [{ name: "find", input_schema: schema }];
    const more = { model: sonnet, max_tokens: 3000, tools };
    const messages = [user("Where?")];
    const first = await claude.messages.stream({ ...more, messages, tool_choice: { type: "any" } }).finalMessage();
    assert.deepEqual(first.content[0].input, { city: "simulated" });
    messages.push({ role: "assistant", content: first.content });
    messages.push(user([{ type: "tool_result", tool_use_id: first.content[0].id, content: "in Bergen" }]));
    const second = await claude.messages.create({ ...more, messages });
    assert.match(second.content[0].text, /in Bergen/);

    const thinking = { type: "adaptive", display: "summarized" };
    const asked = [user("Why?")];
    const thought = await claude.messages.create({ model: sonnet, max_tokens: 3000, thinking, messages: asked });
    assert.deepEqual(thought.content.map((block) => block.type), ["thinking", "text"]);
    asked.push({ role: "assistant", content: thought.content }, user("And?"));
    await claude.messages.create({ model: sonnet, max_tokens: 3000, thinking, messages: asked });
  },

  async messagesStructured() {
    const got = await claude.messages.create({
      model: sonnet, max_tokens: 500, messages: [user("Plan.")], output_config: { format: { type: "json_schema", schema } },
    });
    assert.deepEqual(JSON.parse(got.content[0].text), { city: "simulated" });
  },

  async responsesContinued() {
    const first = await openai.responses.create({ model: gpt, input: question });
    assert.equal((await openai.responses.retrieve(first.id)).id, first.id);
    const second = await openai.responses.create({ model: gpt, input: "And?", previous_response_id: first.id });
    assert.equal(second.previous_response_id, first.id);
    await assert.rejects(openai.responses.retrieve("resp_none"), OpenAI.NotFoundError);
  },

  async chatChoices() {
    const got = await openai.chat.completions.create({ model: gpt, messages: [user(question)], n: 2 });
    assert.deepEqual(got.choices.map((choice) => choice.message.content), [answer, answer]);
  },

  async loopOfChat() {
    const find = { type: "function", function: { name: "find", parse: JSON.parse, function: place, parameters: schema } };
    for (const stream of [false, true]) {
      const runner = openai.chat.completions.runTools({ model: gpt, messages: [user(lookup)], tools: [find], stream });
      assert.equal(await runner.finalContent(), found);
    }
  },

  async loopOfMessages() {
    const find = betaZodTool({ name: "find", description: "Says where a city is.", inputSchema: input, run: place });
    const more = { model: sonnet, max_tokens: 500, messages: [user(lookup)], tools: [find] };
    const final = await claude.beta.messages.toolRunner(more);
    assert.equal(final.content[0].text, found);
    let last;
    for await (const stream of claude.beta.messages.toolRunner({ ...more, stream: true })) last = await stream.finalMessage();
    assert.equal(last.content[0].text, found);
  },

  async loopOfAgents() {
    setTracingDisabled(true);
    const find = agentTool({ name: "find", description: "Says where a city is.", parameters: input, execute: place });
    const agent = new Agent({ name: "guide", instructions: "Be short.", model: gpt, tools: [find] });
    for (const useResponses of [true, false]) {
      const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: openai, useResponses }) });
      assert.equal((await runner.run(agent, lookup)).finalOutput, found);
    }
  },

  async loopOfVercel() {
    const gpts = createOpenAI({ baseURL: `${url}/v1`, apiKey: "sk-node" });
    const claudes = createAnthropic({ baseURL: `${url}/v1`, apiKey: "sk-node" });
    const find = aiTool({ description: "Says where a city is.", inputSchema: input, execute: place });
    for (const model of [gpts(gpt), gpts.chat(gpt), claudes(sonnet)]) {
      const got = await generateText({ model, tools: { find }, prompt: lookup, maxRetries: 0, stopWhen: stepCountIs(5) });
      assert.equal(got.text, found);
      assert.equal(got.steps.length, 2);
    }
  },

  async errors() {
    const kinds = {
      400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
      429: "RateLimitError", 500: "InternalServerError", 529: "InternalServerError",
    };
    for (const [status, kind] of Object.entries(kinds)) {
      const messages = [user(`simulate ${status}`)];
      const seen = (error) => error.status === Number(status);
      await assert.rejects(openai.chat.completions.create({ model: gpt, messages }), (error) => error instanceof OpenAI[kind] && seen(error));
      await assert.rejects(openai.responses.create({ model: gpt, input: messages }), (error) => error instanceof OpenAI[kind] && seen(error));
      await assert.rejects(claude.messages.create({ model: sonnet, max_tokens: 9, messages }), (error) => error instanceof Anthropic[kind] && seen(error));
    }
    await assert.rejects(claude.messages.create({ model: sonnet, max_tokens: 9, messages: [] }), /at least one message is required/);
    const cut = await openai.chat.completions.create({ model: gpt, messages: [user("simulate cut")], stream: true });
    await assert.rejects(async () => { for await (const _ of cut); });
  },

  async models() {
    assert.ok((await openai.models.list()).data.length > 1);
    assert.equal((await openai.models.retrieve(gpt)).id, gpt);
    assert.equal((await claude.models.list()).data[0].type, "model");
  },
};

for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
  } catch (error) {
    console.error(`node: ${name} failed`);
    throw error;
  }
}
console.log(`node: ${Object.keys(checks).length} checks passed`);

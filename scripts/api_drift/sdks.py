"""The request, item, tool, event and usage types of the official SDKs."""

import gzip
import json
import re

from .catalog import compare_models
from .comparison import (
    compare_ids,
    compare_kinds,
    compare_members,
    compare_tools,
    compare_values,
    counters,
    kinds_of,
    paths,
    values,
)
from .declarations import Failure, declared, require, shared_lists, words, words_of
from .schemas import schema_of
from .typescript import Types

# The description of the API in botocore.
BEDROCK = "botocore/data/bedrock-runtime/*/service-2.json.gz"


def openai(folder, findings):
    resources = folder / "resources"
    types = Types(resources / "responses/responses.d.ts", resources / "shared.d.ts")
    chat = Types(resources / "chat/completions/completions.d.ts", resources / "completions.d.ts",
                 resources / "shared.d.ts")
    own, own_chat = require("responses"), require("chat")
    without = {"input", "messages", "tools", "functions", "tool_choice"}
    request = types.members("ResponseCreateParamsBase")
    compare_members(findings, "responses", paths(types, request, without), own, 40)
    of_chat = chat.members("ChatCompletionCreateParamsBase")
    compare_members(findings, "chat", paths(chat, of_chat, without), own_chat, 40)
    embeddings = set(Types(resources / "embeddings.d.ts").members("EmbeddingCreateParams"))
    compare_members(findings, "embeddings", embeddings, require("embeddings"), 4)
    items, tools = types.kinds("ResponseInputItem"), types.kinds("Tool")
    findings.compare("responses.item", items, own.items, 20)
    compare_kinds(findings, "responses.item", items, 20)
    compare_tools(findings, "responses", tools, own, 10)
    compare_tools(findings, "chat", chat.kinds("ChatCompletionTool"), own_chat, 2)
    findings.lacking("responses.part", types.kinds("ResponseInputContent"), own.parts, 3)
    findings.lacking("chat.part", chat.kinds("ChatCompletionContentPart"), own_chat.parts, 3)
    findings.unread("responses.event", types.kinds("ResponseStreamEvent"), words_of("responses"), 40)
    shared = shared_lists()
    nested = kinds_of(types, "ResponseCreateParamsBase") | kinds_of(chat, "ChatCompletionCreateParamsBase")
    findings.lacking("openai.type", nested - tools - items, shared["types"], 20)
    compare_ids(findings, "openai.id", types, ["ResponseCreateParamsBase"], shared["objects"] | own.objects)
    known = words_of("responses") | words_of("openai") | words("crates/accounting/src/**/*.rs")
    usage = counters(types, "ResponseUsage") | counters(types, "Response.ToolUsage")
    findings.unread("responses.usage", usage, known, 10)
    findings.unread("chat.usage", counters(chat, "CompletionUsage"), words_of("chat") | words_of("openai"), 5)
    compare_values(findings, "responses.value", values(types, request, without), 30)
    compare_values(findings, "chat.value", values(chat, of_chat, without | {"audio"}), 20)
    models = chat.alias_texts("ChatModel") | chat.alias_texts("AllModels")
    recent = {name for name in models if re.match(r"gpt-[5-9]|o[3-9]", name)}
    compare_models(findings, "openai", recent, 20)


def anthropic(folder, findings):
    types = Types(folder / "resources/beta/messages/messages.d.ts", folder / "resources/messages/messages.d.ts")
    own = require("messages")
    request, usage = types.members("MessageCreateParamsBase"), types.members("BetaUsage")
    outside = paths(types, request, {"system", "tools", "tool_choice"})
    compare_members(findings, "messages", outside, own, 40)
    blocks, tools = types.kinds("BetaContentBlockParam"), types.kinds("BetaToolUnion")
    # Some blocks exist only in the results of tools.
    blocks |= types.kinds_in(types.members("BetaToolResultBlockParam")["content"])
    findings.compare("messages.item", blocks, own.items, 15)
    compare_kinds(findings, "messages.item", blocks, 15)
    compare_tools(findings, "messages", tools, own, 15)
    compare_kinds(findings, "messages.role", types.kinds("BetaMessageParam", "role"), 2)
    events = types.kinds("BetaRawMessageStreamEvent") | types.kinds("BetaRawContentBlockDelta")
    findings.unread("messages.event", events, words_of("messages"), 10)
    shared = shared_lists()
    findings.lacking("messages.type", kinds_of(types, "MessageCreateParamsBase") - tools - blocks, shared["types"], 20)
    compare_ids(findings, "messages.id", types, ["MessageCreateParamsBase"], shared["objects"] | own.objects)
    known = words_of("messages") | words("crates/accounting/src/**/*.rs")
    findings.unread("messages.usage", counters(types, "BetaUsage"), known, 10)
    findings.unread("messages.iteration", types.kinds_in(usage["iterations"]), known, 3)
    found = values(types, request, {"messages", "system", "tools", "tool_choice"})
    found |= {f"usage.service_tier={value}" for value in types.texts(usage["service_tier"].tokens)}
    compare_values(findings, "messages.value", found, 20)
    version = set(re.findall(r"'anthropic-version': '([\d-]+)'", (folder / "client.js").read_text(encoding="utf-8")))
    sources = words("crates/model/src/**/*.rs", "crates/wire/src/**/*.rs", "crates/simulator/src/**/*.rs")
    findings.unread("messages.version", version, sources)
    compare_models(findings, "anthropic", types.alias_texts("Model"), 5)


def google(folder, findings):
    types = Types(folder / "dist/genai.d.ts")
    own = require("gemini")
    members = google_wire((folder / "dist/index.mjs").read_text(encoding="utf-8"))
    compare_members(findings, "gemini", members, own, 25)
    compare_tools(findings, "gemini", set(types.members("Tool")), own, 8)
    findings.compare("gemini.part", set(types.members("Part")), own.parts, 8)
    usage = set(types.members("GenerateContentResponseUsageMetadata")) | set(types.members("UsageMetadata"))
    findings.unread("gemini.usage", usage, words_of("gemini"), 10)
    models = set()
    for name in ("Model", "Model_2"):
        models |= types.alias_texts(name) if types.resolve(name) else set()
    compare_models(findings, "google", {name for name in models if name.startswith("gemini-")}, 10)
    interactions(types, findings)


def interactions(types, findings):
    own = declared("interactions")
    if own is None:
        findings.add("new", "format", "interactions")
        return
    request = {**types.members("CreateModelInteraction"), **types.members("CreateAgentInteraction")}
    outside = paths(types, request, {"input", "tools", "response_format", "environment"})
    compare_members(findings, "interactions", outside, own, 20)
    compare_tools(findings, "interactions", types.kinds("Tool_2"), own, 5)
    findings.compare("interactions.item", types.kinds("Step"), own.items, 10)
    objects = shared_lists()["objects"] | own.objects
    compare_ids(findings, "interactions.id", types, ["CreateModelInteraction", "CreateAgentInteraction"], objects)
    known = words_of("interactions")
    findings.unread("interactions.event", types.kinds("InteractionSSEEvent", "event_type"), known, 5)
    findings.unread("interactions.delta", types.kinds("StepDeltaData"), known, 10)
    findings.unread("interactions.status", types.alias_texts("InteractionStatus_2"), known, 5)
    findings.unread("interactions.usage", set(types.members("Usage")), known, 8)
    without = {"input", "tools", "response_format", "environment", "response_modalities"}
    compare_values(findings, "interactions.value", values(types, request, without), 3)


def google_wire(source):
    """The paths of the members of a request, as the SDK's functions write them."""
    members = {"contents", "model"}
    for name in ("generateContentParametersTo", "generateContentConfigTo"):
        for platform in ("Mldev", "Vertex"):
            # A function may exist several times, with `$1` behind its name.
            for found in re.finditer(rf"^function {name}{platform}(?:\$\d+)?\(", source, re.M):
                body = source[found.end() : source.find("\nfunction ", found.end())]
                for target, path in re.findall(r"setValueByPath\((\w+), \[\s*'(\w+)'", body):
                    is_generation = target == "toObject" and "Config" in name
                    members.add(f"generationConfig.{path}" if is_generation else path)
    return members - {"_url", "sdkHttpResponse"}


def botocore(folder, findings):
    files = sorted(folder.glob(BEDROCK))
    if not files:
        raise Failure("no service-2.json.gz of bedrock-runtime")
    shapes = json.loads(gzip.decompress(files[-1].read_bytes()))["shapes"]
    names = lambda shape: set(shapes[shape]["members"])
    known = words_of("converse")
    request = names("ConverseRequest") - {"modelId"}
    findings.unread("converse.member", request, known, 10)
    schema = schema_of("converse")
    findings.lacking("simulator.converse.member", request, set(schema.root["properties"]))
    texts = schema.texts()
    for section, shape in (("item", "ContentBlock"), ("tool", "Tool"), ("system", "SystemContentBlock")):
        findings.unread(f"converse.{section}", names(shape), known, 2)
        findings.lacking(f"simulator.converse.{section}", names(shape), texts)
    findings.unread("converse.event", names("ConverseStreamOutput") | names("ContentBlockDelta"), known, 8)
    findings.unread("converse.usage", names("TokenUsage") | names("CacheDetail"), known, 5)
    found = {f"{member}={value}" for member, shape in (("ttl", "CacheTTL"), ("service_tier", "ServiceTierType"))
             for value in shapes[shape]["enum"]}
    compare_values(findings, "converse.value", found, 4)
    for section, shape in (("role", "ConversationRole"), ("stop", "StopReason")):
        findings.unread(f"converse.{section}", set(shapes[shape]["enum"]), known, 2)

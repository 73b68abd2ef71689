"""Amazon Bedrock's Converse through boto3 against a simulator with `script.yaml`."""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ParamValidationError

URL = sys.argv[1]
BEDROCK = boto3.client(
    "bedrock-runtime",
    region_name="us-east-1",
    endpoint_url=URL,
    # The access key of the simulator, which is no secret. A bearer token would need HTTPS.
    aws_access_key_id="AKIASIMULATED0000000",
    aws_secret_access_key="simulated/secret/access/key/0000000000000",
    config=Config(retries={"max_attempts": 0}),
)
SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "amazon.nova-pro-v1:0"

QUESTION = "Translate to French: good morning"
ANSWER = "[simulated French] good morning"
TOOLS = {"tools": [{"toolSpec": {"name": "find", "description": "Looks something up.", "inputSchema": {"json": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}}]}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def user(text):
    return {"role": "user", "content": [{"text": text}]}


def refused(code, words, **request):
    try:
        BEDROCK.converse(**request)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error.response
        assert words in error.response["Error"]["Message"], error.response
    else:
        raise AssertionError(f"taken: {request}")


def read(stream):
    """Returns the blocks of a streamed answer, as the whole answer has them, and its last two events."""
    blocks, stop, metadata = {}, None, None
    for event in stream:
        (kind, data), = event.items()
        index = data.get("contentBlockIndex")
        if kind == "contentBlockStart":
            blocks[index] = {"toolUse": {**data["start"]["toolUse"], "input": ""}}
        elif kind == "contentBlockDelta":
            delta = data["delta"]
            if "text" in delta:
                blocks.setdefault(index, {"text": ""})["text"] += delta["text"]
            elif "toolUse" in delta:
                blocks[index]["toolUse"]["input"] += delta["toolUse"]["input"]
            else:
                text = blocks.setdefault(index, {"reasoningContent": {"reasoningText": {"text": ""}}})
                (name, more), = delta["reasoningContent"].items()
                known = text["reasoningContent"]["reasoningText"]
                known[name] = known.get(name, "") + more
        elif kind == "messageStop":
            stop = data
        elif kind == "metadata":
            metadata = data
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
    return list(blocks.values()), stop, metadata


def converse_whole():
    for model in [SONNET, NOVA]:
        answer = BEDROCK.converse(modelId=model, messages=[user(QUESTION)], system=[{"text": "Be brief."}])
        assert answer["output"]["message"]["content"][-1] == {"text": ANSWER}, answer
        assert answer["stopReason"] == "end_turn"
        usage = answer["usage"]
        assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"]
        assert answer["ResponseMetadata"]["RequestId"]


def converse_streamed():
    stream = BEDROCK.converse_stream(modelId=SONNET, messages=[user(QUESTION)])["stream"]
    blocks, stop, metadata = read(stream)
    assert blocks == [{"text": ANSWER}], blocks
    assert stop["stopReason"] == "end_turn" and metadata["usage"]["outputTokens"] > 0


def converse_tools_and_thinking():
    request = {"modelId": SONNET, "toolConfig": TOOLS, "additionalModelRequestFields": THINKING,
               "inferenceConfig": {"maxTokens": 2048}}
    for streams in [False, True]:
        messages = [user("Consider Bergen")]
        if streams:
            content, stop, _ = read(BEDROCK.converse_stream(messages=messages, **request)["stream"])
            assert stop["stopReason"] == "tool_use"
        else:
            content = BEDROCK.converse(messages=messages, **request)["output"]["message"]["content"]
        assert content[0]["reasoningContent"]["reasoningText"]["signature"], content
        call = content[-1]["toolUse"]
        assert (call["name"], call["input"]) == ("find", {"city": "Bergen"}), content
        result = {"toolUseId": call["toolUseId"], "content": [{"text": "rain"}], "status": "success"}
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [{"toolResult": result}]}]
        answer = BEDROCK.converse(messages=messages, **request)
        assert answer["output"]["message"]["content"][-1]["text"] == "Found: rain.", answer
        content[0]["reasoningContent"]["reasoningText"]["signature"] = "forged"
        refused("ValidationException", "signature", messages=messages, **request)


def converse_cache():
    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    system = [{"text": "whale " * 3_000}, point]
    for name, other in [("cacheWriteInputTokens", "cacheReadInputTokens"), ("cacheReadInputTokens", "cacheWriteInputTokens")]:
        usage = BEDROCK.converse(modelId=SONNET, messages=[user(QUESTION)], system=system)["usage"]
        assert usage[name] > 1_000 and usage[other] == 0, usage
        details = [{"ttl": "1h", "inputTokens": usage[name]}] if name.startswith("cacheWrite") else None
        assert usage.get("cacheDetails") == details, usage


def converse_structured():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
              "additionalProperties": False}
    text_format = {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(schema), "name": "trip"}}}
    answer = BEDROCK.converse(modelId=SONNET, messages=[user("Plan.")], outputConfig={"textFormat": text_format})
    assert "city" in json.loads(answer["output"]["message"]["content"][0]["text"]), answer


def converse_refusals():
    assistant = {"role": "assistant", "content": [{"text": "Hm."}]}
    call = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "find", "input": {}}}]}
    for words, messages, more in [
        ("must alternate", [user("a"), user("b")], {}),
        ("must start with a user message", [assistant], {}),
        ("is blank", [user(" ")], {}),
        ("toolConfig field must be defined", [user("a"), call, user("b")], {}),
        ("Expected toolResult blocks at messages.2.content", [user("a"), call, user("b")], {"toolConfig": TOOLS}),
        ("max_tokens", [user("a")], {"inferenceConfig": {"maxTokens": 10_000_000}}),
        ("budget_tokens", [user("a")], {"additionalModelRequestFields": {"thinking": {"type": "enabled"}}}),
        ("Extra inputs", [user("a")], {"additionalModelRequestFields": {"no_such_field": 1}}),
    ]:
        refused("ValidationException", words, modelId=SONNET, messages=messages, **more)
    point = [{"text": "whale"}, {"cachePoint": {"type": "default"}}]
    refused("AccessDeniedException", "prompt caching", modelId="meta.llama3-70b-instruct-v1:0",
            messages=[{"role": "user", "content": point}])
    try:
        BEDROCK.converse(modelId=SONNET, messages=[user("a")], temperature=1)
    except ParamValidationError:
        pass
    else:
        raise AssertionError("the client takes what its service model does not have")


def main():
    checks = [value for name, value in globals().items() if name.startswith("converse_")]
    failed = 0
    for check in checks:
        try:
            check()
        except Exception as error:  # noqa: BLE001
            failed += 1
            print(f"python: {check.__name__}: {type(error).__name__}: {error}")
    print(f"python: {len(checks) - failed} of {len(checks)} checks of Converse passed")
    sys.exit(bool(failed))


main()

"""Clients of further providers against a simulator with `script.yaml`: AzureOpenAI, google-genai,
AnthropicVertex, AnthropicBedrock, botocore."""

import json
import sys
import urllib.request

import anthropic
import botocore.config
import botocore.session
import openai
from google import genai
from google.genai import errors, types
from google.oauth2 import service_account
from pydantic import BaseModel

URL = sys.argv[1]
AZURE = openai.AzureOpenAI(
    azure_endpoint=URL, api_key="azure-python", api_version="2024-10-21", max_retries=0
)
AZURE_V1 = openai.OpenAI(base_url=f"{URL}/openai/v1", api_key="azure-python", max_retries=0)
GEMINI = genai.Client(api_key="gemini-python", http_options=types.HttpOptions(base_url=URL))

QUESTION = "Translate to French: good morning"
ANSWER = "[simulated French] good morning"
LONG = "Translate to French: " + "whale " * 3_000


class Trip(BaseModel):
    city: str
    days: int


def find(city: str) -> str:
    """Looks something up."""
    return f"in {city}"


# Azure OpenAI


def azure_deployment():
    answer = AZURE.chat.completions.create(
        model="my-deployment", messages=[{"role": "user", "content": QUESTION}]
    )
    assert answer.choices[0].message.content == ANSWER
    assert answer.model == "my-deployment"
    chunks = list(
        AZURE.chat.completions.create(
            model="my-deployment", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == ANSWER


def azure_responses():
    assert AZURE.responses.create(model="gpt-4o", input=QUESTION).output_text == ANSWER


def azure_v1():
    answer = AZURE_V1.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": QUESTION}]
    )
    assert answer.choices[0].message.content == ANSWER
    assert AZURE_V1.responses.create(model="gpt-4o", input=QUESTION).output_text == ANSWER


def azure_v1_compaction():
    compacted = AZURE_V1.responses.compact(model="gpt-5.6", input=QUESTION)
    assert [item.type for item in compacted.output] == ["message", "compaction"], compacted
    assert compacted.usage.output_tokens > 0
    counted = AZURE_V1.responses.input_tokens.count(model="gpt-5.6", input=QUESTION)
    assert counted.input_tokens > 0


def azure_v1_embeddings():
    embedded = AZURE_V1.embeddings.create(model="text-embedding-3-small", input=["a whale", "a dolphin"])
    assert [len(one.embedding) for one in embedded.data] == [1_536, 1_536]


# Gemini


def gemini_interactions():
    model = "gemini-3.8-flash"
    tools = [{"type": "function", "name": "find", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]
    first = GEMINI.interactions.create(model=model, input="Look up Bergen", tools=tools)
    call = first.steps[-1]
    assert first.status == "requires_action" and call.name == "find", first
    result = {"type": "function_result", "call_id": call.id, "name": call.name, "result": "in Bergen"}
    second = GEMINI.interactions.create(
        model=model, previous_interaction_id=first.id, input=[result], tools=tools
    )
    assert second.output_text == "Found: in Bergen.", second
    assert GEMINI.interactions.get(id=second.id).status == "completed"
    events = list(GEMINI.interactions.create(model=model, input=QUESTION, stream=True))
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    assert "".join(delta.text for delta in deltas) == ANSWER
    assert events[-1].interaction.usage.total_output_tokens > 0


def gemini_embeddings():
    embedded = GEMINI.models.embed_content(model="gemini-embedding-001", contents=["a whale", "a dolphin"])
    assert [len(one.values) for one in embedded.embeddings] == [3_072, 3_072]


def gemini_whole():
    answer = GEMINI.models.generate_content(model="gemini-2.5-flash", contents=QUESTION)
    assert answer.text == ANSWER
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    usage = answer.usage_metadata
    assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count
    assert answer.model_version == "gemini-2.5-flash"


def gemini_streamed():
    for model in ["gemini-2.5-flash", "gemini-3-pro-preview"]:
        chunks = list(GEMINI.models.generate_content_stream(model=model, contents=QUESTION))
        assert "".join(chunk.text or "" for chunk in chunks) == ANSWER
        assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP


def gemini_tools():
    # The SDK calls the function and sends the model's content back, signatures included.
    for model in ["gemini-2.5-flash", "gemini-3-pro-preview"]:
        answer = GEMINI.models.generate_content(
            model=model, contents="Look up Bergen", config={"tools": [find]}
        )
        assert answer.text == "Found: in Bergen." or "in Bergen" in answer.text, answer.text


def gemini_signatures():
    tools = [types.Tool(function_declarations=[{"name": "find", "parameters_json_schema": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}])]
    config = types.GenerateContentConfig(tools=tools)
    user = types.Content(role="user", parts=[types.Part(text="Look up Bergen")])
    model = "gemini-3-pro-preview"
    content = GEMINI.models.generate_content(model=model, contents=[user], config=config).candidates[0].content
    call = content.parts[0].function_call
    assert content.parts[0].thought_signature and call.name == "find"
    response = types.Part(function_response=types.FunctionResponse(
        id=call.id, name=call.name, response={"output": "rain"}))
    result = types.Content(role="user", parts=[response])
    answer = GEMINI.models.generate_content(model=model, contents=[user, content, result], config=config)
    assert "rain" in answer.text
    content.parts[0].thought_signature = None
    try:
        GEMINI.models.generate_content(model=model, contents=[user, content, result], config=config)
    except errors.ClientError as error:
        assert error.code == 400 and "thought_signature" in error.message
    else:
        raise AssertionError("a call without a signature was taken")


def gemini_structured_and_thinking():
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Trip)
    answer = GEMINI.models.generate_content(model="gemini-2.5-flash", contents="Plan.", config=config)
    assert Trip.model_validate(json.loads(answer.text))
    config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_level="low"))
    try:
        GEMINI.models.generate_content(model="gemini-2.5-flash", contents=QUESTION, config=config)
    except errors.ClientError as error:
        assert error.code == 400 and error.status == "INVALID_ARGUMENT"
    else:
        raise AssertionError("Gemini 2.5 has no thinking levels")
    GEMINI.models.generate_content(model="gemini-3-pro-preview", contents=QUESTION, config=config)


def gemini_implicit_cache():
    for expected in [None, True]:
        usage = GEMINI.models.generate_content(model="gemini-2.5-flash", contents=LONG).usage_metadata
        assert bool(usage.cached_content_token_count) == bool(expected), usage


def gemini_explicit_cache():
    config = types.CreateCachedContentConfig(contents=LONG, system_instruction="Be brief.", ttl="600s")
    cached = GEMINI.caches.create(model="gemini-2.5-flash", config=config)
    held = cached.usage_metadata.total_token_count
    config = types.GenerateContentConfig(cached_content=cached.name)
    usage = GEMINI.models.generate_content(model="gemini-2.5-flash", contents=QUESTION, config=config).usage_metadata
    assert usage.cached_content_token_count == held, (usage, held)
    longer = GEMINI.caches.update(name=cached.name, config=types.UpdateCachedContentConfig(ttl="7200s"))
    assert longer.expire_time > cached.expire_time
    assert cached.name in [one.name for one in GEMINI.caches.list()]
    config.system_instruction = "Be brief."
    try:
        GEMINI.models.generate_content(model="gemini-2.5-flash", contents=QUESTION, config=config)
    except errors.ClientError as error:
        assert error.code == 400 and "system_instruction" in error.message
    else:
        raise AssertionError("a system instruction beside a cached content was taken")
    GEMINI.caches.delete(name=cached.name)
    try:
        GEMINI.caches.get(name=cached.name)
    except errors.ClientError as error:
        assert error.code == 403
    else:
        raise AssertionError("the content is still there")


def gemini_counts_tokens():
    assert GEMINI.models.count_tokens(model="gemini-2.5-flash", contents=QUESTION).total_tokens > 0


# Anthropic on Vertex AI and Bedrock

ACCOUNT = json.loads(urllib.request.urlopen(f"{URL}/service-account.json").read())
CREDENTIALS = service_account.Credentials.from_service_account_info(
    ACCOUNT, scopes=["https://www.googleapis.com/auth/cloud-platform"]
)
VERTEX = anthropic.AnthropicVertex(
    region="us-east5", project_id="p", base_url=f"{URL}/v1", credentials=CREDENTIALS, max_retries=0
)
BEDROCK = anthropic.AnthropicBedrock(
    aws_access_key="AKIASIMULATED0000000",
    aws_secret_key="simulated/secret/access/key/0000000000000",
    aws_region="us-east-1",
    base_url=URL,
    max_retries=0,
)


def claude(client, model, **more):
    return client.messages.create(
        model=model, max_tokens=100, messages=[{"role": "user", "content": QUESTION}], **more
    )


def clouds_whole_and_streamed():
    for client, model in [
        (VERTEX, "claude-sonnet-4-5@20250929"),
        (BEDROCK, "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ]:
        assert claude(client, model).content[0].text == ANSWER
        with client.messages.stream(
            model=model, max_tokens=100, messages=[{"role": "user", "content": QUESTION}]
        ) as stream:
            assert "".join(stream.text_stream) == ANSWER
            assert stream.get_final_message().usage.output_tokens > 0


def clouds_run_tools():
    tool = {
        "name": "find", "description": "Looks something up.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    question = {"role": "user", "content": "Look up Oslo"}
    for client, model in [(VERTEX, "claude-sonnet-4-5@20250929"), (BEDROCK, BEDROCK_MODEL)]:
        asked = client.messages.create(model=model, max_tokens=100, messages=[question], tools=[tool])
        [call] = [block for block in asked.content if block.type == "tool_use"]
        assert call.input == {"city": "Oslo"}, call
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "in Oslo"}
        messages = [question, {"role": "assistant", "content": asked.content}, {"role": "user", "content": [result]}]
        answer = client.messages.create(model=model, max_tokens=100, messages=messages, tools=[tool])
        assert answer.content[0].text == "Found: in Oslo.", answer


def clouds_refuse_other_credentials():
    other = anthropic.AnthropicBedrock(
        aws_access_key="AKIASIMULATED0000000", aws_secret_key="other", aws_region="us-east-1",
        base_url=URL, max_retries=0,
    )
    try:
        claude(other, "anthropic.claude-sonnet-4-5-20250929-v1:0")
    except anthropic.PermissionDeniedError as error:
        assert "signature" in error.message
    else:
        raise AssertionError("a wrong signature was taken")
    unknown = anthropic.AnthropicVertex(
        region="us-east5", project_id="p", base_url=f"{URL}/v1", access_token="ya29.other", max_retries=0
    )
    try:
        claude(unknown, "claude-sonnet-4-5@20250929")
    except anthropic.AuthenticationError:
        pass
    else:
        raise AssertionError("an unknown token was taken")


BOTOCORE = botocore.session.get_session().create_client(
    "bedrock-runtime",
    region_name="us-east-1",
    endpoint_url=URL,
    aws_access_key_id="AKIASIMULATED0000000",
    aws_secret_access_key="simulated/secret/access/key/0000000000000",
    aws_session_token="a-session",
    config=botocore.config.Config(retries={"max_attempts": 1}),
)
BEDROCK_MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def invocation(**more):
    return json.dumps({
        "anthropic_version": "bedrock-2023-05-31", "max_tokens": 100,
        "messages": [{"role": "user", "content": QUESTION}], **more,
    })


def botocore_invokes():
    answer = BOTOCORE.invoke_model(modelId=BEDROCK_MODEL, body=invocation())
    answer = json.loads(answer["body"].read())
    assert answer["content"][0]["text"] == ANSWER
    assert answer["model"] == "claude-sonnet-4-5-20250929"
    stream = BOTOCORE.invoke_model_with_response_stream(modelId=BEDROCK_MODEL, body=invocation())
    events = [json.loads(event["chunk"]["bytes"]) for event in stream["body"]]
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"


def botocore_reads_refusals():
    try:
        BOTOCORE.invoke_model(modelId=BEDROCK_MODEL, body=invocation(model="x"))
    except BOTOCORE.exceptions.ValidationException as error:
        assert "model" in error.response["Error"]["Message"]
    else:
        raise AssertionError("`model` in the body was accepted")


def main():
    prefixes = ("azure_", "gemini_", "clouds_", "botocore_")
    checks = [value for name, value in globals().items() if name.startswith(prefixes)]
    failed = 0
    for check in checks:
        try:
            check()
        except Exception as error:  # noqa: BLE001
            failed += 1
            print(f"python: {check.__name__}: {type(error).__name__}: {error}")
    print(f"python: {len(checks) - failed} of {len(checks)} checks of further providers passed")
    sys.exit(bool(failed))


main()

"""Clients of further providers against a simulator with `script.yaml`: AzureOpenAI, google-genai."""

import json
import sys

import openai
from google import genai
from google.genai import errors, types
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


# Gemini


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


def main():
    checks = [value for name, value in globals().items() if name.startswith(("azure_", "gemini_"))]
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

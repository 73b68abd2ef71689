"""The official Python clients of OpenAI and Anthropic against a simulator with `script.yaml`."""

import asyncio
import json
import sys

import agents
import anthropic
import openai
from pydantic import BaseModel

URL = sys.argv[1]
OPENAI = openai.OpenAI(base_url=f"{URL}/v1", api_key="sk-python", max_retries=0)
CLAUDE = anthropic.Anthropic(base_url=URL, api_key="sk-python", max_retries=0)

GPT = "gpt-5-mini"
SONNET = "claude-sonnet-5"
QUESTION = "Translate to French: good morning"
ANSWER = "[simulated French] good morning"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


class Trip(BaseModel):
    city: str
    days: int


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


# Chat Completions


def chat(**more):
    return OPENAI.chat.completions.create(
        model=GPT, messages=[{"role": "user", "content": QUESTION}], **more
    )


def chat_whole():
    answer = chat()
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer._request_id.startswith("req_")


def chat_streamed():
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == ANSWER
    assert chunks[-1].usage.completion_tokens > 0
    with OPENAI.chat.completions.stream(
        model=GPT, messages=[{"role": "user", "content": QUESTION}]
    ) as stream:
        stream.until_done()
        assert stream.get_final_completion().choices[0].message.content == ANSWER


def chat_tools():
    tool = {"type": "function", "function": {"name": "find", "parameters": SCHEMA, "strict": True}}
    messages = [{"role": "user", "content": "Where?"}]
    more = {"model": GPT, "tools": [tool]}
    answer = OPENAI.chat.completions.create(messages=messages, tool_choice="required", **more)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls"
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "simulated"}
    call = message.tool_calls[0]
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "in Bergen"}]
    answer = OPENAI.chat.completions.create(messages=messages, **more)
    assert "in Bergen" in answer.choices[0].message.content


def chat_structured():
    answer = OPENAI.chat.completions.parse(
        model=GPT, messages=[{"role": "user", "content": "Plan."}], response_format=Trip
    )
    assert answer.choices[0].message.parsed == Trip(city="simulated", days=0)


# Responses


def responses_whole():
    answer = OPENAI.responses.create(model="gpt-4o", input=QUESTION, instructions="Translate.")
    assert answer.output_text == ANSWER
    assert answer.usage.input_tokens_details.cached_tokens == 0
    assert answer.status == "completed"


def responses_streamed():
    with OPENAI.responses.stream(model=GPT, input=QUESTION) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == ANSWER == final.output_text
    numbers = [event.sequence_number for event in OPENAI.responses.create(model=GPT, input=QUESTION, stream=True)]
    assert numbers == list(range(len(numbers)))


def responses_tools_and_reasoning():
    tool = {"type": "function", "name": "find", "parameters": SCHEMA, "strict": True}
    more = {
        "model": GPT,
        "tools": [tool],
        "store": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }
    items = [{"role": "user", "content": "Where?"}]
    answer = OPENAI.responses.create(input=items, tool_choice="required", **more)
    kinds = [item.type for item in answer.output]
    assert kinds == ["reasoning", "function_call"], kinds
    assert answer.output[0].encrypted_content and answer.output[0].summary[0].text
    items += answer.output
    items.append({"type": "function_call_output", "call_id": answer.output[1].call_id, "output": "in Bergen"})
    assert "in Bergen" in OPENAI.responses.create(input=items, **more).output_text
    without = [item for item in items if getattr(item, "type", "") != "reasoning"]
    error = raises(openai.BadRequestError, lambda: OPENAI.responses.create(input=without, **more))
    assert "required 'reasoning' item" in error.message


def responses_structured():
    answer = OPENAI.responses.parse(model=GPT, input="Plan.", text_format=Trip)
    assert answer.output_parsed == Trip(city="simulated", days=0)


def responses_continued():
    first = OPENAI.responses.create(model=GPT, input=QUESTION)
    assert OPENAI.responses.retrieve(first.id).output_text == ANSWER
    second = OPENAI.responses.create(model=GPT, input="And?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    named = [{"type": "item_reference", "id": item.id} for item in first.output]
    items = [{"role": "user", "content": QUESTION}, *named, {"role": "user", "content": "And?"}]
    OPENAI.responses.create(model=GPT, input=items)
    OPENAI.responses.delete(first.id)
    raises(openai.NotFoundError, lambda: OPENAI.responses.retrieve(first.id))
    error = raises(
        openai.BadRequestError,
        lambda: OPENAI.responses.create(model=GPT, input="And?", previous_response_id=first.id),
    )
    assert error.code == "previous_response_not_found", error


def chat_choices():
    assert [c.message.content for c in chat(n=2).choices] == [ANSWER, ANSWER]


# Tool loops as the clients run them


LOOKUP = "Look up Bergen"
FOUND = "Found: Bergen is in Norway."


def place(city: str) -> str:
    """Says where a city is.

    Args:
        city: The city.
    """
    return f"{city} is in Norway"


def loop_of_messages():
    find = anthropic.beta_tool(place, name="find")
    more = {
        "model": SONNET, "max_tokens": 500, "tools": [find],
        "messages": [{"role": "user", "content": LOOKUP}],
    }
    # A message thread by default; and without one.
    for thread in [{}, {"thread": False}]:
        final = CLAUDE.beta.messages.tool_runner(**more, **thread).until_done()
        assert final.content[0].text == FOUND, final
        runner = CLAUDE.beta.messages.tool_runner(stream=True, **more, **thread)
        finals = [stream.get_final_message() for stream in runner]
        assert finals[-1].content[0].text == FOUND and len(finals) == 2
    sent = CLAUDE.beta.messages.create(
        model=SONNET, max_tokens=500, messages=more["messages"],
        thread={"type": "create"}, betas=["message-threads-2026-08-12"],
    )
    again = {"model": SONNET, "max_tokens": 500, "betas": ["message-threads-2026-08-12"],
             "messages": [{"role": "user", "content": "And?"}]}
    for previous, kind in [("msg_none", anthropic.NotFoundError), (sent.id, None), (sent.id, anthropic.BadRequestError)]:
        def go():
            return CLAUDE.beta.messages.create(
                thread={"type": "continue", "previous_message_id": previous}, **again
            )
        go() if kind is None else raises(kind, go)


async def loops_of_agents():
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="sk-python", max_retries=0)
    find = agents.function_tool(place, name_override="find")
    for model in [
        agents.OpenAIResponsesModel(GPT, client),
        agents.OpenAIChatCompletionsModel(GPT, client),
    ]:
        agent = agents.Agent(name="guide", instructions="Be short.", tools=[find], model=model)
        got = await agents.Runner.run(agent, LOOKUP)
        assert got.final_output == FOUND, got
        if isinstance(model, agents.OpenAIResponsesModel):
            got = await agents.Runner.run(agent, LOOKUP, auto_previous_response_id=True)
            assert got.final_output == FOUND, got
            more = await agents.Runner.run(agent, "And?", previous_response_id=got.last_response_id)
            assert "And?" in more.final_output


def loop_of_agents():
    asyncio.run(loops_of_agents())


# Messages


def messages(**more):
    more = {"model": SONNET, "max_tokens": 500, "messages": [{"role": "user", "content": QUESTION}], **more}
    return CLAUDE.messages.create(**more)


def messages_whole():
    answer = messages()
    assert answer.content[0].text == ANSWER
    assert answer.stop_reason == "end_turn"
    assert answer.usage.cache_creation.ephemeral_1h_input_tokens == 0
    assert answer._request_id.startswith("req_")
    counted = CLAUDE.messages.count_tokens(model=SONNET, messages=[{"role": "user", "content": QUESTION}])
    assert counted.input_tokens == answer.usage.input_tokens


def messages_streamed():
    with CLAUDE.messages.stream(
        model=SONNET, max_tokens=500, messages=[{"role": "user", "content": QUESTION}]
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == ANSWER == final.content[0].text
    assert final.usage.output_tokens > 1


def messages_tools_and_thinking():
    tool = {"name": "find", "input_schema": SCHEMA}
    more = {"tools": [tool], "max_tokens": 3000}
    question = {"role": "user", "content": "Where?"}
    answer = messages(messages=[question], tool_choice={"type": "any"}, **more)
    assert [block.type for block in answer.content] == ["tool_use"]
    assert answer.content[0].input == {"city": "simulated"}
    result = {"type": "tool_result", "tool_use_id": answer.content[0].id, "content": "in Bergen"}
    turn = [question, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    assert "in Bergen" in messages(messages=turn, **more).content[0].text

    thinking = {"type": "adaptive", "display": "summarized"}
    with CLAUDE.messages.stream(
        model=SONNET, max_tokens=3000, thinking=thinking, messages=[question]
    ) as stream:
        thought = stream.get_final_message()
    assert [block.type for block in thought.content] == ["thinking", "text"]
    follow = [question, {"role": "assistant", "content": thought.content}, {"role": "user", "content": "And?"}]
    messages(messages=follow, thinking=thinking, max_tokens=3000)
    thought.content[0].thinking += " Or not."
    error = raises(anthropic.BadRequestError, lambda: messages(messages=follow, thinking=thinking, max_tokens=3000))
    assert "Invalid `signature`" in error.message


def messages_structured():
    answer = messages(output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
    assert json.loads(answer.content[0].text) == {"city": "simulated"}


def messages_cached():
    system = [{"type": "text", "text": "Whales. " * 1000, "cache_control": {"type": "ephemeral"}}]
    first, second = messages(system=system).usage, messages(system=system).usage
    assert first.cache_creation_input_tokens == second.cache_read_input_tokens == 2000
    assert first.cache_read_input_tokens == second.cache_creation_input_tokens == 0


# Errors


def errors():
    def ask_gpt(text):
        return lambda: OPENAI.chat.completions.create(model=GPT, messages=[{"role": "user", "content": text}])

    def ask_claude(text):
        return lambda: messages(messages=[{"role": "user", "content": text}])

    for status, gpt, claude in [
        (400, openai.BadRequestError, anthropic.BadRequestError),
        (401, openai.AuthenticationError, anthropic.AuthenticationError),
        (403, openai.PermissionDeniedError, anthropic.PermissionDeniedError),
        (404, openai.NotFoundError, anthropic.NotFoundError),
        (429, openai.RateLimitError, anthropic.RateLimitError),
        (500, openai.InternalServerError, anthropic.InternalServerError),
        (529, openai.InternalServerError, anthropic.InternalServerError),
    ]:
        assert raises(gpt, ask_gpt(f"simulate {status}")).status_code == status
        assert raises(claude, ask_claude(f"simulate {status}")).status_code == status
    orphan = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "y"}]
    error = raises(openai.BadRequestError, lambda: OPENAI.chat.completions.create(model=GPT, messages=orphan))
    assert "must be a response to a preceeding message" in error.message
    error = raises(anthropic.BadRequestError, lambda: messages(messages=[]))
    assert error.body["error"]["type"] == "invalid_request_error"
    assert error.request_id.startswith("req_")

    def read_all(stream):
        return lambda: list(stream)

    broken = OPENAI.chat.completions.create(
        model=GPT, messages=[{"role": "user", "content": "simulate cut"}], stream=True
    )
    raises(Exception, read_all(broken))


def models():
    assert len(OPENAI.models.list().data) > 1
    assert OPENAI.models.retrieve(GPT).id == GPT
    assert CLAUDE.models.list().data[0].type == "model"
    assert CLAUDE.models.retrieve(SONNET).id == SONNET


CHECKS = [
    chat_whole, chat_streamed, chat_tools, chat_structured,
    responses_whole, responses_streamed, responses_tools_and_reasoning, responses_structured,
    messages_whole, messages_streamed, messages_tools_and_thinking, messages_structured, messages_cached,
    responses_continued, chat_choices, loop_of_messages, loop_of_agents,
    errors, models,
]

for check in CHECKS:
    check()
print(f"python: {len(CHECKS)} checks passed (openai {openai.__version__}, anthropic {anthropic.__version__})")

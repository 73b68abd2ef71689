//! The accounting over HTTP: what counts as the same prefix, and what does not.

use std::time::Duration;

use cachalot_simulator::{Fault, Script, ScriptedReply};
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, ask, post_as, smallest, start, timed, with};

/// 4,000 bytes, so 1,000 tokens.
fn long(name: &str) -> String {
    format!("{name}{}", ".".repeat(4_000 - name.len()))
}

fn marker() -> Value {
    json!({"type": "ephemeral"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn marked(block: Value) -> Value {
    with(block, json!({"cache_control": marker()}))
}

/// Read, written for five minutes, written for an hour, uncached.
async fn usage(running: &cachalot_simulator::RunningSimulator, request: &Value) -> [u64; 4] {
    let answer = ask(running, MESSAGES, request).await;
    let of = |pointer: &str| answer["usage"].pointer(pointer).unwrap().as_u64().unwrap();
    let written = [
        of("/cache_creation/ephemeral_5m_input_tokens"),
        of("/cache_creation/ephemeral_1h_input_tokens"),
    ];
    assert_eq!(of("/cache_creation_input_tokens"), written[0] + written[1]);
    [
        of("/cache_read_input_tokens"),
        written[0],
        written[1],
        of("/input_tokens"),
    ]
}

/// A prompt of three thousand tokens: tools, system, messages, each with a breakpoint at its end.
fn prompt() -> Value {
    json!({
        "model": "claude-sonnet-4-6", "max_tokens": 100,
        // A tool counts its name, two blanks, its description and its schema.
        "tools": [marked(json!({"name": "look", "description": &long("tool")[..3_976], "input_schema": {"type": "object"}}))],
        "system": [text("Be brief"), marked(text(&long("system")[..3_992]))],
        "messages": [{"role": "user", "content": [marked(text(&long("user")))]}],
    })
}

/// A model that counts a shorter tool prefix too: only there is a thousand tokens long enough.
fn short_minimum() -> Value {
    with(prompt(), json!({"model": "claude-opus-5"}))
}

#[tokio::test]
async fn each_change_invalidates_the_documented_levels() {
    let (running, _) = timed(Script::built_in()).await;
    assert_eq!(usage(&running, &short_minimum()).await, [0, 3_000, 0, 0]);
    assert_eq!(usage(&running, &short_minimum()).await, [3_000, 0, 0, 0]);
    let tools = |extra: Value| {
        let mut tools = short_minimum()["tools"].clone();
        tools.as_array_mut().unwrap().push(extra);
        json!({"tools": tools})
    };
    let mut described = short_minimum();
    described["tools"][0]["description"] = json!(long("tool")[1..3_977]);
    let mut reordered = short_minimum();
    reordered["tools"][0]["input_schema"] = json!({"type": "object", "description": "x"});
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    let user = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let block = short_minimum()["messages"][0]["content"][0].clone();
    let cases = [
        (json!({"tool_choice": {"type": "none"}}), 2_000),
        (
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            2_000,
        ),
        (user(json!([block, image])), 2_000),
        (user(json!([marked(text(&long("other")))])), 2_000),
        (json!({"speed": "fast"}), 1_000),
        (
            tools(json!({"type": "web_search_20250305", "name": "web_search"})),
            1_000,
        ),
        (json!({"system": [marked(text(&long("other")))]}), 1_000),
        (
            json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": false}}}}),
            1_000,
        ),
        (json!({"thinking": {"type": "adaptive"}}), 0),
        (json!({"output_config": {"effort": "low"}}), 0),
        (json!({"tools": described["tools"]}), 0),
        (json!({"tools": reordered["tools"]}), 0),
        (json!({"model": "claude-opus-4-8"}), 0),
        // What is the default is the same as what is left out.
        (json!({"output_config": {"effort": "high"}}), 3_000),
        (json!({"thinking": {"type": "disabled"}}), 3_000),
        (
            json!({"temperature": 1, "metadata": {"user_id": "u"}, "max_tokens": 50}),
            3_000,
        ),
    ];
    for (fields, expected) in cases {
        // Each against a cache that has only the original.
        let (running, _) = timed(Script::built_in()).await;
        usage(&running, &short_minimum()).await;
        let [read, written, _, _] = usage(&running, &with(short_minimum(), fields.clone())).await;
        assert_eq!(read, expected, "{fields}");
        assert!(written > 0 || read == 3_000, "{fields}");
    }
}

#[tokio::test]
async fn markers_and_text_forms_are_not_part_of_the_prefix() {
    let (running, _) = timed(Script::built_in()).await;
    let ask_with = |system: Value, content: Value, then: Option<Value>| {
        let mut messages = vec![json!({"role": "user", "content": content})];
        if let Some(then) = then {
            messages.push(json!({"role": "assistant", "content": "Yes."}));
            messages.push(json!({"role": "user", "content": then}));
        }
        json!({"model": "claude-sonnet-4-6", "max_tokens": 100, "system": system, "messages": messages})
    };
    let system = long("system");
    let question = long("question");
    let first = ask_with(json!(system), json!([marked(text(&question))]), None);
    assert_eq!(usage(&running, &first).await, [0, 2_000, 0, 0]);
    // The marker moves on; a text block becomes a string, a string a text block.
    let second = ask_with(
        json!([text(&system)]),
        json!(question),
        Some(json!([marked(text("And now?"))])),
    );
    assert_eq!(usage(&running, &second).await, [2_000, 3, 0, 0]);
    // Automatic caching marks the same block.
    let automatic = with(
        ask_with(json!(system), json!(question), Some(json!("And now?"))),
        json!({"cache_control": marker()}),
    );
    assert_eq!(usage(&running, &automatic).await, [2_003, 0, 0, 0]);
    // The order of keys in a block does not matter, that in the arguments of a tool call does.
    let reversed: Value = serde_json::from_str(&format!(
        r#"{{"cache_control":{{"type":"ephemeral"}},"text":{},"type":"text"}}"#,
        json!(question)
    ))
    .unwrap();
    let third = ask_with(json!(system), json!([reversed]), None);
    assert_eq!(usage(&running, &third).await, [2_000, 0, 0, 0]);
}

#[tokio::test]
async fn key_order_of_arguments_is_part_of_the_prefix() {
    let (running, _) = timed(Script::built_in()).await;
    let turn = |input: &str| {
        let input: Value = serde_json::from_str(input).unwrap();
        json!({"model": "claude-sonnet-4-6", "max_tokens": 100,
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": long("question")},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": input}]},
            {"role": "user", "content": [marked(json!({"type": "tool_result", "tool_use_id": "a", "content": long("result")}))]},
        ]})
    };
    let [read, written, ..] = usage(&running, &turn(r#"{"x":1,"y":2}"#)).await;
    assert_eq!((read, written > 2_000), (0, true));
    assert_eq!(usage(&running, &turn(r#"{"x":1,"y":2}"#)).await[0], written);
    assert_eq!(usage(&running, &turn(r#"{"y":2,"x":1}"#)).await[0], 0);
    // A result that is a string, and one that is a single text block, are the same.
    let mut blocks = turn(r#"{"x":1,"y":2}"#);
    blocks["messages"][2]["content"][0]["content"] = json!([text(&long("result"))]);
    assert_eq!(usage(&running, &blocks).await[0], written);
    blocks["messages"][2]["content"][0]["is_error"] = json!(true);
    assert_eq!(usage(&running, &blocks).await[0], 0);
}

#[tokio::test]
async fn older_models_drop_thinking_before_a_new_question() {
    for (model, keeps_thinking) in [("claude-sonnet-4-6", true), ("claude-sonnet-4-5", false)] {
        let reply = ScriptedReply::text("Yes.").with_reasoning(&long("thought")[..3_996]);
        let (running, _) = timed(Script::replies(vec![reply])).await;
        let request = |messages: Value| {
            json!({"model": model, "max_tokens": 4_000, "messages": messages,
                   "system": [marked(text(&"s".repeat(4_000)))],
                   "thinking": {"type": "enabled", "budget_tokens": 2_000}})
        };
        // A system of a thousand tokens is too short alone: with the question it is long enough.
        let question = json!({"role": "user", "content": [marked(text(&long("question")))]});
        let first = ask(&running, MESSAGES, &request(json!([question]))).await;
        let mut answer = first["content"].clone();
        answer[1]["cache_control"] = marker();
        let second = json!([question, {"role": "assistant", "content": answer}, {"role": "user", "content": "And?"}]);
        let [read, ..] = usage(&running, &request(second.clone())).await;
        assert_eq!(read, 2_000, "{model}: the question is the same prefix");
        let mut third = second.as_array().unwrap().clone();
        third.push(json!({"role": "assistant", "content": "Yes."}));
        third.push(json!({"role": "user", "content": "And then?"}));
        let [read, _, _, uncached] = usage(&running, &request(json!(third))).await;
        // A thousand tokens of thinking count where they are kept.
        assert_eq!(read > 2_900, keeps_thinking, "{model}");
        assert!(uncached < 10);
        assert!(running.violations().is_empty());
    }
}

#[tokio::test]
async fn conversation_reads_the_last_write_of_its_own_key() {
    let (running, clock) = timed(Script::built_in()).await;
    let mut messages = Vec::new();
    let mut before = 0;
    for turn in 0..6 {
        let mut asked: Vec<Value> = messages.clone();
        asked.push(
            json!({"role": "user", "content": [marked(text(&long(&format!("turn {turn}"))))]}),
        );
        let request = json!({"model": "claude-opus-5", "max_tokens": 100, "messages": asked});
        let [read, written, _, uncached] = usage(&running, &request).await;
        assert_eq!((read, uncached), (before, 0));
        before = read + written;
        let other = post_as("sk-other", &running, MESSAGES, &request)
            .await
            .json();
        let expected = if turn == 0 { 0 } else { before - written };
        assert_eq!(other["usage"]["cache_read_input_tokens"], expected);
        messages.push(json!({"role": "user", "content": long(&format!("turn {turn}"))}));
        messages.push(json!({"role": "assistant", "content": "Yes."}));
        clock.advance(Duration::from_secs(4 * 60));
    }
    clock.advance(Duration::from_secs(60));
    messages.push(json!({"role": "user", "content": [marked(text("late"))]}));
    let late = json!({"model": "claude-opus-5", "max_tokens": 100, "messages": messages});
    assert_eq!(
        usage(&running, &late).await[0],
        0,
        "five minutes after the start of the last request"
    );
}

#[tokio::test]
async fn cache_is_written_when_a_successful_response_begins() {
    let slow =
        ScriptedReply::text("a").with_fault(Fault::slow(Duration::from_secs(1), Duration::ZERO));
    let replies = vec![
        ScriptedReply::error(500),
        slow.clone(),
        slow,
        ScriptedReply::text("b"),
    ];
    let (running, _) = timed(Script::replies(replies)).await;
    let request = short_minimum();
    assert_eq!(
        post_as("sk-test", &running, MESSAGES, &request)
            .await
            .status,
        500
    );
    // Two at the same time: neither response has begun when the other is charged.
    let (first, second) = tokio::join!(usage(&running, &request), usage(&running, &request));
    assert_eq!((first, second), ([0, 3_000, 0, 0], [0, 3_000, 0, 0]));
    assert_eq!(usage(&running, &request).await, [3_000, 0, 0, 0]);
}

#[tokio::test]
async fn openai_reports_cached_tokens_as_part_of_the_input() {
    let running = start(Script::built_in()).await;
    let system = long("system");
    for (model, cached, written) in [("gpt-4o", 1_920, Value::Null), ("gpt-5.6", 2_000, json!(0))] {
        let chat = json!({"model": model, "prompt_cache_key": "session", "messages": [
            {"role": "system", "content": system}, {"role": "user", "content": long("question")},
        ]});
        let first = ask(&running, CHAT, &chat).await;
        assert_eq!(first["usage"]["prompt_tokens"], 2_000);
        assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
        let second = ask(&running, CHAT, &chat).await;
        let details = &second["usage"]["prompt_tokens_details"];
        assert_eq!(second["usage"]["prompt_tokens"], 2_000);
        assert_eq!(
            (&details["cached_tokens"], &details["cache_write_tokens"]),
            (&json!(cached), &written)
        );

        // The same conversation continued. Text as a part is the same as a string.
        let mut messages = chat["messages"].as_array().unwrap().clone();
        messages[0]["content"] = json!([text(&system)]);
        messages.push(json!({"role": "assistant", "content": "Yes."}));
        messages.push(json!({"role": "user", "content": "And?"}));
        let third = ask(
            &running,
            CHAT,
            &with(chat.clone(), json!({"messages": messages})),
        )
        .await;
        assert_eq!(
            third["usage"]["prompt_tokens_details"]["cached_tokens"],
            cached
        );
        let other = ask(
            &running,
            CHAT,
            &with(chat, json!({"prompt_cache_key": "other"})),
        )
        .await;
        assert_eq!(other["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    }
}

#[tokio::test]
async fn deepseek_reports_hits_and_misses_in_units_of_64_tokens() {
    let running = start(Script::built_in()).await;
    let chat = json!({"model": "deepseek-chat", "messages": [
        {"role": "system", "content": long("system")}, {"role": "user", "content": long("question")},
    ]});
    ask(&running, CHAT, &chat).await;
    let usage = &ask(&running, CHAT, &chat).await["usage"];
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 1_984);
    assert_eq!(
        (
            &usage["prompt_cache_hit_tokens"],
            &usage["prompt_cache_miss_tokens"]
        ),
        (&json!(1_984), &json!(16))
    );
}

#[tokio::test]
async fn responses_report_reads_and_writes_at_explicit_breakpoints() {
    let running = start(Script::built_in()).await;
    let request = |question: &str| {
        json!({"model": "gpt-5.6", "prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": long("rules")},
                {"type": "input_text", "text": long("more"), "prompt_cache_breakpoint": {"mode": "explicit"}}]},
            {"role": "user", "content": question},
        ]})
    };
    let details = |answer: &Value| {
        let details = &answer["usage"]["input_tokens_details"];
        (
            details["cached_tokens"].clone(),
            details["cache_write_tokens"].clone(),
        )
    };
    let first = ask(&running, RESPONSES, &request("one")).await;
    assert_eq!(details(&first), (json!(0), json!(2_000)));
    let second = ask(&running, RESPONSES, &request("two")).await;
    assert_eq!(details(&second), (json!(2_000), json!(0)));
    // Automatic models refuse the parameter rather than ignore it.
    let old = with(request("three"), json!({"model": "gpt-5-mini"}));
    assert_eq!(
        post_as("sk-test", &running, RESPONSES, &old).await.status,
        400
    );

    // Instructions come before the input; without a marker the newest message is written.
    let implicit =
        json!({"model": "gpt-5.6", "instructions": long("rules"), "input": long("question")});
    assert_eq!(
        details(&ask(&running, RESPONSES, &implicit).await),
        (json!(0), json!(2_000))
    );
    assert_eq!(
        details(&ask(&running, RESPONSES, &implicit).await),
        (json!(2_000), json!(0))
    );
    let effort = with(implicit.clone(), json!({"reasoning": {"effort": "low"}}));
    assert_eq!(
        details(&ask(&running, RESPONSES, &effort).await).0,
        json!(0)
    );
    let choice = with(implicit, json!({"temperature": 1, "metadata": {"a": "b"}}));
    assert_eq!(
        details(&ask(&running, RESPONSES, &choice).await).0,
        json!(2_000)
    );
}

#[tokio::test]
async fn identical_requests_get_identical_answers_except_ids() {
    let running = start(Script::built_in()).await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut answer = ask(&running, MESSAGES, &smallest(MESSAGES, "Hello")).await;
        let id = answer.as_object_mut().unwrap().remove("id");
        answers.push((id, answer));
    }
    assert_ne!(answers[0].0, answers[1].0);
    assert_eq!(answers[0].1, answers[1].1);
}

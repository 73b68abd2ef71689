//! Gemini's `generateContent`.

use cachalot_simulator::{Fault, FaultKind, Script, ScriptedReply, ScriptedStop};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{TestResponse, post, post_as, send, start, timed, with};

const FLASH: &str = "/v1beta/models/gemini-2.5-flash:generateContent";
const PRO3: &str = "/v1beta/models/gemini-3-pro-preview:generateContent";
const STREAM3: &str = "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse";

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

fn asking(text: &str) -> Value {
    json!({"contents": [user(text)]})
}

fn with_tool(request: Value) -> Value {
    let tool =
        json!({"name": "look", "parametersJsonSchema": {"type": "object", "properties": {}}});
    with(
        request,
        json!({"tools": [{"functionDeclarations": [tool]}]}),
    )
}

fn parts(got: &TestResponse) -> Value {
    assert_eq!(got.status, 200, "{}", got.text);
    got.json()["candidates"][0]["content"]["parts"].clone()
}

#[tokio::test]
async fn gemini_answer_has_text_and_usage() {
    let running = start(Script::answers(["Deep."])).await;
    let got = post(&running, FLASH, &asking("How deep?")).await;
    assert_eq!(parts(&got), json!([{"text": "Deep."}]));
    let answer = got.json();
    assert_eq!(answer["candidates"][0]["finishReason"], "STOP");
    assert_eq!(answer["modelVersion"], "gemini-2.5-flash");
    let usage = &answer["usageMetadata"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(
        count("totalTokenCount"),
        count("promptTokenCount") + count("candidatesTokenCount")
    );
    let path = FLASH.replace("generateContent", "countTokens");
    let counted = post(&running, &path, &asking("How deep?")).await.json();
    assert_eq!(counted["totalTokens"], usage["promptTokenCount"]);
}

#[tokio::test]
async fn gemini_stream_chunks_join_to_the_answer() {
    let reply = ScriptedReply::text("A text that is long enough to come in several pieces.")
        .with_reasoning("And a thought before it.");
    let running = start(Script::replies(vec![reply])).await;
    let thinking = json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true}}});
    let got = post(&running, STREAM3, &with(asking("x"), thinking)).await;
    let chunks = got.data();
    assert!(chunks.len() > 4, "{chunks:?}");
    let text = |thought: bool| -> String {
        chunks
            .iter()
            .flat_map(|chunk| {
                chunk["candidates"][0]["content"]["parts"]
                    .as_array()
                    .unwrap()
            })
            .filter(|part| (part["thought"] == true) == thought)
            .map(|part| part["text"].as_str().unwrap())
            .collect()
    };
    assert_eq!(text(true), "And a thought before it.");
    assert_eq!(
        text(false),
        "A text that is long enough to come in several pieces."
    );
    let last = chunks.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert!(
        last["usageMetadata"]["thoughtsTokenCount"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(last["candidates"][0]["content"]["parts"][0]["thoughtSignature"].is_string());
    let without = STREAM3.replace("?alt=sse", "");
    assert_eq!(post(&running, &without, &asking("x")).await.status, 400);
}

/// A call, its result, and the signature that has to come back with the call.
#[tokio::test]
async fn signatures_of_the_current_turn_are_required_from_gemini_3() {
    let call = || ScriptedReply::call("look", json!({"path": "a"})).and_call("look", json!({}));
    for (path, is_checked) in [(FLASH, false), (PRO3, true)] {
        let running = start(Script::replies(vec![call(), ScriptedReply::text("done")])).await;
        let said = parts(&post(&running, path, &with_tool(asking("Look."))).await);
        assert_eq!(said[0]["thoughtSignature"].is_string(), is_checked);
        assert!(said[1].get("thoughtSignature").is_none());
        let results = |said: &Value| -> Value {
            let calls = said.as_array().unwrap().iter();
            calls
                .map(|part| {
                    let mut response = json!({"name": "look", "response": {"output": "x"}});
                    if let Some(id) = part["functionCall"].get("id") {
                        response["id"] = id.clone();
                    }
                    json!({"functionResponse": response})
                })
                .collect()
        };
        let going_on = |said: &Value| {
            with_tool(json!({"contents": [
                user("Look."),
                {"role": "model", "parts": said},
                {"role": "user", "parts": results(said)},
            ]}))
        };
        assert_eq!(
            parts(&post(&running, path, &going_on(&said)).await)[0]["text"],
            "done"
        );
        let mut unsigned = said.clone();
        unsigned[0]
            .as_object_mut()
            .unwrap()
            .shift_remove("thoughtSignature");
        let mut forged = said.clone();
        forged[0]["thoughtSignature"] = "AAAA".into();
        let mut changed = said.clone();
        changed[0]["functionCall"]["args"]["path"] = "b".into();
        for (what, message) in [
            (unsigned.clone(), "missing a thought_signature"),
            (forged, "Corrupted thought signature"),
            (changed, "Corrupted thought signature"),
        ] {
            let got = post(&running, path, &going_on(&what)).await;
            assert_eq!(
                got.status,
                if is_checked { 400 } else { 200 },
                "{}",
                got.text
            );
            assert_eq!(got.text.contains(message), is_checked, "{}", got.text);
        }
        let mut foreign = unsigned;
        foreign[0]["thoughtSignature"] = "skip_thought_signature_validator".into();
        assert_eq!(post(&running, path, &going_on(&foreign)).await.status, 200);
        // What lies before the user's newest message is not checked.
        let mut earlier = going_on(&said);
        earlier["contents"][1]["parts"][0]
            .as_object_mut()
            .unwrap()
            .shift_remove("thoughtSignature");
        let contents = earlier["contents"].as_array_mut().unwrap();
        contents.push(json!({"role": "model", "parts": [{"text": "done"}]}));
        contents.push(user("And now?"));
        assert_eq!(post(&running, path, &earlier).await.status, 200);
    }
}

#[tokio::test]
async fn gemini_refuses_invalid_requests() {
    let call = json!({"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]});
    let config = |fields: Value| with(asking("x"), json!({"generationConfig": fields}));
    let cases = [
        (json!({}), "contents is not specified"),
        (json!({"contents": []}), "contents is not specified"),
        (
            with(asking("x"), json!({"temperature": 1})),
            "Unknown name \"temperature\": Cannot find field.",
        ),
        (
            config(json!({"topQ": 1})),
            "Unknown name \"topQ\" at 'generation_config'",
        ),
        (
            json!({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}),
            "valid role: user, model",
        ),
        (
            json!({"contents": [{"role": "user", "parts": []}]}),
            "parts must not be empty",
        ),
        (
            json!({"contents": [{"role": "user", "parts": [{}]}]}),
            "must have one initialized field",
        ),
        (
            json!({"contents": [{"role": "user", "parts": [{"tetx": "x"}]}]}),
            "Unknown name \"tetx\"",
        ),
        (
            json!({"contents": [user("x"), call, user("y")]}),
            "number of function response parts",
        ),
        (
            json!({"contents": [call, user("y")]}),
            "function call turn comes immediately after a user turn",
        ),
        (
            config(json!({"thinkingConfig": {"thinkingLevel": "LOW"}})),
            "Thinking level is not supported",
        ),
        (
            config(json!({"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}})),
            "only set only one",
        ),
        (
            config(json!({"responseJsonSchema": {"type": "object"}})),
            "response mime types",
        ),
        (
            with(
                asking("x"),
                json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
            ),
            "without function_declarations",
        ),
        (
            with(
                with_tool(asking("x")),
                json!({"toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["look"]}}}),
            ),
            "only when function calling mode is ANY",
        ),
        (
            with(
                asking("x"),
                json!({"tools": [{"functionDeclarations": [{"name": "1 a"}]}]}),
            ),
            "Invalid function name",
        ),
    ];
    let running = start(Script::answers(["x"])).await;
    let count = cases.len();
    for (body, message) in cases {
        let got = post(&running, FLASH, &body).await;
        assert_eq!(got.status, 400, "{body}: {}", got.text);
        let error = &got.json()["error"];
        assert_eq!(
            (&error["code"], &error["status"]),
            (&json!(400), &json!("INVALID_ARGUMENT"))
        );
        assert!(
            error["message"].as_str().unwrap().contains(message),
            "{body}: {error}"
        );
    }
    assert_eq!(running.violations().len(), count);
}

/// The official client sends some names in snake case.
#[tokio::test]
async fn field_names_may_be_snake_case() {
    let running = start(Script::answers(["x"])).await;
    let request = json!({
        "contents": [user("x")],
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "generation_config": {"max_output_tokens": 5, "thinking_config": {"thinking_budget": 0}},
        "tools": [{"function_declarations": [{"name": "look", "parameters_json_schema": {"type": "object", "properties": {"a_b": {}}}}]}],
    });
    assert_eq!(post(&running, FLASH, &request).await.status, 200);
    let mut wrong = request;
    wrong["generation_config"]["thinking_config"]["thinking_level"] = "LOW".into();
    assert_eq!(post(&running, FLASH, &wrong).await.status, 400);
}

#[tokio::test]
async fn long_prompts_are_cached_implicitly() {
    let (running, clock) = timed(Script::answers(["yes"])).await;
    let long = asking(&"whale ".repeat(4_000));
    let cached =
        |got: TestResponse| got.json()["usageMetadata"]["cachedContentTokenCount"].as_u64();
    assert_eq!(cached(post(&running, FLASH, &long).await), None);
    let read = cached(post(&running, FLASH, &long).await).unwrap();
    assert!(read > 1_024, "{read}");
    // Another model has a cache of its own, and short prompts have none.
    assert_eq!(cached(post(&running, PRO3, &long).await), None);
    for _ in 0..2 {
        assert_eq!(cached(post(&running, FLASH, &asking("short")).await), None);
    }
    clock.advance(std::time::Duration::from_secs(2 * 3_600));
    assert_eq!(cached(post(&running, FLASH, &long).await), None);
}

#[tokio::test]
async fn faults_and_early_ends_have_the_schema_of_gemini() {
    let refusal = ScriptedReply::text("no").with_stop(ScriptedStop::Refusal);
    let broken = ScriptedReply::text("A text that is long enough to come in several pieces.")
        .with_fault(Fault::from(FaultKind::ErrorEvent { after_events: 1 }));
    let running = start(Script::replies(vec![
        ScriptedReply::error(429),
        ScriptedReply::error(503),
        refusal,
        broken,
    ]))
    .await;
    for (code, status) in [(429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE")] {
        let got = post(&running, FLASH, &asking("x")).await;
        assert_eq!(
            (got.status, &got.json()["error"]["status"]),
            (code, &json!(status))
        );
    }
    let got = post(&running, FLASH, &asking("x")).await;
    assert_eq!(got.json()["candidates"][0]["finishReason"], "SAFETY");
    let got = post(&running, STREAM3, &asking("x")).await;
    let chunks = got.data();
    assert_eq!(
        (chunks.len(), &chunks[1]["error"]["status"]),
        (2, &json!("INTERNAL"))
    );
}

const CONTENTS: &str = "/v1beta/cachedContents";

fn caching(tokens: usize) -> Value {
    json!({
        "model": "models/gemini-2.5-flash",
        "displayName": "whales",
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [user(&"whale ".repeat(tokens))],
        "ttl": "600s",
    })
}

#[tokio::test]
async fn cached_content_is_read_by_requests_that_name_it() {
    let (running, clock) = timed(Script::answers(["yes"])).await;
    let made = post(&running, CONTENTS, &caching(3_000)).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let made = made.json();
    let name = made["name"].as_str().unwrap();
    let held = made["usageMetadata"]["totalTokenCount"].as_u64().unwrap();
    assert!(name.starts_with("cachedContents/") && held > 3_000);
    let naming = with(asking("How deep?"), json!({"cachedContent": name}));
    let got = post(&running, FLASH, &naming).await;
    let usage = got.json()["usageMetadata"].clone();
    assert_eq!(usage["cachedContentTokenCount"], held, "{}", got.text);
    assert!(usage["promptTokenCount"].as_u64().unwrap() > held);

    let patched = json!({"ttl": "7200s"});
    let path = format!("/v1beta/{name}");
    let patched = send(&running, Method::PATCH, &path, Some(&patched)).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    clock.advance(std::time::Duration::from_secs(3_600));
    let got = send(&running, Method::GET, &path, None).await;
    assert_eq!(got.json()["displayName"], "whales");
    let listed = send(&running, Method::GET, CONTENTS, None).await.json();
    assert_eq!(listed["cachedContents"].as_array().unwrap().len(), 1);
    clock.advance(std::time::Duration::from_secs(3_601));
    assert_eq!(post(&running, FLASH, &naming).await.status, 403);
    assert!(
        send(&running, Method::GET, CONTENTS, None).await.json()["cachedContents"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn request_with_cached_content_refuses_system_text_and_tools() {
    let running = start(Script::answers(["yes"])).await;
    let small = post(&running, CONTENTS, &caching(10)).await;
    assert!(
        small.text.contains("min_total_token_count=1024"),
        "{}",
        small.text
    );
    let made = post(&running, CONTENTS, &caching(3_000)).await.json();
    let naming = with(asking("?"), json!({"cachedContent": made["name"]}));
    let refused = post(&running, FLASH, &with_tool(naming.clone())).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.text.contains("can not be used with"),
        "{}",
        refused.text
    );
    let other = post(&running, PRO3, &naming).await;
    assert!(other.text.contains("has to be the same"), "{}", other.text);
    let foreign = post_as("another", &running, FLASH, &naming).await;
    assert_eq!(foreign.status, 403, "{}", foreign.text);
    let path = format!("/v1beta/{}", made["name"].as_str().unwrap());
    for status in [200, 403] {
        let got = send(&running, Method::DELETE, &path, None).await;
        assert_eq!(got.status, status, "{}", got.text);
    }
    assert_eq!(post(&running, FLASH, &naming).await.status, 403);
}

//! Differences that providers ignore are no differences.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::{Catalog, Format, Thinking};
use cachalot_prefix::diagnosis::{Diagnosis, LikelyCause, Observations, Rules, diagnose, lint};
use cachalot_prefix::log::{Analyzer, LogReader, LoggedRequest};
use serde_json::{Value, json};

fn logged(line: &str) -> LoggedRequest {
    LogReader::new(line.as_bytes()).next().unwrap().unwrap()
}

fn compare(previous: &str, next: &str) -> Diagnosis {
    let (previous, next) = (logged(previous), logged(next));
    let rules = Rules::of_request(&next.request, &Catalog::built_in());
    diagnose(
        &previous.request.sending(),
        &next.request.sending(),
        &Observations::default(),
        &rules,
        &SecretSet::empty(),
    )
}

#[track_caller]
fn same(previous: &str, next: &str) {
    let found = compare(previous, next);
    assert_eq!(found.at, None, "{previous}\n{next}\n{found:?}");
}

#[track_caller]
fn differ(previous: &str, next: &str) {
    let found = compare(previous, next);
    assert_ne!(found.at, None, "{previous}\n{next}");
}

/// A body with these members beside a conversation, in each format.
fn bodies(members: &Value) -> [String; 3] {
    let with = |mut body: Value| {
        let object = body.as_object_mut().unwrap();
        object.extend(members.as_object().unwrap().clone());
        body.to_string()
    };
    let user = json!([{"role": "user", "content": "Fix the bug."}]);
    [
        with(json!({"model": "claude-sonnet-4-6", "max_tokens": 9, "messages": user})),
        with(json!({"model": "gpt-5.4", "n": 1, "messages": user})),
        with(json!({"model": "gpt-5.4", "input": user})),
    ]
}

const TOOL: &str = r#"{"name":"grep","description":"Finds – text.","input_schema":{"type":"object","properties":{"b":{},"a":{}}}}"#;

#[test]
fn white_space_escapes_and_member_order_are_ignored() {
    let compact = format!(
        r#"{{"model":"claude-sonnet-4-6","max_tokens":9,"tools":[{TOOL}],"system":"Be – kind.","messages":[{{"role":"user","content":"Fix \"it\"."}}]}}"#
    );
    let spaced = r#"{ "max_tokens": 9, "model": "claude-sonnet-4-6",
        "messages": [ {"content": [ {"text": "Fix \u0022it\u0022.", "type": "text"} ], "role": "user"} ],
        "system": [ {"type": "text", "text": "Be \u2013 kind."} ],
        "tools": [ {"input_schema": {"type": "object", "properties": {"b": {}, "a": {}}},
            "name": "grep", "description": "Finds \u2013 text.", "type": "custom"} ] }"#
        .replace('\n', " ");
    same(&compact, &spaced);
    same(&spaced, &compact);
    // What belongs to the caller keeps its order: it reaches the model.
    let reordered = compact.replace(r#""b":{},"a":{}"#, r#""a":{},"b":{}"#);
    differ(&compact, &reordered);
}

#[test]
fn text_equals_a_list_of_one_text_in_every_format() {
    let with = |format: &str, content: Value| match format {
        "messages" => json!({"model": "claude-sonnet-4-6", "max_tokens": 9,
            "messages": [{"role": "user", "content": content}]}),
        "chat" => json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": content}]}),
        _ => json!({"model": "gpt-5.4", "input": [{"role": "user", "content": content}]}),
    };
    for (format, kind) in [
        ("messages", "text"),
        ("chat", "text"),
        ("responses", "input_text"),
    ] {
        let text = with(format, json!("Fix it."));
        let list = with(format, json!([{"type": kind, "text": "Fix it."}]));
        same(&text.to_string(), &list.to_string());
        let two = with(
            format,
            json!([{"type": kind, "text": "Fix "}, {"type": kind, "text": "it."}]),
        );
        differ(&text.to_string(), &two.to_string());
    }
    let input = r#"{"model":"gpt-5.4","input":"Fix it."}"#;
    same(
        input,
        r#"{"model":"gpt-5.4","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it."}]}]}"#,
    );
    let result = |content: &str| {
        format!(
            r#"{{"model":"claude-sonnet-4-6","max_tokens":9,"messages":[{{"role":"user","content":"a"}},
            {{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"grep","input":{{}}}}]}},
            {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t",{content}}}]}}]}}"#
        )
        .replace('\n', " ")
    };
    same(
        &result(r#""content":"found""#),
        &result(r#""content":[{"type":"text","text":"found"}],"is_error":false"#),
    );
    differ(
        &result(r#""content":"found""#),
        &result(r#""content":"found","is_error":true"#),
    );
}

#[test]
fn defaults_are_normalized() {
    let none = bodies(&json!({}));
    for (at, members) in [
        (0, json!({"thinking": {"type": "disabled"}})),
        (0, json!({"output_config": {"effort": "high"}})),
        (0, json!({"tool_choice": {"type": "auto"}})),
        (
            0,
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": false}}),
        ),
        (0, json!({"service_tier": "auto", "speed": "standard"})),
        (
            0,
            json!({"context_management": {"edits": []}, "mcp_servers": []}),
        ),
        (0, json!({"thinking": null, "container": null})),
        (
            1,
            json!({"reasoning_effort": "none", "verbosity": "medium"}),
        ),
        (
            1,
            json!({"tool_choice": "auto", "parallel_tool_calls": true, "service_tier": "auto"}),
        ),
        (
            1,
            json!({"response_format": {"type": "text"}, "modalities": ["text"]}),
        ),
        (
            2,
            json!({"reasoning": {"effort": "none", "summary": "auto"}}),
        ),
        (
            2,
            json!({"text": {"format": {"type": "text"}, "verbosity": "medium"}}),
        ),
        (
            2,
            json!({"truncation": "disabled", "parallel_tool_calls": true}),
        ),
    ] {
        same(&none[at], &bodies(&members)[at]);
        same(&bodies(&members)[at], &none[at]);
    }
    for (at, members) in [
        (0, json!({"thinking": {"type": "adaptive"}})),
        (0, json!({"output_config": {"effort": "low"}})),
        (0, json!({"tool_choice": {"type": "any"}})),
        (
            0,
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
        ),
        (1, json!({"reasoning_effort": "low"})),
        (1, json!({"parallel_tool_calls": false})),
        (1, json!({"service_tier": "priority"})),
        (2, json!({"reasoning": {"effort": "low"}})),
        (2, json!({"text": {"verbosity": "low"}})),
    ] {
        differ(&none[at], &bodies(&members)[at]);
    }
    // A default is one of its model: gpt-5 reasons unless it is told not to.
    let gpt_5 = |effort: &str| {
        format!(
            r#"{{"model":"gpt-5","reasoning_effort":{effort},"messages":[{{"role":"user","content":"a"}}]}}"#
        )
    };
    same(&gpt_5("null"), &gpt_5("\"medium\""));
    differ(&gpt_5("null"), &gpt_5("\"minimal\""));
}

#[test]
fn deferred_tools_are_not_part_of_the_prefix() {
    let with = |tools: &str| {
        format!(
            r#"{{"model":"claude-sonnet-4-6","max_tokens":9,"tools":[{tools}],"system":"Be kind.","messages":[{{"role":"user","content":"a"}}]}}"#
        )
    };
    let late = r#"{"name":"deploy","input_schema":{},"defer_loading":true}"#;
    same(&with(TOOL), &with(&format!("{TOOL},{late}")));
    same(&with(&format!("{late},{TOOL}")), &with(TOOL));
    let now = late.replace("true", "false");
    differ(&with(TOOL), &with(&format!("{TOOL},{now}")));
    // Anthropic's search and fetch cost the system text and the messages, and no tools.
    let web = r#"{"type":"web_search_20250305","name":"web_search"}"#;
    let found = compare(&with(TOOL), &with(&format!("{web},{TOOL}")));
    assert_eq!(found.cause, Some(LikelyCause::WebTools), "{found:?}");
    assert_eq!(found.at.unwrap().level, "system");
}

#[test]
fn assistant_messages_dumped_by_sdks_equal_sent_ones() {
    let chat = |message: &str| {
        format!(
            r#"{{"model":"gpt-4.1","messages":[{{"role":"user","content":"a"}},{message},{{"role":"user","content":"b"}}]}}"#
        )
    };
    same(
        &chat(r#"{"role":"assistant","content":"b"}"#),
        &chat(
            r#"{"content":"b","refusal":null,"role":"assistant","annotations":[],"audio":null,"function_call":null,"tool_calls":null}"#,
        ),
    );
    let responses = |item: &str| {
        format!(r#"{{"model":"gpt-5.4","input":[{{"role":"user","content":"a"}},{item}]}}"#)
    };
    same(
        &responses(r#"{"role":"assistant","content":"b"}"#),
        &responses(
            r#"{"content":[{"annotations":[],"text":"b","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message"}"#,
        ),
    );
}

#[test]
fn differently_serialized_requests_continue_a_conversation() {
    let long = "Whales – sperm whales above all – dive for squid. ".repeat(400);
    let mut messages = vec![json!({"role": "user", "content": long})];
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    let mut log = String::new();
    for turn in 0..6 {
        let body = json!({"model": "claude-sonnet-4-6", "max_tokens": 9, "system": "Be kind.",
            "cache_control": {"type": "ephemeral"}, "messages": messages});
        log += &match turn % 2 {
            0 => body.to_string(),
            _ => spaced(&body),
        };
        log.push('\n');
        messages.push(json!({"role": "assistant", "content": format!("Answer – {turn}.")}));
        messages.push(json!({"role": "user", "content": format!("Question – {turn}?")}));
    }
    analyzer.read(log.as_bytes()).unwrap();
    let analysis = analyzer.finish();
    assert_eq!(analysis.conversations, 1);
    assert!(analysis.breaks.is_empty(), "{:?}", analysis.breaks);
}

/// JSON in the format of Python: blanks after colons and commas, non-ASCII characters escaped.
pub(crate) fn spaced(value: &Value) -> String {
    let text = match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{}: {}", json!(name), spaced(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(spaced).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    };
    let mut ascii = String::new();
    for character in text.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                ascii += &format!("\\u{unit:04x}");
            }
        }
    }
    ascii
}

/// Bodies without and with a member.
fn with_and_without(format: Format, model: &str, member: &Value) -> [String; 2] {
    let user = json!([{"role": "user", "content": "Fix the bug."}]);
    let bare = match format {
        Format::Messages => json!({"model": model, "max_tokens": 9, "messages": user}),
        Format::Responses => json!({"model": model, "input": user}),
        _ => json!({"model": model, "n": 1, "messages": user}),
    };
    let mut said = bare.clone();
    let members = said.as_object_mut().unwrap();
    members.extend(member.as_object().unwrap().clone());
    [bare, said].map(|body| body.to_string())
}

/// The defaults of models are those of the catalog.
#[test]
fn explicit_default_effort_is_no_difference() {
    let catalog = Catalog::built_in();
    let mut seen = [0; 3];
    for model in catalog.models("openai") {
        let capabilities = &catalog.find("openai", model).unwrap().capabilities;
        let Some(default) = capabilities.default_effort.as_deref() else {
            continue;
        };
        seen[0] += 1;
        for effort in capabilities.efforts.iter().flatten() {
            for (format, member) in [
                (Format::Chat, json!({"reasoning_effort": effort})),
                (Format::Responses, json!({"reasoning": {"effort": effort}})),
            ] {
                let [bare, said] = with_and_without(format, model, &member);
                if effort == default {
                    same(&bare, &said)
                } else {
                    differ(&bare, &said)
                }
            }
        }
    }
    for model in catalog.models("anthropic") {
        let capabilities = &catalog.find("anthropic", model).unwrap().capabilities;
        for effort in capabilities.efforts.iter().flatten() {
            let member = json!({"output_config": {"effort": effort}});
            let [bare, said] = with_and_without(Format::Messages, model, &member);
            seen[1] += 1;
            if capabilities.default_effort.as_ref() == Some(effort) {
                same(&bare, &said)
            } else {
                differ(&bare, &said)
            }
        }
        let is_on = capabilities.thinking == Some(Thinking::AlwaysOn);
        seen[2] += usize::from(is_on);
        for (kind, is_default) in [("adaptive", is_on), ("disabled", !is_on)] {
            let member = json!({"thinking": {"type": kind}});
            let [bare, said] = with_and_without(Format::Messages, model, &member);
            if is_default {
                same(&bare, &said)
            } else {
                differ(&bare, &said)
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
}

/// The findings of `prefix lint`: cause, word and offset.
fn found(line: &str) -> Vec<(LikelyCause, Option<String>, Option<usize>)> {
    let request = logged(line).request;
    let rules = Rules::of_request(&request, &Catalog::built_in());
    let findings = lint(&request, &rules).into_iter();
    let found = findings.map(|finding| (finding.cause, finding.word, finding.offset));
    found.collect()
}

#[test]
fn lint_checks_the_normalized_request() {
    let body = |tool: &str, system: &str| {
        format!(
            r#"{{"model":"claude-sonnet-4-6","max_tokens":9,"tools":[{tool}],"system":{system},"messages":[{{"role":"user","content":"Hi.","cache_control":{{"type":"ephemeral"}}}}]}}"#
        )
    };
    let short = (LikelyCause::BelowMinimum, None, None);
    let time = |offset| {
        let word = Some("08:41:07".to_owned());
        (LikelyCause::Timestamp, word, offset)
    };
    // A tool that is loaded later is no part of the prefix.
    let tool = |more: &str| {
        format!(r#"{{"name":"a","description":"Now it is 08:41:07.","input_schema":{{}}{more}}}"#)
    };
    let system = r#""Be brief.""#;
    let read = found(&body(&tool(""), system));
    assert_eq!(read, [time(tool("").find("08:41:07")), short.clone()]);
    let later = found(&body(&tool(r#","defer_loading":true"#), system));
    assert_eq!(later, std::slice::from_ref(&short));
    // Escapes are read, and have no place of their own.
    let plain = found(&body("", r#""It is 08:41:07.""#));
    assert_eq!(plain, [time(Some(7)), short.clone()]);
    let escaped = found(&body("", r#""It is 08\u003a41:07.""#));
    assert_eq!(escaped, [time(None), short.clone()]);
    // White space between tokens is no length.
    let wide = format!(r#"{{"name":"a",{}"input_schema":{{}}}}"#, " ".repeat(9_000));
    assert_eq!(found(&body(&wide, system)), [short]);
}

//! Rewrites: each hook of a sequential event sees what those before it made of the input.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_hooks::definition::OnError;
use cachalot_hooks::input::{ToolResponse, ToolUse};
use cachalot_hooks::{Decision, Event, Input, Output, Verdict};
use cachalot_model::Message;
use serde_json::{Value, json};

use crate::hook_builder::HookBuilder;

fn tool(input: Value) -> Input {
    Input {
        tool: Some(ToolUse {
            name: "shell".to_owned(),
            input: input.as_object().unwrap().clone(),
            ..ToolUse::default()
        }),
        tool_response: Some(ToolResponse {
            text: "answered".to_owned(),
            is_error: true,
        }),
        ..Input::default()
    }
}

fn patch(patch: Value) -> Output {
    Output {
        updated_input: patch.as_object().cloned(),
        ..Output::default()
    }
}

fn response(text: &str) -> Output {
    Output {
        updated_tool_response: Some(text.to_owned()),
        ..Output::default()
    }
}

fn messages(texts: &[&str]) -> Vec<Message> {
    texts.iter().map(|text| Message::user(*text)).collect()
}

/// A conversation of which the last `unsent` were not sent.
fn conversation(texts: &[&str], unsent: usize) -> Input {
    Input {
        messages: messages(texts).into_iter().map(Arc::new).collect(),
        unsent,
        ..Input::default()
    }
}

fn rewritten(texts: &[&str]) -> Output {
    Output {
        updated_messages: Some(messages(texts)),
        ..Output::default()
    }
}

async fn rewrite(texts: &[&str], unsent: usize, to: &[&str]) -> Verdict {
    HookBuilder::of(Event::BeforeLlmCall)
        .says(rewritten(to))
        .fire(conversation(texts, unsent))
        .await
}

#[tokio::test]
async fn patches_of_arguments_are_merged_and_the_last_wins() {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let notes = |output: Output| {
        let seen = Arc::clone(&seen);
        move |input: Input| {
            seen.lock().unwrap().push(input.tool.unwrap().input.into());
            let output = output.clone();
            async move { Ok(output) }
        }
    };
    let verdict = HookBuilder::of(Event::ToolInputTransform)
        .hook(notes(patch(json!({ "a": { "x": 1 }, "b": 2 }))))
        .hook(notes(patch(json!({ "b": 3, "c": null }))))
        .hook(notes(Output::default()))
        .fire(tool(json!({ "a": { "x": 0, "y": 0 }, "d": 4 })))
        .await;
    assert_eq!(
        *seen.lock().unwrap(),
        [
            json!({ "a": { "x": 0, "y": 0 }, "d": 4 }),
            json!({ "a": { "x": 1 }, "b": 2, "d": 4 }),
            json!({ "a": { "x": 1 }, "b": 3, "c": null, "d": 4 }),
        ]
    );
    let updated = Value::from(verdict.updated_input.unwrap());
    assert_eq!(updated, json!({ "a": { "x": 1 }, "b": 3, "c": null }));
}

#[tokio::test]
async fn an_empty_patch_and_no_patch_rewrite_nothing() {
    let made = HookBuilder::of(Event::PreToolUse)
        .says(patch(json!({})))
        .says(Output::default());
    let verdict = made.fire(tool(json!({ "a": 1 }))).await;
    assert_eq!(verdict.updated_input, None);
}

#[tokio::test]
async fn rewritten_results_are_chained_and_may_be_empty() {
    let made = HookBuilder::of(Event::ToolResponseTransform)
        .hook(|input| async move {
            let before = input.tool_response.unwrap();
            assert!(before.is_error);
            Ok(response(&format!("{}!", before.text)))
        })
        .hook(|input| async move { Ok(response(&input.tool_response.unwrap().text.repeat(2))) });
    let verdict = made.fire(tool(json!({}))).await;
    assert_eq!(
        verdict.updated_tool_response.as_deref(),
        Some("answered!answered!")
    );
    let made = HookBuilder::of(Event::ToolResponseTransform)
        .says(response(""))
        .says(Output::default());
    let verdict = made.fire(tool(json!({}))).await;
    assert_eq!(verdict.updated_tool_response.as_deref(), Some(""));
}

#[tokio::test]
async fn rewritten_messages_are_chained_and_sent_ones_kept() {
    let verdict = HookBuilder::of(Event::BeforeLlmCall)
        .says(rewritten(&["b", "c", "d"]))
        .hook(|input| async move {
            let reported: Vec<String> = input
                .messages
                .iter()
                .map(|message| message.text())
                .collect();
            assert_eq!(
                (reported.join(" "), input.unsent),
                ("sent b c d".to_owned(), 3)
            );
            Ok(rewritten(&["e"]))
        })
        .hook(|input| async move {
            let reported: Vec<String> = input
                .messages
                .iter()
                .map(|message| message.text())
                .collect();
            assert_eq!((reported.join(" "), input.unsent), ("sent e".to_owned(), 1));
            Ok(Output::default())
        })
        .fire(conversation(&["sent", "new"], 1))
        .await;
    assert_eq!(verdict.updated_messages, Some(messages(&["e"])));
    assert!(verdict.messages.is_empty());
}

#[tokio::test]
async fn builtins_receive_values_without_a_json_round_trip() {
    let input = conversation(&["sent", "new"], 1);
    let messages = input.messages.clone();
    let verdict = HookBuilder::of(Event::BeforeLlmCall)
        .hook(move |reported| {
            let mut pairs = reported.messages.iter().zip(&messages);
            assert!(pairs.all(|(reported, given)| Arc::ptr_eq(reported, given)));
            async { Ok(Output::default()) }
        })
        .fire(input)
        .await;
    assert!(verdict.reports[0].result.is_ok());
}

#[tokio::test]
async fn unchanged_messages_are_not_a_rewrite() {
    let verdict = rewrite(&["sent", "new"], 1, &["new"]).await;
    assert_eq!(verdict.updated_messages, None);
    assert!(verdict.messages.is_empty());
}

#[tokio::test]
async fn rewrite_to_no_messages_or_of_sent_ones_is_ignored() {
    for (unsent, to, why) in [
        (1, &[][..], "nothing would be left to be sent"),
        (0, &["new"], "all of them were sent"),
    ] {
        let verdict = rewrite(&["sent", "new"], unsent, to).await;
        assert_eq!(verdict.updated_messages, None);
        let what = "hook `hook-0` (agent.yaml) rewrote messages, which is not honoured";
        assert_eq!(verdict.messages, [format!("{what}: {why}")]);
    }
}

#[tokio::test]
async fn failure_keeps_earlier_rewrites() {
    let made = HookBuilder::of(Event::ToolInputTransform)
        .says(patch(json!({ "a": 1 })))
        .fails()
        .but(|entry| entry.definition.on_error = Some(OnError::Warn))
        .hook(|input| async move {
            assert_eq!(input.tool.unwrap().input["a"], 1);
            Ok(patch(json!({ "b": 2 })))
        });
    let verdict = made.fire(tool(json!({}))).await;
    assert_eq!(
        Value::from(verdict.updated_input.unwrap()),
        json!({ "a": 1, "b": 2 })
    );
    assert_eq!(
        verdict.messages,
        ["hook `hook-1` (agent.yaml) failed: broken"]
    );
    assert_eq!(verdict.decision, None);
}

#[tokio::test]
async fn ignored_rewrite_keeps_its_denial() {
    let output = Output {
        block: Some("no".to_owned()),
        ..rewritten(&[])
    };
    let made = HookBuilder::of(Event::BeforeLlmCall).says(output);
    let verdict = made.fire(conversation(&["sent", "new"], 1)).await;
    assert_eq!(verdict.denial(), Some("no"));
    assert_eq!(verdict.updated_messages, None);
}

#[tokio::test]
async fn a_block_does_not_stop_later_hooks() {
    let denial = Output {
        permission: Some((Decision::Deny, Some("no".to_owned()))),
        ..Output::default()
    };
    let made = HookBuilder::of(Event::PreToolUse)
        .says(denial)
        .says(patch(json!({ "a": 1 })));
    let verdict = made.fire(tool(json!({}))).await;
    assert_eq!(verdict.reports.len(), 2);
    assert_eq!(verdict.denial(), Some("no"));
    assert!(verdict.updated_input.is_some());
}

#[tokio::test]
async fn hook_after_a_timed_out_one_still_runs() {
    let verdict = HookBuilder::of(Event::ToolInputTransform)
        .hook(|_| std::future::pending())
        .but(|entry| entry.definition.timeout = Duration::from_millis(100))
        .says(patch(json!({ "a": 1 })))
        .fire(tool(json!({})))
        .await;
    assert!(verdict.reports[0].result.is_err());
    assert_eq!(
        Value::from(verdict.updated_input.unwrap()),
        json!({ "a": 1 })
    );
}

/// Two hooks that each wait until both were told; whoever waits in vain says nothing.
fn meet(event: Event) -> HookBuilder {
    let meeting = Arc::new(tokio::sync::Barrier::new(2));
    let hook = |meeting: Arc<tokio::sync::Barrier>| {
        move |_: Input| {
            let meeting = Arc::clone(&meeting);
            async move {
                meeting.wait().await;
                Ok(Output::default())
            }
        }
    };
    let limit = Duration::from_millis(100);
    HookBuilder::of(event)
        .hook(hook(Arc::clone(&meeting)))
        .but(|entry| entry.definition.timeout = limit)
        .hook(hook(meeting))
        .but(|entry| entry.definition.timeout = limit)
}

#[tokio::test]
async fn hooks_without_rewrites_run_concurrently() {
    let verdict = meet(Event::UserPromptSubmit).verdict().await;
    assert!(verdict.reports.iter().all(|report| report.result.is_ok()));
    let verdict = meet(Event::ToolInputTransform).verdict().await;
    assert!(verdict.reports[0].result.is_err());
}

#[tokio::test]
async fn a_sequential_hook_receives_the_rewrites_of_previous_hooks() {
    let made = meet(Event::UserPromptSubmit).but(|entry| entry.definition.sequential = true);
    let verdict = made.verdict().await;
    assert!(verdict.reports[0].result.is_err());

    let verdict = HookBuilder::of(Event::PostToolUse)
        .says(response("shorter"))
        .hook(|input| async move {
            Ok(response(&format!(
                "1: {}",
                input.tool_response.unwrap().text
            )))
        })
        .but(|entry| entry.definition.sequential = true)
        .fire(tool(json!({})))
        .await;
    assert_eq!(verdict.updated_tool_response.as_deref(), Some("1: shorter"));
}

//! The conversation as handlers see it, and what they make of it.

use super::*;

fn rewritten(input: &Input, messages: &Value) -> Result<Output, Fault> {
    let stdout = json!({"hook_specific_output": {"updated_messages": messages}}).to_string();
    said(Dialect::DockerAgent, input, &stdout)
}

#[test]
fn messages_round_trip_through_the_dialect() {
    let input = conversation();
    let reported = reported(Dialect::DockerAgent, &input);
    assert_eq!(
        reported["messages"],
        json!([
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "let me see", "tool_calls": [
                {"id": "c-1", "type": "function", "function": {"name": "shell", "arguments": "{\"command\":\"cat key\"}"}}]},
            {"role": "tool", "content": "secret", "tool_call_id": "c-1"},
            {"role": "user", "content": "and now?"},
        ])
    );
    assert_eq!(reported["unsent"], 3);
    let same = rewritten(&input, &reported["messages"]).unwrap();
    assert_eq!(same, Output::default());
    assert_eq!(rewritten(&input, &json!([])).unwrap(), Output::default());
}

#[test]
fn rewrite_changes_only_expressible_parts_of_messages() {
    let input = conversation();
    let mut messages = reported(Dialect::DockerAgent, &input)["messages"].clone();
    messages[2]["content"] = "[redacted]".into();
    let output = rewritten(&input, &messages).unwrap();
    let unsent = output.updated_messages.unwrap();
    assert_eq!(unsent[0], *input.messages[1]);
    let Block::ToolResult(result) = &unsent[1].content[0] else {
        panic!()
    };
    assert_eq!(result.content, [Block::text("[redacted]")]);
    assert_eq!(unsent[1].content[1], Block::text("and now?"));
    messages[1]["content"] = "changed".into();
    let unsent = rewritten(&input, &messages)
        .unwrap()
        .updated_messages
        .unwrap();
    assert_eq!(
        unsent[0].content[0], input.messages[1].content[0],
        "the reasoning stays"
    );
    assert_eq!(unsent[0].content[1], Block::text("changed"));
    assert_eq!(
        unsent[0].content[2], input.messages[1].content[2],
        "the call stays as it was"
    );
}

#[test]
fn unsent_messages_can_be_added_and_removed() {
    let input = conversation();
    let messages = reported(Dialect::DockerAgent, &input)["messages"].clone();
    let mut longer = messages.as_array().unwrap().clone();
    longer.push(json!({"role": "user", "content": "be brief"}));
    let unsent = rewritten(&input, &longer.clone().into())
        .unwrap()
        .updated_messages
        .unwrap();
    assert_eq!(
        unsent[..2],
        [
            input.messages[1].as_ref().clone(),
            input.messages[2].as_ref().clone()
        ]
    );
    assert_eq!(unsent[2].text(), "be brief");
    let shorter = json!([messages[0]]);
    assert_eq!(
        rewritten(&input, &shorter).unwrap().updated_messages,
        Some(vec![])
    );
    longer[0]["content"] = "changed".into();
    let tampered = rewritten(&input, &longer.into()).unwrap();
    assert_eq!(tampered.updated_messages.unwrap().len(), 3);
    assert!(tampered.system_message.unwrap().contains("sent already"));
    let fewer = Input {
        unsent: 1,
        ..conversation()
    };
    let fault = rewritten(&fewer, &json!([messages[0]])).unwrap_err();
    assert!(fault.message.contains("2 were sent already"), "{fault}");
    let wrong = json!([messages[0], {"role": "system", "content": "a"}]);
    assert!(
        rewritten(&input, &wrong)
            .unwrap_err()
            .message
            .contains("`system`")
    );
}

#[test]
fn gemini_rewrites_the_text_of_messages() {
    let input = conversation();
    let mut messages = reported(Dialect::Gemini, &input)["llm_request"]["messages"].clone();
    messages[2]["content"] = "and later?".into();
    let stdout = json!({"hookSpecificOutput": {"llm_request": {"messages": messages}}}).to_string();
    let unsent = said(Dialect::Gemini, &input, &stdout)
        .unwrap()
        .updated_messages
        .unwrap();
    assert_eq!(unsent[0], *input.messages[1]);
    assert_eq!(unsent[1].content[0], input.messages[2].content[0]);
    assert_eq!(unsent[1].content[1], Block::text("and later?"));
    let fewer = r#"{"hookSpecificOutput": {"llm_request": {"messages": []}}}"#;
    assert!(said(Dialect::Gemini, &input, fewer).is_err());
}

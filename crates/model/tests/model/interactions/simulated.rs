//! The simulator, which shares no code with the format.

use cachalot_model::{
    Block, ErrorKind, Message, Model, Models, Reply, Request, Role, StopReason, Terms,
    ToolDefinition, ToolResult, Usage,
};
use cachalot_simulator::{
    Fault, FaultKind, RunningSimulator, Script, ScriptedReply, ScriptedStop, ScriptedUsage,
    Simulator, SimulatorOptions,
};
use serde_json::{Value, json};

use crate::client::{configured, model_dependencies};

async fn start(replies: Vec<ScriptedReply>) -> RunningSimulator {
    let simulator = Simulator::start(SimulatorOptions {
        script: Script::replies(replies),
        ..SimulatorOptions::default()
    });
    simulator.await.unwrap()
}

/// A model of the simulator, with further keys of YAML.
fn model(simulator: &RunningSimulator, keys: &str) -> Model {
    let yaml = format!(
        "models: {{m: {{provider: google, model: gemini-3.8-flash, format: interactions, base_url: '{}', token_key: TEST_KEY, retries: 0, {keys}}}}}",
        simulator.url()
    );
    let environment = model_dependencies(&[("TEST_KEY", "gemini-0123456789")]);
    Models::new(environment, configured(&yaml))
        .find("m")
        .unwrap()
}

async fn ask(
    model: &Model,
    messages: &[Message],
    stream: bool,
) -> Result<Reply, cachalot_model::Error> {
    let request = Request {
        tools: vec![ToolDefinition {
            name: "look".to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        }],
        system: Some("Be brief.".to_owned()),
        messages: messages.to_vec(),
        parameters: model.parameters().clone(),
    };
    let body = request.body(model.wire(), stream).unwrap();
    if stream {
        model.stream(body, &mut |_| {}).await
    } else {
        model.ask(body).await
    }
}

fn reasoning(reply: &Reply) -> Vec<Value> {
    let blocks = reply.message.content.iter();
    let thoughts = blocks.filter_map(|block| match block {
        Block::Reasoning(reasoning) => Some(reasoning.verbatim.clone()),
        _ => None,
    });
    thoughts.collect()
}

#[tokio::test]
async fn functions_are_called_and_their_results_sent_without_state() {
    let mut answers = Vec::new();
    for stream in [false, true] {
        let usage = ScriptedUsage {
            input: Some(100),
            cache_read: Some(40),
            output: Some(10),
            reasoning: Some(3),
            web_searches: Some(2),
            service_tier: Some("priority"),
            ..ScriptedUsage::default()
        };
        let simulator = start(vec![
            ScriptedReply::text("I look around in the sea for a while.")
                .and_call("look", json!({"at": "the sea", "deep": 2000}))
                .with_reasoning("First I look around, and then I say what I have seen."),
            ScriptedReply::text("It is deep.").with_usage(usage),
        ])
        .await;
        let model = model(&simulator, "reasoning_effort: low");
        let mut messages = vec![Message::user("How deep?")];
        let first = ask(&model, &messages, stream).await.unwrap();
        assert_eq!(first.stop, StopReason::ToolUse);
        let call = first.message.tool_uses().next().unwrap().clone();
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(arguments, json!({"at": "the sea", "deep": 2000}));
        let said = vec![Block::ToolResult(ToolResult {
            id: call.id.clone(),
            content: vec![Block::text("2,000 m")],
            is_error: false,
            extra: Default::default(),
        })];
        messages.push(first.message.clone());
        messages.push(Message::new(Role::User, said));
        let second = ask(&model, &messages, stream).await.unwrap();
        assert_eq!(second.stop, StopReason::End);
        assert_eq!(
            second.usage,
            Some(Usage {
                uncached_input: 60,
                cache_read: 40,
                output: 10,
                reasoning: 3,
                web_searches: 2,
                ..Usage::default()
            })
        );
        let terms = model.wire().terms(&second);
        assert_eq!(
            terms,
            Terms {
                tier: Some("priority".to_owned()),
                ..Terms::default()
            }
        );
        let received = simulator.received();
        assert_eq!(received.len(), 2);
        for request in &received {
            assert_eq!(request.path, "/v1beta/interactions");
            let body = request.json();
            assert_eq!(body["store"], false);
            assert_eq!(body.get("previous_interaction_id"), None);
        }
        // The second request begins with the first one, and has the thought with its signature.
        let inputs = received
            .iter()
            .map(|request| request.json()["input"].clone());
        let inputs: Vec<Value> = inputs.collect();
        assert_eq!(inputs[0][0], inputs[1][0]);
        assert_eq!(inputs[1][1], reasoning(&first)[0]);
        assert!(inputs[1][1]["signature"].is_string());
        let kinds: Vec<&Value> = inputs[1]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| &step["type"])
            .collect();
        let expected = [
            "user_input",
            "thought",
            "model_output",
            "function_call",
            "function_result",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(inputs[1][4]["name"], "look");
        assert_eq!(simulator.violations(), [] as [String; 0]);
        answers.push((
            first.message.text(),
            reasoning(&first),
            arguments,
            second.message.text(),
            second.model.clone(),
        ));
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn cut_off_and_failed_answers_are_recognized() {
    for stream in [false, true] {
        let simulator = start(vec![
            ScriptedReply::text("It is").with_stop(ScriptedStop::Length),
            ScriptedReply::text("x").with_fault(Fault::status(503)),
            ScriptedReply::text("x").with_fault(FaultKind::ErrorEvent { after_events: 2 }.into()),
            ScriptedReply::text("x").with_fault(Fault::cut(3)),
            ScriptedReply::text("It is deep."),
        ])
        .await;
        let model = model(&simulator, "max_tokens: 100");
        let messages = [Message::user("How deep?")];
        let reply = ask(&model, &messages, stream).await.unwrap();
        assert_eq!(reply.stop, StopReason::Length);
        let error = ask(&model, &messages, stream).await.unwrap_err();
        assert_eq!(
            (error.kind, error.status),
            (ErrorKind::Unavailable, Some(503))
        );
        let error = ask(&model, &messages, stream).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        ask(&model, &messages, stream).await.unwrap_err();
        let reply = ask(&model, &messages, stream).await.unwrap();
        assert_eq!(
            (reply.message.text().as_str(), reply.stop),
            ("It is deep.", StopReason::End)
        );
    }
}

#[tokio::test]
async fn unknown_parameters_are_refused_by_the_provider() {
    let simulator = start(vec![ScriptedReply::text("x")]).await;
    let model = model(&simulator, "provider_opts: {temprature: 1}");
    let error = ask(&model, &[Message::user("x")], false).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Rejected);
    assert!(error.message.contains("temprature"), "{}", error.message);
}

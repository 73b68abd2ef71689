//! Hooks that call tools of MCP servers.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cachalot_hooks::{Action, Dialect, Event, Fault, HookEntry, HookTools, Input};
use serde_json::{Map, Value, json};

use crate::handler_fixture::{HandlerFixture, entry};

/// Servers that give one answer, and record the calls.
struct FixedTools {
    answer: Result<String, String>,
    calls: Mutex<Vec<(String, String, Value)>>,
}

#[async_trait]
impl HookTools for FixedTools {
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, Fault> {
        let call = (server.to_owned(), tool.to_owned(), arguments.into());
        self.calls.lock().unwrap().push(call);
        self.answer.clone().map_err(Fault::new)
    }
}

fn hook(event: Event, input: Option<Value>) -> HookEntry {
    entry(
        event,
        Action::McpTool {
            server: "guard".to_owned(),
            tool: "check".to_owned(),
            input: input.map(|input| input.as_object().unwrap().clone()),
        },
    )
}

/// A fixture whose servers give this answer.
fn fixture(answer: Result<&str, &str>) -> (HandlerFixture, Arc<FixedTools>) {
    let tools = Arc::new(FixedTools {
        answer: answer.map(str::to_owned).map_err(str::to_owned),
        calls: Mutex::default(),
    });
    let mut fixture = HandlerFixture::new();
    fixture.tools = Some(tools.clone());
    (fixture, tools)
}

#[tokio::test]
async fn the_input_of_the_hook_fills_in_the_arguments_and_the_result_is_its_output() {
    let said = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "not on sundays",
    } });
    let (fixture, tools) = fixture(Ok(&said.to_string()));
    let arguments = json!({ "session": "${session_id}", "text": "in ${session_id}!", "deep": [5] });
    let mut entry = hook(Event::PreToolUse, Some(arguments));
    entry.dialect = Dialect::Claude;
    entry.event_name = "PreToolUse".into();
    let input = Input {
        session_id: "s-1".to_owned(),
        ..Input::default()
    };
    let verdict = fixture.verdict(entry, input).await;
    assert_eq!(verdict.denial(), Some("not on sundays"));
    let calls = tools.calls.lock().unwrap().clone();
    let arguments = json!({ "session": "s-1", "text": "in s-1!", "deep": [5] });
    assert_eq!(calls, [("guard".to_owned(), "check".to_owned(), arguments)]);
}

#[tokio::test]
async fn without_arguments_the_tool_gets_the_whole_input() {
    let (fixture, tools) = fixture(Ok(""));
    let input = Input {
        session_id: "s-1".to_owned(),
        ..Input::default()
    };
    let verdict = fixture.verdict(hook(Event::PreToolUse, None), input).await;
    assert_eq!(verdict.denial(), None);
    assert!(verdict.messages.is_empty(), "{:?}", verdict.messages);
    let calls = tools.calls.lock().unwrap().clone();
    assert_eq!(calls[0].2["hook_event_name"], "pre_tool_use");
    assert_eq!(calls[0].2["session_id"], "s-1");
}

#[tokio::test]
async fn a_guard_whose_tool_cannot_be_called_denies() {
    let (failing, _) = fixture(Err("the MCP server `guard` ended before it was ready"));
    for (fixture, why) in [
        (failing, "ended before it was ready"),
        (HandlerFixture::new(), "there are no MCP servers here"),
    ] {
        let verdict = fixture
            .verdict(hook(Event::PreToolUse, None), Input::default())
            .await;
        let denial = verdict.denial().unwrap_or_default();
        assert!(denial.contains(why), "{denial}");
    }
}

//! Phases of a tool call: rewriting, guards, hooks, rules, approval; and its result.

use std::sync::{Arc, Mutex};

use cachalot_agent::{Approval, CancellationToken, Stop};
use cachalot_hooks::{Decision, Event, Input, Output};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{Arguments, Operation, OperationMetadata, ToolContext, ToolOutput};
use serde_json::{Map, Value, json};

use crate::bodies::{Turn, turns};
use crate::cancelling::HangingTool;
use crate::event_recorder::Note;
use crate::fixture::{Fixture, WIRES, Wire};
use crate::hook_recorder::{HookReply, adds, blocks};

/// Writes down what it is told.
struct WritingTool {
    metadata: OperationMetadata,
    reported: Mutex<Vec<Value>>,
}

impl WritingTool {
    fn new(is_harmless: bool) -> Arc<Self> {
        let parameters = json!({
            "type": "object",
            "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["text"],
            "additionalProperties": false
        });
        let mut metadata =
            OperationMetadata::with_side_effects("scribe", "Writes.".to_owned(), parameters);
        metadata.read_only = is_harmless;
        Arc::new(Self {
            metadata,
            reported: Mutex::default(),
        })
    }

    fn reported(&self) -> Vec<Value> {
        self.reported.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Operation for WritingTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, arguments: Arguments, _: &ToolContext) -> cachalot_tools::ToolOutput {
        self.reported
            .lock()
            .unwrap()
            .push(Value::Object(arguments.clone()));
        match arguments["text"].as_str() {
            Some("fail") => cachalot_tools::ToolOutput::error("it failed with hunter2"),
            _ => cachalot_tools::ToolOutput::text("written: hunter2"),
        }
    }
}

const PLAIN: &str = "agents: {root: {model: test, instruction: You write.}}\n";

async fn fixture(
    wire: Wire,
    rules: &str,
    texts: &[&str],
    harmless: bool,
) -> (Fixture, Arc<WritingTool>) {
    let mut replies: Vec<ScriptedReply> = texts
        .iter()
        .map(|text| ScriptedReply::call("scribe", json!({"text": text})))
        .collect();
    replies.push(ScriptedReply::text("done"));
    let mut fixture = Fixture::new(wire, &format!("{PLAIN}{rules}"), replies).await;
    let writing_tool = WritingTool::new(harmless);
    fixture.tools = vec![Arc::clone(&writing_tool) as _];
    (fixture, writing_tool)
}

fn decides(decision: Decision) -> Output {
    Output {
        permission: Some((decision, Some("because.".to_owned()))),
        ..Output::default()
    }
}

fn patch(value: &Value) -> Output {
    Output {
        updated_input: value.as_object().cloned(),
        ..Output::default()
    }
}

fn result(fixture: &Fixture) -> String {
    let turns = turns(&fixture.last_body());
    let results = turns.into_iter().rev().find_map(|turn| match turn {
        Turn::Results(results) => Some(results),
        _ => None,
    });
    results.unwrap().pop().unwrap().1
}

#[derive(Debug, PartialEq)]
enum Came {
    Ran,
    RanAsked,
    Denied,
    DeniedAsked,
}

/// The rules (rows) and what pre_tool_use says (columns); asked, the user says yes.
#[tokio::test]
async fn rules_hooks_and_the_user_in_all_combinations() {
    use Came::{Denied, Ran, RanAsked};
    let rules = [
        "",
        "permissions: {allow: [scribe]}\n",
        "permissions: {ask: [scribe]}\n",
        "permissions: {deny: [scribe]}\n",
    ];
    let hooks = [
        None,
        Some(Decision::Allow),
        Some(Decision::Ask),
        Some(Decision::Deny),
    ];
    let expected = [
        [RanAsked, Ran, RanAsked, Denied],
        [Ran, Ran, RanAsked, Denied],
        [RanAsked, RanAsked, RanAsked, Denied],
        [Denied, Denied, Denied, Denied],
    ];
    for (rule, row) in rules.iter().zip(expected) {
        for (hook, expected) in hooks.iter().zip(row) {
            let (fixture, writing_tool) = fixture(Wire::Messages, rule, &["a"], false).await;
            if let Some(decision) = hook {
                fixture
                    .hook_recorder
                    .say(Event::PreToolUse, decides(*decision));
            }
            fixture.answers.give([Approval::Yes]);
            let mut chat = fixture.chat().await;
            fixture.turn(&mut chat, "go").await;
            let asked = fixture.answers.asked();
            let came = match (writing_tool.reported().is_empty(), asked.is_empty()) {
                (false, true) => Came::Ran,
                (false, false) => Came::RanAsked,
                (true, true) => Came::Denied,
                (true, false) => Came::DeniedAsked,
            };
            assert_eq!(came, expected, "{rule:?} {hook:?}");
            if *hook == Some(Decision::Ask) && !asked.is_empty() {
                assert_eq!(asked[0].why.as_deref(), Some("because."));
            }
            if came == Came::Denied {
                let text = result(&fixture);
                assert!(text.contains("is denied by"), "{text}");
            }
            fixture.check();
        }
    }
}

/// It always runs: also where rules allow, and for tools that change nothing.
#[tokio::test]
async fn hook_can_deny_read_only_calls() {
    for event in [
        Event::ToolInputTransform,
        Event::ToolGuard,
        Event::PreToolUse,
    ] {
        for wire in WIRES {
            let (fixture, writing_tool) = fixture(wire, "", &["a"], true).await;
            fixture.hook_recorder.say(event, blocks("not this"));
            let mut chat = fixture.chat().await;
            assert_eq!(fixture.turn(&mut chat, "go").await.stop, Stop::End);
            assert!(writing_tool.reported().is_empty());
            assert!(result(&fixture).contains("denied by a hook: not this"));
            fixture.check();
        }
    }
}

#[tokio::test]
async fn a_guard_that_fails_denies() {
    let (fixture, writing_tool) = fixture(Wire::Chat, "", &["a"], true).await;
    fixture
        .hook_recorder
        .on(Event::ToolGuard, |_| Some(HookReply::Fails));
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    assert!(writing_tool.reported().is_empty());
    fixture.check();
}

#[tokio::test]
async fn allow_of_a_guard_does_not_replace_approval() {
    let (fixture, writing_tool) = fixture(Wire::Chat, "", &["a"], false).await;
    fixture
        .hook_recorder
        .say(Event::ToolGuard, decides(Decision::Allow));
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    assert_eq!(
        (writing_tool.reported().len(), fixture.answers.asked().len()),
        (0, 1)
    );
    fixture.check();
}

#[tokio::test]
async fn arguments_are_rewritten_checked_and_guarded_again() {
    for wire in WIRES {
        let (fixture, writing_tool) = fixture(
            wire,
            "permissions: {allow: [scribe], deny: ['scribe:text=evil']}\n",
            &["a", "b", "c", "d"],
            false,
        )
        .await;
        fixture.hook_recorder.listen([Event::ToolGuard]);
        fixture
            .hook_recorder
            .on(Event::ToolInputTransform, |input| {
                rewritten(input, "a", &json!({"text": "A", "times": 2}))
            });
        fixture.hook_recorder.on(Event::PreToolUse, |input| {
            rewritten(input, "b", &json!({"text": "B"}))
                .or_else(|| rewritten(input, "c", &json!({"times": "many"})))
                .or_else(|| rewritten(input, "d", &json!({"text": "evil"})))
        });
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        assert_eq!(
            writing_tool.reported(),
            [json!({"text": "A", "times": 2}), json!({"text": "B"})]
        );
        let guarded: Vec<Map<String, Value>> = fixture
            .hook_recorder
            .recorded_of(Event::ToolGuard)
            .into_iter()
            .map(|input| input.tool.unwrap().input)
            .collect();
        let texts: Vec<&str> = guarded
            .iter()
            .map(|input| input["text"].as_str().unwrap())
            .collect();
        assert_eq!(texts, ["A", "b", "B", "c", "d", "evil"]);
        let results: Vec<String> = turns(&fixture.last_body())
            .into_iter()
            .filter_map(|turn| match turn {
                Turn::Results(results) => results.into_iter().next().map(|(_, text)| text),
                _ => None,
            })
            .collect();
        assert!(results[2].contains("rewritten by a hook"), "{}", results[2]);
        assert!(results[3].contains("denied by the rule"), "{}", results[3]);
        // The model's own calls stay as it wrote them.
        let body = fixture.last_body().to_string();
        assert!(
            !body.contains("evil\"") || body.contains("text=evil"),
            "{body}"
        );
        fixture.check();
    }
}

fn rewritten(input: &Input, text: &str, with: &Value) -> Option<HookReply> {
    let said = input.tool.as_ref()?.input.get("text")?;
    (said == text).then(|| HookReply::This(patch(with)))
}

#[tokio::test]
async fn hook_can_correct_invalid_arguments() {
    let replies = vec![
        ScriptedReply::call("scribe", json!({"texts": "a"})),
        ScriptedReply::text("done"),
    ];
    let mut fixture = Fixture::new(Wire::Chat, PLAIN, replies).await;
    let writing_tool = WritingTool::new(true);
    fixture.tools = vec![Arc::clone(&writing_tool) as _];
    fixture.hook_recorder.listen([Event::PreToolUse]);
    fixture.hook_recorder.on(Event::ToolInputTransform, |_| {
        Some(HookReply::This(patch(&json!({"text": "a"}))))
    });
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    // `texts` is still there, and wrong.
    assert!(
        writing_tool.reported().is_empty()
            && fixture
                .hook_recorder
                .recorded_of(Event::PreToolUse)
                .is_empty()
    );
    assert!(result(&fixture).contains("texts"), "{}", result(&fixture));
    fixture.check();
}

#[tokio::test]
async fn a_hook_answers_instead_of_the_user() {
    for (decision, ran) in [(Decision::Allow, 1), (Decision::Deny, 0)] {
        let (fixture, writing_tool) =
            fixture(Wire::Chat, "permissions: {ask: [scribe]}\n", &["a"], false).await;
        fixture
            .hook_recorder
            .listen([Event::Notification, Event::OnUserInput]);
        fixture
            .hook_recorder
            .say(Event::PermissionRequest, decides(decision));
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        assert_eq!(
            (writing_tool.reported().len(), fixture.answers.asked().len()),
            (ran, 0)
        );
        assert!(
            fixture
                .hook_recorder
                .recorded_of(Event::OnUserInput)
                .is_empty()
        );
        fixture.check();
    }
}

#[tokio::test]
async fn an_approval_request_is_emitted_before_the_user_is_asked() {
    let (fixture, _) = fixture(Wire::Chat, "", &["a"], false).await;
    fixture.hook_recorder.listen([
        Event::PermissionRequest,
        Event::Notification,
        Event::OnUserInput,
    ]);
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    assert_eq!(
        fixture.hook_recorder.events(),
        ["permission_request", "notification", "on_user_input"]
    );
    let reported = fixture.hook_recorder.recorded()[1]
        .notification
        .clone()
        .unwrap();
    assert_eq!(reported.kind, Some("permission_prompt"));
    assert!(reported.message.contains("`scribe`"));
    fixture.check();
}

/// Successes and failures are rewritten; the listener receives what the model receives.
#[tokio::test]
async fn results_are_rewritten_before_they_are_reported() {
    for wire in WIRES {
        let (fixture, _) = fixture(wire, "", &["a", "fail"], true).await;
        fixture.hook_recorder.listen([Event::PostToolUse]);
        fixture
            .hook_recorder
            .on(Event::ToolResponseTransform, |input| {
                let text = input.tool_response.as_ref()?.text.replace("hunter2", "***");
                Some(HookReply::This(Output {
                    updated_tool_response: Some(text),
                    ..Output::default()
                }))
            });
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        let all: String = fixture.bodies().iter().map(ToString::to_string).collect();
        assert!(!all.contains("hunter2") && all.contains("failed with ***"));
        let ended: Vec<(String, bool)> = fixture
            .reported
            .ended()
            .into_iter()
            .map(|ended| (ended.text, ended.is_error))
            .collect();
        assert_eq!(
            ended,
            [
                ("written: ***".to_owned(), false),
                ("it failed with ***".to_owned(), true)
            ]
        );
        let post: Vec<_> = fixture
            .hook_recorder
            .recorded_of(Event::PostToolUse)
            .into_iter()
            .map(|input| input.tool_response.unwrap())
            .collect();
        assert!(post[0].text == "written: ***" && post[1].is_error);
        fixture.check();
    }
}

#[tokio::test]
async fn hook_context_is_appended_to_the_result() {
    for wire in WIRES {
        let (fixture, _) = fixture(wire, "", &["a"], true).await;
        fixture.hook_recorder.listen([Event::Stop]);
        fixture
            .hook_recorder
            .say(Event::PreToolUse, adds("Mind the format."));
        fixture
            .hook_recorder
            .say(Event::PostToolUse, adds("The linter is happy."));
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        let text = result(&fixture);
        assert!(text.starts_with("written: hunter2"), "{text}");
        assert!(
            text.ends_with("<context>\nMind the format.\nThe linter is happy.\n</context>"),
            "{text}"
        );
        let added = fixture.hook_recorder.recorded_of(Event::Stop)[0]
            .answer
            .clone()
            .unwrap()
            .added_by;
        assert_eq!(added, ["ear", "ear"]);
        fixture.check();
    }
}

#[tokio::test]
async fn post_tool_hook_ends_the_turn_after_the_calls_of_an_answer() {
    for wire in WIRES {
        let both = ScriptedReply::call("scribe", json!({"text": "a"}))
            .and_call("scribe", json!({"text": "b"}));
        let mut fixture = Fixture::new(wire, PLAIN, vec![both, ScriptedReply::text("later")]).await;
        let writing_tool = WritingTool::new(true);
        fixture.tools = vec![Arc::clone(&writing_tool) as _];
        fixture.hook_recorder.on(Event::PostToolUse, |input| {
            let is_first = input.tool.as_ref()?.input["text"] == "a";
            is_first.then(|| HookReply::This(blocks("that was enough")))
        });
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Hook("that was enough".to_owned()));
        assert_eq!(
            (writing_tool.reported().len(), report.sum.tool_calls),
            (2, 2)
        );
        assert_eq!(fixture.turn(&mut chat, "go on").await.text, "later");
        assert!(result(&fixture).contains("written"));
        fixture.check();
    }
}

/// Results of calls that ran are kept when the turn is interrupted, and hooks see them all the same.
#[tokio::test]
async fn hooks_receive_the_results_of_an_interrupted_batch() {
    for hangs in [false, true] {
        let both =
            ScriptedReply::call("scribe", json!({"text": "a"})).and_call("forever", json!({}));
        let mut fixture = Fixture::new(
            Wire::Messages,
            PLAIN,
            vec![both, ScriptedReply::text("later")],
        )
        .await;
        fixture.tools = vec![
            WritingTool::new(true) as _,
            Arc::new(HangingTool::new("forever")),
        ];
        fixture
            .hook_recorder
            .on(Event::ToolResponseTransform, move |input| {
                let text = input.tool_response.as_ref()?.text.replace("hunter2", "***");
                Some(if hangs {
                    HookReply::Nothing
                } else {
                    HookReply::This(Output {
                        updated_tool_response: Some(text),
                        ..Output::default()
                    })
                })
            });
        let mut chat = fixture.chat().await;
        let cancel = CancellationToken::default();
        fixture.reported.cancel_when(
            &cancel,
            |note| matches!(note, Note::Began(tool) if tool == "forever"),
        );
        assert_eq!(
            chat.turn("go", &cancel).await.unwrap().stop,
            Stop::Interrupted
        );
        fixture.reported.react(|_| {});
        fixture.turn(&mut chat, "go on").await;
        let body = fixture.last_body().to_string();
        assert!(!body.contains("hunter2"), "{body}");
        let kept = if hangs {
            "before its result could be passed on"
        } else {
            "written: ***"
        };
        assert!(body.contains(kept), "{body}");
        fixture.check();
    }
}

#[tokio::test]
async fn guards_apply_to_delegation() {
    let file = "agents:\n  root: {model: test, instruction: You lead., sub_agents: [helper]}\n  helper: {model: test, instruction: You help.}\n";
    let transfer = ScriptedReply::call("transfer_task", json!({"agent": "helper", "task": "x"}));
    let fixture = Fixture::new(
        Wire::Chat,
        file,
        vec![transfer, ScriptedReply::text("done")],
    )
    .await;
    fixture
        .hook_recorder
        .say(Event::PreToolUse, blocks("nobody else"));
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    assert_eq!(fixture.sessions().await.len(), 1);
    fixture.check();
}

/// A `pre_tool_use` guard sees the arguments that run, including rewritten ones.
#[tokio::test]
async fn guards_see_rewritten_arguments() {
    for rewriting in [Event::PreToolUse, Event::PermissionRequest] {
        let (fixture, writing_tool) = fixture(Wire::Chat, "", &["a"], false).await;
        fixture.hook_recorder.on(Event::PreToolUse, |input| {
            let text = input.tool.as_ref()?.input.get("text")?.as_str()?;
            (text == "forbidden").then(|| HookReply::This(blocks("not that")))
        });
        fixture.hook_recorder.on(rewriting, |_| {
            let input = json!({"text": "forbidden"});
            Some(HookReply::This(Output {
                permission: Some((Decision::Allow, None)),
                updated_input: input.as_object().cloned(),
                ..Output::default()
            }))
        });
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "go").await;
        assert!(writing_tool.reported().is_empty(), "{rewriting}");
        assert!(
            result(&fixture).contains("not that"),
            "{}",
            result(&fixture)
        );
        fixture.check();
    }
}

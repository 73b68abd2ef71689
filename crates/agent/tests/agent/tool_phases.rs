//! What a call of a tool goes through: rewriting, guarding, hooks, rules, the user; and its result.

use std::sync::{Arc, Mutex};

use cachalot_agent::{Approval, CancellationToken, Stop};
use cachalot_hooks::{Decision, Event, Input, Output};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{Arguments, Operation, OperationMetadata, ToolContext, ToolOutput};
use serde_json::{Map, Value, json};

use crate::bodies::{Turn, turns};
use crate::cancelling::Forever;
use crate::ear::{Says, adds, blocks};
use crate::told::Note;
use crate::world::{WIRES, Wire, World};

/// Writes down what it is told.
struct Scribe {
    metadata: OperationMetadata,
    told: Mutex<Vec<Value>>,
}

impl Scribe {
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
            told: Mutex::default(),
        })
    }

    fn told(&self) -> Vec<Value> {
        self.told.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Operation for Scribe {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, arguments: Arguments, _: &ToolContext) -> cachalot_tools::ToolOutput {
        self.told
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

async fn world(wire: Wire, rules: &str, texts: &[&str], harmless: bool) -> (World, Arc<Scribe>) {
    let mut replies: Vec<ScriptedReply> = texts
        .iter()
        .map(|text| ScriptedReply::call("scribe", json!({"text": text})))
        .collect();
    replies.push(ScriptedReply::text("done"));
    let mut world = World::new(wire, &format!("{PLAIN}{rules}"), replies).await;
    let scribe = Scribe::new(harmless);
    world.tools = vec![Arc::clone(&scribe) as _];
    (world, scribe)
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

fn result(world: &World) -> String {
    let turns = turns(&world.last_body());
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
            let (world, scribe) = world(Wire::Messages, rule, &["a"], false).await;
            if let Some(decision) = hook {
                world.ear.say(Event::PreToolUse, decides(*decision));
            }
            world.answers.give([Approval::Yes]);
            let mut chat = world.chat().await;
            world.turn(&mut chat, "go").await;
            let asked = world.answers.asked();
            let came = match (scribe.told().is_empty(), asked.is_empty()) {
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
                let text = result(&world);
                assert!(text.contains("is denied by"), "{text}");
            }
            world.check();
        }
    }
}

/// It always runs: also where rules allow, and for tools that change nothing.
#[tokio::test]
async fn a_hook_denies_what_changes_nothing() {
    for event in [
        Event::ToolInputTransform,
        Event::ToolGuard,
        Event::PreToolUse,
    ] {
        for wire in WIRES {
            let (world, scribe) = world(wire, "", &["a"], true).await;
            world.ear.say(event, blocks("not this"));
            let mut chat = world.chat().await;
            assert_eq!(world.turn(&mut chat, "go").await.stop, Stop::End);
            assert!(scribe.told().is_empty());
            assert!(result(&world).contains("denied by a hook: not this"));
            world.check();
        }
    }
}

#[tokio::test]
async fn a_guard_that_fails_denies() {
    let (world, scribe) = world(Wire::Chat, "", &["a"], true).await;
    world.ear.on(Event::ToolGuard, |_| Some(Says::Fails));
    let mut chat = world.chat().await;
    world.turn(&mut chat, "go").await;
    assert!(scribe.told().is_empty());
    world.check();
}

#[tokio::test]
async fn what_a_guard_allows_is_still_asked_about() {
    let (world, scribe) = world(Wire::Chat, "", &["a"], false).await;
    world.ear.say(Event::ToolGuard, decides(Decision::Allow));
    let mut chat = world.chat().await;
    world.turn(&mut chat, "go").await;
    assert_eq!((scribe.told().len(), world.answers.asked().len()), (0, 1));
    world.check();
}

#[tokio::test]
async fn arguments_are_rewritten_checked_and_guarded_again() {
    for wire in WIRES {
        let (world, scribe) = world(
            wire,
            "permissions: {allow: [scribe], deny: ['scribe:text=evil']}\n",
            &["a", "b", "c", "d"],
            false,
        )
        .await;
        world.ear.listen([Event::ToolGuard]);
        world.ear.on(Event::ToolInputTransform, |input| {
            rewritten(input, "a", &json!({"text": "A", "times": 2}))
        });
        world.ear.on(Event::PreToolUse, |input| {
            rewritten(input, "b", &json!({"text": "B"}))
                .or_else(|| rewritten(input, "c", &json!({"times": "many"})))
                .or_else(|| rewritten(input, "d", &json!({"text": "evil"})))
        });
        let mut chat = world.chat().await;
        world.turn(&mut chat, "go").await;
        assert_eq!(
            scribe.told(),
            [json!({"text": "A", "times": 2}), json!({"text": "B"})]
        );
        let guarded: Vec<Map<String, Value>> = world
            .ear
            .heard_of(Event::ToolGuard)
            .into_iter()
            .map(|input| input.tool.unwrap().input)
            .collect();
        let texts: Vec<&str> = guarded
            .iter()
            .map(|input| input["text"].as_str().unwrap())
            .collect();
        assert_eq!(texts, ["A", "b", "B", "c", "d", "evil"]);
        let results: Vec<String> = turns(&world.last_body())
            .into_iter()
            .filter_map(|turn| match turn {
                Turn::Results(results) => results.into_iter().next().map(|(_, text)| text),
                _ => None,
            })
            .collect();
        assert!(results[2].contains("rewritten by a hook"), "{}", results[2]);
        assert!(results[3].contains("denied by the rule"), "{}", results[3]);
        // The model's own calls stay as it wrote them.
        let body = world.last_body().to_string();
        assert!(
            !body.contains("evil\"") || body.contains("text=evil"),
            "{body}"
        );
        world.check();
    }
}

fn rewritten(input: &Input, text: &str, with: &Value) -> Option<Says> {
    let said = input.tool.as_ref()?.input.get("text")?;
    (said == text).then(|| Says::This(patch(with)))
}

#[tokio::test]
async fn wrong_arguments_can_be_righted() {
    let replies = vec![
        ScriptedReply::call("scribe", json!({"texts": "a"})),
        ScriptedReply::text("done"),
    ];
    let mut world = World::new(Wire::Chat, PLAIN, replies).await;
    let scribe = Scribe::new(true);
    world.tools = vec![Arc::clone(&scribe) as _];
    world.ear.listen([Event::PreToolUse]);
    world.ear.on(Event::ToolInputTransform, |_| {
        Some(Says::This(patch(&json!({"text": "a"}))))
    });
    let mut chat = world.chat().await;
    world.turn(&mut chat, "go").await;
    // `texts` is still there, and wrong.
    assert!(scribe.told().is_empty() && world.ear.heard_of(Event::PreToolUse).is_empty());
    assert!(result(&world).contains("texts"), "{}", result(&world));
    world.check();
}

#[tokio::test]
async fn a_hook_answers_instead_of_the_user() {
    for (decision, ran) in [(Decision::Allow, 1), (Decision::Deny, 0)] {
        let (world, scribe) =
            world(Wire::Chat, "permissions: {ask: [scribe]}\n", &["a"], false).await;
        world.ear.listen([Event::Notification, Event::OnUserInput]);
        world.ear.say(Event::PermissionRequest, decides(decision));
        let mut chat = world.chat().await;
        world.turn(&mut chat, "go").await;
        assert_eq!((scribe.told().len(), world.answers.asked().len()), (ran, 0));
        assert!(world.ear.heard_of(Event::OnUserInput).is_empty());
        world.check();
    }
}

#[tokio::test]
async fn an_approval_request_is_emitted_before_the_user_is_asked() {
    let (world, _) = world(Wire::Chat, "", &["a"], false).await;
    world.ear.listen([
        Event::PermissionRequest,
        Event::Notification,
        Event::OnUserInput,
    ]);
    let mut chat = world.chat().await;
    world.turn(&mut chat, "go").await;
    assert_eq!(
        world.ear.events(),
        ["permission_request", "notification", "on_user_input"]
    );
    let told = world.ear.heard()[1].notification.clone().unwrap();
    assert_eq!(told.kind, Some("permission_prompt"));
    assert!(told.message.contains("`scribe`"));
    world.check();
}

/// Of successes and failures; and the listener sees what the model sees.
#[tokio::test]
async fn results_are_rewritten_before_anybody_sees_them() {
    for wire in WIRES {
        let (world, _) = world(wire, "", &["a", "fail"], true).await;
        world.ear.listen([Event::PostToolUse]);
        world.ear.on(Event::ToolResponseTransform, |input| {
            let text = input.tool_response.as_ref()?.text.replace("hunter2", "***");
            Some(Says::This(Output {
                updated_tool_response: Some(text),
                ..Output::default()
            }))
        });
        let mut chat = world.chat().await;
        world.turn(&mut chat, "go").await;
        let all: String = world.bodies().iter().map(ToString::to_string).collect();
        assert!(!all.contains("hunter2") && all.contains("failed with ***"));
        let ended: Vec<(String, bool)> = world
            .told
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
        let post: Vec<_> = world
            .ear
            .heard_of(Event::PostToolUse)
            .into_iter()
            .map(|input| input.tool_response.unwrap())
            .collect();
        assert!(post[0].text == "written: ***" && post[1].is_error);
        world.check();
    }
}

#[tokio::test]
async fn what_hooks_add_to_a_result_goes_with_it() {
    for wire in WIRES {
        let (world, _) = world(wire, "", &["a"], true).await;
        world.ear.listen([Event::Stop]);
        world.ear.say(Event::PreToolUse, adds("Mind the format."));
        world
            .ear
            .say(Event::PostToolUse, adds("The linter is happy."));
        let mut chat = world.chat().await;
        world.turn(&mut chat, "go").await;
        let text = result(&world);
        assert!(text.starts_with("written: hunter2"), "{text}");
        assert!(
            text.ends_with("<context>\nMind the format.\nThe linter is happy.\n</context>"),
            "{text}"
        );
        let added = world.ear.heard_of(Event::Stop)[0]
            .answer
            .clone()
            .unwrap()
            .added_by;
        assert_eq!(added, ["ear", "ear"]);
        world.check();
    }
}

#[tokio::test]
async fn a_hook_ends_the_turn_behind_the_calls_of_an_answer() {
    for wire in WIRES {
        let both = ScriptedReply::call("scribe", json!({"text": "a"}))
            .and_call("scribe", json!({"text": "b"}));
        let mut world = World::new(wire, PLAIN, vec![both, ScriptedReply::text("later")]).await;
        let scribe = Scribe::new(true);
        world.tools = vec![Arc::clone(&scribe) as _];
        world.ear.on(Event::PostToolUse, |input| {
            let is_first = input.tool.as_ref()?.input["text"] == "a";
            is_first.then(|| Says::This(blocks("that was enough")))
        });
        let mut chat = world.chat().await;
        let report = world.turn(&mut chat, "go").await;
        assert_eq!(report.stop, Stop::Hook("that was enough".to_owned()));
        assert_eq!((scribe.told().len(), report.sum.tool_calls), (2, 2));
        assert_eq!(world.turn(&mut chat, "go on").await.text, "later");
        assert!(result(&world).contains("written"));
        world.check();
    }
}

/// Results of calls that ran are kept when the turn is interrupted, and hooks see them all the same.
#[tokio::test]
async fn an_interrupted_batch_shows_hooks_the_results_that_came() {
    for hangs in [false, true] {
        let both =
            ScriptedReply::call("scribe", json!({"text": "a"})).and_call("forever", json!({}));
        let mut world = World::new(
            Wire::Messages,
            PLAIN,
            vec![both, ScriptedReply::text("later")],
        )
        .await;
        world.tools = vec![Scribe::new(true) as _, Arc::new(Forever::new("forever"))];
        world.ear.on(Event::ToolResponseTransform, move |input| {
            let text = input.tool_response.as_ref()?.text.replace("hunter2", "***");
            Some(match hangs {
                true => Says::Nothing,
                false => Says::This(Output {
                    updated_tool_response: Some(text),
                    ..Output::default()
                }),
            })
        });
        let mut chat = world.chat().await;
        let cancel = CancellationToken::default();
        world.told.cancel_when(
            &cancel,
            |note| matches!(note, Note::Began(tool) if tool == "forever"),
        );
        assert_eq!(
            chat.turn("go", &cancel).await.unwrap().stop,
            Stop::Interrupted
        );
        world.told.react(|_| {});
        world.turn(&mut chat, "go on").await;
        let body = world.last_body().to_string();
        assert!(!body.contains("hunter2"), "{body}");
        let kept = if hangs {
            "before its result could be passed on"
        } else {
            "written: ***"
        };
        assert!(body.contains(kept), "{body}");
        world.check();
    }
}

#[tokio::test]
async fn delegation_is_guarded_like_any_call() {
    let file = "agents:\n  root: {model: test, instruction: You lead., sub_agents: [helper]}\n  helper: {model: test, instruction: You help.}\n";
    let transfer = ScriptedReply::call("transfer_task", json!({"agent": "helper", "task": "x"}));
    let world = World::new(
        Wire::Chat,
        file,
        vec![transfer, ScriptedReply::text("done")],
    )
    .await;
    world.ear.say(Event::PreToolUse, blocks("nobody else"));
    let mut chat = world.chat().await;
    world.turn(&mut chat, "go").await;
    assert_eq!(world.sessions().await.len(), 1);
    world.check();
}

/// Whoever guards by `pre_tool_use` sees what is really run, whoever rewrote it.
#[tokio::test]
async fn no_rewriting_gets_past_a_guard() {
    for rewriting in [Event::PreToolUse, Event::PermissionRequest] {
        let (world, scribe) = world(Wire::Chat, "", &["a"], false).await;
        world.ear.on(Event::PreToolUse, |input| {
            let text = input.tool.as_ref()?.input.get("text")?.as_str()?;
            (text == "forbidden").then(|| Says::This(blocks("not that")))
        });
        world.ear.on(rewriting, |_| {
            let input = json!({"text": "forbidden"});
            Some(Says::This(Output {
                permission: Some((Decision::Allow, None)),
                updated_input: input.as_object().cloned(),
                ..Output::default()
            }))
        });
        let mut chat = world.chat().await;
        world.turn(&mut chat, "go").await;
        assert!(scribe.told().is_empty(), "{rewriting}");
        assert!(result(&world).contains("not that"), "{}", result(&world));
        world.check();
    }
}

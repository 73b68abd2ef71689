//! A call that may not be made is not made, whatever way it takes.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, ErrorKind, ForkSpec, Inherit, Stop};
use cachalot_cache::{Cache, CacheBounds, CacheOptions, Ledger};
use cachalot_core::SecretSet;
use cachalot_hooks::{Event, Output};
use cachalot_simulator::{ScriptedCall, ScriptedReply};
use cachalot_store::in_process::InProcessStore;
use cachalot_tools::{CacheClass, CallOutcome};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Recording, forked, spec, whale_agent};
use crate::bodies::{Turn, turns};
use crate::event_recorder::{EndedCall, Note};
use crate::fixture::{Fixture, WIRES, Wire};
use crate::hook_recorder::HookReply;

/// The call events that hooks receive.
const OF_CALLS: [Event; 6] = [
    Event::ToolInputTransform,
    Event::ToolGuard,
    Event::PreToolUse,
    Event::PermissionRequest,
    Event::ToolResponseTransform,
    Event::PostToolUse,
];

fn call(tool: &str) -> ScriptedReply {
    ScriptedReply::call(tool, json!({}))
}

/// The calls of forks that have ended.
fn ended(fixture: &Fixture) -> Vec<EndedCall> {
    let ended = |note| match note {
        Note::Fork(_, note) => match *note {
            Note::EndedCall(ended) => Some(ended),
            _ => None,
        },
        _ => None,
    };
    fixture
        .reported
        .notes()
        .into_iter()
        .filter_map(ended)
        .collect()
}

fn of_calls(fixture: &Fixture) -> Vec<String> {
    let recorded = fixture.hook_recorder.recorded();
    let recorded = recorded
        .iter()
        .filter(|input| OF_CALLS.contains(&input.event));
    recorded
        .map(|input| {
            let tool = input.tool.as_ref().map_or("", |tool| tool.name.as_str());
            format!("{} {tool}", input.event.name())
        })
        .collect()
}

#[tokio::test]
async fn a_call_denied_by_a_gate_is_a_result_without_events() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::text("1,200 m."),
            call("danger")
                .and_call("safe", json!({}))
                .and_call("nothing_there", json!({})),
            ScriptedReply::text("Nothing to keep."),
        ];
        // Nothing allows it, so that it would be asked about.
        let file = whale_agent("").replace("[safe, danger]", "[safe]");
        let mut fixture = Fixture::new(wire, &file, replies).await;
        let (safe, danger) = (Recording::new("safe"), Recording::new("danger"));
        fixture.tools = vec![Arc::clone(&safe) as _, Arc::clone(&danger) as _];
        fixture.hook_recorder.listen_to_all();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        let before = fixture.session(chat.session()).await;
        let report = forked(
            &chat,
            spec(&["safe", "memory"], Inherit::Full),
            "Look back.",
        )
        .await;
        assert_eq!(
            (report.text.as_str(), report.stop),
            ("Nothing to keep.", Stop::End)
        );
        assert_eq!(report.denied, ["danger", "nothing_there"]);
        assert_eq!((danger.times(), safe.times()), (0, 1));
        assert_eq!(fixture.answers.asked(), []);
        let recorded = of_calls(&fixture);
        assert!(!recorded.is_empty());
        assert!(
            recorded.iter().all(|recorded| recorded.ends_with(" safe")),
            "{recorded:?}"
        );
        assert_eq!(fixture.session(chat.session()).await, before);
        assert_eq!(fixture.messages(chat.session()).await.len(), 2);

        let ended = ended(&fixture);
        let mut how: Vec<_> = ended
            .iter()
            .map(|ended| (ended.tool.as_str(), ended.is_error))
            .collect();
        how.sort_unstable();
        assert_eq!(
            how,
            [("danger", true), ("nothing_there", true), ("safe", false)]
        );
        let Turn::Results(results) = turns(&fixture.last_body()).pop().unwrap() else {
            panic!("no results");
        };
        let denial = &results[0].1;
        for part in ["`danger`", "the review", "`safe`", "Do not call it again"] {
            assert!(denial.contains(part), "{denial}");
        }
        // What the agent does not have is not offered.
        assert!(!denial.contains("memory"), "{denial}");
        assert_eq!(results[1].1, "done");
        fixture.check();
    }
}

#[tokio::test]
async fn sub_agents_of_a_fork_are_limited_by_its_gate() {
    let file = "
agents:
  root: {model: test, instruction: You lead., sub_agents: [worker]}
  worker: {model: test, instruction: You work., sub_agents: [hand]}
  hand: {model: test, instruction: You are a hand.}
permissions: {allow: [safe, danger]}
";
    for wire in WIRES {
        let transfer = |agent: &str| {
            ScriptedReply::call("transfer_task", json!({"agent": agent, "task": "Work."}))
        };
        let replies = vec![
            ScriptedReply::text("hello"),
            transfer("worker"),
            call("danger").and_call("safe", json!({})),
            transfer("hand"),
            call("danger").and_call("safe", json!({})),
            ScriptedReply::text("by hand"),
            ScriptedReply::text("worked"),
            ScriptedReply::text("done"),
        ];
        let mut fixture = Fixture::new(wire, file, replies).await;
        let (safe, danger) = (Recording::new("safe"), Recording::new("danger"));
        fixture.tools = vec![Arc::clone(&safe) as _, Arc::clone(&danger) as _];
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "Hello.").await;
        let allowed = spec(&["safe", "transfer_task"], Inherit::Full);
        let report = forked(&chat, allowed, "Have it done.").await;
        assert_eq!(report.text, "done");
        assert_eq!((danger.times(), safe.times()), (0, 2));
        assert_eq!(report.denied, ["danger"]);
        // All of it is the fork's.
        assert_eq!((report.sum.model_calls, report.sum.tool_calls), (7, 6));
        fixture.check();
    }
}

#[tokio::test]
async fn gate_holds_for_calls_that_a_hook_rewrote() {
    let replies = vec![
        ScriptedReply::text("hello"),
        call("safe").and_call("danger", json!({})),
        ScriptedReply::text("done"),
    ];
    let mut fixture = Fixture::new(Wire::Chat, &whale_agent(""), replies).await;
    let (safe, danger) = (Recording::new("safe"), Recording::new("danger"));
    fixture.tools = vec![Arc::clone(&safe) as _, Arc::clone(&danger) as _];
    let rewriting =
        json!({"what": "danger", "name": "danger", "tool": "danger", "tool_name": "danger"});
    let Value::Object(rewriting) = rewriting else {
        unreachable!();
    };
    for event in [Event::ToolInputTransform, Event::PreToolUse] {
        let updated = rewriting.clone();
        fixture.hook_recorder.on(event, move |_| {
            Some(HookReply::This(Output {
                updated_input: Some(updated.clone()),
                ..Output::default()
            }))
        });
    }
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Hello.").await;
    let report = forked(&chat, spec(&["safe"], Inherit::Full), "Go.").await;
    assert_eq!(report.denied, ["danger"]);
    assert_eq!((danger.times(), safe.times()), (0, 1));
    assert_eq!(safe.entered()[0]["what"], "danger");
    fixture.check();
}

#[tokio::test]
async fn gate_refuses_calls_with_a_cached_result() {
    let file = whale_agent("tools: {cacheToolResults: true, cacheToolResultsScope: workspace}\n");
    for wire in WIRES {
        let read = || ScriptedReply::call("read_file", json!({"path": "secret"}));
        let replies = vec![
            read(),
            ScriptedReply::text("read"),
            read(),
            ScriptedReply::text("not read"),
            read(),
            ScriptedReply::text("read again"),
        ];
        let mut fixture = Fixture::new(wire, &file, replies).await;
        let memory = Arc::new(InProcessStore::new(Arc::clone(&fixture.clock)));
        fixture.results = Some(Cache::new(CacheOptions {
            local: None,
            store: Some(memory),
            ledger: Ledger::disabled(),
            clock: Arc::clone(&fixture.clock),
            secret_set: Arc::new(SecretSet::empty()),
            bounds: CacheBounds::default(),
            warn: Arc::new(|line| panic!("{line}")),
        }));
        fixture.write("secret", "It lies deeper.");
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "How deep?").await;
        forked(&chat, spec(&["list_dir"], Inherit::Full), "Look back.").await;
        // It would have been there.
        forked(&chat, spec(&["read_file"], Inherit::Full), "Look back.").await;
        let ended = ended(&fixture);
        assert_eq!(ended[0].how, CallOutcome::Refused);
        assert!(
            ended[0].is_error && !ended[0].text.contains("deeper"),
            "{ended:?}"
        );
        assert_eq!(ended[1].how, CallOutcome::Hit);
        fixture.check_between(&[2, 4]);
    }
}

/// Another model, `other`, with this option.
fn other(fixture: &Fixture, provider: &str, option: &str) -> String {
    let url = fixture.simulator.url();
    format!(
        "}}\n  other: {{provider: {provider}, model: other-model, base_url: '{url}/v1', token_key: TEST_KEY, provider_opts: {{user: ada, seed: 1, {option}}}"
    )
}

/// Tools that the provider runs never pass the gate, so a gated fork does not start with them.
#[tokio::test]
async fn gated_fork_refuses_options_that_run_tools_at_the_provider() {
    for (provider, option) in [
        (
            "anthropic",
            "mcp_servers: [{type: url, url: 'https://mcp.example'}]",
        ),
        (
            "anthropic",
            "container: {skills: [{type: anthropic, skill_id: x}]}",
        ),
        ("openai", "web_search_options: {}"),
        ("openai", "prompt: {id: stored}"),
        ("openrouter", "plugins: [{id: web}]"),
        ("openrouter", "unheard_of: [x]"),
    ] {
        let mut fixture = Fixture::new(
            Wire::Chat,
            &whale_agent(""),
            vec![ScriptedReply::text("hello")],
        )
        .await;
        fixture.model_keys = other(&fixture, provider, option);
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "Hello.").await;
        let fork = chat.fork(spec(&["safe"], Inherit::Full)).unwrap();
        let fork = fork.with_model("other").unwrap();
        let refused = fork
            .run("Look back.", &CancellationToken::default())
            .await
            .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Fork, "{option}");
        let name = option.split(':').next().unwrap();
        let part = format!("with `provider_opts.{name}`, by which its provider");
        for part in ["the review", "`other`", part.as_str()] {
            assert!(refused.message.contains(part), "{refused}");
        }
        assert_eq!(fixture.bodies().len(), 1, "nothing was asked for a fork");
        fixture.check();
    }
}

#[tokio::test]
async fn gated_fork_of_a_model_with_server_tools_is_refused() {
    let replies = || vec![ScriptedReply::text("hello"), ScriptedReply::text("done")];
    let gated = spec(&["safe"], Inherit::Full);
    let free = ForkSpec {
        tools: None,
        ..gated.clone()
    };
    for (spec, option, goes) in [
        (gated.clone(), "web_search_options: {}", false),
        (free, "web_search_options: {}", true),
        (gated, "user: ada, metadata: {a: b}, n: 1", true),
    ] {
        let mut fixture = Fixture::new(Wire::Chat, &whale_agent(""), replies()).await;
        fixture.model_keys = format!(", provider_opts: {{{option}}}");
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "Hello.").await;
        let fork = chat.fork(spec).unwrap();
        match fork.run("Look back.", &CancellationToken::default()).await {
            Ok(report) => assert!(goes && report.text == "done"),
            Err(error) => assert!(!goes && error.kind == ErrorKind::Fork, "{error}"),
        }
        assert_eq!(fixture.bodies().len(), 1 + usize::from(goes));
        fixture.check();
    }
}

#[tokio::test]
async fn sub_agents_of_a_gated_fork_cannot_use_models_with_server_tools() {
    let file = "
agents:
  root: {model: test, instruction: You lead., sub_agents: [worker]}
  worker: {model: other, instruction: You work.}
";
    let transfer = json!({"agent": "worker", "task": "Work."});
    let replies = vec![
        ScriptedReply::text("hello"),
        ScriptedReply::call("transfer_task", transfer),
        ScriptedReply::text("not done"),
    ];
    let mut fixture = Fixture::new(Wire::Chat, file, replies).await;
    fixture.model_keys = other(&fixture, "openai", "web_search_options: {}");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Hello.").await;
    let report = forked(&chat, spec(&["transfer_task"], Inherit::Full), "Go.").await;
    assert_eq!(report.text, "not done");
    let Turn::Results(results) = turns(&fixture.last_body()).pop().unwrap() else {
        panic!("no results");
    };
    assert!(
        results[0].1.contains("`provider_opts.web_search_options`"),
        "{results:?}"
    );
    fixture.check();
}

const TOOLS: [&str; 5] = ["read_a", "read_b", "act_a", "act_b", "act_c"];

/// A gate, whether a hook rewrites what it hears of, and batches of calls.
type Case = (Vec<bool>, bool, Vec<Vec<usize>>);

fn cases() -> impl Strategy<Value = Case> {
    let gate = prop::collection::vec(any::<bool>(), TOOLS.len());
    let batch = prop::collection::vec(0..=TOOLS.len(), 1..6);
    (gate, any::<bool>(), prop::collection::vec(batch, 1..4))
}

fn reply(batch: &[usize]) -> ScriptedReply {
    let calls = batch.iter().map(|at| ScriptedCall {
        name: TOOLS.get(*at).copied().unwrap_or("unheard_of").to_owned(),
        arguments: json!({}),
    });
    ScriptedReply {
        tool_calls: calls.collect(),
        ..ScriptedReply::default()
    }
}

async fn holds((gate, rewrites, batches): Case) {
    let mut replies = vec![ScriptedReply::text("hello")];
    replies.extend(batches.iter().map(|batch| reply(batch)));
    replies.push(ScriptedReply::text("done"));
    let file = whale_agent("tools: {cacheToolResults: true}\n").replace("[safe, danger]", "['*']");
    let mut fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let tools = TOOLS.map(|name| {
        Recording::with(name, |metadata| {
            metadata.read_only = name.starts_with("read");
            metadata.exclusive = !metadata.read_only;
            if metadata.read_only {
                metadata.cache_class = CacheClass::Immutable;
            }
        })
    });
    fixture.tools = tools.iter().map(|tool| Arc::clone(tool) as _).collect();
    fixture.hook_recorder.listen(OF_CALLS);
    if rewrites {
        fixture.hook_recorder.on(Event::ToolInputTransform, |_| {
            let updated = json!({"what": "act_c"});
            Some(HookReply::This(Output {
                updated_input: updated.as_object().cloned(),
                ..Output::default()
            }))
        });
    }
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Hello.").await;
    let named = TOOLS.iter().zip(&gate).filter(|(_, is)| **is);
    let allowed: Vec<&str> = named.map(|(name, _)| *name).collect();
    let report = forked(&chat, spec(&allowed, Inherit::Full), "Go.").await;
    assert_eq!(report.text, "done");
    let called = |name: &str| {
        let calls = batches.iter().flatten();
        calls.filter(|at| TOOLS.get(**at) == Some(&name)).count()
    };
    for (name, tool) in TOOLS.iter().zip(&tools) {
        let is_allowed = allowed.contains(name);
        let acts = name.starts_with("act");
        match (is_allowed, called(name)) {
            (false, _) | (true, 0) => assert_eq!(tool.times(), 0, "{name}"),
            (true, times) if acts => assert_eq!(tool.times(), times, "{name}"),
            // What was read is not read again.
            (true, _) => assert_eq!(tool.times(), 1, "{name}"),
        }
        assert_eq!(
            report.denied.iter().any(|denied| denied == name),
            !is_allowed && called(name) > 0
        );
    }
    for recorded in of_calls(&fixture) {
        assert!(
            allowed.iter().any(|name| recorded.ends_with(name)),
            "{recorded}"
        );
    }
    fixture.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gate_prevents_every_call_that_it_does_not_name(case in cases()) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(holds(case));
    }
}

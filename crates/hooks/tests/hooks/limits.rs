//! Hooks that hang, break down or are in the way, and what can be said against hooks beforehand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_core::SourceSpan;
use cachalot_hooks::contract::{BlockEffect, FailureEffect};
use cachalot_hooks::definition::OnError;
use cachalot_hooks::{
    Action, AgentView, Builtin, Builtins, CONTRACTS, Dialect, Event, Fault, Hooks, Injection,
    Input, Output,
};

use crate::hook_builder::{EmptyAgent, HookBuilder, entry, hook_dependencies};

/// The timeout of hanging hooks.
const LIMIT: Duration = Duration::from_millis(100);

fn hangs(event: Event) -> HookBuilder {
    HookBuilder::of(event)
        .hook(|_| std::future::pending())
        .but(|entry| entry.definition.timeout = LIMIT)
}

/// Says so when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A hook that hangs, and whether it has ended.
fn watched(event: Event) -> (HookBuilder, Arc<AtomicBool>) {
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let made = HookBuilder::of(event).hook(move |_| {
        let guard = Dropped(Arc::clone(&end));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    (made, ended)
}

#[tokio::test]
async fn hanging_hook_is_stopped_on_every_event() {
    let fire = |contract: &'static cachalot_hooks::Contract| async move {
        let (made, ended) = watched(contract.event);
        let began = Instant::now();
        let verdict = made
            .but(|entry| entry.definition.timeout = LIMIT)
            .verdict()
            .await;
        assert!(began.elapsed() < Duration::from_secs(120));
        assert!(ended.load(Ordering::SeqCst));
        let why = "hook `hook-0` (agent.yaml) failed: no answer within 100ms; \
                   a longer `timeout` gives it more time";
        let is_denial = contract.failure != FailureEffect::Warning;
        let denial = is_denial.then_some(why);
        assert_eq!(verdict.denial(), denial, "{}", contract.event);
        let message = (!is_denial).then(|| why.to_owned());
        assert_eq!(verdict.messages, Vec::from_iter(message));
        assert!(verdict.reports[0].elapsed >= LIMIT);
    };
    futures_util::future::join_all(CONTRACTS.iter().map(fire)).await;
}

#[tokio::test]
async fn timeout_applies_per_hook() {
    let verdict = hangs(Event::UserPromptSubmit)
        .says(Output {
            additional_context: Some("there".to_owned()),
            ..Output::default()
        })
        .verdict()
        .await;
    assert_eq!(verdict.context, ["there"]);
    assert!(verdict.reports[0].result.is_err());
    assert!(verdict.reports[1].result.is_ok());
}

#[tokio::test]
async fn panic_is_a_fault() {
    for event in [Event::ToolGuard, Event::TurnStart] {
        let verdict = HookBuilder::of(event)
            .hook(|input| async move { panic!("at {}", input.event) })
            .hook(|_| -> std::future::Ready<Result<Output, Fault>> { panic!("at once") })
            .says(Output::default())
            .verdict()
            .await;
        // The reason of a denial, if there is one, and messages.
        let reported = verdict.denial().into_iter();
        let reported = reported.chain(verdict.messages.iter().map(String::as_str));
        assert_eq!(
            reported.collect::<Vec<&str>>(),
            [
                format!("hook `hook-0` (agent.yaml) failed: it panicked: at {event}"),
                "hook `hook-1` (agent.yaml) failed: it panicked: at once".to_owned(),
            ]
        );
        assert_eq!(verdict.reports[2].result, Ok(Output::default()));
        assert_eq!(verdict.denial().is_some(), event == Event::ToolGuard);
    }
}

#[tokio::test]
async fn dropping_the_future_stops_the_handlers() {
    for event in [Event::PreToolUse, Event::ToolGuard] {
        let (made, ended) = watched(event);
        let fired = tokio::time::timeout(Duration::from_millis(20), made.verdict()).await;
        assert!(fired.is_err());
        assert!(ended.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn hook_cancelled_with_its_turn_denies_nothing() {
    for on_error in [None, Some(OnError::Block)] {
        let verdict = HookBuilder::of(Event::ToolGuard)
            .hook(|_| async {
                Err(Fault {
                    message: "cancelled".to_owned(),
                    is_cancelled: true,
                    ..Fault::new("")
                })
            })
            .but(|entry| entry.definition.on_error = on_error)
            .verdict()
            .await;
        assert_eq!(verdict.decision, None);
        assert!(verdict.messages.is_empty());
        assert!(verdict.reports[0].result.as_ref().unwrap_err().is_cancelled);
    }
}

#[tokio::test]
async fn failing_guards_deny_regardless_of_on_error() {
    for contract in CONTRACTS
        .iter()
        .filter(|contract| contract.failure == FailureEffect::Denial)
    {
        for on_error in [
            None,
            Some(OnError::Warn),
            Some(OnError::Ignore),
            Some(OnError::Block),
        ] {
            let made = HookBuilder::of(contract.event).fails();
            let verdict = made
                .but(|entry| entry.definition.on_error = on_error)
                .verdict()
                .await;
            assert_eq!(
                verdict.denial(),
                Some("hook `hook-0` (agent.yaml) failed: broken")
            );
            assert_eq!(verdict.messages, [""; 0], "it is said once");
        }
    }
}

#[tokio::test]
async fn failing_default_guards_deny_unless_on_error_says_otherwise() {
    for contract in CONTRACTS
        .iter()
        .filter(|contract| contract.failure == FailureEffect::DenialByDefault)
    {
        for (on_error, denies, messages) in [
            (None, true, 0),
            (Some(OnError::Block), true, 0),
            (Some(OnError::Warn), false, 1),
            (Some(OnError::Ignore), false, 0),
        ] {
            let made = HookBuilder::of(contract.event).fails();
            let verdict = made
                .but(|entry| entry.definition.on_error = on_error)
                .verdict()
                .await;
            let why = "hook `hook-0` (agent.yaml) failed: broken";
            let event = contract.event;
            assert_eq!(
                verdict.denial(),
                denies.then_some(why),
                "{event} {on_error:?}"
            );
            assert_eq!(verdict.messages.len(), messages, "{event} {on_error:?}");
        }
    }
}

/// Exit codes of other runtimes keep their meaning; 2 blocks.
#[tokio::test]
async fn hooks_of_other_dialects_deny_by_exit_code_2_only() {
    for contract in CONTRACTS
        .iter()
        .filter(|contract| contract.failure != FailureEffect::Warning)
    {
        for (dialect, code, denies) in [
            (Dialect::Claude, 1, false),
            (Dialect::Codex, 1, false),
            (Dialect::Gemini, 1, false),
            (Dialect::Claude, 2, true),
            (Dialect::Codex, 2, true),
            (Dialect::Gemini, 2, true),
            (Dialect::DockerAgent, 1, true),
            (Dialect::DockerAgent, 2, true),
        ] {
            let mut entry = crate::dialects::entry(dialect, contract.event);
            entry.definition.action = Action::Command {
                line: format!("echo no >&2; exit {code}"),
            };
            let around = hook_dependencies(Builtins::default());
            let hooks = Hooks::assemble(vec![entry], &EmptyAgent, &around).unwrap();
            let input = Input {
                event: contract.event,
                ..Input::default()
            };
            let denial = hooks.fire(input).await.denial().map(str::to_owned);
            let event = contract.event;
            assert_eq!(denial.is_some(), denies, "{event} {dialect} {code}");
            assert!(denial.is_none_or(|why| why.contains("no")), "{event}");
        }
    }
}

/// A builtin that fails, and guards nothing.
struct Context;

#[async_trait]
impl Builtin for Context {
    fn name(&self) -> &'static str {
        "context"
    }

    fn about(&self) -> &'static str {
        "Fails."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::BeforeLlmCall, Event::PreUserTurn]
    }

    fn fails_open(&self) -> bool {
        true
    }

    async fn run(&self, _: &[String], _: &Input) -> Result<Output, Fault> {
        Err(Fault::new("broken"))
    }
}

#[tokio::test]
async fn non_guard_builtins_fail_open() {
    for event in [Event::BeforeLlmCall, Event::PreUserTurn] {
        let mut builtins = Builtins::default();
        builtins.register(Arc::new(Context)).unwrap();
        let hook = entry(event, "context", &[]);
        let hooks = Hooks::assemble(vec![hook], &EmptyAgent, &hook_dependencies(builtins)).unwrap();
        let input = Input {
            event,
            ..Input::default()
        };
        let verdict = hooks.fire(input).await;
        assert_eq!((verdict.denial(), verdict.messages.len()), (None, 1));
    }
    let standard = crate::redaction::builtins(&std::env::temp_dir());
    let closed = standard.iter().filter(|builtin| !builtin.fails_open());
    let closed: Vec<&str> = closed.map(|builtin| builtin.name()).collect();
    assert_eq!(closed, ["max_iterations", "redact_secrets"]);
    assert!(
        crate::response_cache_fixture::fixture("{enabled: true}")
            .builtin
            .fails_open()
    );
}

#[tokio::test]
async fn failing_hooks_follow_on_error() {
    for contract in CONTRACTS
        .iter()
        .filter(|contract| contract.failure == FailureEffect::Warning)
    {
        let of = |on_error| {
            let made = HookBuilder::of(contract.event).fails();
            made.but(|entry| entry.definition.on_error = on_error)
                .verdict()
        };
        for (on_error, messages) in [
            (None, 1),
            (Some(OnError::Warn), 1),
            (Some(OnError::Ignore), 0),
        ] {
            let verdict = of(on_error).await;
            assert_eq!(verdict.decision, None);
            assert_eq!(verdict.messages.len(), messages);
        }
        if contract.blocks == BlockEffect::Refusal {
            assert!(of(Some(OnError::Block)).await.denial().is_some());
        }
    }
}

#[tokio::test]
async fn failing_hooks_of_other_dialects_deny_only_with_on_error_block() {
    for (on_error, denies) in [(None, false), (Some(OnError::Block), true)] {
        let made = HookBuilder::of(Event::PreToolUse).fails().but(|entry| {
            entry.dialect = Dialect::Claude;
            entry.definition.on_error = on_error;
        });
        let verdict = made.verdict().await;
        assert_eq!(verdict.denial().is_some(), denies);
        assert_eq!(verdict.messages.len(), usize::from(!denies));
    }
}

#[tokio::test]
async fn unsupported_output_fails_strict_hooks_and_is_ignored_otherwise() {
    let output = || Output {
        additional_context: Some("unheard".to_owned()),
        system_message: Some("heard".to_owned()),
        ..Output::default()
    };
    let verdict = HookBuilder::of(Event::TurnEnd)
        .says(output())
        .verdict()
        .await;
    assert_eq!(
        (verdict.messages, verdict.context),
        (vec!["heard".to_owned()], vec![])
    );
    let strict = HookBuilder::of(Event::TurnEnd).says(output());
    let verdict = strict
        .but(|entry| entry.definition.strict_output = true)
        .verdict()
        .await;
    assert_eq!(
        verdict.messages,
        [
            "hook `hook-0` (agent.yaml) failed: it returned `additional_context`, which `turn_end` does not support; with `strict_output` that is a failure"
        ]
    );
    let strict = HookBuilder::of(Event::ToolGuard).says(output());
    let verdict = strict
        .but(|entry| entry.definition.strict_output = true)
        .verdict()
        .await;
    assert!(verdict.denial().is_some());
}

#[tokio::test]
async fn block_at_events_without_blocking_is_a_warning() {
    let output = Output {
        block: Some("enough".to_owned()),
        ..Output::default()
    };
    let strict = HookBuilder::of(Event::TurnEnd).says(output);
    let verdict = strict
        .but(|entry| entry.definition.strict_output = true)
        .verdict()
        .await;
    assert!(verdict.messages[0].contains("wanted to block: enough"));
    assert!(verdict.reports[0].result.is_ok());
}

#[tokio::test]
async fn long_hook_titles_are_truncated_in_messages() {
    let name = format!("{}\nsecond line", "é".repeat(70));
    let made = HookBuilder::of(Event::TurnEnd).fails();
    let verdict = made
        .but(|entry| entry.definition.name = Some(name))
        .verdict()
        .await;
    let shown = "é".repeat(60);
    assert_eq!(
        verdict.messages,
        [format!("hook `{shown}…` (agent.yaml) failed: broken")]
    );
}

#[test]
fn on_error_block_without_blocking_is_a_problem_at_load() {
    let place = SourceSpan {
        file: Arc::from("agent.yaml"),
        line: 3,
        column: 5,
        start: 20,
        len: 4,
    };
    let mut entries = Vec::new();
    for event in Event::all() {
        let mut entry = entry(event, "absent", &[]);
        entry.definition.on_error = Some(OnError::Block);
        entry.place = Some(place.clone());
        entries.push(entry);
    }
    let problems = Hooks::assemble(
        entries,
        &EmptyAgent,
        &hook_dependencies(Builtins::default()),
    );
    let problems = problems.err().unwrap();
    // One for each hook: either nothing can be blocked, or there is no such builtin.
    assert_eq!(problems.len(), CONTRACTS.len());
    for (problem, contract) in problems.iter().zip(&CONTRACTS) {
        let is_blocking = contract.blocks == BlockEffect::Refusal;
        assert_eq!(problem.code != "nothing-to-block", is_blocking, "{problem}");
        assert_eq!(problem.place, Some(place.clone()));
    }
    assert!(
        problems[0]
            .to_string()
            .contains("nothing can be blocked at `session_start`")
    );
}

/// Adds itself where it makes no sense.
struct Misplaced;

#[async_trait]
impl Builtin for Misplaced {
    fn name(&self) -> &'static str {
        "misplaced"
    }

    fn about(&self) -> &'static str {
        "Is wrong."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::Stop]
    }

    fn inject(&self, _: &dyn AgentView) -> Vec<Injection> {
        vec![
            Injection::for_event(Event::Stop),
            Injection::for_event(Event::TurnEnd),
        ]
    }

    async fn run(&self, _: &[String], _: &Input) -> Result<Output, Fault> {
        Ok(Output::default())
    }
}

#[test]
fn builtin_cannot_inject_itself_at_other_events() {
    let mut builtins = Builtins::default();
    builtins.register(Arc::new(Misplaced)).unwrap();
    let problems = Hooks::assemble(Vec::new(), &EmptyAgent, &hook_dependencies(builtins))
        .err()
        .unwrap();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code, "wrong-event");
    assert!(
        problems[0]
            .message
            .contains("`misplaced` adds itself to `turn_end`")
    );
}

//! Identical hooks run once per event.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_hooks::definition::OnError;
use cachalot_hooks::input::ToolUse;
use cachalot_hooks::{
    Action, AgentView, Builtin, Builtins, Dialect, Event, Fault, HookEntry, Hooks, Injection,
    Input, Matcher, Output,
};

use crate::hook_builder::{EmptyAgent, entry, hook_dependencies};

/// Counts how often it is told, and says with which arguments; adds itself behind `turn_end`.
#[derive(Default)]
struct Counts(AtomicUsize);

#[async_trait]
impl Builtin for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn about(&self) -> &'static str {
        "Counts."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::ToolGuard, Event::TurnEnd]
    }

    fn inject(&self, _: &dyn AgentView) -> Vec<Injection> {
        vec![Injection::for_event(Event::TurnEnd)]
    }

    async fn run(&self, arguments: &[String], _: &Input) -> Result<Output, Fault> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Output {
            system_message: Some(arguments.join(" ")),
            ..Output::default()
        })
    }
}

/// The number of runs for an event.
async fn reported(entries: Vec<HookEntry>, event: Event) -> usize {
    let counts = Arc::new(Counts::default());
    let mut builtins = Builtins::default();
    builtins.register(counts.clone()).unwrap();
    let hooks = Hooks::assemble(entries, &EmptyAgent, &hook_dependencies(builtins)).unwrap();
    let verdict = hooks
        .fire(Input {
            event,
            tool: Some(ToolUse {
                name: "shell".to_owned(),
                ..ToolUse::default()
            }),
            ..Input::default()
        })
        .await;
    let reported = counts.0.load(Ordering::SeqCst);
    assert_eq!(verdict.reports.len(), reported);
    reported
}

#[tokio::test]
async fn equal_paragraphs_are_sent_once() {
    let twice = vec![
        entry(Event::ToolGuard, "counts", &[]),
        entry(Event::ToolGuard, "counts", &[]),
    ];
    assert_eq!(reported(twice, Event::ToolGuard).await, 1);
}

#[tokio::test]
async fn hooks_that_differ_in_any_field_both_run() {
    let changes: [fn(&mut HookEntry); 9] = [
        |entry| entry.definition.name = Some("another".to_owned()),
        |entry| {
            entry.definition.action = Action::Builtin {
                name: "counts".to_owned(),
                arguments: vec!["argument".to_owned()],
            };
        },
        |entry| entry.definition.timeout = Duration::from_secs(61),
        |entry| drop(entry.definition.env.insert("A".to_owned(), "1".to_owned())),
        |entry| entry.definition.working_dir = Some("/".to_owned()),
        |entry| entry.definition.on_error = Some(OnError::Warn),
        |entry| entry.definition.strict_output = true,
        |entry| entry.definition.sequential = true,
        |entry| entry.dialect = Dialect::Claude,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut other = entry(Event::ToolGuard, "counts", &[]);
        change(&mut other);
        let both = vec![entry(Event::ToolGuard, "counts", &[]), other.clone(), other];
        assert_eq!(reported(both, Event::ToolGuard).await, 2, "change {number}");
    }
}

#[tokio::test]
async fn argument_boundaries_distinguish_hooks() {
    let both = vec![
        entry(Event::ToolGuard, "counts", &["a b"]),
        entry(Event::ToolGuard, "counts", &["a", "b"]),
    ];
    assert_eq!(reported(both, Event::ToolGuard).await, 2);
}

#[tokio::test]
async fn duplicates_are_removed_across_files_and_matchers() {
    let mut other = entry(Event::ToolGuard, "counts", &[]);
    other.source = Arc::from("other.yaml");
    other.matcher = Matcher::new("shell|grep").unwrap();
    let mut elsewhere = entry(Event::ToolGuard, "counts", &[]);
    elsewhere.matcher = Matcher::new("grep").unwrap();
    let all = vec![
        elsewhere.clone(),
        other,
        entry(Event::ToolGuard, "counts", &[]),
        elsewhere,
    ];
    assert_eq!(reported(all, Event::ToolGuard).await, 1);
}

#[tokio::test]
async fn an_injected_builtin_does_not_duplicate_a_configured_one() {
    assert_eq!(reported(Vec::new(), Event::TurnEnd).await, 1);
    let named = vec![entry(Event::TurnEnd, "counts", &[])];
    assert_eq!(reported(named, Event::TurnEnd).await, 1);
    let other = vec![entry(Event::TurnEnd, "counts", &["argument"])];
    assert_eq!(reported(other, Event::TurnEnd).await, 2);
}

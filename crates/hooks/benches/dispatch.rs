//! What an event costs to which nobody listens, and one to which builtins do.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_hooks::input::ToolUse;
use cachalot_hooks::{Builtin, Builtins, Event, Fault, HookEntry, Hooks, Input, Matcher, Output};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;

#[path = "../tests/hooks/hook_builder.rs"]
#[allow(dead_code, reason = "tests make more of it")]
mod hook_builder;

use hook_builder::{EmptyAgent, entry, hook_dependencies};

/// How many inputs are put together at a time: few enough to stay in the first cache of a processor, as
/// one does that was just put together.
const BATCH: u64 = 8;

/// Has nothing to say.
struct Silent;

#[async_trait]
impl Builtin for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn about(&self) -> &'static str {
        "Has nothing to say."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::ToolGuard, Event::PreToolUse, Event::TurnEnd]
    }

    async fn run(&self, _: &[String], _: &Input) -> Result<Output, Fault> {
        Ok(Output::default())
    }
}

fn matched(event: Event, number: usize) -> HookEntry {
    HookEntry {
        matcher: Matcher::new("shell|edit_.*").unwrap(),
        ..entry(event, "silent", &[&number.to_string()])
    }
}

fn hooks(entries: Vec<HookEntry>) -> Hooks {
    let mut builtins = Builtins::default();
    builtins.register(Arc::new(Silent)).unwrap();
    Hooks::assemble(entries, &EmptyAgent, &hook_dependencies(builtins))
        .map_err(drop)
        .unwrap()
}

fn input(event: Event) -> Input {
    let tool = ToolUse {
        name: "shell".to_owned(),
        ..ToolUse::default()
    };
    Input {
        event,
        tool: Some(tool).filter(|_| event.contract().tool_matched),
        ..Input::default()
    }
}

/// How long it takes to tell of an event so many times, without putting the inputs together.
fn tell(runtime: &Runtime, hooks: &Hooks, event: Event, times: u64) -> Duration {
    runtime.block_on(async {
        let mut took = Duration::ZERO;
        for _ in 0..times.div_ceil(BATCH) {
            let inputs: Vec<Input> = (0..BATCH).map(|_| input(event)).collect();
            let began = Instant::now();
            for input in inputs {
                black_box(hooks.fire(input).await);
            }
            took += began.elapsed();
        }
        took.mul_f64(times as f64 / (times.div_ceil(BATCH) * BATCH) as f64)
    })
}

fn dispatch(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let four = (0..4).map(|number| matched(Event::ToolGuard, number));
    let four = four.chain((0..4).map(|number| matched(Event::PreToolUse, number)));
    let four = hooks(four.chain([matched(Event::TurnEnd, 0)]).collect());
    let mut group = criterion.benchmark_group("an event");
    group.bench_function("nobody: asked whether anybody wants it", |bencher| {
        bencher.iter(|| black_box(&four).handles(black_box(Event::Stop)));
    });
    group.bench_function(
        "nobody: asked whether anybody wants it of this tool",
        |bencher| {
            bencher.iter(|| black_box(&four).handles_tool(black_box(Event::PostToolUse), "shell"));
        },
    );
    for (name, event) in [
        ("nobody: told", Event::Stop),
        ("one builtin", Event::TurnEnd),
        ("four builtins beside each other", Event::ToolGuard),
        ("four builtins one after the other", Event::PreToolUse),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| tell(&runtime, &four, event, times));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300));
    targets = dispatch
}
criterion_main!(benches);

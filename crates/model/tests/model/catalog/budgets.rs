//! When a budget is used up, and what is said then.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::config::Settings as _;
use cachalot_core::tree;
use cachalot_core::{Clock, Cost, ManualClock, Problem};
use cachalot_model::{Budget, ErrorKind, Meter, Models, Usage};

use crate::client::{configured, model_dependencies};

fn budget(yaml: &str) -> (Budget, Vec<Problem>) {
    let node = tree::parse("agent.yaml", yaml).unwrap();
    let mut problems = Vec::new();
    let budget = Budget::read(&node, &mut problems).unwrap_or_default();
    (budget, problems)
}

fn meter(yaml: &str) -> (Meter, Arc<ManualClock>) {
    let (budget, problems) = budget(yaml);
    assert_eq!(problems, []);
    let clock = Arc::new(ManualClock::at(1_000));
    (
        Meter::new(budget, Arc::clone(&clock) as Arc<dyn Clock>),
        clock,
    )
}

fn used(tokens: u64) -> Usage {
    Usage {
        uncached_input: tokens,
        ..Usage::default()
    }
}

#[test]
fn budget_is_parsed_exactly() {
    let (read, problems) = budget("{max_cost: 0.1, max_tokens: 5000, max_time: 10m}");
    assert_eq!(problems, []);
    assert_eq!(
        read,
        Budget {
            max_cost: Some(100_000_000_000),
            max_tokens: Some(5_000),
            max_time: Some(Duration::from_secs(600)),
        }
    );
    assert_eq!(
        budget("{max_time: 90}").0.max_time,
        Some(Duration::from_secs(90))
    );
    assert!(budget("{}").0.is_unlimited());
    for (yaml, code) in [
        ("{max_cost: -1}", "out-of-range"),
        ("{max_cost: cheap}", "wrong-type"),
        ("{max_cost: 99999999}", "out-of-range"),
        ("{max_tokens: 1.5}", "wrong-type"),
        ("{max_time: forever}", "bad-value"),
        ("{max_costs: 1}", "unknown-key"),
    ] {
        let (_, problems) = budget(yaml);
        assert_eq!(problems.len(), 1, "{yaml}: {problems:?}");
        assert_eq!(problems[0].code, code);
    }
}

#[test]
fn every_limit_stops_and_reports_the_usage() {
    let (meter, _) = meter("{max_cost: 0.5}");
    meter.check().unwrap();
    meter.record(Some(&used(10)), Cost::from_picodollars(499_999_999_999));
    meter.check().unwrap();
    meter.record(Some(&used(10)), Cost::from_picodollars(1));
    let error = meter.check().unwrap_err();
    assert_eq!(error.kind, ErrorKind::OverBudget);
    assert_eq!(
        error.to_string(),
        "the budget of $0.50 (`max_cost`) is used up: $0.50 spent on 2 calls"
    );
    assert!(!error.retryable());

    let (meter, _) = self::meter("{max_tokens: 100}");
    let usage = Usage {
        uncached_input: 10,
        cache_read: 50,
        cache_write_5m: 20,
        output: 19,
        ..Usage::default()
    };
    meter.record(Some(&usage), Cost::UNPRICED);
    meter.check().unwrap();
    meter.record(Some(&used(1)), Cost::UNPRICED);
    let text = meter.check().unwrap_err().to_string();
    assert_eq!(
        text,
        "the budget of 100 tokens (`max_tokens`) is used up: 100 tokens in 2 calls"
    );

    let (meter, clock) = self::meter("{max_time: 10m}");
    clock.advance(Duration::from_secs(599));
    meter.check().unwrap();
    assert_eq!(meter.time_left(), Some(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    let text = meter.check().unwrap_err().to_string();
    assert_eq!(
        text,
        "the budget of 600s (`max_time`) is used up: 600s have passed"
    );
    assert_eq!(meter.time_left(), Some(Duration::ZERO));
    // A clock that is set back gives no negative time.
    clock.set(0);
    meter.check().unwrap();
}

#[test]
fn unpriced_calls_exceed_a_cost_budget() {
    let (meter, _) = meter("{max_cost: 100}");
    meter.record(Some(&used(10)), Cost::UNPRICED);
    let error = meter.check().unwrap_err();
    assert_eq!(error.kind, ErrorKind::OverBudget);
    for part in [
        "the price of 1 call is unknown",
        "`cost: {input: …, output: …}`",
        "$100",
    ] {
        assert!(error.message.contains(part), "{error}");
    }
    // Without a limit on money it does not matter.
    let (meter, _) = self::meter("{max_tokens: 100}");
    meter.record(Some(&used(10)), Cost::UNPRICED);
    meter.check().unwrap();
    // Tokens without a reported usage are not free.
    meter.record(None, Cost::default());
    let error = meter.check().unwrap_err();
    assert!(
        error.message.contains("reported no usage for 1 call"),
        "{error}"
    );
}

#[test]
fn unpriced_model_is_refused_before_the_first_call() {
    let models = Models::new(
        model_dependencies(&[]),
        configured("models: {free: {provider: ollama, model: x, cost: {input: 0, output: 0}}}"),
    );
    let (limited, _) = meter("{max_cost: 1}");
    let (unlimited, _) = meter("{max_tokens: 100}");
    let unpriced = models.find("ollama/x").unwrap();
    let error = limited.check_for(&unpriced).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OverBudget);
    assert!(
        error
            .message
            .contains("the price of the model `x` of ollama is unknown"),
        "{error}"
    );
    unlimited.check_for(&unpriced).unwrap();
    for priced in ["free", "gpt-4o"] {
        limited.check_for(&models.find(priced).unwrap()).unwrap();
    }
}

#[test]
fn zero_budget_allows_no_call() {
    for yaml in ["{max_cost: 0}", "{max_tokens: 0}"] {
        assert!(meter(yaml).0.check().is_err(), "{yaml}");
    }
}

#[test]
fn meter_counts_calls_of_all_threads() {
    let (meter, _) = meter("{max_tokens: 8000}");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let meter = meter.clone();
            scope.spawn(move || {
                for _ in 0..1_000 {
                    meter.record(Some(&used(1)), Cost::from_picodollars(3));
                }
            });
        }
    });
    let spent = meter.spent();
    assert_eq!(
        (spent.calls, spent.tokens, spent.cost.picodollars),
        (8_000, 8_000, 24_000)
    );
    assert!(meter.check().is_err());
}

#[test]
fn reserved_tokens_count_until_recorded_or_released() {
    let models = Models::new(model_dependencies(&[]), configured("models: {}"));
    let model = models.find("gpt-4o").unwrap();
    let (meter, _) = meter("{max_tokens: 100}");
    let first = meter.reserve(&model, 60).unwrap();
    let second = meter.reserve(&model, 60).unwrap();
    let error = meter.reserve(&model, 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OverBudget);
    assert!(error.to_string().contains("120 more"), "{error}");
    drop(first);
    meter.record(Some(&used(30)), Cost::default());
    drop(second);
    meter.check().unwrap();
    assert_eq!(meter.spent().calls, 1);
}

//! For any arguments, any keys, any results.

use std::sync::Arc;

use cachalot_core::ManualClock;
use cachalot_store::in_process::InProcessStore;
use cachalot_workflow::Planned;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Number, Value, json};

use crate::fixture::{Fixture, START, Setup, is_hit};
use crate::test_actions::TestAction;

/// Texts, with those that are easily confused more often than chance would have it.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c:]{0,3}",
        any::<String>(),
        proptest::sample::select(vec![
            "", "1", "1.0", "true", "null", "e\u{301}", "\u{e9}", "s1:a", "{}"
        ])
        .prop_map(ToOwned::to_owned),
    ]
}

fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-2_i64..3).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (9_007_199_254_740_990_u64..9_007_199_254_740_995).prop_map(Value::from),
        (-2_i8..3).prop_map(|whole| Value::from(f64::from(whole))),
        any::<f64>().prop_filter_map("JSON has no such number", |float| {
            Number::from_f64(float).map(Value::Number)
        }),
        Just(json!(-0.0)),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers(),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((texts(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Two values that are often nearly the same.
fn pairs() -> impl Strategy<Value = (Value, Value)> {
    let near = (values(), values(), any::<prop::sample::Index>())
        .prop_map(|(value, graft, at)| (value.clone(), grafted(value, graft, at)));
    let turned = values().prop_map(|value| (value.clone(), turned(value)));
    prop_oneof![near, turned, (values(), values())]
}

/// `value` with something in it replaced.
fn grafted(mut value: Value, graft: Value, at: prop::sample::Index) -> Value {
    match &mut value {
        Value::Array(items) if !items.is_empty() => {
            let at = at.index(items.len());
            items[at] = graft;
            value
        }
        Value::Object(fields) if !fields.is_empty() => {
            let name = fields.keys().nth(at.index(fields.len())).unwrap().clone();
            fields[&name] = graft;
            value
        }
        _ => graft,
    }
}

/// The same value, its fields written in the opposite order.
fn turned(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(turned).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.reverse();
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, turned(value)));
            Value::Object(fields.collect())
        }
        scalar => scalar,
    }
}

/// Whether two values are one, by looking at them and not at any encoding: whole numbers by value,
/// other numbers bit by bit, fields in any order.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::String(one), Value::String(other)) => one == other,
        (Value::Number(one), Value::Number(other)) => {
            let whole = |number: &Number| {
                number
                    .as_i64()
                    .map(i128::from)
                    .or_else(|| number.as_u64().map(i128::from))
            };
            match (whole(one), whole(other)) {
                (Some(one), Some(other)) => one == other,
                (None, None) => {
                    one.as_f64().unwrap().to_bits() == other.as_f64().unwrap().to_bits()
                }
                _ => false,
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let all_in = |these: &Map<String, Value>, those: &Map<String, Value>| {
                these
                    .iter()
                    .all(|(name, value)| those.get(name).is_some_and(|other| same(value, other)))
            };
            one.len() == other.len() && all_in(one, other)
        }
        _ => false,
    }
}

fn in_process() -> Fixture {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(InProcessStore::new(clock.clone()));
    let echo =
        TestAction::new().answers(|_, given| Ok(given.get("value").cloned().unwrap_or_default()));
    Setup::default()
        .store(store)
        .clock(clock)
        .with(echo)
        .start()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

/// The handle of a call that was never made.
async fn handle(fixture: &Fixture, with: Value) -> String {
    let wrap = fixture.runtime.actions.get("cache.wrap").unwrap();
    let Value::Object(with) = with else {
        panic!("a mapping")
    };
    let with = wrap.metadata().check(with).unwrap();
    match wrap.plan(with, &fixture.runtime).await.unwrap() {
        Planned::Miss {
            handle: Some(handle),
            ..
        }
        | Planned::Hit { handle, .. } => handle,
        other => panic!("{other:?}"),
    }
}

fn for_all<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(cases)
    });
    runner.run(strategy, test).unwrap();
}

#[test]
fn handles_are_equal_exactly_for_equal_arguments() {
    let fixture = in_process();
    for_all(1_500, &pairs(), |(one, other)| {
        block_on(async {
            let with = |value: &Value| json!({"action": "test.act", "args": {"value": value}});
            let handles = (
                handle(&fixture, with(&one)).await,
                handle(&fixture, with(&other)).await,
            );
            prop_assert_eq!(
                handles.0 == handles.1,
                same(&one, &other),
                "{} and {}",
                one,
                other
            );
            Ok(())
        })
    });
}

#[test]
fn custom_key_shares_an_entry_unless_other_keyed_inputs_differ() {
    for_all(
        200,
        &(pairs(), pairs()),
        |((one, other), (ours, theirs))| {
            block_on(async {
                let fixture = in_process();
                let with = |version: &Value, x: &Value| json!({"action": "test.act", "args": {"x": x}, "key": "k", "version": version});
                fixture.wrap(with(&one, &ours)).await;
                let second = fixture.wrap(with(&other, &theirs)).await;
                prop_assert_eq!(is_hit(&second), same(&one, &other), "{} and {}", one, other);
                Ok(())
            })
        },
    );
}

#[test]
fn keys_are_equal_exactly_if_equal_without_prefixes() {
    let fixture = in_process();
    let key = || ("(cache:)?(tester:)?", texts()).prop_map(|(prefix, rest)| prefix + &rest);
    for_all(1_500, &(key(), key()), |(one, other)| {
        let bare = |key: &str| {
            let key = key.strip_prefix("cache:").unwrap_or(key).to_owned();
            key.strip_prefix("tester:")
                .map(ToOwned::to_owned)
                .unwrap_or(key)
        };
        prop_assume!(!one.trim().is_empty() && !other.trim().is_empty());
        block_on(async {
            let with = |key: &str| json!({"action": "test.act", "args": {}, "key": key});
            let handles = (
                handle(&fixture, with(&one)).await,
                handle(&fixture, with(&other)).await,
            );
            prop_assert_eq!(handles.0 == handles.1, bare(&one) == bare(&other));
            let again = handle(&fixture, with(&handles.0)).await;
            prop_assert_eq!(&again, &handles.0, "a handle is its own handle");
            Ok(())
        })
    });
}

#[test]
fn agents_of_arbitrary_names_never_share() {
    let agents = (texts(), texts(), texts());
    for_all(200, &agents, |(one, other, key)| {
        prop_assume!(one != other && !key.trim().is_empty());
        block_on(async {
            let first = in_process();
            let store = first.runtime.store.clone().unwrap();
            let setup = |agent: &str| {
                Setup::default()
                    .store(Arc::clone(&store))
                    .agent(agent)
                    .with(TestAction::new())
            };
            let (first, second) = (setup(&one).start(), setup(&other).start());
            let with = json!({"action": "test.act", "args": {}, "key": key});
            first.wrap(with.clone()).await;
            prop_assert!(!is_hit(&second.wrap(with).await));
            let pattern = json!({"pattern": format!("cache:{}:*", second.runtime.agent)});
            second.invalidate(pattern).await;
            let mut left = 0;
            for entry in first.entries().await {
                left += usize::from(entry.labels.iter().any(|label| label.name == "handle"));
            }
            prop_assert_eq!(left, 1, "the pattern of one agent leaves the other's alone");
            Ok(())
        })
    });
}

#[test]
fn a_wrapped_action_returns_the_result_of_the_action() {
    let fixture = in_process();
    let test_action =
        TestAction::new().answers(|_, given| Ok(given.get("value").cloned().unwrap_or_default()));
    let store = fixture.runtime.store.clone().unwrap();
    let setup = || {
        Setup::default()
            .store(Arc::clone(&store))
            .with(test_action.clone())
    };
    let cold = setup().without_front().start();
    for_all(400, &values(), |value| {
        block_on(async {
            let args = json!({"value": value});
            let bare = fixture.ok("test.act", args.clone()).await.to_string();
            prop_assert_eq!(&bare, &value.to_string());
            let unkept = value.get("success").is_some() || value.get("error").is_some();
            for (asked, hits) in [(&fixture, false), (&fixture, true), (&cold, true)] {
                let wrapped = asked.wrapped("test.act", args.clone()).await;
                prop_assert_eq!(wrapped["result"].to_string(), bare.clone());
                // An earlier case may have asked for the same.
                prop_assert!(is_hit(&wrapped) || unkept || !hits, "{}", wrapped);
            }
            Ok(())
        })
    });
}

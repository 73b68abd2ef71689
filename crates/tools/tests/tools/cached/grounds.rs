//! On what grounds results are kept, and for how long.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock as _, DigestKey, EffectTarget, EffectTargets, Effects, SecretSet};
use cachalot_tools::cached::ToolCacheSettings;
use cachalot_tools::{CacheClass, CallOutcome, ToolCallResult, ToolOutput};
use serde_json::json;

use super::world::{Counting, Making, World, note, on, reads_unknown, text, world};

const MINUTE: Duration = Duration::from_secs(60);

async fn look(world: &World) -> ToolCallResult {
    world.call("look", json!({"path": "a"})).await
}

async fn is_hit(world: &World) -> bool {
    look(world).await.outcome == CallOutcome::Hit
}

fn lasting(
    lifetime: Duration,
) -> impl Fn(&cachalot_tools::Arguments, &cachalot_tools::ToolContext, usize) -> ToolOutput {
    move |_, _, run| ToolOutput {
        lifetime: Some(lifetime),
        ..ToolOutput::text(format!("run {run}"))
    }
}

#[tokio::test]
async fn read_only_alone_is_no_reason_to_keep_anything() {
    let tool = Counting::named("look");
    let world = world(&[&tool]);
    for _ in 0..3 {
        assert!(!is_hit(&world).await);
    }
    let stats = world.tools.cache_stats("main");
    assert_eq!(stats.eligible, 0, "it was never going to be kept");
    let counters = &world.tools.counters("main")["look"];
    assert_eq!(
        counters.bypassed["its results are not declared as reusable"],
        3
    );
}

#[tokio::test]
async fn for_a_time_that_the_tool_states() {
    let world = world(&[&Counting::named("look").cache_class(CacheClass::Ttl(MINUTE))]);
    assert!(!is_hit(&world).await);
    world.after(MINUTE - Duration::from_millis(1));
    assert!(is_hit(&world).await);
    world.after(Duration::from_millis(1));
    assert_eq!(
        look(&world).await.outcome,
        CallOutcome::Ran(Some("expired".into()))
    );
    assert!(is_hit(&world).await);
}

#[tokio::test]
async fn for_a_time_that_the_user_states() {
    for cache_class in [
        CacheClass::Never,
        CacheClass::Ttl(MINUTE),
        CacheClass::Immutable,
    ] {
        let settings = ToolCacheSettings {
            ttl: [("look".to_owned(), 2 * MINUTE)].into(),
            ..on()
        };
        let world = Making::with(settings).of(&[&Counting::named("look").cache_class(cache_class)]);
        look(&world).await;
        world.after(2 * MINUTE - Duration::from_millis(1));
        assert!(is_hit(&world).await, "{cache_class:?}");
        world.after(Duration::from_millis(1));
        assert!(!is_hit(&world).await, "{cache_class:?}");
    }
}

#[tokio::test]
async fn an_invalid_time_to_live_is_reported() {
    let settings = ToolCacheSettings {
        ttl: [("change".to_owned(), MINUTE), ("lok".to_owned(), MINUTE)].into(),
        ..on()
    };
    let world = Making::with(settings).of(&[
        &Counting::named("look"),
        &Counting::named("change").writing(),
    ]);
    let said = world.said();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("`change`") && said[0].contains("not read-only"),
        "{said:?}"
    );
    assert!(said[1].contains("`lok`"), "{said:?}");
}

#[tokio::test]
async fn for_the_time_declared_by_its_author() {
    let tool = Counting::named("look")
        .from("server")
        .doing(lasting(MINUTE));
    let world = world(&[&tool]);
    look(&world).await;
    assert!(is_hit(&world).await);
    world.after(MINUTE);
    assert!(!is_hit(&world).await);
    let stats = world.tools.cache_stats("main");
    assert_eq!((stats.hits, stats.misses), (1, 2));
}

#[tokio::test]
async fn a_result_contains_its_expiry_even_if_not_stored() {
    let half = MINUTE / 2;
    let stating = Counting::named("look")
        .cache_class(CacheClass::Ttl(MINUTE))
        .doing(lasting(half));
    let timed = Counting::named("look").cache_class(CacheClass::Ttl(MINUTE));
    let lasting = Counting::named("look").cache_class(CacheClass::Immutable);
    let never = Counting::named("look").doing(self::lasting(half));
    for (tool, expected) in [
        (&stating, Some(half)),
        (&timed, Some(MINUTE)),
        (&lasting, None),
        (&never, Some(half)),
    ] {
        for settings in [on(), ToolCacheSettings::default()] {
            let is_kept = settings.enabled;
            let world = Making::with(settings).of(&[tool]);
            let now = world.clock.now();
            let expected = expected.map(|time| now + time.as_millis() as i64);
            assert_eq!(look(&world).await.expires, expected);
            if is_kept {
                world.after(Duration::from_secs(10));
                let again = look(&world).await;
                assert_eq!(again.outcome, CallOutcome::Hit);
                assert_eq!(again.expires, expected);
            }
        }
    }
}

#[tokio::test]
async fn the_author_can_only_shorten_configured_times() {
    for (lifetime, kept_for) in [
        (Duration::ZERO, None),
        (MINUTE / 2, Some(MINUTE / 2)),
        (10 * MINUTE, Some(MINUTE)),
    ] {
        let tool = Counting::named("look")
            .cache_class(CacheClass::Ttl(MINUTE))
            .doing(lasting(lifetime));
        let world = world(&[&tool]);
        look(&world).await;
        assert_eq!(is_hit(&world).await, kept_for.is_some(), "{lifetime:?}");
        if let Some(kept_for) = kept_for {
            world.after(kept_for);
            assert!(!is_hit(&world).await, "{lifetime:?}");
        }
    }
}

#[tokio::test]
async fn for_ever_whatever_is_written() {
    let tool = Counting::named("look")
        .cache_class(CacheClass::Immutable)
        .touching(|_| reads_unknown());
    let world = world(&[&tool, &Counting::unknown("shell")]);
    look(&world).await;
    world.call("shell", json!({})).await;
    world.after(1_000_000 * MINUTE);
    assert!(is_hit(&world).await);
}

#[tokio::test]
async fn while_what_it_read_is_the_same() {
    let tool = Counting::file_reader("look");
    let world = world(&[&tool]);
    world.write("a", "one");
    look(&world).await;
    assert!(is_hit(&world).await);
    world.write("a", "two");
    let answer = look(&world).await;
    assert_eq!(text(&answer), "two");
    let CallOutcome::Ran(Some(why)) = &answer.outcome else {
        panic!("{answer:?}")
    };
    assert!(
        why.starts_with("changed since: ") && why.contains("/a changed"),
        "{why}"
    );
    std::fs::remove_file(world.root().join("a")).unwrap();
    assert!(look(&world).await.output.is_error);
    world.write("a", "two");
    assert_eq!(text(&look(&world).await), "two");
}

#[tokio::test]
async fn not_without_having_noted_what_it_read() {
    for reads in [
        Effects::reading(vec![EffectTarget::Path("a".into())]),
        Effects::reading(vec![EffectTarget::Glob {
            root: ".".into(),
            pattern: "**".into(),
        }]),
        reads_unknown(),
    ] {
        let careless = Counting::reader("look").touching(move |_| reads.clone());
        let world = world(&[&careless]);
        look(&world).await;
        assert!(!is_hit(&world).await);
        let not_kept = &world.tools.counters("main")["look"].not_kept;
        assert_eq!(not_kept["it read files and noted nothing of them"], 2);
    }
    let careful = Counting::reader("look")
        .touching(|_| reads_unknown())
        .doing(|_, context, _| {
            note(context, "a");
            ToolOutput::text("noted")
        });
    let world = world(&[&careful]);
    look(&world).await;
    assert!(is_hit(&world).await);
}

#[tokio::test]
async fn what_may_write_is_never_served_whatever_it_says() {
    for writes in [
        EffectTargets::Unknown,
        EffectTargets::Known(vec![EffectTarget::Named("x".into())]),
        EffectTargets::Known(vec![EffectTarget::Path("x".into())]),
    ] {
        let resource_access = Effects {
            reads: EffectTargets::NOTHING,
            writes,
        };
        let liar = Counting::reader("look")
            .cache_class(CacheClass::Immutable)
            .touching(move |_| resource_access.clone());
        let settings = ToolCacheSettings {
            ttl: [("look".to_owned(), MINUTE)].into(),
            ..on()
        };
        let world = Making::with(settings).of(&[&liar]);
        for _ in 0..3 {
            assert_eq!(look(&world).await.outcome, CallOutcome::Ran(None));
        }
        assert_eq!(liar.runs(), 3);
        let counters = &world.tools.counters("main")["look"];
        assert_eq!(counters.bypassed["it may write something"], 3);
    }
}

#[tokio::test]
async fn what_may_write_or_not_depends_on_the_call() {
    let tool = Counting::reader("look").touching(|arguments| match arguments.get("path") {
        Some(_) => Effects::reading(Vec::new()),
        None => Effects::UNKNOWN,
    });
    let world = world(&[&tool]);
    look(&world).await;
    assert!(is_hit(&world).await);
    for _ in 0..2 {
        assert_eq!(
            world.call("look", json!({})).await.outcome,
            CallOutcome::Ran(None)
        );
    }
}

#[tokio::test]
async fn a_failure_is_never_kept() {
    let tool = Counting::named("look")
        .cache_class(CacheClass::Immutable)
        .doing(|_, _, run| ToolOutput::error(format!("failure {run}")));
    let world = world(&[&tool]);
    for run in 0..3 {
        let answer = look(&world).await;
        assert_eq!(
            (text(&answer), answer.output.is_error),
            (format!("failure {run}"), true)
        );
    }
    let counters = &world.tools.counters("main")["look"];
    assert_eq!(
        (counters.misses, counters.not_kept["the work failed"]),
        (3, 3)
    );
}

#[tokio::test]
async fn a_secret_is_never_kept() {
    let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
    secret_set.learn("correct horse battery staple");
    let tool = Counting::named("look")
        .cache_class(CacheClass::Immutable)
        .doing(|_, _, _| ToolOutput::text("password: correct horse battery staple"));
    let mut making = Making::with(on());
    making.secret_set = secret_set;
    let world = making.of(&[&tool]);
    for _ in 0..2 {
        assert!(!is_hit(&world).await);
    }
    let counters = &world.tools.counters("main")["look"];
    assert_eq!(counters.not_kept["the answer holds a secret"], 2);
}

#[tokio::test]
async fn the_byte_limit_is_enforced() {
    let tool = Counting::reader("look").doing(|arguments, _, _| {
        let size = arguments["size"].as_u64().unwrap();
        ToolOutput::text("x".repeat(size as usize))
    });
    let settings = ToolCacheSettings {
        max_bytes: 10_000,
        ..on()
    };
    let world = Making::with(settings).of(&[&tool]);
    let call = async |a: u64, size: u64| {
        world
            .call("look", json!({"a": a, "size": size}))
            .await
            .outcome
    };
    for a in 0..4 {
        call(a, 3_000).await;
    }
    assert_eq!(call(3, 3_000).await, CallOutcome::Hit);
    assert_eq!(call(2, 3_000).await, CallOutcome::Hit);
    assert_ne!(
        call(0, 3_000).await,
        CallOutcome::Hit,
        "it made room for the last"
    );
    let counters = world.tools.counters("main")["look"].clone();
    assert!(counters.evicted >= 1, "{counters:?}");
    for _ in 0..2 {
        assert_ne!(call(9, 20_000).await, CallOutcome::Hit);
    }
    let counters = world.tools.counters("main")["look"].clone();
    assert_eq!(counters.not_kept["too large"], 2);
}

#[tokio::test]
async fn pictures_come_back_as_they_were() {
    let picture = || {
        cachalot_model::Block::Image(cachalot_model::Image {
            source: cachalot_model::ImageSource::Inline {
                media_type: "image/png".into(),
                base64: "aGVsbG8=".into(),
            },
            extra: serde_json::from_value(
                json!({"detail": "low", "n": 18_446_744_073_709_551_615_u64}),
            )
            .unwrap(),
        })
    };
    let tool = Counting::reader("look").doing(move |_, _, _| ToolOutput {
        content: vec![
            cachalot_model::Block::text("a \"picture\"\n\u{1F40B}"),
            picture(),
        ],
        ..ToolOutput::text("")
    });
    let world = world(&[&tool]);
    let (first, second) = (look(&world).await, look(&world).await);
    assert_eq!(second.outcome, CallOutcome::Hit);
    assert_eq!(first.output.content, second.output.content);
}

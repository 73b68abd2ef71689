//! On what grounds results are kept, and for how long.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock as _, DigestKey, EffectTarget, EffectTargets, Effects, SecretSet};
use cachalot_tools::cached::ToolCacheSettings;
use cachalot_tools::{CacheClass, CallOutcome, ToolCallResult, ToolOutput};
use serde_json::json;

use super::cache_fixture::{
    CacheFixture, CacheFixtureBuilder, CountingTool, cache_fixture, note, on, reads_unknown, text,
};

const MINUTE: Duration = Duration::from_secs(60);

async fn look(cache_fixture: &CacheFixture) -> ToolCallResult {
    cache_fixture.call("look", json!({"path": "a"})).await
}

async fn is_hit(cache_fixture: &CacheFixture) -> bool {
    look(cache_fixture).await.outcome == CallOutcome::Hit
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
async fn read_only_tool_without_a_declaration_is_not_cached() {
    let tool = CountingTool::named("look");
    let cache_fixture = cache_fixture(&[&tool]);
    for _ in 0..3 {
        assert!(!is_hit(&cache_fixture).await);
    }
    let stats = cache_fixture.tools.cache_stats("main");
    assert_eq!(stats.eligible, 0, "it was never going to be kept");
    let counters = &cache_fixture.tools.counters("main")["look"];
    assert_eq!(
        counters.bypassed["its results are not declared as reusable"],
        3
    );
}

#[tokio::test]
async fn result_is_cached_for_the_ttl_of_the_tool() {
    let cache_fixture =
        cache_fixture(&[&CountingTool::named("look").cache_class(CacheClass::Ttl(MINUTE))]);
    assert!(!is_hit(&cache_fixture).await);
    cache_fixture.after(MINUTE - Duration::from_millis(1));
    assert!(is_hit(&cache_fixture).await);
    cache_fixture.after(Duration::from_millis(1));
    assert_eq!(
        look(&cache_fixture).await.outcome,
        CallOutcome::Ran(Some("expired".into()))
    );
    assert!(is_hit(&cache_fixture).await);
}

#[tokio::test]
async fn result_is_cached_for_the_configured_ttl() {
    for cache_class in [
        CacheClass::Never,
        CacheClass::Ttl(MINUTE),
        CacheClass::Immutable,
    ] {
        let settings = ToolCacheSettings {
            ttl: [("look".to_owned(), 2 * MINUTE)].into(),
            ..on()
        };
        let cache_fixture = CacheFixtureBuilder::with(settings)
            .of(&[&CountingTool::named("look").cache_class(cache_class)]);
        look(&cache_fixture).await;
        cache_fixture.after(2 * MINUTE - Duration::from_millis(1));
        assert!(is_hit(&cache_fixture).await, "{cache_class:?}");
        cache_fixture.after(Duration::from_millis(1));
        assert!(!is_hit(&cache_fixture).await, "{cache_class:?}");
    }
}

#[tokio::test]
async fn an_invalid_time_to_live_is_reported() {
    let settings = ToolCacheSettings {
        ttl: [("change".to_owned(), MINUTE), ("lok".to_owned(), MINUTE)].into(),
        ..on()
    };
    let cache_fixture = CacheFixtureBuilder::with(settings).of(&[
        &CountingTool::named("look"),
        &CountingTool::named("change").writing(),
    ]);
    let said = cache_fixture.said();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("`change`") && said[0].contains("not read-only"),
        "{said:?}"
    );
    assert!(said[1].contains("`lok`"), "{said:?}");
}

#[tokio::test]
async fn result_is_cached_for_its_own_lifetime() {
    let tool = CountingTool::named("look")
        .from("server")
        .doing(lasting(MINUTE));
    let cache_fixture = cache_fixture(&[&tool]);
    look(&cache_fixture).await;
    assert!(is_hit(&cache_fixture).await);
    cache_fixture.after(MINUTE);
    assert!(!is_hit(&cache_fixture).await);
    let stats = cache_fixture.tools.cache_stats("main");
    assert_eq!((stats.hits, stats.misses), (1, 2));
}

#[tokio::test]
async fn result_has_its_expiry_even_if_not_stored() {
    let half = MINUTE / 2;
    let stating = CountingTool::named("look")
        .cache_class(CacheClass::Ttl(MINUTE))
        .doing(lasting(half));
    let timed = CountingTool::named("look").cache_class(CacheClass::Ttl(MINUTE));
    let lasting = CountingTool::named("look").cache_class(CacheClass::Immutable);
    let never = CountingTool::named("look").doing(self::lasting(half));
    for (tool, expected) in [
        (&stating, Some(half)),
        (&timed, Some(MINUTE)),
        (&lasting, None),
        (&never, Some(half)),
    ] {
        for settings in [on(), ToolCacheSettings::default()] {
            let is_kept = settings.enabled;
            let cache_fixture = CacheFixtureBuilder::with(settings).of(&[tool]);
            let now = cache_fixture.clock.now();
            let expected = expected.map(|time| now + time.as_millis() as i64);
            assert_eq!(look(&cache_fixture).await.expires, expected);
            if is_kept {
                cache_fixture.after(Duration::from_secs(10));
                let again = look(&cache_fixture).await;
                assert_eq!(again.outcome, CallOutcome::Hit);
                assert_eq!(again.expires, expected);
            }
        }
    }
}

#[tokio::test]
async fn lifetime_of_a_result_can_only_shorten_the_configured_ttl() {
    for (lifetime, kept_for) in [
        (Duration::ZERO, None),
        (MINUTE / 2, Some(MINUTE / 2)),
        (10 * MINUTE, Some(MINUTE)),
    ] {
        let tool = CountingTool::named("look")
            .cache_class(CacheClass::Ttl(MINUTE))
            .doing(lasting(lifetime));
        let cache_fixture = cache_fixture(&[&tool]);
        look(&cache_fixture).await;
        assert_eq!(
            is_hit(&cache_fixture).await,
            kept_for.is_some(),
            "{lifetime:?}"
        );
        if let Some(kept_for) = kept_for {
            cache_fixture.after(kept_for);
            assert!(!is_hit(&cache_fixture).await, "{lifetime:?}");
        }
    }
}

#[tokio::test]
async fn immutable_result_is_cached_forever() {
    let tool = CountingTool::named("look")
        .cache_class(CacheClass::Immutable)
        .touching(|_| reads_unknown());
    let cache_fixture = cache_fixture(&[&tool, &CountingTool::unknown("shell")]);
    look(&cache_fixture).await;
    cache_fixture.call("shell", json!({})).await;
    cache_fixture.after(1_000_000 * MINUTE);
    assert!(is_hit(&cache_fixture).await);
}

#[tokio::test]
async fn validated_result_is_cached_until_a_read_file_changes() {
    let tool = CountingTool::file_reader("look");
    let cache_fixture = cache_fixture(&[&tool]);
    cache_fixture.write("a", "one");
    look(&cache_fixture).await;
    assert!(is_hit(&cache_fixture).await);
    cache_fixture.write("a", "two");
    let answer = look(&cache_fixture).await;
    assert_eq!(text(&answer), "two");
    let CallOutcome::Ran(Some(why)) = &answer.outcome else {
        panic!("{answer:?}")
    };
    assert!(
        why.starts_with("changed since: ") && why.contains("/a changed"),
        "{why}"
    );
    std::fs::remove_file(cache_fixture.root().join("a")).unwrap();
    assert!(look(&cache_fixture).await.output.is_error);
    cache_fixture.write("a", "two");
    assert_eq!(text(&look(&cache_fixture).await), "two");
}

#[tokio::test]
async fn validated_result_without_witnesses_is_not_cached() {
    for reads in [
        Effects::reading(vec![EffectTarget::Path("a".into())]),
        Effects::reading(vec![EffectTarget::Glob {
            root: ".".into(),
            pattern: "**".into(),
        }]),
        reads_unknown(),
    ] {
        let careless = CountingTool::reader("look").touching(move |_| reads.clone());
        let cache_fixture = cache_fixture(&[&careless]);
        look(&cache_fixture).await;
        assert!(!is_hit(&cache_fixture).await);
        let not_kept = &cache_fixture.tools.counters("main")["look"].not_kept;
        assert_eq!(not_kept["it read files and noted nothing of them"], 2);
    }
    let careful = CountingTool::reader("look")
        .touching(|_| reads_unknown())
        .doing(|_, context, _| {
            note(context, "a");
            ToolOutput::text("noted")
        });
    let cache_fixture = cache_fixture(&[&careful]);
    look(&cache_fixture).await;
    assert!(is_hit(&cache_fixture).await);
}

#[tokio::test]
async fn call_that_may_write_is_never_cached() {
    for writes in [
        EffectTargets::Unknown,
        EffectTargets::Known(vec![EffectTarget::Named("x".into())]),
        EffectTargets::Known(vec![EffectTarget::Path("x".into())]),
    ] {
        let resource_access = Effects {
            reads: EffectTargets::NOTHING,
            writes,
        };
        let liar = CountingTool::reader("look")
            .cache_class(CacheClass::Immutable)
            .touching(move |_| resource_access.clone());
        let settings = ToolCacheSettings {
            ttl: [("look".to_owned(), MINUTE)].into(),
            ..on()
        };
        let cache_fixture = CacheFixtureBuilder::with(settings).of(&[&liar]);
        for _ in 0..3 {
            assert_eq!(look(&cache_fixture).await.outcome, CallOutcome::Ran(None));
        }
        assert_eq!(liar.runs(), 3);
        let counters = &cache_fixture.tools.counters("main")["look"];
        assert_eq!(counters.bypassed["it may write something"], 3);
    }
}

#[tokio::test]
async fn effects_are_evaluated_per_call() {
    let tool = CountingTool::reader("look").touching(|arguments| match arguments.get("path") {
        Some(_) => Effects::reading(Vec::new()),
        None => Effects::UNKNOWN,
    });
    let cache_fixture = cache_fixture(&[&tool]);
    look(&cache_fixture).await;
    assert!(is_hit(&cache_fixture).await);
    for _ in 0..2 {
        assert_eq!(
            cache_fixture.call("look", json!({})).await.outcome,
            CallOutcome::Ran(None)
        );
    }
}

#[tokio::test]
async fn failure_is_never_cached() {
    let tool = CountingTool::named("look")
        .cache_class(CacheClass::Immutable)
        .doing(|_, _, run| ToolOutput::error(format!("failure {run}")));
    let cache_fixture = cache_fixture(&[&tool]);
    for run in 0..3 {
        let answer = look(&cache_fixture).await;
        assert_eq!(
            (text(&answer), answer.output.is_error),
            (format!("failure {run}"), true)
        );
    }
    let counters = &cache_fixture.tools.counters("main")["look"];
    assert_eq!(
        (counters.misses, counters.not_kept["the work failed"]),
        (3, 3)
    );
}

#[tokio::test]
async fn result_that_begins_like_an_error_is_cached_unless_the_prefix_says_otherwise() {
    for (prefix, result, is_cached) in [
        (None, "Error: no such page", true),
        (Some("Error:"), "Error: no such page", false),
        (Some("Error:"), "Errors are none", true),
        (Some("Error:"), "an Error: no", true),
    ] {
        let tool = CountingTool::named("look")
            .cache_class(CacheClass::Immutable)
            .doing(move |_, _, _| ToolOutput::text(result));
        let settings = ToolCacheSettings {
            error_prefix: prefix.map(str::to_owned),
            ..on()
        };
        let cache_fixture = CacheFixtureBuilder::with(settings).of(&[&tool]);
        look(&cache_fixture).await;
        assert_eq!(
            is_hit(&cache_fixture).await,
            is_cached,
            "{prefix:?} {result}"
        );
        if !is_cached {
            let counters = &cache_fixture.tools.counters("main")["look"];
            assert_eq!(counters.not_kept["it begins with `Error:`"], 2);
        }
    }
}

#[tokio::test]
async fn result_with_a_secret_is_never_cached() {
    let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
    secret_set.learn("correct horse battery staple");
    let tool = CountingTool::named("look")
        .cache_class(CacheClass::Immutable)
        .doing(|_, _, _| ToolOutput::text("password: correct horse battery staple"));
    let mut cache_fixture_builder = CacheFixtureBuilder::with(on());
    cache_fixture_builder.secret_set = secret_set;
    let cache_fixture = cache_fixture_builder.of(&[&tool]);
    for _ in 0..2 {
        assert!(!is_hit(&cache_fixture).await);
    }
    let counters = &cache_fixture.tools.counters("main")["look"];
    assert_eq!(counters.not_kept["the answer holds a secret"], 2);
}

#[tokio::test]
async fn the_byte_limit_is_enforced() {
    let tool = CountingTool::reader("look").doing(|arguments, _, _| {
        let size = arguments["size"].as_u64().unwrap();
        ToolOutput::text("x".repeat(size as usize))
    });
    let settings = ToolCacheSettings {
        max_bytes: 10_000,
        ..on()
    };
    let cache_fixture = CacheFixtureBuilder::with(settings).of(&[&tool]);
    let call = async |a: u64, size: u64| {
        cache_fixture
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
    let counters = cache_fixture.tools.counters("main")["look"].clone();
    assert!(counters.evicted >= 1, "{counters:?}");
    for _ in 0..2 {
        assert_ne!(call(9, 20_000).await, CallOutcome::Hit);
    }
    let counters = cache_fixture.tools.counters("main")["look"].clone();
    assert_eq!(counters.not_kept["too large"], 2);
}

#[tokio::test]
async fn images_round_trip_through_the_cache() {
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
    let tool = CountingTool::reader("look").doing(move |_, _, _| ToolOutput {
        content: vec![
            cachalot_model::Block::text("a \"picture\"\n\u{1F40B}"),
            picture(),
        ],
        ..ToolOutput::text("")
    });
    let cache_fixture = cache_fixture(&[&tool]);
    let (first, second) = (look(&cache_fixture).await, look(&cache_fixture).await);
    assert_eq!(second.outcome, CallOutcome::Hit);
    assert_eq!(first.output.content, second.output.content);
}

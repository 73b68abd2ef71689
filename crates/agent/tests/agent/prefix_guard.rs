//! Messages that make the provider read an expired prefix anew: `prefix: {guard: …}`.

use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::{Chat, PrefixRewrite};
use cachalot_core::ManualClock;
use cachalot_prompt::PrefixLifetime;
use cachalot_simulator::{Script, ScriptedReply, Simulator, SimulatorOptions};

use crate::bodies::turns;
use crate::fixture::{Fixture, Wire};

/// An agent whose system text has about 7,500 tokens: $0.026 more to write than to read.
fn file(prefix: &str) -> String {
    format!(
        "agents:\n  root:\n    model: test\n    instruction: {}\n{prefix}",
        "Be brief. ".repeat(3_000)
    )
}

const GUARDED: &str = "    prefix: {guard: {above: $0.01}}\n";

/// A fixture with a clock that the test moves, and a chat whose first message was answered.
async fn answered(prefix: &str) -> (Fixture, Arc<ManualClock>, Chat) {
    let replies = ["One.", "Two.", "Three."].map(ScriptedReply::text);
    let mut fixture = Fixture::new(Wire::Messages, &file(prefix), Vec::new()).await;
    let clock = Arc::new(ManualClock::at(fixture.clock.now()));
    fixture.clock = clock.clone();
    // The provider forgets by the same clock.
    let options = SimulatorOptions {
        script: Script::replies(replies.into()),
        clock: clock.clone(),
        ..SimulatorOptions::default()
    };
    fixture.simulator = Simulator::start(options).await.unwrap();
    let fixture = fixture.in_file();
    let mut chat = fixture.chat().await;
    assert_eq!(chat.prefix_rewrite("First."), None, "nothing was sent");
    fixture.turn(&mut chat, "First.").await;
    (fixture, clock, chat)
}

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}

#[tokio::test]
async fn expired_prefix_is_reported_before_a_turn_and_costs_nothing() {
    let (fixture, clock, mut chat) = answered(GUARDED).await;
    clock.advance(minutes(4));
    assert_eq!(chat.prefix_rewrite("Second."), None);
    clock.advance(minutes(2));
    let before = fixture.messages(chat.session()).await.len();
    let rewrite = chat.prefix_rewrite("Second.").unwrap();
    let PrefixRewrite {
        idle,
        lifetime,
        tokens,
        cost,
        longer_lifetime,
    } = rewrite;
    assert_eq!((idle, lifetime), (minutes(6), minutes(5)));
    assert_eq!(longer_lifetime, Some(PrefixLifetime::OneHour));
    // The provider has counted them.
    let body = fixture.last_body();
    let written = body["system"].to_string().len() as u64 / 4;
    assert!(
        tokens.abs_diff(written) < written / 5,
        "{tokens}, about {written}"
    );
    // $3.75 to write a million tokens, $0.30 to read them.
    assert_eq!(cost.picodollars, tokens * 3_450_000);
    // The user does not send it: nothing has changed, and another message can be sent.
    assert_eq!(fixture.simulator.received().len(), 1);
    assert_eq!(fixture.messages(chat.session()).await.len(), before);
    assert_eq!(chat.total().model_calls, 1);
    let turn = fixture.turn(&mut chat, "Another.").await;
    assert_eq!(turn.text, "Two.");
    assert_eq!(turns(&fixture.last_body()).len(), 3);
    // The message has written the prefix again.
    assert_eq!(chat.prefix_rewrite("Third."), None);
    assert_eq!(fixture.turn(&mut chat, "Third.").await.breaks, []);
    fixture.check();
}

#[tokio::test]
async fn resumed_session_is_cold_after_hours() {
    let (mut fixture, clock, chat) = answered(GUARDED).await;
    let session = chat.session().to_owned();
    chat.close().await;
    fixture.restart();
    clock.advance(minutes(4));
    let chat = fixture.resume(&session).await.unwrap();
    assert_eq!(chat.prefix_rewrite("Second."), None);
    clock.advance(minutes(180));
    // Before and after the session is resumed.
    let of_waiting = chat.prefix_rewrite("Second.").unwrap();
    let mut chat = fixture.resume(&session).await.unwrap();
    let rewrite = chat.prefix_rewrite("Second.").unwrap();
    assert_eq!(rewrite, of_waiting);
    assert_eq!(
        (rewrite.idle, rewrite.longer_lifetime),
        (minutes(184), None)
    );
    assert!(rewrite.tokens > 5_000, "{rewrite:?}");
    assert_eq!(fixture.simulator.received().len(), 1);
    let turn = fixture.turn(&mut chat, "Second.").await;
    let paid = turn.sum.usage.cache_write_5m;
    assert!(
        paid.abs_diff(rewrite.tokens) < 50,
        "{paid}, not {}",
        rewrite.tokens
    );
    fixture.check();
}

/// A session records its usage, but not the lifetimes of its markers.
#[tokio::test]
async fn resumed_session_with_longer_markers_is_cold_after_their_lifetime() {
    let (fixture, clock, chat) = answered("    prefix: {ttl: 1h, guard: {above: 0.01}}\n").await;
    let session = chat.session().to_owned();
    for (waited, is_cold) in [(50, false), (20, true)] {
        clock.advance(minutes(waited));
        assert_eq!(
            chat.prefix_rewrite("Second.").is_some(),
            is_cold,
            "{waited}"
        );
        let resumed = fixture.resume(&session).await.unwrap();
        assert_eq!(
            resumed.prefix_rewrite("Second.").is_some(),
            is_cold,
            "{waited}"
        );
    }
    fixture.check();
}

#[tokio::test]
async fn auto_lifetime_of_an_earlier_process_is_taken_into_account() {
    let (fixture, clock, chat) = answered(GUARDED).await;
    let session = chat.session().to_owned();
    let resume = async || {
        let mut dependencies = fixture.dependencies();
        dependencies.human_paced = true;
        Chat::resume(dependencies, fixture.team(), &session)
            .await
            .unwrap()
    };
    clock.advance(minutes(10));
    let mut chat = resume().await;
    // The pause makes `auto` request an hour, which costs $6 for a million tokens.
    let rewrite = chat.prefix_rewrite("Second.").unwrap();
    let per_token = rewrite.cost.picodollars / rewrite.tokens;
    assert!((5_500_000..=5_700_000).contains(&per_token), "{per_token}");
    let turn = fixture.turn(&mut chat, "Second.").await;
    assert!(
        turn.sum.usage.cache_write_1h > 5_000,
        "{:?}",
        turn.sum.usage
    );
    clock.advance(minutes(30));
    assert_eq!(chat.prefix_rewrite("Third."), None);
    assert_eq!(resume().await.prefix_rewrite("Third."), None);
    clock.advance(minutes(40));
    assert!(chat.prefix_rewrite("Third.").is_some());
    assert!(resume().await.prefix_rewrite("Third.").is_some());
    fixture.check();
}

#[tokio::test]
async fn cheap_unpriced_and_unguarded_messages_are_not_reported() {
    let unpriced = "provider: anthropic, model: claude-unknown-9, base_url: 'URL'";
    for (prefix, model) in [
        ("", None),
        ("    prefix: {guard: {above: 0.1}}\n", None),
        (GUARDED, Some(unpriced)),
    ] {
        let replies = vec![ScriptedReply::text("One.")];
        let mut fixture = Fixture::new(Wire::Messages, &file(prefix), replies).await;
        let url = fixture.simulator.url();
        fixture.model = model.map(|model: &str| model.replace("URL", &url));
        let clock = Arc::new(ManualClock::at(fixture.clock.now()));
        fixture.clock = clock.clone();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "First.").await;
        clock.advance(minutes(60));
        assert_eq!(chat.prefix_rewrite("Second."), None, "{prefix:?} {model:?}");
        fixture.check();
    }
}

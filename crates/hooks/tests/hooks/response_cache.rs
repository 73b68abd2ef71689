//! Answers that are given again: what is looked up, what is stored, and why not.

mod keys;
mod secrets;
mod sections;
mod turns;

use std::sync::atomic::Ordering;
use std::time::Duration;

use cachalot_cache::{CacheMode, CallKind, CallStatus, Domain, EntryFilter};
use cachalot_core::{Clock as _, Spend, Witnesses};
use cachalot_hooks::{Builtin as _, Event, Input};
use cachalot_model::StopReason;
use serde_json::json;

use crate::response_cache_fixture::{
    FixtureBuilder, SERVER, Turn, TurnResult, WORTH, fixture, fixture_builder,
};

pub(crate) const ON: &str = "{enabled: true}";
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn replay_reports_provenance_and_savings() {
    for fixture_builder in [fixture_builder(ON), fixture_builder(ON).in_process()] {
        let fixture = fixture_builder.make();
        let turn = Turn::saying("How deep can it dive?");
        assert!(matches!(
            fixture.ask(turn.clone(), "2 km").await,
            TurnResult::Ran
        ));
        let row = fixture.row().await;
        assert_eq!((row.answered, row.paid), (CallStatus::Miss, WORTH));
        assert_eq!((row.kind.as_str(), row.name.as_str()), ("turn", "root"));
        assert_eq!((row.scope.as_str(), row.not_stored), ("user:ann", None));

        fixture.after(3 * MINUTE + Duration::from_secs(5));
        let replay = fixture.ask(turn, "").await.replayed();
        assert_eq!((replay.content.as_str(), replay.saved), ("2 km", WORTH));
        let key = &replay.metadata["key"];
        let said = format!("answered before, 3 minutes ago (key {})", &key[..10]);
        assert_eq!(replay.provenance.as_deref(), Some(said.as_str()));
        assert_eq!(*key, row.key);
        assert_eq!(replay.metadata["age_seconds"], "185");
        assert_eq!(replay.metadata["model"], "openai/gpt-4o");
        fixture.cache.ledger().flush().await;
        let totals = fixture.cache.ledger().totals().unwrap();
        let [(kind, name, totals)] = &totals[..] else {
            panic!("{totals:?}")
        };
        assert_eq!((kind.as_str(), name.as_str()), ("turn", "root"));
        assert_eq!((totals.hits, totals.misses, totals.bypasses), (1, 1, 0));
        let saved = (totals.saved.input_tokens, totals.saved.cost);
        assert_eq!(saved, (WORTH.input_tokens, WORTH.cost));
    }
}

#[tokio::test]
async fn stored_answers_are_found_by_kind_and_can_be_removed() {
    let fixture = fixture(ON);
    fixture.ask(Turn::saying("one"), "1").await;
    fixture.ask(Turn::saying("two"), "2").await;
    let entries = fixture.entries().await;
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.kind == CallKind::Turn));
    assert!(entries.iter().all(|entry| entry.name == "root"));
    let of_one = fixture.ask(Turn::saying("one"), "").await.replayed();
    let which = EntryFilter {
        key: Some(of_one.metadata["key"].parse().unwrap()),
        ..EntryFilter::default()
    };
    assert_eq!(
        fixture
            .cache
            .erase(&which, false)
            .await
            .unwrap()
            .entries
            .len(),
        1
    );
    assert!(!fixture.ask(Turn::saying("one"), "1").await.is_replay());
    assert!(fixture.ask(Turn::saying("two"), "").await.is_replay());
}

#[tokio::test]
async fn changed_file_invalidates_the_stored_turn() {
    let fixture = fixture(ON);
    fixture.write("a", "one");
    let turn = Turn::saying("What is in a?");
    let reading = turn.clone().calling("read_file", fixture.read("a"));
    assert!(fixture.keeps(reading, "one").await);
    fixture.write("a", "another");
    assert!(!fixture.ask(turn.clone(), "").await.is_replay());
    let reason = fixture.rows().await[0].reason.clone().unwrap();
    assert!(
        reason.contains("changed since") && reason.contains("/a changed"),
        "{reason}"
    );
}

#[tokio::test]
async fn file_changed_during_the_turn_prevents_storing() {
    let fixture = fixture(ON);
    fixture.write("a", "one");
    fixture.write("b", "same");
    let seen = fixture.read("a");
    fixture.write("a", "another");
    let turn = Turn::saying("What is in a and b?")
        .calling("read_file", seen)
        .calling("read_file", fixture.read("b"));
    let why = fixture.refusal(turn, "one and same").await;
    assert!(why.contains("changed since"), "{why}");
}

#[tokio::test]
async fn entry_depends_on_the_witnesses_of_all_calls() {
    for changed in ["a", "b"] {
        let fixture = fixture(ON);
        fixture.write("a", "one");
        fixture.write("b", "two");
        let turn = Turn::saying("What is in a and b?");
        let reading = turn
            .clone()
            .calling("read_file", fixture.read("a"))
            .calling("calculate", Witnesses::default())
            .calling("read_file", fixture.read("b"));
        assert!(fixture.keeps(reading, "one and two").await);
        fixture.write(changed, "another");
        assert!(!fixture.ask(turn, "").await.is_replay(), "{changed}");
    }
}

#[tokio::test]
async fn tool_without_witnesses_requires_a_ttl() {
    let turn = || Turn::saying("News?").calling("web_fetch", Witnesses::unknown("the net"));
    let why = fixture(ON).refusal(turn(), "none").await;
    assert_eq!(
        why,
        "`web_fetch` leaves no witness (the net); the answer would be kept with a `ttl`"
    );
    let fixture = fixture("{enabled: true, ttl: 10m}");
    assert!(fixture.keeps(turn(), "none").await);
    fixture.after(10 * MINUTE);
    assert!(!fixture.ask(turn(), "none").await.is_replay());
    assert_eq!(fixture.row().await.reason.as_deref(), Some("expired"));
}

#[tokio::test]
async fn announced_changes_of_servers_expire_answers_with_a_ttl() {
    for (section, expires) in [("{enabled: true, ttl: 10m}", true), (ON, false)] {
        let fixture = fixture(section);
        let announce = async || {
            let announced = fixture.cache.write_guard(&[Domain::new(SERVER)]).await;
            announced.finish().await.unwrap();
        };
        let turn = || Turn::saying("what is new?");
        assert!(fixture.keeps(turn(), "nothing").await);
        announce().await;
        assert_eq!(fixture.ask(turn(), "much").await.is_replay(), !expires);
        assert!(fixture.ask(turn(), "more").await.is_replay());
        // During a turn.
        let turn = || Turn::saying("what is old?");
        let during = fixture.numbered(turn());
        fixture.begin(&during).await;
        announce().await;
        fixture.stop(&during, "much").await;
        fixture.end(&during).await;
        assert_eq!(fixture.ask(turn(), "more").await.is_replay(), !expires);
    }
}

#[tokio::test]
async fn witnesses_are_checked_also_with_a_ttl() {
    let fixture = fixture("{enabled: true, ttl: 10m}");
    fixture.write("a", "one");
    let turn = Turn::saying("News of a?");
    let calling = turn
        .clone()
        .calling("web_fetch", Witnesses::unknown("the net"))
        .calling("read_file", fixture.read("a"));
    assert!(fixture.keeps(calling, "none").await);
    fixture.write("a", "another");
    assert!(!fixture.ask(turn, "").await.is_replay());
}

#[tokio::test]
async fn answer_expires_with_its_tool_results() {
    let unknown = || Witnesses::unknown("the net");
    for (section, witnesses) in [
        ("{enabled: true, ttl: 1h}", unknown()),
        (ON, Witnesses::default()),
    ] {
        let fixture = fixture(section);
        let now = fixture.clock.now();
        let turn = Turn::saying("News?")
            .calling("web_fetch", witnesses.clone())
            .until(now + 1_000)
            .calling("forecast", witnesses)
            .until(now + 60_000);
        assert!(fixture.keeps(turn.clone(), "none").await, "{section}");
        fixture.after(Duration::from_secs(1));
        assert!(!fixture.ask(turn.clone(), "none").await.is_replay());
        let row = fixture.row().await;
        assert_eq!(row.reason.as_deref(), Some("expired"), "{section}");
        // What it was built from lasts no longer, either.
        let why = row.not_stored.unwrap();
        assert_eq!(why, "what `web_fetch` found has expired meanwhile");
    }
    let flat = fixture("{enabled: true, path: answers.json}");
    let turn = Turn::saying("News?")
        .calling("docs", Witnesses::default())
        .until(flat.clock.now() + 1_000);
    let why = flat.refusal(turn, "none").await;
    assert!(why.contains("lasts for a time only"), "{why}");
}

#[tokio::test]
async fn every_unstored_turn_has_a_reason_in_the_ledger() {
    let asked = || Turn::saying("Question?");
    let finish = |finish| asked().answered(|answer| answer.finish = finish);
    for (turn, text, expected) in [
        (finish(Some(StopReason::Length)), "long", "cut off"),
        (finish(Some(StopReason::Refusal)), "no", "the model refused"),
        (finish(Some(StopReason::ToolUse)), "so", "in the middle"),
        (
            finish(Some(StopReason::Other("odd".into()))),
            "so",
            "not known to be whole (odd)",
        ),
        (finish(None), "so", "no model answered"),
        (asked(), " \n", "the answer is empty"),
        (
            asked(),
            "<tool_call>{\"name\": \"shell\"}</tool_call>",
            "raw text of a call",
        ),
        (
            asked().answered(|answer| answer.synthetic = true),
            "so",
            "a hook answered",
        ),
        (
            asked().answered(|answer| answer.stop_hook_active = true),
            "so",
            "a hook wanted it to",
        ),
        (
            asked()
                .calling("shell", Witnesses::default())
                .answered(|answer| answer.calls[0].read_only = false),
            "done",
            "`shell` may have changed something",
        ),
        (
            asked()
                .calling("grep", Witnesses::default())
                .answered(|answer| answer.calls[0].is_error = true),
            "none",
            "`grep` failed or was refused",
        ),
        (
            asked().answered(|answer| answer.added_by.push("add_date".into())),
            "today",
            "`add_date` added to the message what may change",
        ),
        (
            asked().prompted(|prompt| prompt.implicit = true),
            "so",
            "another agent gave the task",
        ),
        (
            asked().prompted(|prompt| prompt.prefix = None),
            "so",
            "no key: the conversation before",
        ),
    ] {
        let fixture = fixture(ON);
        let why = fixture.refusal(turn.clone(), text).await;
        assert!(why.contains(expected), "{expected}: {why}");
        assert!(fixture.entries().await.is_empty(), "{expected}");
        assert!(!fixture.ask(turn, text).await.is_replay(), "{expected}");
    }
}

#[tokio::test]
async fn unstored_turn_is_recorded_once_in_the_ledger() {
    let fixture = fixture(ON);
    let cut = Turn::saying("?").answered(|answer| answer.finish = Some(StopReason::Length));
    fixture.ask(cut, "long").await;
    let rows = fixture.rows().await;
    assert_eq!((rows.len(), rows[0].paid), (1, WORTH));
}

#[tokio::test]
async fn delegated_task_is_charged_to_its_turn() {
    let fixture = fixture(ON);
    let task = Turn::saying("Please proceed.").prompted(|prompt| prompt.implicit = true);
    fixture.ask(task, "done").await;
    let paid = fixture.row().await.paid;
    assert_eq!((paid.input_tokens, paid.cost), (0, Spend::default().cost));
}

#[tokio::test]
async fn volatile_context_requires_a_ttl() {
    let dated = Turn::saying("What day is it?")
        .answered(|answer| answer.added_by.push("add_date".to_owned()));
    assert!(!fixture(ON).keeps(dated.clone(), "Monday").await);
    assert!(
        fixture("{enabled: true, ttl: 1h}")
            .keeps(dated, "Monday")
            .await
    );
}

#[tokio::test]
async fn agent_without_a_fingerprint_prevents_storing() {
    let fixture = fixture(ON);
    fixture.agent("root").becomes(None);
    let why = fixture.refusal(Turn::saying("?"), "so").await;
    assert!(
        why.contains("no key") && why.contains("instruction"),
        "{why}"
    );
}

#[tokio::test]
async fn user_scope_requires_a_user_name() {
    let fixture = fixture_builder(ON).user(" ").make();
    let why = fixture.refusal(Turn::saying("?"), "so").await;
    assert!(why.contains("the user is unknown"), "{why}");
    let by_session = fixture_builder("{enabled: true, scope: session}")
        .user("")
        .make();
    assert!(by_session.keeps(Turn::saying("?"), "so").await);
}

#[tokio::test]
async fn fresh_prompt_replaces_the_stored_answer() {
    let fixture = fixture(ON);
    let turn = Turn::saying("?");
    fixture.ask(turn.clone(), "old").await;
    let fresh = turn.clone().prompted(|prompt| prompt.fresh = true);
    assert!(matches!(fixture.ask(fresh, "new").await, TurnResult::Ran));
    assert_eq!(fixture.ask(turn, "").await.replayed().content, "new");
}

#[tokio::test]
async fn cache_mode_of_the_command_line_wins() {
    let stored = fixture(ON);
    let turn = Turn::saying("?");
    stored.ask(turn.clone(), "old").await;
    let in_mode = |mode| fixture_builder(ON).beside(&stored).mode(mode).make();

    for mode in [CacheMode::ReadOnly, CacheMode::Frozen] {
        let fixture = in_mode(mode);
        let replay = fixture.ask(turn.clone(), "").await.replayed();
        assert_eq!(replay.content, "old", "{mode:?}");
    }
    let fresh = turn.clone().prompted(|prompt| prompt.fresh = true);
    let read_only = in_mode(CacheMode::ReadOnly);
    assert!(matches!(
        read_only.ask(fresh, "fresh").await,
        TurnResult::Ran
    ));
    assert_eq!(
        read_only.ask(turn.clone(), "").await.replayed().content,
        "old"
    );

    assert!(matches!(
        in_mode(CacheMode::Off).ask(turn.clone(), "").await,
        TurnResult::Ran
    ));
    let refreshing = in_mode(CacheMode::Refresh);
    assert!(matches!(
        refreshing.ask(turn.clone(), "new").await,
        TurnResult::Ran
    ));
    assert_eq!(stored.ask(turn, "").await.replayed().content, "new");
}

#[tokio::test]
async fn frozen_miss_blocks_the_turn() {
    let fixture = fixture_builder(ON).mode(CacheMode::Frozen).make();
    let TurnResult::Blocked(why) = fixture.ask(Turn::saying("?"), "").await else {
        panic!("it ran")
    };
    assert!(why.starts_with("frozen: root"), "{why}");
    fixture.agent("root").becomes(None);
    let TurnResult::Blocked(why) = fixture.ask(Turn::saying("?"), "").await else {
        panic!("it ran")
    };
    assert!(why.starts_with("frozen: the turn of `root`"), "{why}");
    let task = Turn::saying("?").prompted(|prompt| prompt.implicit = true);
    assert!(matches!(fixture.ask(task, "").await, TurnResult::Ran));
}

#[tokio::test]
async fn structured_answer_is_stored_only_if_it_matches_its_schema() {
    let schema = json!({"type": "object", "required": ["depth"]});
    let turn = || Turn::saying("How deep, in JSON?").formed(schema.clone());
    let fixture = fixture(ON);
    for (text, expected) in [
        ("two kilometres", "should be JSON, and is not"),
        (r#"{"width": 2}"#, "has not the form"),
    ] {
        let why = fixture.refusal(turn(), text).await;
        assert!(why.contains(expected), "{why}");
    }
    assert!(fixture.keeps(turn(), r#"{"depth": 2}"#).await);
}

#[tokio::test]
async fn invalid_schema_prevents_storing() {
    let turn = Turn::saying("?").formed(json!({"type": 7}));
    let why = fixture(ON).refusal(turn, "{}").await;
    assert!(why.contains("its schema is none"), "{why}");
}

#[tokio::test]
async fn stored_answer_that_violates_the_schema_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "required": ["depth"]});
    let turn = || Turn::saying("q").formed(schema.clone());
    let path = dir.path().join("answers.json");
    std::fs::write(&path, r#"{"q": "{\"width\": 1}"}"#).unwrap();
    let section = format!("{{enabled: true, path: '{}'}}", path.display());
    let fixture = fixture(&section);
    assert!(matches!(
        fixture.ask(turn(), r#"{"depth": 2}"#).await,
        TurnResult::Ran
    ));
    let replay = fixture.ask(turn(), "").await.replayed();
    assert_eq!(replay.content, r#"{"depth": 2}"#);
}

#[tokio::test]
async fn builtin_is_injected_for_enabled_sections_only() {
    for (section, injected) in [
        (ON, true),
        ("{}", false),
        ("{enabled: false}", false),
        ("{ttl: 1h}", false),
        ("{enabled: true, ttl: never}", false),
    ] {
        let fixture = fixture(section);
        let events: Vec<Event> = fixture
            .builtin
            .inject(&*fixture.agent("root"))
            .iter()
            .map(|injection| injection.event)
            .collect();
        let expected: &[Event] = if injected {
            &[Event::PreUserTurn, Event::Stop, Event::TurnEnd]
        } else {
            &[]
        };
        assert_eq!(events, expected, "{section}");
        assert_eq!(
            fixture.keeps(Turn::saying("?"), "so").await,
            injected,
            "{section}"
        );
    }
    let without = FixtureBuilder::with("other: 1").make();
    assert!(without.builtin.inject(&*without.agent("root")).is_empty());
}

#[tokio::test]
async fn events_without_a_turn_and_unknown_agents_are_ignored() {
    let fixture = fixture(ON);
    for event in Event::all() {
        let input = Input {
            event,
            ..Input::default()
        };
        let output = fixture.hear(&input).await;
        assert_eq!(output, cachalot_hooks::Output::default(), "{event}");
    }
    let stranger = Turn::saying("?").to("nobody");
    assert!(!fixture.keeps(stranger, "so").await);
    assert!(fixture.rows().await.is_empty());
}

#[tokio::test]
async fn store_is_opened_once_per_agent() {
    let fixture = fixture(ON);
    for agent in ["root", "other", "root", "other"] {
        fixture.ask(Turn::saying("?").to(agent), "so").await;
    }
    assert_eq!(fixture.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn max_entries_is_enforced() {
    let fixture = fixture("{enabled: true, match: question, max_entries: 2}");
    for question in ["one", "two", "three"] {
        assert!(!fixture.ask(Turn::saying(question), "so").await.is_replay());
        fixture.after(MINUTE);
    }
    assert!(!fixture.ask(Turn::saying("one"), "so").await.is_replay());
    assert!(fixture.ask(Turn::saying("three"), "").await.is_replay());
}

#[tokio::test]
async fn match_question_requires_a_ttl_after_tool_results() {
    let mut turn = Turn::saying("What did it say?");
    turn.prompt.after_results = true;
    let why = fixture("{enabled: true, match: question}")
        .refusal(turn.clone(), "A")
        .await;
    assert!(why.contains("earlier in the session"), "{why}");
    for kept in ["{enabled: true, match: question, ttl: 1h}", ON] {
        let fixture = fixture(kept);
        assert!(!fixture.ask(turn.clone(), "A").await.is_replay());
        assert!(fixture.ask(turn.clone(), "").await.is_replay(), "{kept}");
    }
}

//! Answers that are given again: what is looked up, what is stored, and why not.

mod keys;
mod secrets;
mod sections;
mod turns;

use std::sync::atomic::Ordering;
use std::time::Duration;

use cachalot_cache::{CacheMode, CallKind, CallStatus, EntryFilter};
use cachalot_core::{Clock as _, Spend, Witnesses};
use cachalot_hooks::{Builtin as _, Event, Input};
use cachalot_model::StopReason;
use serde_json::json;

use crate::answering::{Came, Making, Turn, WORTH, making, world};

pub(crate) const ON: &str = "{enabled: true}";
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_replay_says_where_it_comes_from_and_what_it_saves() {
    for making in [making(ON), making(ON).in_process()] {
        let world = making.make();
        let turn = Turn::saying("How deep can it dive?");
        assert!(matches!(world.ask(turn.clone(), "2 km").await, Came::Ran));
        let row = world.row().await;
        assert_eq!((row.answered, row.paid), (CallStatus::Miss, WORTH));
        assert_eq!((row.kind.as_str(), row.name.as_str()), ("turn", "root"));
        assert_eq!((row.scope.as_str(), row.not_stored), ("user:ann", None));

        world.after(3 * MINUTE + Duration::from_secs(5));
        let replay = world.ask(turn, "").await.replayed();
        assert_eq!((replay.content.as_str(), replay.saved), ("2 km", WORTH));
        let key = &replay.metadata["key"];
        let said = format!("answered before, 3 minutes ago (key {})", &key[..8]);
        assert_eq!(replay.provenance.as_deref(), Some(said.as_str()));
        assert_eq!(*key, row.key);
        assert_eq!(replay.metadata["age_seconds"], "185");
        assert_eq!(replay.metadata["model"], "openai/gpt-4o");
        world.cache.ledger().flush().await;
        let totals = world.cache.ledger().totals().unwrap();
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
async fn what_was_kept_is_found_by_its_kind_and_can_be_removed() {
    let world = world(ON);
    world.ask(Turn::saying("one"), "1").await;
    world.ask(Turn::saying("two"), "2").await;
    let entries = world.entries().await;
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.kind == CallKind::Turn));
    assert!(entries.iter().all(|entry| entry.name == "root"));
    let of_one = world.ask(Turn::saying("one"), "").await.replayed();
    let which = EntryFilter {
        key: Some(of_one.metadata["key"].parse().unwrap()),
        ..EntryFilter::default()
    };
    assert_eq!(
        world
            .cache
            .erase(&which, false)
            .await
            .unwrap()
            .entries
            .len(),
        1
    );
    assert!(!world.ask(Turn::saying("one"), "1").await.is_replay());
    assert!(world.ask(Turn::saying("two"), "").await.is_replay());
}

#[tokio::test]
async fn a_turn_that_read_a_file_is_not_replayed_after_the_file_has_changed() {
    let world = world(ON);
    world.write("a", "one");
    let turn = Turn::saying("What is in a?");
    let reading = turn.clone().calling("read_file", world.read("a"));
    assert!(world.keeps(reading, "one").await);
    world.write("a", "another");
    assert!(!world.ask(turn.clone(), "").await.is_replay());
    let reason = world.rows().await[0].reason.clone().unwrap();
    assert!(
        reason.contains("changed since") && reason.contains("/a changed"),
        "{reason}"
    );
}

#[tokio::test]
async fn what_changed_while_the_turn_went_on_is_not_stored() {
    let world = world(ON);
    world.write("a", "one");
    world.write("b", "same");
    let seen = world.read("a");
    world.write("a", "another");
    let turn = Turn::saying("What is in a and b?")
        .calling("read_file", seen)
        .calling("read_file", world.read("b"));
    let why = world.refusal(turn, "one and same").await;
    assert!(why.contains("changed since"), "{why}");
}

#[tokio::test]
async fn the_union_of_what_all_calls_read_decides() {
    for changed in ["a", "b"] {
        let world = world(ON);
        world.write("a", "one");
        world.write("b", "two");
        let turn = Turn::saying("What is in a and b?");
        let reading = turn
            .clone()
            .calling("read_file", world.read("a"))
            .calling("calculate", Witnesses::default())
            .calling("read_file", world.read("b"));
        assert!(world.keeps(reading, "one and two").await);
        world.write(changed, "another");
        assert!(!world.ask(turn, "").await.is_replay(), "{changed}");
    }
}

#[tokio::test]
async fn a_tool_without_witness_needs_a_stated_time_to_live() {
    let turn = || Turn::saying("News?").calling("web_fetch", Witnesses::unknown("the net"));
    let why = world(ON).refusal(turn(), "none").await;
    assert_eq!(
        why,
        "`web_fetch` leaves no witness (the net); the answer would be kept with a `ttl`"
    );
    let world = world("{enabled: true, ttl: 10m}");
    assert!(world.keeps(turn(), "none").await);
    world.after(10 * MINUTE);
    assert!(!world.ask(turn(), "none").await.is_replay());
    assert_eq!(world.row().await.reason.as_deref(), Some("expired"));
}

#[tokio::test]
async fn with_a_time_to_live_what_is_known_is_still_checked() {
    let world = world("{enabled: true, ttl: 10m}");
    world.write("a", "one");
    let turn = Turn::saying("News of a?");
    let calling = turn
        .clone()
        .calling("web_fetch", Witnesses::unknown("the net"))
        .calling("read_file", world.read("a"));
    assert!(world.keeps(calling, "none").await);
    world.write("a", "another");
    assert!(!world.ask(turn, "").await.is_replay());
}

#[tokio::test]
async fn an_answer_lasts_no_longer_than_what_its_tools_found() {
    let unknown = || Witnesses::unknown("the net");
    for (section, witnesses) in [
        ("{enabled: true, ttl: 1h}", unknown()),
        (ON, Witnesses::default()),
    ] {
        let world = world(section);
        let now = world.clock.now();
        let turn = Turn::saying("News?")
            .calling("web_fetch", witnesses.clone())
            .until(now + 1_000)
            .calling("forecast", witnesses)
            .until(now + 60_000);
        assert!(world.keeps(turn.clone(), "none").await, "{section}");
        world.after(Duration::from_secs(1));
        assert!(!world.ask(turn.clone(), "none").await.is_replay());
        let row = world.row().await;
        assert_eq!(row.reason.as_deref(), Some("expired"), "{section}");
        // What it was built from lasts no longer, either.
        let why = row.not_stored.unwrap();
        assert_eq!(why, "what `web_fetch` found has expired meanwhile");
    }
    let flat = world("{enabled: true, path: answers.json}");
    let turn = Turn::saying("News?")
        .calling("docs", Witnesses::default())
        .until(flat.clock.now() + 1_000);
    let why = flat.refusal(turn, "none").await;
    assert!(why.contains("lasts for a time only"), "{why}");
}

#[tokio::test]
async fn each_refusal_has_a_reason_in_the_ledger() {
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
        let world = world(ON);
        let why = world.refusal(turn.clone(), text).await;
        assert!(why.contains(expected), "{expected}: {why}");
        assert!(world.entries().await.is_empty(), "{expected}");
        assert!(!world.ask(turn, text).await.is_replay(), "{expected}");
    }
}

#[tokio::test]
async fn a_refused_turn_is_paid_for_once_in_the_ledger() {
    let world = world(ON);
    let cut = Turn::saying("?").answered(|answer| answer.finish = Some(StopReason::Length));
    world.ask(cut, "long").await;
    let rows = world.rows().await;
    assert_eq!((rows.len(), rows[0].paid), (1, WORTH));
}

#[tokio::test]
async fn a_delegated_task_is_paid_for_by_the_turn_that_gave_it() {
    let world = world(ON);
    let task = Turn::saying("Please proceed.").prompted(|prompt| prompt.implicit = true);
    world.ask(task, "done").await;
    let paid = world.row().await.paid;
    assert_eq!((paid.input_tokens, paid.cost), (0, Spend::default().cost));
}

#[tokio::test]
async fn what_is_added_to_a_message_and_changes_needs_a_stated_time_to_live() {
    let dated = Turn::saying("What day is it?")
        .answered(|answer| answer.added_by.push("add_date".to_owned()));
    assert!(!world(ON).keeps(dated.clone(), "Monday").await);
    assert!(
        world("{enabled: true, ttl: 1h}")
            .keeps(dated, "Monday")
            .await
    );
}

#[tokio::test]
async fn what_the_agent_is_made_of_must_be_known() {
    let world = world(ON);
    world.agent("root").becomes(None);
    let why = world.refusal(Turn::saying("?"), "so").await;
    assert!(
        why.contains("no key") && why.contains("instruction"),
        "{why}"
    );
}

#[tokio::test]
async fn nothing_is_shared_per_user_without_a_user_name() {
    let world = making(ON).user(" ").make();
    let why = world.refusal(Turn::saying("?"), "so").await;
    assert!(why.contains("the user is unknown"), "{why}");
    let by_session = making("{enabled: true, scope: session}").user("").make();
    assert!(by_session.keeps(Turn::saying("?"), "so").await);
}

#[tokio::test]
async fn a_fresh_answer_is_asked_for_and_takes_the_place_of_the_old_one() {
    let world = world(ON);
    let turn = Turn::saying("?");
    world.ask(turn.clone(), "old").await;
    let fresh = turn.clone().prompted(|prompt| prompt.fresh = true);
    assert!(matches!(world.ask(fresh, "new").await, Came::Ran));
    assert_eq!(world.ask(turn, "").await.replayed().content, "new");
}

#[tokio::test]
async fn the_command_line_has_the_last_word() {
    let stored = world(ON);
    let turn = Turn::saying("?");
    stored.ask(turn.clone(), "old").await;
    let in_mode = |mode| making(ON).beside(&stored).mode(mode).make();

    for mode in [CacheMode::ReadOnly, CacheMode::Frozen] {
        let world = in_mode(mode);
        let replay = world.ask(turn.clone(), "").await.replayed();
        assert_eq!(replay.content, "old", "{mode:?}");
    }
    let fresh = turn.clone().prompted(|prompt| prompt.fresh = true);
    let read_only = in_mode(CacheMode::ReadOnly);
    assert!(matches!(read_only.ask(fresh, "fresh").await, Came::Ran));
    assert_eq!(
        read_only.ask(turn.clone(), "").await.replayed().content,
        "old"
    );

    assert!(matches!(
        in_mode(CacheMode::Off).ask(turn.clone(), "").await,
        Came::Ran
    ));
    let refreshing = in_mode(CacheMode::Refresh);
    assert!(matches!(
        refreshing.ask(turn.clone(), "new").await,
        Came::Ran
    ));
    assert_eq!(stored.ask(turn, "").await.replayed().content, "new");
}

#[tokio::test]
async fn a_frozen_run_asks_no_model() {
    let world = making(ON).mode(CacheMode::Frozen).make();
    let Came::Blocked(why) = world.ask(Turn::saying("?"), "").await else {
        panic!("it ran")
    };
    assert!(why.starts_with("frozen: root"), "{why}");
    world.agent("root").becomes(None);
    let Came::Blocked(why) = world.ask(Turn::saying("?"), "").await else {
        panic!("it ran")
    };
    assert!(why.starts_with("frozen: the turn of `root`"), "{why}");
    let task = Turn::saying("?").prompted(|prompt| prompt.implicit = true);
    assert!(matches!(world.ask(task, "").await, Came::Ran));
}

#[tokio::test]
async fn an_answer_that_must_have_a_form_is_kept_and_given_only_with_it() {
    let schema = json!({"type": "object", "required": ["depth"]});
    let turn = || Turn::saying("How deep, in JSON?").formed(schema.clone());
    let world = world(ON);
    for (text, expected) in [
        ("two kilometres", "should be JSON, and is not"),
        (r#"{"width": 2}"#, "has not the form"),
    ] {
        let why = world.refusal(turn(), text).await;
        assert!(why.contains(expected), "{why}");
    }
    assert!(world.keeps(turn(), r#"{"depth": 2}"#).await);
}

#[tokio::test]
async fn a_schema_that_is_none_keeps_an_answer_out() {
    let turn = Turn::saying("?").formed(json!({"type": 7}));
    let why = world(ON).refusal(turn, "{}").await;
    assert!(why.contains("its schema is none"), "{why}");
}

#[tokio::test]
async fn what_was_stored_and_has_not_the_form_any_more_is_no_hit() {
    let dir = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "required": ["depth"]});
    let turn = || Turn::saying("q").formed(schema.clone());
    let path = dir.path().join("answers.json");
    std::fs::write(&path, r#"{"q": "{\"width\": 1}"}"#).unwrap();
    let section = format!("{{enabled: true, path: '{}'}}", path.display());
    let world = world(&section);
    assert!(matches!(
        world.ask(turn(), r#"{"depth": 2}"#).await,
        Came::Ran
    ));
    let replay = world.ask(turn(), "").await.replayed();
    assert_eq!(replay.content, r#"{"depth": 2}"#);
}

#[tokio::test]
async fn only_the_agents_that_want_it_hear_of_turns() {
    for (section, injected) in [
        (ON, true),
        ("{}", false),
        ("{enabled: false}", false),
        ("{ttl: 1h}", false),
        ("{enabled: true, ttl: never}", false),
    ] {
        let world = world(section);
        let events: Vec<Event> = world
            .builtin
            .inject(&*world.agent("root"))
            .iter()
            .map(|injection| injection.event)
            .collect();
        let expected: &[Event] = match injected {
            true => &[Event::PreUserTurn, Event::Stop, Event::TurnEnd],
            false => &[],
        };
        assert_eq!(events, expected, "{section}");
        assert_eq!(
            world.keeps(Turn::saying("?"), "so").await,
            injected,
            "{section}"
        );
    }
    let without = Making::with("other: 1").make();
    assert!(without.builtin.inject(&*without.agent("root")).is_empty());
}

#[tokio::test]
async fn events_that_are_not_its_own_and_strangers_are_left_alone() {
    let world = world(ON);
    for event in Event::all() {
        let input = Input {
            event,
            ..Input::default()
        };
        let output = world.hear(&input).await;
        assert_eq!(output, cachalot_hooks::Output::default(), "{event}");
    }
    let stranger = Turn::saying("?").to("nobody");
    assert!(!world.keeps(stranger, "so").await);
    assert!(world.rows().await.is_empty());
}

#[tokio::test]
async fn a_store_is_opened_once_for_each_agent() {
    let world = world(ON);
    for agent in ["root", "other", "root", "other"] {
        world.ask(Turn::saying("?").to(agent), "so").await;
    }
    assert_eq!(world.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn bounds_hold() {
    let world = world("{enabled: true, match: question, max_entries: 2}");
    for question in ["one", "two", "three"] {
        assert!(!world.ask(Turn::saying(question), "so").await.is_replay());
        world.after(MINUTE);
    }
    assert!(!world.ask(Turn::saying("one"), "so").await.is_replay());
    assert!(world.ask(Turn::saying("three"), "").await.is_replay());
}

#[tokio::test]
async fn where_the_conversation_does_not_count_an_answer_behind_results_of_tools_needs_a_ttl() {
    let mut turn = Turn::saying("What did it say?");
    turn.prompt.after_results = true;
    let why = world("{enabled: true, match: question}")
        .refusal(turn.clone(), "A")
        .await;
    assert!(why.contains("earlier in the session"), "{why}");
    for kept in ["{enabled: true, match: question, ttl: 1h}", ON] {
        let world = world(kept);
        assert!(!world.ask(turn.clone(), "A").await.is_replay());
        assert!(world.ask(turn.clone(), "").await.is_replay(), "{kept}");
    }
}

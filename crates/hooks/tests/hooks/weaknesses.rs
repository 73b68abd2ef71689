//! The weaknesses B1 to B15 that are known of docker-agent's response cache, each with a test. Those of
//! its flat file (B1, B11, B12, B14, B15, and B9 as far as file modes go) are tested where that file is
//! implemented, in the crate `memory`; here is what the builtin makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cachalot_cache::{EntryFilter, EntryInfo};
use cachalot_core::{Digest, Spend, Witnesses};
use cachalot_hooks::{Builtin as _, Event, Input};
use cachalot_model::StopReason;

use crate::response_cache_fixture::{
    FixtureBuilder, Turn, TurnResult, WORTH, fixture, fixture_builder, knowing,
};

const ON: &str = "{enabled: true}";
const FILE: &str = "{enabled: true, path: answers.json}";

#[tokio::test]
async fn b1_a_store_adopts_what_other_processes_have_stored() {
    let here = fixture(FILE);
    let there = fixture_builder(FILE).beside(&here).make();
    here.ask(Turn::saying("one"), "1").await;
    there.ask(Turn::saying("two"), "2").await;
    here.ask(Turn::saying("three"), "3").await;
    for fixture in [&here, &there] {
        for (question, answer) in [("one", "1"), ("two", "2"), ("three", "3")] {
            let replay = fixture.ask(Turn::saying(question), "").await.replayed();
            assert_eq!(replay.content, answer);
        }
    }
}

#[tokio::test]
async fn b2_untrimmed_spaces_are_kept() {
    let kept = fixture("{enabled: true, match: question, trim_spaces: false}");
    kept.ask(Turn::saying("a"), "without").await;
    assert!(!kept.ask(Turn::saying(" a "), "with").await.is_replay());
    assert_eq!(
        kept.ask(Turn::saying("a"), "").await.replayed().content,
        "without"
    );
    assert_eq!(
        kept.ask(Turn::saying(" a "), "").await.replayed().content,
        "with"
    );
    let trimmed = fixture("{enabled: true, match: question, trim_spaces: true}");
    assert!(!trimmed.ask(Turn::saying("a"), "so").await.is_replay());
    assert!(trimmed.ask(Turn::saying("\t a\n"), "").await.is_replay());
}

#[tokio::test]
async fn b3_tasks_of_other_agents_are_neither_looked_up_nor_stored() {
    for section in [ON, "{enabled: true, match: question}", FILE] {
        let fixture = fixture(section);
        let said = Turn::saying("Please proceed.");
        let task = said.clone().prompted(|prompt| prompt.implicit = true);
        assert!(matches!(
            fixture.ask(task.clone(), "the first task").await,
            TurnResult::Ran
        ));
        assert!(matches!(
            fixture.ask(task.clone(), "the second").await,
            TurnResult::Ran
        ));
        assert!(
            !fixture.ask(said, "a user's").await.is_replay(),
            "{section}"
        );
        assert!(
            !fixture.ask(task, "the third").await.is_replay(),
            "{section}"
        );
    }
}

#[tokio::test]
async fn b3_answer_after_a_delegation_is_not_stored_under_the_task() {
    let fixture = fixture(ON);
    let turn = Turn::saying("Find out, and tell me.")
        .calling("transfer_task", Witnesses::unknown("another agent's work"))
        .answered(|answer| answer.calls[0].read_only = false);
    assert!(!fixture.keeps(turn, "Found out.").await);
    let task = Turn::saying("Please proceed.");
    assert!(!fixture.ask(task, "so").await.is_replay());
}

#[tokio::test]
async fn b4_the_key_covers_agent_user_directory_and_conversation() {
    let fixture = fixture(ON);
    let yes = Turn::saying("yes").behind("Shall I delete it?");
    assert!(fixture.keeps(yes.clone(), "Deleted.").await);
    let others = [
        yes.clone().behind("Shall I keep it?"),
        yes.clone().to("other"),
        Turn {
            directory: "/elsewhere".into(),
            ..yes.clone()
        },
        yes.clone()
            .prompted(|prompt| prompt.context.push("Monday".into())),
    ];
    for other in others {
        assert!(!fixture.ask(other, "Something else.").await.is_replay());
    }
    let bob = fixture_builder(ON).beside(&fixture).user("bob").make();
    assert!(!bob.ask(yes.clone(), "Bob's.").await.is_replay());
    assert!(fixture.ask(yes.clone(), "").await.is_replay());
    for change in ["another instruction", "another model", "another tool"] {
        fixture.agent("root").becomes(Some(change));
        assert!(
            !fixture.ask(yes.clone(), "so").await.is_replay(),
            "{change}"
        );
    }
}

#[tokio::test]
async fn b5_answer_of_a_turn_with_side_effects_is_not_stored() {
    for section in [ON, FILE, "{enabled: true, ttl: 1h}"] {
        let turn = Turn::saying("Send the mail.")
            .calling("send_mail", Witnesses::default())
            .answered(|answer| answer.calls[0].read_only = false);
        let fixture = fixture(section);
        let why = fixture.refusal(turn.clone(), "Sent.").await;
        assert!(
            why.contains("`send_mail` may have changed something"),
            "{why}"
        );
        assert!(!fixture.ask(turn, "Sent.").await.is_replay());
    }
}

#[tokio::test]
async fn b6_truncated_refused_and_synthetic_answers_are_not_stored() {
    for section in [ON, FILE] {
        for finish in [
            Some(StopReason::Length),
            Some(StopReason::Refusal),
            Some(StopReason::Other("content_filter".into())),
            None,
        ] {
            let fixture = fixture(section);
            let turn = Turn::saying("?").answered(|answer| answer.finish = finish.clone());
            assert!(!fixture.keeps(turn, "so").await, "{section} {finish:?}");
        }
        let fixture = fixture(section);
        let made_up = Turn::saying("?").answered(|answer| answer.synthetic = true);
        assert!(!fixture.keeps(made_up, "so").await, "{section}");
    }
}

#[tokio::test]
async fn b7_answer_of_another_agent_is_stored_for_neither() {
    let fixture = fixture(ON);
    let turn = fixture.numbered(Turn::saying("?"));
    fixture.begin(&turn).await;
    fixture.stop(&turn.clone().to("other"), "so").await;
    fixture.end(&turn).await;
    let why = fixture.row().await.not_stored.unwrap();
    assert_eq!(why, "another agent answered: `other`");
    for agent in ["root", "other"] {
        let again = fixture.ask(Turn::saying("?").to(agent), "so").await;
        assert!(!again.is_replay(), "{agent}");
    }
}

#[tokio::test]
async fn b8_answers_expire_are_bounded_bypassed_listed_and_erased() {
    let turn = || Turn::saying("?");
    let expiring = fixture("{enabled: true, ttl: 1m}");
    assert!(expiring.keeps(turn(), "so").await);
    let entries = expiring.entries().await;
    let lives = entries[0].provenance.expires.unwrap() - entries[0].provenance.created;
    assert_eq!((entries.len(), lives), (1, 60_000));
    let fresh = turn().prompted(|prompt| prompt.fresh = true);
    assert!(!expiring.ask(fresh, "so").await.is_replay());
    expiring.after(Duration::from_secs(60));
    assert!(!expiring.ask(turn(), "so").await.is_replay());
    expiring
        .cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    assert!(expiring.entries().await.is_empty());
    assert!(!expiring.ask(turn(), "so").await.is_replay());
    // That the number and the bytes of answers are bounded: `response_cache::bounds_hold`.
}

#[tokio::test]
async fn b9_secrets_are_stored_neither_from_answers_nor_from_questions() {
    let secret = "hunter2hunter2";
    let secret_set = knowing(&[secret]);
    for section in [ON, FILE] {
        let fixture = fixture_builder(section).secret_set(&secret_set).make();
        fixture
            .ask(Turn::saying("Which password?"), &format!("It is {secret}."))
            .await;
        fixture
            .ask(Turn::saying(&format!("Is it {secret}?")), "Yes.")
            .await;
        fixture.cache.close().await;
        let files = std::fs::read_dir(fixture.home.path()).unwrap();
        for file in files.map(|file| file.unwrap().path()) {
            let bytes = std::fs::read(&file).unwrap();
            assert!(
                !secret_set.occurs_in(&bytes),
                "{section} {}",
                file.display()
            );
        }
    }
    let fixture = fixture_builder(FILE).secret_set(&secret_set).make();
    let why = fixture
        .refusal(Turn::saying(&format!("Is it {secret}?")), "Yes.")
        .await;
    assert!(why.contains("the question holds a secret"), "{why}");
}

#[tokio::test]
async fn b10_case_is_significant_unless_configured_otherwise() {
    let by_conversation = fixture(ON);
    by_conversation
        .ask(Turn::saying("What is PATH?"), "so")
        .await;
    assert!(
        !by_conversation
            .ask(Turn::saying("What is path?"), "so")
            .await
            .is_replay()
    );
    let folded = fixture("{enabled: true, case_sensitive: false}");
    folded.ask(Turn::saying("What is ÄÖ?"), "so").await;
    assert!(
        folded
            .ask(Turn::saying("what is äö?"), "")
            .await
            .is_replay()
    );
    // As docker-agent has it, for questions alone.
    let by_question = fixture("{enabled: true, match: question}");
    by_question.ask(Turn::saying("What is PATH?"), "so").await;
    assert!(
        by_question
            .ask(Turn::saying("what is path?"), "")
            .await
            .is_replay()
    );
}

#[tokio::test]
async fn b10_case_folded_entry_is_not_served_when_case_counts() {
    let folded = fixture("{enabled: true, case_sensitive: false}");
    folded.ask(Turn::saying("PATH?"), "so").await;
    let exact = fixture_builder(ON).beside(&folded).make();
    assert!(!exact.ask(Turn::saying("path?"), "so").await.is_replay());
}

#[tokio::test]
async fn b11_two_stores_within_one_clock_tick_are_both_seen() {
    let here = fixture(FILE);
    let there = fixture_builder(FILE).beside(&here).make();
    for number in 0..20 {
        let question = format!("question {number}");
        let (writer, reader) = if number % 2 == 0 {
            (&here, &there)
        } else {
            (&there, &here)
        };
        writer.ask(Turn::saying(&question), "so").await;
        assert!(
            reader.ask(Turn::saying(&question), "").await.is_replay(),
            "{number}"
        );
    }
}

#[tokio::test]
async fn b12_a_failed_store_is_reported_and_the_turn_succeeds() {
    let fixture = fixture("{enabled: true, path: answers.json}");
    let turn = fixture.numbered(Turn::saying("?"));
    fixture.begin(&turn).await;
    // A directory in its place: nothing can be put there.
    std::fs::create_dir(fixture.path("answers.json")).unwrap();
    let answer = cachalot_hooks::input::Answer {
        text: "so".to_owned(),
        ..turn.answer.clone()
    };
    let stopped = Input {
        answer: Some(answer),
        ..turn.input(Event::Stop)
    };
    let fault = fixture.builtin.run(&[], &stopped).await.unwrap_err();
    assert!(
        fault.message.starts_with("the answer was not kept"),
        "{fault}"
    );
    let row = fixture.row().await;
    assert!(row.not_stored.unwrap().contains("store fault"));
    assert_eq!(row.paid, WORTH);
}

#[tokio::test]
async fn b13_replay_reports_age_key_model_and_savings() {
    let fixture = fixture(ON);
    fixture.ask(Turn::saying("?"), "so").await;
    fixture.after(Duration::from_secs(7_200));
    let turn = fixture.numbered(Turn::saying("?"));
    let other_model = Input {
        model_id: "anthropic/claude".to_owned(),
        ..turn.input(Event::PreUserTurn)
    };
    let replay = fixture.hear(&other_model).await.synthetic.unwrap();
    assert!(replay.provenance.unwrap().contains("2 hours ago"));
    assert_eq!(replay.metadata["model"], "openai/gpt-4o");
    let names: BTreeSet<&str> = replay.metadata.keys().map(String::as_str).collect();
    assert_eq!(names, ["age_seconds", "agent", "key", "model"].into());
    assert_eq!(replay.saved, WORTH);
    assert_ne!(replay.saved, Spend::default());
}

#[tokio::test]
async fn b14_readers_do_not_block_each_other() {
    let here = fixture(FILE);
    here.ask(Turn::saying("one"), "1").await;
    let open = std::fs::File::open(here.path("answers.json")).unwrap();
    here.ask(Turn::saying("two"), "2").await;
    drop(open);
    assert!(here.ask(Turn::saying("two"), "").await.is_replay());
}

#[tokio::test]
async fn b15_store_writes_one_entry_and_keeps_the_others_unchanged() {
    let fixture = fixture(ON);
    for number in 0..20 {
        fixture
            .ask(Turn::saying(&format!("question {number}")), "so")
            .await;
    }
    let lying = |entries: Vec<EntryInfo>| -> BTreeMap<_, _> {
        let described = |entry: EntryInfo| {
            (
                entry.key,
                (entry.provenance.revision, entry.provenance.created),
            )
        };
        entries.into_iter().map(described).collect()
    };
    let before = lying(fixture.entries().await);
    fixture.after(Duration::from_secs(1));
    fixture.ask(Turn::saying("one more"), "so").await;
    let after = lying(fixture.entries().await);
    assert_eq!((before.len(), after.len()), (20, 21));
    assert!(
        before
            .iter()
            .all(|(key, then)| after.get(key) == Some(then))
    );
}

#[tokio::test]
async fn flat_file_notice_is_shown_once() {
    let fixture = fixture(FILE);
    let first = fixture.numbered(Turn::saying("one"));
    let said = fixture.begin(&first).await.system_message.unwrap();
    assert!(
        said.contains("answers.json") && said.contains("cannot hold the rest of the key"),
        "{said}"
    );
    fixture.end(&first).await;
    let second = fixture.numbered(Turn::saying("two"));
    assert_eq!(fixture.begin(&second).await.system_message, None);
    let without = FixtureBuilder::with("cache: {enabled: true}").make();
    let turn = without.numbered(Turn::saying("one"));
    assert_eq!(without.begin(&turn).await.system_message, None);
}

#[tokio::test]
async fn flat_file_refuses_answers_that_it_cannot_validate() {
    let asked = || Turn::saying("?");
    let fixture = fixture(FILE);
    fixture.write("a", "one");
    for (turn, expected) in [
        (
            asked().calling("read_file", fixture.read("a")),
            "a flat file cannot hold that",
        ),
        (
            asked().calling("web_fetch", Witnesses::unknown("the net")),
            "a flat file cannot hold that",
        ),
        (
            asked().prompted(|prompt| prompt.attachments.push(Digest::sha256(b"picture"))),
            "has attachments",
        ),
        (
            asked().prompted(|prompt| prompt.context.push("Monday".into())),
            "hooks added to the question",
        ),
        (
            asked().answered(|answer| answer.added_by.push("add_date".into())),
            "`add_date` added",
        ),
    ] {
        let why = fixture.refusal(turn.clone(), "so").await;
        assert!(why.contains(expected), "{expected}: {why}");
        assert!(!fixture.ask(turn, "so").await.is_replay(), "{expected}");
    }
    let calculating = asked().calling("calculate", Witnesses::default());
    assert!(fixture.keeps(calculating, "so").await);
    let why = fixture.rows().await[0].not_stored.clone().unwrap();
    assert_eq!(why, "kept in answers.json");
}

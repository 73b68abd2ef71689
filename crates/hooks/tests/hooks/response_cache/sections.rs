//! The section `cache:`.

use std::time::Duration;

use cachalot_core::config::Settings as _;
use cachalot_core::tree;
use cachalot_hooks::Builtin as _;
use cachalot_hooks::builtin::cache_response::{
    AnswerStorage, MatchingMode, ResponseCacheSettings, SharingScope,
};

use super::ON;
use crate::response_cache_fixture::{fixture, problems};

const MINUTE: Duration = Duration::from_secs(60);

fn settings(section: &str) -> ResponseCacheSettings {
    let node = tree::parse("agent.yaml", section).unwrap();
    let mut problems = Vec::new();
    let settings = ResponseCacheSettings::read(&node, &mut problems).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    settings
}

#[test]
fn section_keys_are_read() {
    let plain = settings("{}");
    assert!(!plain.enabled && !plain.trim_spaces && plain.case_sensitive);
    assert_eq!((plain.ttl, plain.path.as_deref()), (None, None));
    assert_eq!(plain.scope, SharingScope::User);
    assert_eq!(plain.matching, MatchingMode::Conversation);
    assert_eq!(plain.storage, AnswerStorage::Memory);
    let full = settings(
        "{enabled: true, case_sensitive: false, trim_spaces: true, ttl: 1h30m, max_entries: 5, \
         max_bytes: 1000, scope: global, match: question, store: process}",
    );
    assert!(full.enabled && full.trim_spaces && !full.case_sensitive);
    assert_eq!(full.ttl, Some(90 * MINUTE));
    assert_eq!((full.max_entries, full.max_bytes), (Some(5), Some(1_000)));
    assert_eq!(full.scope, SharingScope::Global);
    assert_eq!(full.matching, MatchingMode::Question);
    assert_eq!(full.storage, AnswerStorage::Process);
    assert!(!settings("{match: question}").case_sensitive);
    let flat = settings("{path: answers.json}");
    assert_eq!(flat.matching, MatchingMode::Question);
    assert!(!flat.case_sensitive);
    assert_eq!(
        (&*flat.file, flat.path.as_deref()),
        ("agent.yaml", Some("answers.json"))
    );
    assert_eq!(settings("{path: ''}").path, None);
}

#[test]
fn problems_of_a_section_are_reported_with_their_place() {
    for (section, code, expected) in [
        ("true", "wrong-type", "a mapping"),
        ("{enabled: 'yes'}", "wrong-type", "`enabled`"),
        ("{enable: true}", "unknown-key", "`enable`"),
        ("{ttl: soon}", "bad-value", "`ttl`"),
        ("{max_entries: 0}", "out-of-range", "`max_entries`"),
        ("{scope: everybody}", "bad-value", "global"),
        ("{match: fuzzy}", "bad-value", "question"),
        ("{store: redis}", "bad-value", "process"),
        ("{path: ../answers.json}", "bad-value", "leads out"),
        ("{path: a/../../b.json}", "bad-value", "leads out"),
        ("{path: a.json, ttl: 1h}", "conflicting-keys", "`ttl`"),
        ("{path: a.json, scope: user}", "conflicting-keys", "`scope`"),
        (
            "{path: a.json, max_bytes: 9}",
            "conflicting-keys",
            "`max_bytes`",
        ),
        (
            "{path: a.json, match: conversation}",
            "conflicting-keys",
            "conversation",
        ),
    ] {
        let problems = problems(section);
        let [problem] = &problems[..] else {
            panic!("{section}: {problems:?}")
        };
        assert_eq!(problem.code, code, "{section}");
        assert!(
            problem.to_string().contains(expected),
            "{section}: {problem}"
        );
        assert!(
            problem.place.is_some() && problem.help.is_some(),
            "{section}"
        );
    }
    for section in ["{path: sub/../a.json}", "{path: /tmp/a.json}", "{}", ON] {
        assert!(problems(section).is_empty(), "{section}");
    }
}

#[test]
fn builtin_takes_no_arguments() {
    let fixture = fixture(ON);
    assert!(fixture.builtin.check_arguments(&[]).is_ok());
    let wrong = fixture.builtin.check_arguments(&["fast".to_owned()]);
    assert!(wrong.unwrap_err().0.contains("`fast`"));
}

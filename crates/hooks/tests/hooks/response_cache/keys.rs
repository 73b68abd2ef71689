//! Inputs that the key distinguishes.

use cachalot_core::Digest;
use proptest::prelude::*;
use serde_json::json;

use super::ON;
use crate::response_cache_fixture::{Fixture, Turn, fixture_builder};

const BY_QUESTION: &str = "{enabled: true, match: question}";

/// Everything that a key must tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct QuestionCase {
    agent: bool,
    fingerprint: bool,
    prefix: bool,
    text: String,
    user: bool,
    session: bool,
    context: Vec<String>,
    attachments: Vec<u8>,
    directory: bool,
    form: bool,
}

fn asked() -> impl Strategy<Value = QuestionCase> {
    let added = prop::collection::vec("[ab]{0,2}", 0..3);
    let attached = prop::collection::vec(0..2_u8, 0..2);
    let flags = any::<(bool, bool, bool, bool, bool, bool, bool)>();
    (flags, "[aA b]{0,2}", added, attached).prop_map(|(flags, text, context, attachments)| {
        let (agent, fingerprint, prefix, user, session, directory, form) = flags;
        QuestionCase {
            agent,
            fingerprint,
            prefix,
            text,
            user,
            session,
            context,
            attachments,
            directory,
            form,
        }
    })
}

impl QuestionCase {
    fn turn(&self, fixture: &Fixture) -> Turn {
        let pick =
            |flag: bool, one: &'static str, other: &'static str| if flag { one } else { other };
        let agent = pick(self.agent, "root", "other");
        fixture
            .agent(agent)
            .becomes(Some(pick(self.fingerprint, "as it was", "changed")));
        let turn = Turn::saying(&self.text)
            .to(agent)
            .in_session(pick(self.session, "s", "t"))
            .behind(pick(self.prefix, "a", "b"))
            .prompted(|prompt| {
                prompt.context.clone_from(&self.context);
                let digests = self.attachments.iter().map(|one| Digest::sha256(&[*one]));
                prompt.attachments = digests.collect();
            });
        let turn = Turn {
            directory: pick(self.directory, "/work", "/elsewhere").into(),
            ..turn
        };
        if self.form {
            turn.formed(json!({"type": "object"}))
        } else {
            turn
        }
    }
}

/// The key under which a question is looked up.
async fn key(worlds: &[Fixture; 2], asked: &QuestionCase) -> String {
    let fixture = &worlds[usize::from(asked.user)];
    let turn = fixture.numbered(asked.turn(fixture));
    let begun = fixture.begin(&turn).await;
    assert_eq!(
        begun,
        cachalot_hooks::Output::default(),
        "nothing is stored"
    );
    fixture.end(&turn).await;
    fixture.row().await.key
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn key_changes_with_everything_that_decides_an_answer(one in asked(), other in asked()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for section in ["{enabled: true, scope: session}", ON, BY_QUESTION] {
                let worlds = ["ann", "bob"].map(|user| fixture_builder(section).in_process().user(user).make());
                let (first, second) = (key(&worlds, &one).await, key(&worlds, &other).await);
                assert_eq!(first, key(&worlds, &one).await);
                let told_apart = |asked: &QuestionCase| {
                    let mut asked = asked.clone();
                    if section.contains("session") {
                        asked.user = false;
                    } else {
                        asked.session = false;
                    }
                    if section == BY_QUESTION {
                        asked.prefix = false;
                        asked.text = asked.text.to_lowercase();
                    }
                    asked
                };
                let same = told_apart(&one) == told_apart(&other);
                assert_eq!(first == second, same, "{section}: {one:?} {other:?}");
            }
        });
    }
}

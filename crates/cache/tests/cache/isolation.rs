//! No call is served the entry of another call.

use cachalot_cache::{CacheBounds, CacheStatus, CallKind, Key, Policy, Reason, Scope};
use cachalot_core::Canonical;
use cachalot_store::space;
use proptest::prelude::*;
use serde_json::json;

use crate::test_engine::{EngineBuilder, Question, clock, in_process, test_engine};

fn scopes() -> Vec<Scope> {
    let mut scopes = vec![Scope::Global];
    for id in ["", "a", "b", "a:b", "agent:a", "global"] {
        scopes.extend([
            Scope::Run(id.into()),
            Scope::Session(id.into()),
            Scope::Workspace(id.into()),
            Scope::Agent(id.into()),
            Scope::User(id.into()),
        ]);
    }
    scopes
}

#[tokio::test]
async fn scopes_kinds_and_names_never_share() {
    let here = test_engine();
    let mut questions = Vec::new();
    for scope in scopes() {
        for kind in [
            CallKind::Action,
            CallKind::Tool,
            CallKind::Turn,
            CallKind::Request,
        ] {
            for name in ["n", "m", ""] {
                let input = Canonical::value(&json!({"path": "a"}));
                questions.push(Question {
                    kind,
                    scope: scope.clone(),
                    name: name.into(),
                    input,
                });
            }
        }
    }
    for (number, question) in questions.iter().enumerate() {
        let reported = here
            .ask(question, &Policy::default(), &number.to_string())
            .await;
        assert_eq!(
            reported.status,
            CacheStatus::Miss(Reason::Absent),
            "{question:?}"
        );
    }
    for (number, question) in questions.iter().enumerate() {
        let reported = here.ask(question, &Policy::default(), "").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&CacheStatus::Hit, number.to_string().as_str()),
            "{question:?}"
        );
    }
}

#[tokio::test]
async fn entry_of_another_call_under_the_key_is_not_served() {
    let clock = clock();
    let memory = in_process(&clock);
    let making = EngineBuilder::over(memory.clone(), &clock).bounds(CacheBounds {
        front_bytes: 0,
        ..CacheBounds::default()
    });
    let here = making.make();
    let base = Question::number(1);
    let others = [
        Question::number(2),
        Question {
            scope: Scope::Agent("other".into()),
            ..base.clone()
        },
        Question {
            scope: Scope::User("tester".into()),
            ..base.clone()
        },
        Question {
            kind: CallKind::Tool,
            ..base.clone()
        },
        base.clone().named("other"),
    ];
    for other in &others {
        here.ask(other, &Policy::default(), "somebody else's").await;
        let theirs = memory
            .get(space::CACHE, &other.key().to_string(), &[])
            .settle()
            .await
            .unwrap()
            .record
            .unwrap();
        let moved = cachalot_store::Record {
            key: base.key().to_string(),
            ..theirs
        };
        memory
            .put(space::CACHE, moved, None, &[])
            .settle()
            .await
            .unwrap();
        assert!(
            here.cache.peek(&base.key()).await.unwrap().is_none(),
            "peek shows no foreign entry"
        );
        assert!(here.frozen(&base).await.is_err());
        let reported = here.ask(&base, &Policy::default(), "mine").await;
        assert_eq!(reported.text(), "mine");
        assert_eq!(
            reported.status.reason().unwrap().to_string(),
            "damaged entry: it belongs to another call"
        );
        assert_eq!(here.ask(&base, &Policy::default(), "").await.text(), "mine");
        let mut shown = 0;
        here.cache
            .each(&cachalot_cache::EntryFilter::default(), |_| shown += 1)
            .await
            .unwrap();
        assert!(shown >= 2);
        here.cache
            .erase(&cachalot_cache::EntryFilter::default(), false)
            .await
            .unwrap();
    }
}

fn kind() -> impl Strategy<Value = CallKind> {
    prop_oneof![
        Just(CallKind::Action),
        Just(CallKind::Tool),
        Just(CallKind::Turn),
        Just(CallKind::Request)
    ]
}

fn scope() -> impl Strategy<Value = Scope> {
    ("[ab:]{0,3}", 0..6).prop_map(|(id, which)| match which {
        0 => Scope::Run(id),
        1 => Scope::Session(id),
        2 => Scope::Workspace(id),
        3 => Scope::Agent(id),
        4 => Scope::User(id),
        _ => Scope::Global,
    })
}

fn question() -> impl Strategy<Value = Question> {
    (kind(), scope(), "[ab:]{0,3}", "[ab:]{0,3}").prop_map(|(kind, scope, name, input)| Question {
        kind,
        scope,
        name,
        input: Canonical::value(&json!(input)),
    })
}

proptest! {
    #[test]
    fn equal_calls_have_equal_keys_and_different_calls_different_ones(one in question(), other in question()) {
        let same = one.kind == other.kind
            && one.scope == other.scope
            && one.name == other.name
            && one.input == other.input;
        prop_assert_eq!(Key::for_call(&one.call()) == Key::for_call(&other.call()), same);
    }
}

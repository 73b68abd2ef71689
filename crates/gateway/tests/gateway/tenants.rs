//! Nothing in a response depends on the entries, runs and counters of other credentials.
//!
//! Each test compares the response to a request that another tenant has asked before with the response to one that
//! nobody has asked before: apart from the key, they are equal.

use std::time::Duration;

use cachalot_gateway::Limits;
use reqwest::header::HeaderMap;
use tokio::sync::watch;

use crate::ask::Ask;
use crate::fake_upstream::{FakeUpstream, Step, answer, media};
use crate::formats::Api;
use crate::support::{Answer, Setup, leave};

/// The API that takes most kinds of credentials.
const API: Api = Api::Gemini;

fn path() -> &'static str {
    API.path(false)
}

/// Credentials: parameters of the URL, and headers.
type Tenant = (&'static str, &'static [(&'static str, &'static str)]);

const TENANTS: [Tenant; 22] = [
    ("", &[]),
    ("", &[("authorization", "Bearer one")]),
    ("", &[("authorization", "Bearer two")]),
    ("", &[("authorization", "bearer one")]),
    ("", &[("authorization", "Bearer  one")]),
    ("", &[("x-goog-api-key", "one")]),
    ("", &[("x-goog-api-key", "two")]),
    ("", &[("x-goog-api-key", "Bearer one")]),
    ("", &[("authorization", "Basic one")]),
    ("", &[("authorization", "Bearer one"), ("cookie", "one")]),
    ("", &[("cookie", "one")]),
    ("", &[("cookie", "two")]),
    ("", &[("cookie", "one"), ("cookie", "two")]),
    ("", &[("cookie", "one; two")]),
    ("", &[("proxy-authorization", "Bearer one")]),
    ("?key=one", &[]),
    ("?key=two", &[]),
    ("?access_token=one", &[]),
    ("?k%65y=one", &[]),
    ("?key=one", &[("x-goog-api-key", "one")]),
    ("", &[("x-goog-api-key", "one"), ("authorization", "two")]),
    ("", &[("x-goog-api-key", "two"), ("authorization", "one")]),
];

/// Headers that direct the cache.
const CONTROLS: [&[(&str, &str)]; 16] = [
    &[],
    &[("cache-control", "only-if-cached")],
    &[("cache-control", "only-if-cached, max-age=100")],
    &[("cache-control", "max-age=100")],
    &[("cache-control", "max-age=0")],
    &[("cache-control", "no-cache")],
    &[("cache-control", "no-store")],
    &[("cache-control", "max-stale=100000")],
    &[("x-cachalot-mode", "frozen")],
    &[("x-cachalot-mode", "on")],
    &[("x-cachalot-tags", "a,b")],
    &[("x-cachalot-ttl", "1s")],
    &[("x-cachalot-replay", "paced")],
    &[("x-cachalot-agent", "coder")],
    &[("x-cachalot-agent", "coder"), ("x-cachalot-run", "1")],
    &[
        ("if-none-match", "*"),
        ("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ],
];

fn ask(tenant: &Tenant, text: &str) -> Ask {
    let ask = Ask::anonymous(path(), API.request(text, false));
    as_tenant(ask, path(), tenant)
}

fn as_tenant(ask: Ask, path: &str, (query, headers): &Tenant) -> Ask {
    let query = if path.contains('?') {
        query.replace('?', "&")
    } else {
        (*query).to_owned()
    };
    with(ask.target(&format!("{path}{query}")), headers)
}

fn with(ask: Ask, headers: &[(&str, &str)]) -> Ask {
    let add = |ask: Ask, (name, value): &(&str, &str)| ask.with(name, value);
    headers.iter().fold(ask, add)
}

/// What a client sees of an answer to a text of its own.
fn visible(answer: &Answer, text: &str) -> (u16, Vec<(String, String)>, String) {
    // Keys differ because the texts do.
    let hidden = |value: &str| match value.split_once("; key=") {
        Some((shown, _)) => shown.to_owned(),
        None => value.to_owned(),
    };
    let headers: &HeaderMap = &answer.headers;
    let mut headers: Vec<(String, String)> = headers
        .iter()
        .filter(|(name, _)| *name != "date")
        .map(|(name, value)| (name.to_string(), hidden(value.to_str().unwrap())))
        .collect();
    headers.sort();
    (answer.status, headers, answer.body.replace(text, "TEXT"))
}

/// An upstream whose answers repeat the text and the credentials of the request.
async fn repeating_upstream() -> FakeUpstream {
    FakeUpstream::start(|request| {
        let body = request.json();
        let text = body["contents"][0]["parts"][0]["text"].as_str();
        let text = text.unwrap_or_default();
        let mut credentials: Vec<String> = request
            .headers
            .iter()
            .filter(|(name, _)| name.contains("auth") || name.contains("key") || name == "cookie")
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        credentials.push(request.line.clone());
        let text = format!("{text} for {credentials:?}");
        answer("200 OK", media(false), &API.answer(&text, false))
    })
    .await
}

/// Texts of one length: some headers contain lengths.
fn text(kind: char, tenant: usize, control: usize) -> String {
    format!("{kind}{tenant:02}{control:02}")
}

#[tokio::test]
async fn no_response_shows_an_entry_of_another_tenant() {
    let upstream = repeating_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    // All tenants ask for the texts of all cells, except for those of one tenant, whose turn is later.
    for (at, tenant) in TENANTS.iter().enumerate() {
        for (number, control) in CONTROLS.iter().enumerate() {
            let (known, unknown) = (text('a', at, number), text('b', at, number));
            // The other tenants, the one before and the one after, and the one whose value is the same.
            for (other, credentials) in TENANTS.iter().enumerate() {
                if other != at && (number < 2 || other % 4 == number % 4) {
                    let first = ask(credentials, &known);
                    let first = match number {
                        // Sampled answers of an agent are counted for each tenant.
                        13 | 14 => with(first, control),
                        _ => first,
                    };
                    assert_eq!(first.send(&setup).await.status, 200);
                }
            }
            let got = with(ask(tenant, &known), control).send(&setup).await;
            let expected = with(ask(tenant, &unknown), control).send(&setup).await;
            assert_eq!(
                visible(&got, &known),
                visible(&expected, &unknown),
                "{tenant:?} {control:?}"
            );
            assert!(!got.headers.contains_key("age"), "{tenant:?} {control:?}");
            assert!(
                !matches!(got.source(), "hit" | "collapsed"),
                "{tenant:?} {control:?}: {}",
                got.cache_status()
            );
        }
    }
}

#[tokio::test]
async fn no_request_joins_a_run_of_another_tenant() {
    let (open, opened) = watch::channel(false);
    let upstream = FakeUpstream::start(move |request| {
        let text = format!("answer {}", request.number);
        let is_streamed = request.line.contains(":streamGenerateContent");
        let body = API.answer(&text, is_streamed);
        let mut steps = vec![Step::Until(opened.clone())];
        steps.extend(answer("200 OK", media(is_streamed), &body));
        steps
    })
    .await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    for is_streamed in [false, true] {
        open.send_replace(false);
        let before = upstream.count();
        let asks = TENANTS.iter().map(|tenant| {
            // An answer in the other form would be converted.
            let text = if is_streamed { "streamed" } else { "whole" };
            let path = API.path(is_streamed);
            let ask = Ask::anonymous(path, API.request(text, is_streamed));
            as_tenant(ask, path, tenant)
        });
        let asks: Vec<Ask> = asks.collect();
        let asking = futures_util::future::join_all(asks.iter().map(|ask| ask.send(&setup)));
        let opening = async {
            // Each tenant has a call of its own while all others wait.
            while upstream.count() - before < TENANTS.len() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            open.send_replace(true);
        };
        let (answers, ()) = tokio::join!(asking, opening);
        let mut texts: Vec<String> = answers
            .iter()
            .map(|answer| {
                assert_eq!(answer.source(), "miss", "{}", answer.cache_status());
                API.text(is_streamed, &answer.body)
            })
            .collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), TENANTS.len());
    }
}

/// Directives of one tenant change nothing for another one.
#[tokio::test]
async fn directives_of_a_tenant_have_no_effect_on_entries_of_others() {
    let upstream = FakeUpstream::start(|request| {
        let body = API.answer(&format!("answer {}", request.number), false);
        answer("200 OK", media(false), &body)
    })
    .await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let (owner, other) = (&TENANTS[1], &TENANTS[5]);
    let own = ask(owner, "x");
    let first = own.send(&setup).await;
    own.stored(&setup).await;
    for control in CONTROLS {
        with(ask(other, "x"), control).send(&setup).await;
        let again = own.send(&setup).await;
        assert_eq!(
            (again.source(), &again.body),
            ("hit", &first.body),
            "{control:?}"
        );
        let ttl = again.cache_status().split("ttl=").nth(1).unwrap();
        let ttl: u32 = ttl.split(';').next().unwrap().parse().unwrap();
        assert!(ttl > 86_000, "{control:?}: {ttl}");
    }
}

/// The ordinals of an agent's requests, and the answers that wait for a retry, are those of one tenant.
#[tokio::test]
async fn samples_of_a_tenant_are_its_own() {
    let upstream = FakeUpstream::start(|request| {
        let body = API.answer(&format!("answer {}", request.number), false);
        let mut steps = vec![Step::Pause(Duration::from_millis(30))];
        steps.extend(answer("200 OK", media(false), &body));
        steps
    })
    .await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let sampled = r#"{"contents": [{"role": "user", "parts": [{"text": "x"}]}]}"#;
    for run in ["/p/one", "/p/two/r/1", ""] {
        for (at, tenant) in TENANTS.iter().enumerate() {
            let path = format!("{run}{}", path());
            let ask = as_tenant(Ask::anonymous(&path, sampled), &path, tenant);
            let before = upstream.count();
            // The client leaves: its answer waits for its retry, and for no other tenant.
            leave(ask.request(&setup), || upstream.count()).await;
            let next = &TENANTS[(at + 1) % TENANTS.len()];
            let other = as_tenant(Ask::anonymous(&path, sampled), &path, next);
            let got = other.send(&setup).await;
            assert!(
                matches!(got.source(), "miss" | "bypass" | "hit"),
                "{}",
                got.cache_status()
            );
            if got.source() == "hit" {
                // The own answer of the tenant with the last turn.
                assert_eq!(
                    at + 1,
                    TENANTS.len(),
                    "{run} {tenant:?} {}",
                    got.cache_status()
                );
            } else {
                assert_eq!(upstream.count() - before, 2, "{run} {tenant:?}");
            }
            let own = ask.send(&setup).await;
            assert_ne!(own.body, got.body, "{run} {tenant:?}");
        }
    }
}

/// A credential that the client's connection header removes from the request is not replaced by another one's.
#[tokio::test]
async fn credentials_of_the_connection_only_are_still_credentials() {
    let upstream = repeating_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let ask = |value: &str| {
        let ask = Ask::anonymous(path(), API.request("x", false));
        let ask = ask.with("connection", "x-goog-api-key");
        ask.with("x-goog-api-key", value)
    };
    let first = ask("one").send(&setup).await;
    assert_eq!(first.source(), "miss");
    ask("one").stored(&setup).await;
    assert_eq!(ask("two").send(&setup).await.source(), "miss");
}

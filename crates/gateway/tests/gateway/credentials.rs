//! Credentials reach servers of their own API only, whatever the path of the request.

use reqwest::Method;

use crate::ask::Ask;
use crate::fake_upstream::{FakeUpstream, Received, answer, media};
use crate::support::Setup;

/// The kinds of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    OpenAi,
    Anthropic,
    Google,
    Azure,
    /// A further server, whose API is that of the request.
    Further,
}

const KINDS: [(&str, Kind, &str); 5] = [
    ("openai", Kind::OpenAi, ""),
    ("anthropic", Kind::Anthropic, ""),
    ("gemini", Kind::Google, ""),
    ("azure", Kind::Azure, "api: openai, header: api-key"),
    ("further", Kind::Further, ""),
];

/// Parts of requests: a header, or a parameter of the URL.
type Part = (&'static str, &'static str);

const BEARERS: [Option<&str>; 6] = [
    None,
    Some("Bearer token-1"),
    Some("Bearer sk-proj-1"),
    Some("Bearer sk-ant-api03-1"),
    Some("Bearer AIzaSy1"),
    Some("Bearer gsk_1"),
];

const X_API_KEY: Part = ("x-api-key", "of-anthropic");
const VERSION: Part = ("anthropic-version", "2023-06-01");
const API_KEY: Part = ("api-key", "of-azure");
const GOOGLE: Part = ("x-goog-api-key", "of-google");
const PARAMETER: Part = ("?key", "of-google-too");
const ENCODED: Part = ("?k%65y", "of-google-three");
const TOKEN: Part = ("?oauth_token", "of-google-four");
const COOKIE: Part = ("cookie", "session=1");

const OTHERS: [&[Part]; 14] = [
    &[],
    &[X_API_KEY],
    &[VERSION],
    &[API_KEY],
    &[GOOGLE],
    &[PARAMETER],
    &[ENCODED],
    &[COOKIE],
    &[X_API_KEY, VERSION],
    &[X_API_KEY, API_KEY],
    &[X_API_KEY, GOOGLE],
    &[API_KEY, PARAMETER],
    &[VERSION, GOOGLE],
    &[
        X_API_KEY, API_KEY, GOOGLE, PARAMETER, ENCODED, TOKEN, COOKIE,
    ],
];

/// Paths, and the servers that have them.
const PATHS: [(&str, &str, &[Kind]); 18] = [
    ("POST", "/v1/chat/completions", &[Kind::OpenAi, Kind::Azure]),
    ("POST", "/v1/responses", &[Kind::OpenAi, Kind::Azure]),
    ("POST", "/v1/messages", &[Kind::Anthropic]),
    ("POST", "/v1beta/models/g:generateContent", &[Kind::Google]),
    ("POST", "/v1/models/g:generateContent", &[Kind::Google]),
    ("POST", "/v1/cachedContents", &[Kind::Google]),
    ("POST", "/upload/v1/files", &[Kind::Google]),
    (
        "POST",
        "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
        &[Kind::Google],
    ),
    (
        "POST",
        "/v1beta1/projects/p/locations/l/cachedContents",
        &[Kind::Google],
    ),
    ("GET", "/v1/models", SEVERAL),
    ("POST", "/v1/files", SEVERAL),
    ("GET", "/v1/files/f", SEVERAL),
    ("GET", "/v1/no_known_path", SEVERAL),
    ("GET", "/u/openai/v1/models", &[Kind::OpenAi]),
    ("POST", "/u/openai/v1/messages", &[Kind::OpenAi]),
    ("POST", "/u/gemini/v1/chat/completions", &[Kind::Google]),
    ("POST", "/u/further/v1/messages", &[Kind::Further]),
    ("GET", "/u/further/v1/files", &[Kind::Further]),
];
const SEVERAL: &[Kind] = &[Kind::OpenAi, Kind::Azure, Kind::Anthropic, Kind::Google];

/// Returns true if the server may get the credential, for a request to a path.
fn may_get(kind: Kind, path: &str, parts: &[Part], (name, value): Part) -> bool {
    let has = |name: &str| parts.iter().any(|(part, _)| *part == name);
    let named = path.starts_with("/u/");
    let is_of_several = PATHS
        .iter()
        .any(|(_, owned_path, owners)| *owned_path == path && owners.len() > 2);
    let of_anthropic = matches!(kind, Kind::Anthropic | Kind::Further);
    let of_google = kind == Kind::Google || (kind == Kind::Further && !path.ends_with("/messages"));
    match name {
        "x-api-key" => of_anthropic,
        "x-goog-api-key" | "?key" | "?k%65y" | "?oauth_token" => of_google,
        "api-key" => kind == Kind::Azure,
        "authorization" if has("anthropic-version") => of_anthropic,
        "authorization" if is_of_several && !named => match value {
            "Bearer sk-ant-api03-1" => kind == Kind::Anthropic,
            "Bearer AIzaSy1" => kind == Kind::Google,
            "Bearer sk-proj-1" | "Bearer gsk_1" => matches!(kind, Kind::OpenAi | Kind::Azure),
            // By the other credentials.
            _ => true,
        },
        _ => true,
    }
}

fn has_credential(received: &Received, (name, value): Part) -> bool {
    match name.strip_prefix('?') {
        Some(_) => received.line.contains(&format!("={value}")),
        None => received.header(name).is_some_and(|found| found == value),
    }
}

async fn recording_upstream() -> FakeUpstream {
    FakeUpstream::start(|_| answer("200 OK", media(false), "{}")).await
}

fn ask(method: &str, path: &str, parts: &[Part]) -> Ask {
    let parameters = parts.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix('?')?;
        Some(format!("{name}={value}"))
    });
    let parameters: Vec<String> = parameters.collect();
    let target = if parameters.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", parameters.join("&"))
    };
    // The path decides about the version here.
    let ask = Ask::anonymous("", "{}")
        .target(&target)
        .method(method.parse().unwrap());
    let headers = parts.iter().filter(|(name, _)| !name.starts_with('?'));
    headers.fold(ask, |ask, (name, value)| ask.with(name, value))
}

/// All combinations of credentials, paths and upstreams: no credential reaches a server of another API, and a request
/// with a credential that fits its path arrives.
#[tokio::test]
async fn no_credential_reaches_a_server_of_another_api() {
    let sets: [&[&str]; 4] = [
        &["openai", "anthropic", "gemini", "azure", "further"],
        &["openai"],
        &["gemini", "further"],
        &["openai", "azure"],
    ];
    for set in sets {
        let kinds: Vec<_> = KINDS
            .iter()
            .filter(|(name, ..)| set.contains(name))
            .collect();
        let (mut servers, mut file) = (Vec::new(), "upstreams:\n".to_owned());
        for (name, kind, options) in kinds {
            let server = recording_upstream().await;
            file += &format!(
                "  {name}: {{url: 'http://{}', {options}}}\n",
                server.address
            );
            servers.push((*name, *kind, server));
        }
        let setup = Setup::configured(&file).await;
        let mut sent = 0;
        for (method, path, owners) in PATHS {
            for (bearer, others) in BEARERS
                .iter()
                .flat_map(|key| OTHERS.map(|others| (key, others)))
            {
                let mut parts = others.to_vec();
                parts.extend(bearer.map(|value| ("authorization", value)));
                let before: Vec<usize> =
                    servers.iter().map(|(.., server)| server.count()).collect();
                // Every request is sent, also one whose answer is known.
                let asked = ask(method, path, &parts).with("cache-control", "no-store");
                let got = asked.send(&setup).await;
                let mut receivers = Vec::new();
                for ((name, kind, server), before) in servers.iter().zip(before) {
                    for received in &server.received()[before..] {
                        receivers.push(*name);
                        for part in parts.iter().filter(|part| has_credential(received, **part)) {
                            assert!(
                                may_get(*kind, path, &parts, *part),
                                "{set:?} {path} {parts:?}: {name} got {part:?}"
                            );
                        }
                        assert!(owners.contains(kind), "{set:?} {path} {parts:?}: {name}");
                    }
                }
                let context = format!("{set:?} {method} {path} {parts:?}: {}", got.body);
                match got.status {
                    200 => assert_eq!(receivers.len(), 1, "{context}"),
                    _ => assert!(receivers.is_empty(), "{context}"),
                }
                sent += receivers.len();
                let is_known = |(_, kind, _): &&(&str, Kind, FakeUpstream)| owners.contains(kind);
                let owner = servers.iter().find(is_known);
                let keys = parts
                    .iter()
                    .filter(|part| !["anthropic-version", "cookie"].contains(&part.0));
                let keys: Vec<&Part> = keys.collect();
                let is_expected = match (owner, owners.len()) {
                    // Credentials of several APIs say nothing about a further server.
                    _ if path == "/u/further/v1/files" => None,
                    (None, _) => Some(false),
                    (Some((_, kind, _)), 1 | 2) => Some(
                        keys.is_empty()
                            || keys.iter().any(|key| may_get(*kind, path, &parts, **key))
                            || (set.contains(&"azure")
                                && owners.contains(&Kind::Azure)
                                && parts.contains(&API_KEY)),
                    ),
                    _ => None,
                };
                if let Some(is_expected) = is_expected {
                    assert_eq!(got.status == 200, is_expected, "{context}");
                }
                if got.status != 200 {
                    let codes = [
                        "credential_of_another_api",
                        "unclear_api",
                        "unknown_upstream",
                    ];
                    assert!(
                        codes.iter().any(|code| got.body.contains(code)),
                        "{context}"
                    );
                    assert!(
                        parts.iter().all(|(_, value)| !got.body.contains(value)),
                        "{context}"
                    );
                }
            }
        }
        assert!(sent > 100, "{set:?}: {sent}");
    }
}

/// On a path that several APIs have, the credentials decide.
#[tokio::test]
async fn credentials_decide_on_paths_of_several_apis() {
    let mut servers = Vec::new();
    let mut file = "upstreams:\n".to_owned();
    for name in ["openai", "anthropic", "gemini"] {
        let server = recording_upstream().await;
        file += &format!("  {name}: {{url: 'http://{}'}}\n", server.address);
        servers.push((name, server));
    }
    let setup = Setup::configured(&file).await;
    for (parts, expected) in [
        (&[GOOGLE][..], "gemini"),
        (&[PARAMETER], "gemini"),
        (&[X_API_KEY, VERSION], "anthropic"),
        (&[X_API_KEY], "anthropic"),
        (&[VERSION, ("authorization", "Bearer token")], "anthropic"),
        (&[X_API_KEY, ("authorization", "Bearer token")], "anthropic"),
        (&[("authorization", "Bearer sk-ant-oat01-1")], "anthropic"),
        (&[("authorization", "Bearer ya29.1")], "gemini"),
        (&[("authorization", "bearer  AIza1")], "gemini"),
        (&[("authorization", "Bearer sk-proj-1")], "openai"),
        (&[], "openai"),
        (&[("authorization", "Bearer token")], "unclear_api"),
        (
            &[("authorization", "Bearer sk-proj-1"), GOOGLE],
            "unclear_api",
        ),
        (&[COOKIE], "unclear_api"),
    ] {
        for path in ["/v1/models", "/v1/files", "/v1/files/f", "/v1/batches"] {
            let before: Vec<usize> = servers.iter().map(|(_, server)| server.count()).collect();
            let got = ask("GET", path, parts).send(&setup).await;
            let counts = servers.iter().zip(before);
            let asked = counts.filter(|((_, server), before)| server.count() > *before);
            let asked: Vec<&str> = asked.map(|((name, _), _)| *name).collect();
            match expected {
                "unclear_api" => {
                    assert_eq!((got.status, asked.len()), (400, 0), "{path} {parts:?}");
                    let named = format!("/u/NAME{path}");
                    assert!(
                        got.body.contains(expected) && got.body.contains(&named),
                        "{}",
                        got.body
                    );
                }
                _ => assert_eq!(asked, [expected], "{path} {parts:?} {}", got.body),
            }
        }
    }
    let named = ask(
        "GET",
        "/u/anthropic/v1/files",
        &[("authorization", "Bearer token")],
    );
    assert_eq!(named.send(&setup).await.status, 200);
    assert_eq!(
        servers[1].1.received().last().unwrap().line,
        "GET /v1/files"
    );
}

/// A page has no other header than `Sec-WebSocket-Protocol` for a key of OpenAI.
#[tokio::test]
async fn keys_in_the_protocol_of_a_websocket_are_credentials() {
    let server = recording_upstream().await;
    let file = format!(
        "upstreams: {{openai: {{url: 'http://{0}'}}, gemini: {{url: 'http://{0}'}}}}",
        server.address
    );
    let setup = Setup::configured(&file).await;
    for (path, key, status) in [
        ("/v1/realtime", "sk-1", 200),
        (
            "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
            "sk-1",
            403,
        ),
        ("/v1/realtime", "cachalot-1", 401),
    ] {
        let protocol = format!("realtime, openai-insecure-api-key.{key}");
        let ask = Ask::anonymous(path, "").method(Method::GET);
        let ask = ask
            .with("connection", "upgrade")
            .with("upgrade", "websocket");
        let got = ask
            .with("sec-websocket-protocol", &protocol)
            .send(&setup)
            .await;
        assert_eq!(got.status, status, "{path} {key}: {}", got.body);
    }
    assert_eq!(server.count(), 1);
}

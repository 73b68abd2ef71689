//! Logins at servers, against a double of an authorization server (`authorization_double.rs`). Tests are named after
//! the scenarios of the conformance suite, where it has one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Secret;
use cachalot_mcp::oauth::{
    self, ClientChoice, ClientKind, IN_RUN_BROWSER, Login, LoginFile, LoginRequest, OauthError,
    OauthErrorKind, Presentation,
};
use cachalot_mcp::{McpSettings, McpTransport};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use url::Url;

use super::Fixture;
use super::authorization_double::{Behavior, ProtectedServer};

/// The URL of a client ID metadata document; the double does not read it.
const DOCUMENT: &str = "https://client.example/metadata.json";

/// The folder of a user, and the logins in it.
struct User {
    fixture: Fixture,
}

impl User {
    fn new() -> Self {
        Self {
            fixture: Fixture::new(),
        }
    }

    /// A user whose runs open logins in a browser without a window, which follows redirects.
    fn with_browser() -> Self {
        let mut user = Self::new();
        let script = user.fixture.home.path().join("browser.py");
        std::fs::write(
            &script,
            "import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n",
        )
        .unwrap();
        let command = format!("python3 {}", script.display());
        let environment = &mut user.fixture.dependencies.mcp.environment;
        Arc::make_mut(environment).insert(IN_RUN_BROWSER.to_owned(), command);
        user
    }

    /// The next run of the same user.
    fn next_run(&self) -> Self {
        let mut fixture = Fixture::in_home_of(&self.fixture);
        fixture.dependencies.mcp.environment = self.fixture.dependencies.mcp.environment.clone();
        Self { fixture }
    }

    fn environment(&self) -> &BTreeMap<String, String> {
        &self.fixture.dependencies.mcp.environment
    }

    fn file(&self) -> LoginFile {
        LoginFile::of_user(self.environment()).unwrap()
    }

    async fn log_in(&self, server: &ProtectedServer) -> Result<Login, OauthError> {
        self.log_in_as(LoginRequest::new(server.url())).await
    }

    /// Logs in with a browser that follows redirects.
    async fn log_in_as(&self, mut request: LoginRequest) -> Result<Login, OauthError> {
        request.timeout = request.timeout.min(Duration::from_secs(60));
        let show = |url: &Url| {
            let url = url.clone();
            tokio::spawn(async move { reqwest::get(url).await.unwrap() });
        };
        let presentation = Presentation {
            show: &show,
            warn: &|_| {},
            pasted: None,
        };
        oauth::login(request, self.environment(), &self.file(), presentation).await
    }

    /// The error of a login.
    async fn refusal(&self, server: &ProtectedServer) -> String {
        self.log_in(server).await.unwrap_err().to_string()
    }

    fn settings(server: &ProtectedServer) -> McpSettings {
        let url = Secret::new(server.url());
        let headers = BTreeMap::new();
        McpSettings::new("test", McpTransport::Http { url, headers })
    }

    async fn call(&self, server: &ProtectedServer) -> String {
        let settings = Self::settings(server);
        let tools = self.fixture.tool_fixture(&[settings]).await;
        tools
            .done("mcp_test_echo", json!({ "text": "inside" }))
            .await
    }
}

async fn open(behavior: impl FnOnce(&mut Behavior)) -> ProtectedServer {
    let mut changed = Behavior::default();
    behavior(&mut changed);
    ProtectedServer::open(changed).await
}

#[tokio::test]
async fn metadata_is_found_in_each_place_and_the_token_is_used() {
    let default = Behavior::default();
    let variants = [
        default.clone(),
        // The well-known address of the path, without a challenge that names it.
        Behavior {
            names_metadata: false,
            ..default.clone()
        },
        // The root, and a path of OpenID Connect.
        Behavior {
            names_metadata: false,
            resource_path: Some("/.well-known/oauth-protected-resource"),
            metadata_path: "/.well-known/openid-configuration",
            ..default.clone()
        },
        Behavior {
            resource_path: Some("/elsewhere/resource.json"),
            issuer_path: "/tenant",
            metadata_path: "/.well-known/oauth-authorization-server/tenant",
            ..default.clone()
        },
        Behavior {
            issuer_path: "/tenant",
            metadata_path: "/.well-known/openid-configuration/tenant",
            ..default.clone()
        },
        Behavior {
            issuer_path: "/tenant",
            metadata_path: "/tenant/.well-known/openid-configuration",
            ..default
        },
    ];
    for behavior in variants {
        let shown = format!("{behavior:?}");
        let (user, server) = (User::new(), ProtectedServer::open(behavior).await);
        let login = user.log_in(&server).await.expect(&shown);
        assert_eq!(login.issuer, server.issuer());
        assert_eq!(user.call(&server).await, "inside");
        let log = server.log();
        assert_eq!(log.violations, Vec::<String>::new(), "{shown}");
        // In both requests: the double compares them.
        assert_eq!(log.tokens[0]["resource"], server.url(), "{shown}");
        assert_eq!(log.authorizations[0]["code_challenge_method"], "S256");
        assert_eq!(log.registrations[0]["application_type"], "native");
        assert_eq!(log.registrations.len(), 1);
    }
}

#[tokio::test]
async fn server_without_a_login_names_the_command() {
    let (user, server) = (User::new(), open(|_| {}).await);
    user.fixture.assemble(&[User::settings(&server)]).await;
    let warning = user.fixture.warnings().pop().unwrap();
    let command = format!("run `cachalot mcp login {}`", server.url());
    assert!(
        warning.contains("wants a login (HTTP 401)") && warning.contains(&command),
        "{warning}"
    );
    // Nothing was asked for unasked.
    assert!(server.log().authorizations.is_empty());
}

#[tokio::test]
async fn own_authorization_header_is_used_in_place_of_a_login() {
    let (user, server) = (User::new(), open(|_| {}).await);
    let login = user.log_in(&server).await.unwrap();
    let mut settings = User::settings(&server);
    let environment = user.environment();
    assert_eq!(settings.login(environment), Some(login.id));
    if let McpTransport::Http { headers, .. } = &mut settings.transport {
        let value = Secret::new("Bearer of-the-user".to_owned());
        headers.insert("authorization".to_owned(), value);
    }
    assert_eq!(settings.login(environment), None);
    user.fixture.assemble(&[settings]).await;
    let warning = user.fixture.warnings().pop().unwrap();
    assert!(
        warning.contains("give a valid token in `headers`"),
        "{warning}"
    );
    assert!(server.log().methods.is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn logins_are_readable_by_their_user_only_and_never_shown() {
    use std::os::unix::fs::PermissionsExt as _;
    let (user, server) = (User::new(), open(|_| {}).await);
    let login = user.log_in(&server).await.unwrap();
    let file = user.file();
    for path in [file.path().to_owned(), file.path().with_extension("lock")] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path:?}");
    }
    assert!(!format!("{login:?}").contains("token-"), "{login:?}");
    // The token is a secret of the run, too.
    let settings = User::settings(&server);
    let tools = user.fixture.tool_fixture(&[settings]).await;
    let token = login.access_token.expose();
    assert_eq!(
        tools.done("mcp_test_echo", json!({ "text": token })).await,
        "[secret]"
    );
}

#[tokio::test]
async fn damaged_file_of_logins_is_an_error_without_its_text() {
    let (user, server) = (User::new(), open(|_| {}).await);
    user.log_in(&server).await.unwrap();
    let file = user.file();
    let text = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(
        file.path(),
        text.replace("\"access_token\": \"", "\"access_token\": \"x\" \""),
    )
    .unwrap();
    let error = file.logins().unwrap_err().to_string();
    assert!(
        error.contains("is damaged") && !error.contains("token-"),
        "{error}"
    );
}

#[tokio::test]
async fn basic_cimd() {
    let (user, server) = (
        User::new(),
        open(|it| it.reads_client_documents = true).await,
    );
    let mut request = LoginRequest::new(server.url());
    request.client.id = Some(DOCUMENT.to_owned());
    let login = user.log_in_as(request.clone()).await.unwrap();
    assert_eq!(login.client.kind, ClientKind::MetadataDocument);
    assert_eq!(server.log().authorizations[0]["client_id"], DOCUMENT);
    assert_eq!(server.log().tokens[0]["client_id"], DOCUMENT);
    assert!(server.log().registrations.is_empty());
    // A server that does not read documents registers a client.
    server.change(|it| it.reads_client_documents = false);
    let login = user.log_in_as(request.clone()).await.unwrap();
    assert_eq!(login.client.kind, ClientKind::Dynamic);
    server.change(|it| it.registers = None);
    let error = user.log_in_as(request).await.unwrap_err().to_string();
    assert!(error.contains("registers no clients"), "{error}");
}

#[tokio::test]
async fn pre_registration() {
    let (user, server) = (User::new(), open(|it| it.registers = None).await);
    let error = user.refusal(&server).await;
    assert!(error.contains("give its ID with --client-id"), "{error}");
    let mut request = LoginRequest::new(server.url());
    request.client = ClientChoice {
        id: Some("known".to_owned()),
        secret: Some(Secret::new("of-it".to_owned())),
    };
    let login = user.log_in_as(request.clone()).await.unwrap();
    assert_eq!(login.client.kind, ClientKind::Registered);
    assert_eq!(server.log().tokens[0]["authorization"], "known:of-it");
    assert_eq!(user.call(&server).await, "inside");
    // A secret is not sent to another authorization server than the client is registered with.
    request.issuer = Some("https://other.example".to_owned());
    let error = user.log_in_as(request).await.unwrap_err();
    assert_eq!(error.kind, OauthErrorKind::Metadata);
    assert_eq!(server.log().tokens.len(), 1);
}

#[tokio::test]
async fn token_endpoint_auth() {
    let cases = [
        (json!(["client_secret_basic"]), Some("s"), None, "basic"),
        (json!(["client_secret_post"]), Some("s"), None, "post"),
        // Some servers want the ID in the body in any case.
        (
            json!(["client_secret_basic", "client_secret_post"]),
            Some("s"),
            None,
            "post",
        ),
        (json!(["none"]), None, None, "none"),
        // A secret that the server does not take.
        (json!(["none"]), Some("s"), None, "none"),
        // The answer to the registration decides.
        (
            json!(["client_secret_basic", "client_secret_post"]),
            Some("s"),
            Some("client_secret_post"),
            "post",
        ),
    ];
    for (methods, secret, answered, expected) in cases {
        let shown = format!("{methods} {answered:?}");
        let server = open(|it| {
            it.auth_methods = Some(methods);
            it.registers = Some((secret, answered));
        })
        .await;
        User::new().log_in(&server).await.expect(&shown);
        let log = server.log();
        let form = &log.tokens[0];
        let used = match (form.get("authorization"), form.get("client_secret")) {
            (Some(basic), None) => {
                assert_eq!(basic, "client-1:s");
                "basic"
            }
            (None, Some(secret)) => {
                assert_eq!(
                    (secret.as_str(), form["client_id"].as_str()),
                    ("s", "client-1")
                );
                "post"
            }
            (None, None) => {
                assert_eq!(form["client_id"], "client-1");
                "none"
            }
            both => panic!("{both:?}"),
        };
        assert_eq!(used, expected, "{shown}");
    }
    let server = open(|it| it.auth_methods = Some(json!(["private_key_jwt"]))).await;
    let error = User::new().refusal(&server).await;
    assert!(error.contains("supports none of the ways"), "{error}");
}

#[tokio::test]
async fn scopes_are_those_of_the_challenge_else_of_the_metadata_else_none() {
    let scope = |server: &ProtectedServer| {
        let log = server.log();
        log.authorizations[0].get("scope").cloned()
    };
    let cases = [
        (Some("a b"), Some(json!(["c"])), Some("a b")),
        (None, Some(json!(["c", "d"])), Some("c d")),
        (None, None, None),
    ];
    for (challenge, supported, expected) in cases {
        let server = open(|it| {
            it.challenge_scope = challenge;
            it.resource_scopes = supported;
        })
        .await;
        User::new().log_in(&server).await.unwrap();
        assert_eq!(scope(&server).as_deref(), expected);
    }
    // The user's own ones.
    let server = open(|it| it.challenge_scope = Some("a b")).await;
    let mut request = LoginRequest::new(server.url());
    request.scopes = Some(vec!["x".to_owned()]);
    User::new().log_in_as(request).await.unwrap();
    assert_eq!(scope(&server).as_deref(), Some("x"));
}

#[tokio::test]
async fn offline_access_is_requested_only_if_it_is_supported() {
    for (supported, expected) in [
        (json!(["offline_access", "a"]), "a offline_access"),
        (json!(["a"]), "a"),
    ] {
        let server = open(|it| {
            it.challenge_scope = Some("a");
            it.server_scopes = Some(supported);
        })
        .await;
        User::new().log_in(&server).await.unwrap();
        assert_eq!(server.log().authorizations[0]["scope"], expected);
    }
}

#[tokio::test]
async fn issuer_of_the_response_is_checked_before_the_code_is_used() {
    let accepted = [
        (Some(true), Some("{issuer}")),
        (None, Some("{issuer}")),
        (Some(false), None),
        (None, None),
    ];
    for (states, sent) in accepted {
        let server = open(|it| {
            it.states_issuer = states;
            it.response_issuer = sent;
        })
        .await;
        let login = User::new().log_in(&server).await;
        login.unwrap_or_else(|error| panic!("{states:?} {sent:?}: {error}"));
    }
    let refused = [
        // Missing, although the metadata states it.
        (Some(true), None),
        (Some(true), Some("https://other.example")),
        // Not stated, and wrong.
        (None, Some("https://other.example")),
        // Equal only after normalization.
        (Some(true), Some("{issuer}/")),
    ];
    for (states, sent) in refused {
        for denial in [None, Some("access_denied")] {
            let (user, server) = (User::new(), open(|_| {}).await);
            server.change(|it| {
                it.states_issuer = states;
                it.response_issuer = sent;
                it.denial = denial;
            });
            let error = user.refusal(&server).await;
            assert!(error.contains("was not used"), "{error}");
            assert!(!error.contains("access_denied"), "{error}");
            assert!(server.log().tokens.is_empty());
            assert_eq!(user.file().logins().unwrap(), []);
        }
    }
}

#[tokio::test]
async fn metadata_that_is_not_safe_is_refused() {
    type Change = fn(&mut Behavior);
    let cases: [(Change, &str); 4] = [
        (
            |it| it.metadata_issuer = Some("https://other.example"),
            "issuer mismatch",
        ),
        (
            |it| it.resource = Some("https://other.example/mcp"),
            "resource mismatch",
        ),
        (|it| it.challenge_methods = None, "PKCE"),
        (|it| it.challenge_methods = Some(json!(["plain"])), "PKCE"),
    ];
    for (change, expected) in cases {
        let (user, server) = (User::new(), open(change).await);
        let error = user.refusal(&server).await;
        assert!(error.contains(expected), "{error}");
        let log = server.log();
        assert!(log.registrations.is_empty() && log.authorizations.is_empty());
    }
    let server = open(|it| {
        it.resource_path = None;
        it.metadata_path = "/nowhere";
    })
    .await;
    let error = User::new().refusal(&server).await;
    assert!(error.contains("publishes no metadata"), "{error}");
}

#[tokio::test]
async fn addresses_that_send_tokens_in_clear_text_are_refused() {
    for url in [
        "http://mcp.example/",
        "http://10.0.0.1/mcp",
        "ftp://x/",
        "x",
    ] {
        let error = User::new().log_in_as(LoginRequest::new(url)).await;
        assert_eq!(error.unwrap_err().kind, OauthErrorKind::Invalid, "{url}");
    }
}

#[tokio::test]
async fn answer_with_another_state_is_not_used() {
    let (user, server) = (User::new(), open(|it| it.state = Some("of-others")).await);
    let mut request = LoginRequest::new(server.url());
    let (paste, pasted) = mpsc::channel(4);
    let warnings = std::sync::Mutex::new(Vec::new());
    let show = |url: &Url| {
        let (url, paste) = (url.clone(), paste.clone());
        tokio::spawn(async move {
            // The browser brings the foreign answer, and gets an error.
            let answer = reqwest::get(url.clone()).await.unwrap();
            assert_eq!(answer.status(), 400);
            let pairs: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
            let redirect = &pairs["redirect_uri"];
            // Other paths are not served.
            let other = redirect.replace("/callback", "/other");
            assert_eq!(reqwest::get(other).await.unwrap().status(), 404);
            // The user pastes the right one.
            for state in ["wrong", pairs["state"].as_str()] {
                let url = format!(
                    "{redirect}?code=code-1&state={state}&iss={}",
                    issuer_of(&url)
                );
                paste.send(url).await.unwrap();
            }
        });
    };
    request.timeout = Duration::from_secs(60);
    let presentation = Presentation {
        show: &show,
        warn: &|message| warnings.lock().unwrap().push(message.to_owned()),
        pasted: Some(pasted),
    };
    let login = oauth::login(request, user.environment(), &user.file(), presentation).await;
    assert_eq!(login.unwrap().issuer, server.issuer());
    let warnings = warnings.into_inner().unwrap();
    assert!(
        warnings[0].contains("belongs to another login"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("this URL belongs to another login"),
        "{warnings:?}"
    );
}

fn issuer_of(authorization: &Url) -> String {
    authorization.origin().ascii_serialization()
}

#[tokio::test]
async fn login_without_an_answer_ends() {
    let (user, server) = (User::new(), open(|_| {}).await);
    let mut request = LoginRequest::new(server.url());
    request.timeout = Duration::from_millis(50);
    let presentation = Presentation {
        show: &|_| {},
        warn: &|_| {},
        pasted: None,
    };
    let login = oauth::login(request, user.environment(), &user.file(), presentation).await;
    assert_eq!(login.unwrap_err().kind, OauthErrorKind::TimedOut);
}

#[tokio::test]
async fn refusal_of_the_user_is_reported() {
    let (user, server) = (
        User::new(),
        open(|it| it.denial = Some("access_denied")).await,
    );
    let error = user.refusal(&server).await;
    assert!(
        error.ends_with("refused the login (access_denied: text of the server)"),
        "{error}"
    );
}

#[tokio::test]
async fn token_is_renewed_before_it_expires_and_after_a_refusal() {
    let (user, server) = (User::new(), open(|it| it.expires_in = Some(0)).await);
    let first = user.log_in(&server).await.unwrap();
    server.change(|it| it.expires_in = Some(3600));
    assert_eq!(user.call(&server).await, "inside");
    let grants = |server: &ProtectedServer| -> Vec<String> {
        let log = server.log();
        let forms = log.tokens.iter();
        forms.map(|form| form["grant_type"].clone()).collect()
    };
    assert_eq!(grants(&server), ["authorization_code", "refresh_token"]);
    let second = user.file().logins().unwrap().remove(0);
    assert_ne!(second.access_token, first.access_token);
    assert_ne!(second.refresh_token, first.refresh_token);
    // The same login, as keys of results see it.
    assert_eq!(second.id, first.id);
    server.revoke_access();
    assert_eq!(user.call(&server).await, "inside");
    assert_eq!(grants(&server).len(), 3);
    // A refused refresh is not tried again, and says what to do.
    server.revoke_access();
    server.revoke_refresh();
    for _ in 0..2 {
        user.fixture.assemble(&[User::settings(&server)]).await;
        let warning = user.fixture.warnings().pop().unwrap();
        let command = format!("log in again with `cachalot mcp login {}`", server.url());
        assert!(warning.contains(&command), "{warning}");
    }
    assert_eq!(grants(&server).len(), 4);
    assert_eq!(server.log().authorizations.len(), 1);
}

#[tokio::test]
async fn concurrent_users_use_a_refresh_token_once() {
    let (user, server) = (User::new(), open(|it| it.expires_in = Some(0)).await);
    user.log_in(&server).await.unwrap();
    server.change(|it| it.expires_in = Some(3600));
    // Each has connections of its own, like a process.
    let runs: Vec<_> = (0..8).map(|_| Fixture::in_home_of(&user.fixture)).collect();
    let settings = [User::settings(&server)];
    let calls = runs.iter().map(|run| async {
        let tools = run.tool_fixture(&settings).await;
        tools
            .done("mcp_test_echo", json!({ "text": "inside" }))
            .await
    });
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer, "inside");
    }
    let log = server.log();
    assert_eq!(log.violations, Vec::<String>::new());
    assert_eq!(log.tokens.len(), 2);
}

#[tokio::test]
async fn scope_step_up() {
    let server = open(|it| {
        it.challenge_scope = Some("basic");
        it.call_scope = Some("write");
    })
    .await;
    // Without a browser for runs: the command with all scopes.
    let user = User::new();
    user.log_in(&server).await.unwrap();
    let tools = user.fixture.tool_fixture(&[User::settings(&server)]).await;
    let shown = tools.fails("mcp_test_echo", json!({ "text": "x" })).await;
    assert!(
        shown.contains("cachalot mcp login") && shown.contains("--scope 'basic write'"),
        "{shown}"
    );
    assert_eq!(server.log().authorizations.len(), 1);
    // With one, in the middle of the call.
    let user = User::with_browser();
    assert_eq!(user.call(&server).await, "inside");
    let scopes: Vec<Value> = {
        let log = server.log();
        let asked = log.authorizations[1..].iter();
        asked.map(|asked| json!(asked["scope"])).collect()
    };
    assert_eq!(scopes, ["basic", "basic write"]);
}

#[tokio::test]
async fn scope_retry_limit() {
    let server = open(|it| {
        it.challenge_scope = Some("basic");
        it.call_scope = Some("write");
        it.granted = Some("basic");
    })
    .await;
    let user = User::with_browser();
    let tools = user.fixture.tool_fixture(&[User::settings(&server)]).await;
    for _ in 0..3 {
        let shown = tools.fails("mcp_test_echo", json!({ "text": "x" })).await;
        assert!(shown.contains("wants more permissions"), "{shown}");
    }
    assert_eq!(server.log().authorizations.len(), 2);
}

#[tokio::test]
async fn authorization_server_migration() {
    let (first, second) = (open(|_| {}).await, open(|_| {}).await);
    let user = User::with_browser();
    assert_eq!(user.call(&first).await, "inside");
    // Its tokens are not valid any more, and others are issued elsewhere.
    first.revoke_access();
    first.migrate(second.issuer());
    // The double of the MCP server does not know tokens of the other one.
    let user = user.next_run();
    user.fixture.assemble(&[User::settings(&first)]).await;
    let warning = user.fixture.warnings().pop().unwrap();
    assert!(warning.contains("no longer accepts the login"), "{warning}");
    let log = second.log();
    assert_eq!(log.registrations.len(), 1);
    assert_eq!(log.tokens[0].get("refresh_token"), None);
    assert_eq!(first.log().tokens.len(), 1);
}

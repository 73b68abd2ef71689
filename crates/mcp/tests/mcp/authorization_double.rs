//! A double of an authorization server, and an MCP server behind it. Written for these tests: it follows RFC 6749,
//! 7591, 7636, 8414, 9207 and 9728 as far as a client can see them, and deviates where [`Behavior`] says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use cachalot_core::Digest;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use url::{Url, form_urlencoded};

use super::server::{Server, ServerBehavior};

/// The behavior of both servers.
#[derive(Debug, Clone)]
pub(crate) struct Behavior {
    /// The path of the issuer.
    pub(crate) issuer_path: &'static str,
    /// The path of the metadata of the authorization server.
    pub(crate) metadata_path: &'static str,
    /// The path of the metadata of the MCP server; `None` without such metadata.
    pub(crate) resource_path: Option<&'static str>,
    /// True if the challenge names the metadata of the MCP server.
    pub(crate) names_metadata: bool,
    /// The scope in the challenge.
    pub(crate) challenge_scope: Option<&'static str>,
    /// `scopes_supported` of the MCP server, and of the authorization server.
    pub(crate) resource_scopes: Option<Value>,
    pub(crate) server_scopes: Option<Value>,
    pub(crate) auth_methods: Option<Value>,
    /// Set if clients are registered: the secret that they get, and its use.
    pub(crate) registers: Option<(Option<&'static str>, Option<&'static str>)>,
    pub(crate) reads_client_documents: bool,
    pub(crate) challenge_methods: Option<Value>,
    pub(crate) states_issuer: Option<bool>,
    /// `iss` of the answer: `{issuer}` stands for the right one.
    pub(crate) response_issuer: Option<&'static str>,
    /// `issuer` of the metadata; the right one without it.
    pub(crate) metadata_issuer: Option<&'static str>,
    /// `resource` of the metadata; the right one without it.
    pub(crate) resource: Option<&'static str>,
    pub(crate) expires_in: Option<u64>,
    pub(crate) issues_refresh_tokens: bool,
    /// The error in place of a code.
    pub(crate) denial: Option<&'static str>,
    /// The state in place of the right one.
    pub(crate) state: Option<&'static str>,
    /// The scope that calls of tools need.
    pub(crate) call_scope: Option<&'static str>,
    /// The scopes that tokens have in truth, whatever was requested.
    pub(crate) granted: Option<&'static str>,
}

impl Default for Behavior {
    fn default() -> Self {
        Self {
            issuer_path: "",
            metadata_path: "/.well-known/oauth-authorization-server",
            resource_path: Some("/.well-known/oauth-protected-resource/mcp"),
            names_metadata: true,
            challenge_scope: None,
            resource_scopes: None,
            server_scopes: None,
            auth_methods: None,
            registers: Some((None, None)),
            reads_client_documents: false,
            challenge_methods: Some(json!(["S256"])),
            states_issuer: Some(true),
            response_issuer: Some("{issuer}"),
            metadata_issuer: None,
            resource: None,
            expires_in: Some(3600),
            issues_refresh_tokens: true,
            denial: None,
            state: None,
            call_scope: None,
            granted: None,
        }
    }
}

/// Requests that the servers got.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) paths: Vec<String>,
    pub(crate) registrations: Vec<Value>,
    pub(crate) authorizations: Vec<BTreeMap<String, String>>,
    /// The form of each token request, with `authorization` for the client of basic authentication.
    pub(crate) tokens: Vec<BTreeMap<String, String>>,
    pub(crate) methods: Vec<String>,
    /// Violations of the protocol.
    pub(crate) violations: Vec<String>,
}

#[derive(Default)]
struct Issued {
    codes: BTreeMap<String, BTreeMap<String, String>>,
    /// Access tokens that are valid, with their scopes.
    access: BTreeMap<String, BTreeSet<String>>,
    refresh: BTreeMap<String, String>,
    count: u32,
}

#[derive(Clone)]
struct Shared {
    origin: String,
    /// The authorization server that the metadata of the MCP server names.
    authorization_server: Arc<Mutex<String>>,
    behavior: Arc<Mutex<Behavior>>,
    log: Arc<Mutex<Log>>,
    issued: Arc<Mutex<Issued>>,
    server: Arc<Mutex<Server>>,
}

/// Both servers, on one port of loopback.
pub(crate) struct ProtectedServer {
    shared: Shared,
    serving: JoinHandle<()>,
}

impl Drop for ProtectedServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ProtectedServer {
    pub(crate) async fn open(behavior: Behavior) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let issuer = format!("{origin}{}", behavior.issuer_path);
        let shared = Shared {
            origin,
            authorization_server: Arc::new(Mutex::new(issuer)),
            behavior: Arc::new(Mutex::new(behavior)),
            log: Arc::default(),
            issued: Arc::default(),
            server: Arc::new(Mutex::new(Server::new(ServerBehavior::default()))),
        };
        let routes = Router::new().fallback(answer).with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { shared, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.shared.origin)
    }

    pub(crate) fn issuer(&self) -> String {
        let behavior = self.shared.behavior.lock().unwrap();
        format!("{}{}", self.shared.origin, behavior.issuer_path)
    }

    pub(crate) fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.shared.log.lock().unwrap()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Behavior)) {
        change(&mut self.shared.behavior.lock().unwrap());
    }

    /// Names another authorization server from now on.
    pub(crate) fn migrate(&self, issuer: String) {
        *self.shared.authorization_server.lock().unwrap() = issuer;
    }

    /// Accepts no token that was issued so far; refresh tokens stay valid.
    pub(crate) fn revoke_access(&self) {
        self.shared.issued.lock().unwrap().access.clear();
    }

    /// Accepts no refresh token that was issued so far.
    pub(crate) fn revoke_refresh(&self) {
        self.shared.issued.lock().unwrap().refresh.clear();
    }
}

async fn answer(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let behavior = shared.behavior.lock().unwrap().clone();
    let path = uri.path().to_owned();
    shared.log.lock().unwrap().paths.push(path.clone());
    let base = format!("{}{}", shared.origin, behavior.issuer_path);
    let endpoint = |name: &str| format!("{}/{name}", behavior.issuer_path);
    let json = |value: Value| ([(CONTENT_TYPE, "application/json")], value.to_string());
    if method == Method::GET && path == behavior.metadata_path {
        return json(shared.metadata(&behavior, &base)).into_response();
    }
    if method == Method::GET && Some(path.as_str()) == behavior.resource_path {
        let issuer = shared.authorization_server.lock().unwrap().clone();
        let own = format!("{}/mcp", shared.origin);
        let mut metadata = json!({
            "resource": behavior.resource.map_or(own, str::to_owned),
            "authorization_servers": [issuer],
        });
        if let Some(scopes) = behavior.resource_scopes {
            metadata["scopes_supported"] = scopes;
        }
        return json(metadata).into_response();
    }
    if path == endpoint("register") {
        return shared.register(&behavior, &body);
    }
    if path == endpoint("authorize") {
        return shared.authorize(&behavior, &base, uri.query().unwrap_or_default());
    }
    if path == endpoint("token") {
        return shared.token(&behavior, &headers, &body);
    }
    if path == "/mcp" && method == Method::POST {
        return shared.call(&behavior, &headers, &body);
    }
    StatusCode::NOT_FOUND.into_response()
}

fn form(text: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}

fn refusal(error: &str) -> Response {
    let body = json!({ "error": error }).to_string();
    (
        StatusCode::BAD_REQUEST,
        [(CONTENT_TYPE, "application/json")],
        body,
    )
        .into_response()
}

impl Shared {
    fn metadata(&self, behavior: &Behavior, base: &str) -> Value {
        let own = behavior
            .metadata_issuer
            .map_or(base.to_owned(), str::to_owned);
        let mut metadata = json!({
            "issuer": own,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "response_types_supported": ["code"],
        });
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                metadata[name] = value;
            }
        };
        let registration = behavior
            .registers
            .map(|_| json!(format!("{base}/register")));
        add("registration_endpoint", registration);
        add("scopes_supported", behavior.server_scopes.clone());
        let methods = behavior.auth_methods.clone();
        add("token_endpoint_auth_methods_supported", methods);
        let methods = behavior.challenge_methods.clone();
        add("code_challenge_methods_supported", methods);
        let states = behavior.states_issuer.map(Value::Bool);
        add("authorization_response_iss_parameter_supported", states);
        let reads = behavior.reads_client_documents.then_some(json!(true));
        add("client_id_metadata_document_supported", reads);
        metadata
    }

    fn register(&self, behavior: &Behavior, body: &[u8]) -> Response {
        let request: Value = serde_json::from_slice(body).unwrap();
        let mut log = self.log.lock().unwrap();
        log.registrations.push(request.clone());
        let Some((secret, method)) = behavior.registers else {
            return refusal("invalid_request");
        };
        let mut answer = json!({
            "client_id": format!("client-{}", log.registrations.len()),
            "redirect_uris": request["redirect_uris"],
        });
        if let Some(secret) = secret {
            answer["client_secret"] = json!(secret);
        }
        if let Some(method) = method {
            answer["token_endpoint_auth_method"] = json!(method);
        }
        let kind = [(CONTENT_TYPE, "application/json")];
        (StatusCode::CREATED, kind, answer.to_string()).into_response()
    }

    fn authorize(&self, behavior: &Behavior, base: &str, query: &str) -> Response {
        let request = form(query);
        let mut target = Url::parse(&request["redirect_uri"]).unwrap();
        {
            let mut pairs = target.query_pairs_mut();
            pairs.append_pair("state", behavior.state.unwrap_or(&request["state"]));
            if let Some(issuer) = behavior.response_issuer {
                pairs.append_pair("iss", &issuer.replace("{issuer}", base));
            }
            if let Some(error) = behavior.denial {
                pairs.append_pair("error", error);
                pairs.append_pair("error_description", "text of the server");
            } else {
                let mut issued = self.issued.lock().unwrap();
                issued.count += 1;
                let code = format!("code-{}", issued.count);
                pairs.append_pair("code", &code);
                issued.codes.insert(code, request.clone());
            }
        }
        self.log.lock().unwrap().authorizations.push(request);
        (StatusCode::FOUND, [(LOCATION, target.to_string())]).into_response()
    }

    fn token(&self, behavior: &Behavior, headers: &HeaderMap, body: &[u8]) -> Response {
        let mut request = form(std::str::from_utf8(body).unwrap());
        let basic = headers.get(AUTHORIZATION).map(|value| {
            let encoded = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
            String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap()
        });
        if let Some(basic) = &basic {
            request.insert("authorization".to_owned(), basic.clone());
        }
        let mut log = self.log.lock().unwrap();
        log.tokens.push(request.clone());
        let mut violation = |what: &str| log.violations.push(what.to_owned());
        let mut issued = self.issued.lock().unwrap();
        let scope = match request["grant_type"].as_str() {
            "authorization_code" => {
                let Some(asked) = issued.codes.remove(&request["code"]) else {
                    violation("the code is not valid");
                    return refusal("invalid_grant");
                };
                let verifier = Digest::sha256(request["code_verifier"].as_bytes());
                let challenge = BASE64_URL_SAFE_NO_PAD.encode(verifier.as_bytes());
                if asked.get("code_challenge") != Some(&challenge)
                    || asked.get("code_challenge_method").map(String::as_str) != Some("S256")
                {
                    violation("the verifier does not belong to the challenge");
                }
                for name in ["redirect_uri", "resource"] {
                    if request.get(name) != asked.get(name) || !request.contains_key(name) {
                        violation(&format!("another `{name}` than in the authorization"));
                    }
                }
                asked.get("scope").cloned().unwrap_or_default()
            }
            "refresh_token" => {
                if !request.contains_key("resource") {
                    violation("a refresh without `resource`");
                }
                // Each refresh token is accepted once.
                match issued.refresh.remove(&request["refresh_token"]) {
                    Some(scope) => scope,
                    None => {
                        violation("a refresh token is not valid, or was used before");
                        return refusal("invalid_grant");
                    }
                }
            }
            _ => return refusal("unsupported_grant_type"),
        };
        issued.count += 1;
        let token = format!("access-token-{}", issued.count);
        let granted = behavior.granted.unwrap_or(&scope);
        let scopes = granted.split_whitespace().map(str::to_owned).collect();
        issued.access.insert(token.clone(), scopes);
        let mut answer = json!({ "access_token": token, "token_type": "Bearer" });
        if let Some(seconds) = behavior.expires_in {
            answer["expires_in"] = json!(seconds);
        }
        if behavior.issues_refresh_tokens {
            let refresh = format!("refresh-token-{}", issued.count);
            answer["refresh_token"] = json!(refresh);
            issued.refresh.insert(refresh, scope);
        }
        ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
    }

    fn call(&self, behavior: &Behavior, headers: &HeaderMap, body: &[u8]) -> Response {
        let message: Value = serde_json::from_slice(body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let token = headers.get(AUTHORIZATION).map(|value| {
            let value = value.to_str().unwrap();
            value.strip_prefix("Bearer ").unwrap().to_owned()
        });
        let scopes =
            token.and_then(|token| self.issued.lock().unwrap().access.get(&token).cloned());
        let mut challenge = Vec::new();
        if behavior.names_metadata
            && let Some(path) = behavior.resource_path
        {
            let url = format!("{}{path}", self.origin);
            challenge.push(format!("resource_metadata=\"{url}\""));
        }
        let refused = |status: StatusCode, challenge: Vec<String>| {
            let header = format!("Bearer {}", challenge.join(", "));
            (status, [(WWW_AUTHENTICATE, header)]).into_response()
        };
        let Some(scopes) = scopes else {
            if let Some(scope) = behavior.challenge_scope {
                challenge.push(format!("scope=\"{scope}\""));
            }
            return refused(StatusCode::UNAUTHORIZED, challenge);
        };
        if let Some(scope) = behavior.call_scope
            && method == "tools/call"
            && !scopes.contains(scope)
        {
            challenge.push("error=\"insufficient_scope\"".to_owned());
            challenge.push(format!("scope=\"{scope}\""));
            return refused(StatusCode::FORBIDDEN, challenge);
        }
        self.log.lock().unwrap().methods.push(method.to_owned());
        let answers = self.server.lock().unwrap().answer(&message);
        match answers.as_slice() {
            [] => StatusCode::ACCEPTED.into_response(),
            [answer] => ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response(),
            several => {
                let events = several
                    .iter()
                    .map(|answer| format!("event: message\ndata: {answer}\n\n"));
                let kind = [(CONTENT_TYPE, "text/event-stream")];
                (kind, events.collect::<String>()).into_response()
            }
        }
    }
}

//! Handles one request: passes it on unread, or reads it and lets upstreams or the cache answer it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_cache::{CacheMode, CacheStatus};
use cachalot_core::text::truncate;
use cachalot_core::{Digest, DigestKey, Spend};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, header as http_header};
use hyper::body::Incoming;

use crate::answer_form::AnswerForm;
use crate::attempt::{Answered, Attempt, ReadRequest, not_cached};
use crate::body::{self, Body};
use crate::body_threads::LARGE;
use crate::call::tenant_of_credentials;
use crate::coding::{Coding, too_large};
use crate::command::CommandRun;
use crate::control::Controls;
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::outbound::OutboundHead;
use crate::parsed_body::{BodyParser, ParsedBody};
use crate::report::RequestReport;
use crate::request_api::Decision;
use crate::route::{self, Route};
use crate::run_body::RunRequest;
use crate::settings::{Caller, Candidates, Settings};
use crate::shared::Shared;
use crate::telemetry::request_span::RequestSpan;
use crate::telemetry::upstream_span::UpstreamSpan;
use crate::upstream::Upstream;
use crate::virtual_key::{VirtualKey, presented};
use crate::{cache_status, client, key_request, metrics, pass, tunnel};

/// The client of a request, and where the request may go.
struct Arrival {
    caller: Result<Caller, ErrorBody>,
    decision: Result<Decision, ErrorBody>,
}

impl Arrival {
    fn new(settings: &Settings, route: &Route, request: &Request<Incoming>) -> Self {
        let (headers, query) = (request.headers(), request.uri().query());
        let caller = settings.caller(headers, query);
        let decision = match &caller {
            Ok(caller) => settings.decide(caller, route, request.method(), headers, query),
            Err(error) => Err(error.clone()),
        };
        Self { caller, decision }
    }
}

/// Handles the requests of clients.
pub(crate) struct Handler {
    pub(crate) shared: Shared,
}

impl Handler {
    /// Handles a request.
    pub(crate) async fn handle(self: Arc<Self>, mut request: Request<Incoming>) -> Response<Body> {
        let start = Instant::now();
        if let Err(refusal) = self.shared.guard.check(request.uri(), request.headers()) {
            return ErrorBody::from(refusal).response(Endpoint::Other);
        }
        if let Some(command) = &self.shared.command {
            match command.without_secret(request.uri()) {
                Ok(uri) => *request.uri_mut() = uri,
                Err(error) => return error.response(Endpoint::Other),
            }
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        match path.as_str() {
            "/healthz" => return Response::new(body::full("ok\n")),
            "/readyz" => return self.shared.readiness.response().await,
            // With keys, only the operator sees what the others ask for.
            "/metrics" if self.shared.settings().keys.is_empty() => {
                return metrics::response(self.shared.metrics_text().await);
            }
            _ => {}
        }
        let mut report = RequestReport {
            method: method.to_string(),
            path,
            upstream: String::new(),
            endpoint: Endpoint::Other.name(),
            model: String::new(),
            key: None,
            status: 0,
            answered: "refused",
            error: "",
            reason: None,
            elapsed: Duration::ZERO,
            saved: Spend::default(),
        };
        let (mut span, mut key) = (RequestSpan::none(), None);
        let response = match route::find(&method, &report.path, request.headers()) {
            Err(error) => {
                report.refuse(&error);
                error.response(Endpoint::Other)
            }
            Ok(mut route) => {
                report.endpoint = route.endpoint.name();
                if let Some(command) = &self.shared.command {
                    route.in_command(command);
                }
                let settings = self.shared.settings();
                if route.agent.is_none() {
                    let replayed = settings.clients.replayed(request.headers());
                    route.agent = replayed.map(str::to_owned);
                }
                let arrival = Arrival::new(&settings, &route, &request);
                if let Ok(decision) = &arrival.decision {
                    route.api = decision.api;
                }
                span = RequestSpan::begin(
                    &self.shared.spans,
                    settings.collector.as_ref(),
                    &route,
                    &request,
                    start,
                    self.shared.clock.now(),
                );
                let answered = self.answer(&settings, &route, request, arrival, &span, &mut report);
                // Large, and not needed while the response is sent.
                match Box::pin(answered).await {
                    Ok(answered) => {
                        key = answered.key;
                        report.answered = answered.answered;
                        report.reason = answered.reason;
                        report.saved = answered.saved;
                        answered.response
                    }
                    Err(mut error) => {
                        report.refuse(&error);
                        if self.shared.command.is_some() {
                            error.end_client();
                        }
                        error.response(route.endpoint)
                    }
                }
            }
        };
        report.status = response.status().as_u16();
        report.elapsed = start.elapsed();
        report.log(key);
        self.shared.metrics.count(&report);
        (self.shared.observe)(&report);
        span.finish(response, &report, key)
    }

    async fn answer(
        &self,
        settings: &Settings,
        route: &Route,
        mut request: Request<Incoming>,
        arrival: Arrival,
        span: &RequestSpan,
        report: &mut RequestReport,
    ) -> Result<Answered, ErrorBody> {
        let caller = arrival.caller?;
        if let Some(key) = caller.key() {
            report.key = Some(key.name().to_owned());
            // Counted before the decision, so that refused requests of a key are limited, too.
            admit(key)?;
        }
        let decision = arrival.decision?;
        decision.remove_others(&mut request);
        let coding = Coding::of_body(request.headers());
        let why_unread = if tunnel::is_asked_for(&request) {
            Some(tunnel::REASON)
        } else if route.endpoint == Endpoint::Other {
            Some("the endpoint is passed through")
        } else if coding == Coding::Unknown {
            Some("the body has a coding that is not read")
        } else {
            None
        };
        if let Some(reason) = why_unread {
            let is_tunnel = reason == tunnel::REASON;
            let may_post = is_tunnel && tunnel::has_post(route);
            let wants_post = self.shared.frozen
                || self.shared.command.is_some()
                || route.agent.is_some()
                || (settings.websockets.is_none()
                    && settings.clients.posts_without_websocket(request.headers()));
            let is_refused = settings.websockets == Some(false);
            if (is_tunnel && is_refused) || (may_post && wants_post) {
                return Err(tunnel::refusal());
            }
            if self.shared.frozen {
                return Err(not_cached(reason));
            }
            let upstream =
                upstream_of_unread(settings, &caller, route, &decision, &request, reason);
            let upstream = upstream.map_err(|error| match error.code {
                NOT_ALLOWED if may_post => tunnel::refusal(),
                _ => error,
            })?;
            upstream.name().clone_into(&mut report.upstream);
            tracing::debug!(upstream = upstream.name(), reason, "passed on unread");
            let span = UpstreamSpan::new(span, &upstream);
            return self
                .pass(&upstream, route, request, &caller, reason, span)
                .await;
        }
        let (parts, incoming) = request.into_parts();
        if route.endpoint.has_body() {
            check_content_type(&parts.headers)?;
        }
        settings.check_reach(&caller, route, &decision)?;
        if caller.key().is_some() {
            key_request::check(route, &parts)?;
        }
        let sent = self.shared.bodies.read(&parts.headers, incoming).await?;
        let limits = self.shared.limits;
        // Until the body is parsed.
        let room = if coding.is_compressed() {
            Some(Arc::new(self.shared.bodies.room(limits.decoded_bytes)?))
        } else {
            None
        };
        let threads = &self.shared.body_threads;
        let held = || (sent.clone(), room.clone());
        let text = match coding.decode(&sent.bytes, LARGE) {
            Some(text) => text?,
            None => {
                let sent = sent.bytes.clone();
                let decode = move || coding.decode(&sent, limits.decoded_bytes);
                let decoded = threads.run(held(), decode).await?;
                decoded.unwrap_or_else(|| Err(too_large(limits.decoded_bytes)))?
            }
        };
        let endpoint = route.endpoint;
        let known = self.shared.body_index.get(endpoint, &text);
        // Judged by settings that may have changed since.
        let known = known.filter(|parsed| parsed.accepted == settings.accepted);
        let is_known = known.is_some();
        let parsed = match known {
            Some(parsed) => parsed,
            None => {
                let client = client_name(&caller, &parts, &self.shared.tenant_key);
                let parser = BodyParser {
                    endpoint,
                    client: &client,
                    accepted: &settings.accepted,
                    with_price: caller.key().is_some() || settings.prefix.keep_alive.is_some(),
                    max_values: limits.body_values,
                    index: &self.shared.pieces,
                    threads,
                };
                Arc::new(parser.parse(text.clone(), held()).await?)
            }
        };
        let body = &parsed.outline;
        let is_judged = body.is_object() || !endpoint.has_body();
        let canonical = match (parsed.canonical.as_ref(), caller.key()) {
            (Ok(canonical), None) => canonical,
            (Ok(canonical), Some(_)) if is_judged => canonical,
            // Nothing says which model the key would use, or what it would spend.
            (canonical, Some(_)) => {
                let reason = canonical.err().map(ToString::to_string);
                let reason = reason.as_deref().unwrap_or("it is read as no JSON object");
                let message = format!("the body has no canonical form: {reason}");
                return Err(ErrorBody::bad_request("malformed_body", message));
            }
            // Passed on, so that the client sees the provider's own error.
            (Err(error), None) if self.shared.frozen => {
                return Err(not_cached(&error.to_string()));
            }
            (Err(error), None) => {
                let reason = format!("the body has no canonical form: {error}");
                let query = parts.uri.query();
                let upstream =
                    upstream_for(settings, &caller, route, &decision, &parts.headers, query)?;
                upstream.name().clone_into(&mut report.upstream);
                let head = OutboundHead::new(&upstream, &caller, route, &parts)?;
                let passed = head.with(body::full(sent.bytes.clone()));
                let status = cache_status::of_pass(&reason);
                let span = UpstreamSpan::new(span, &upstream);
                let client = &self.shared.client;
                let response = pass::unread(client, &upstream, passed, status, span).await?;
                return Ok(passed_on(response, &reason));
            }
        };
        let form = AnswerForm::of_request(endpoint, &route.path, parts.uri.query(), body);
        let agent = route.agent.as_deref();
        let command = self.shared.command.as_ref();
        let of_command = command.and_then(|command| command.client.as_deref());
        let clients = &settings.clients;
        let client = clients
            .of_request(&parts.headers, agent, of_command)?
            .cloned();
        let run_body = if client.is_some() || agent.is_some() {
            let (text, parsed, client) = (text.clone(), Arc::clone(&parsed), client.clone());
            let is_small = text.len() < LARGE;
            let is_replayed = agent.is_some();
            let encode =
                move || RunRequest::new(&text, &parsed, client.as_deref(), is_replayed).body();
            if is_small {
                encode()
            } else {
                threads.run(held(), encode).await?
            }
        } else {
            None
        };
        drop(room);
        let (canonical, numbered_calls) = match run_body {
            Some(run_body) => (run_body.body, run_body.numbered_calls),
            None => (canonical.clone(), Vec::new()),
        };
        let of_recording = command.and_then(CommandRun::tenant);
        let mut controls = Controls::read(&parts.headers)?.in_gateway(self.shared.frozen);
        if command.is_some_and(|command| command.is_fresh) && controls.mode == CacheMode::On {
            controls.mode = CacheMode::Refresh;
        }
        let read = ReadRequest {
            route,
            decision: &decision,
            client,
            numbered_calls,
            session: clients.session(&parts.headers),
            sub_agent: clients.sub_agent(&parts.headers),
            kept_at: self.kept_at(&caller, &parsed).await,
            text,
            model: truncate(&endpoint.model(&route.path, body), MAX_MODEL).into_owned(),
            form,
            controls,
            tenant: match of_recording {
                Some(tenant) => Some(tenant),
                None => tenant(&caller, &parts.headers)?,
            },
            parts: &parts,
            sent,
            parsed: Arc::clone(&parsed),
            canonical,
            caller,
            times: settings.times,
            span,
            prefix: settings.prefix,
            settings: settings.number,
        };
        report.model.clone_from(&read.model);
        span.set_model(&read.model);
        if let Some(key) = read.caller.key() {
            self.check_key(key, &read).await?;
        }
        let answered = self.answer_read(settings, &read, report).await?;
        if answered.answered == CacheStatus::Hit.as_str() && !is_known {
            self.shared.body_index.keep(endpoint, &read.text, &parsed);
        }
        Ok(answered)
    }

    /// Returns the upstream that keeps the answers which a request names, if they are all that it refers to, and the key of
    /// the client has got them.
    async fn kept_at(&self, caller: &Caller, parsed: &ParsedBody) -> Option<String> {
        let key = caller.key()?;
        parsed.object_reference()?;
        let ids = parsed.endpoint.kept_answers(parsed.value())?;
        self.shared.kept_answers.upstream(key.name(), &ids).await
    }

    /// Checks that a key of the gateway may be used for a request.
    async fn check_key(&self, key: &VirtualKey, read: &ReadRequest<'_>) -> Result<(), ErrorBody> {
        let endpoint = read.route.endpoint;
        if endpoint.has_body() {
            key.check_model(&read.model)?;
        }
        // An unknown member may select another model, at another price.
        let is_limited = !key.config.models.is_empty();
        let differing = || endpoint.differing_model(&read.model, read.parsed.value());
        let other = read.parsed.extra_charge().map(str::to_owned);
        if is_limited && let Some(reason) = other.or_else(differing) {
            let message = format!("the key is limited to some models: {reason}");
            return Err(ErrorBody::forbidden("model_not_allowed", message));
        }
        self.shared
            .budgets
            .check(key.name(), key.config.budget)
            .await
    }

    /// Asks the upstreams for a request in turn, until one answers.
    async fn answer_read(
        &self,
        settings: &Settings,
        read: &ReadRequest<'_>,
        report: &mut RequestReport,
    ) -> Result<Answered, ErrorBody> {
        let route = read.route;
        // A conversation stays with one upstream, whose provider has cached its beginning. A session has no part in it:
        // an equal request of another one has to find the stored answer, which is that of one upstream.
        let digest = || {
            let beginning = read.parsed.beginning();
            let beginning = beginning.unwrap_or_else(|| read.canonical.value.digest());
            match &read.tenant {
                Some(tenant) => Digest::sha256_of_parts(&[tenant.as_bytes(), beginning.as_bytes()]),
                None => beginning,
            }
        };
        let Candidates {
            first,
            peers,
            fallbacks,
        } = settings.candidates(&read.caller, route, read.decision, &read.model, digest)?;
        tracing::debug!(
            endpoint = route.endpoint.name(),
            model = read.model.as_str(),
            key = read.caller.key().map_or("", |key| key.name()),
            upstream = first.name(),
            fallbacks = fallbacks.len(),
            judgement = read.parsed.cacheability.name(),
            "an upstream was chosen"
        );
        let (mut upstream, mut peers, mut fallbacks) = match &read.kept_at {
            None => (first, peers.into_iter(), fallbacks.into_iter()),
            // No other one has what the request names.
            Some(name) => {
                let mut all = std::iter::once(first).chain(peers).chain(fallbacks);
                let keeper = all.find(|upstream| upstream.name() == name);
                let keeper = keeper.ok_or_else(|| {
                    let message = format!(
                        "the request names an answer of the upstream `{name}`, which it does not reach"
                    );
                    ErrorBody::forbidden("object_not_allowed", message)
                })?;
                (keeper, Vec::new().into_iter(), Vec::new().into_iter())
            }
        };
        let mut failed: Option<Result<Answered, ErrorBody>> = None;
        loop {
            upstream.name().clone_into(&mut report.upstream);
            let answered = match Attempt::new(&self.shared, read, &upstream) {
                Ok(attempt) => attempt.answer().await,
                Err(error) => match failed.take() {
                    None => return Err(error),
                    // One in place of another is not for this request. A further one may be.
                    Some(failed) => failed,
                },
            };
            let is_paused = matches!(&answered, Err(error) if error.code == client::PAUSED);
            let has_failed = match &answered {
                Ok(answered) => client::has_failed(answered.response.status()),
                Err(error) => error.is_of_upstream(),
            };
            let peer = if is_paused { peers.next() } else { None };
            match peer.or_else(|| fallbacks.next()) {
                Some(next) if has_failed => (upstream, failed) = (next, Some(answered)),
                _ => return answered,
            }
        }
    }

    /// Passes a request on whose body is not read.
    async fn pass(
        &self,
        upstream: &Upstream,
        route: &Route,
        request: Request<Incoming>,
        caller: &Caller,
        reason: &str,
        span: UpstreamSpan,
    ) -> Result<Answered, ErrorBody> {
        let client = &self.shared.client;
        if reason == tunnel::REASON {
            let Ok(permit) = Arc::clone(&self.shared.tunnels).try_acquire_owned() else {
                let message = "too many WebSockets are open";
                return Err(ErrorBody::unavailable("too_many", message));
            };
            let (parts, incoming) = request.into_parts();
            let passed = OutboundHead::new(upstream, caller, route, &parts)?.with(body::full(""));
            let request = Request::from_parts(parts, incoming);
            let response = tunnel::open(client, upstream, request, passed, permit, span).await?;
            return Ok(passed_on(response, reason));
        }
        let (parts, incoming) = request.into_parts();
        let passed =
            OutboundHead::new(upstream, caller, route, &parts)?.with(body::passed(incoming));
        let status = cache_status::of_pass(reason);
        let response = pass::unread(client, upstream, passed, status, span).await?;
        Ok(passed_on(response, reason))
    }
}

/// The code of the refusal of a request whose body is not read, with a key of the gateway.
const NOT_ALLOWED: &str = "endpoint_not_allowed";

/// Returns the upstream for a request whose body is not read, if the client may send one there.
fn upstream_of_unread(
    settings: &Settings,
    caller: &Caller,
    route: &Route,
    decision: &Decision,
    request: &Request<Incoming>,
    reason: &str,
) -> Result<Arc<Upstream>, ErrorBody> {
    let (headers, query) = (request.headers(), request.uri().query());
    let upstream = upstream_for(settings, caller, route, decision, headers, query)?;
    if caller.credential(&upstream)?.is_some() {
        let message = format!("a key of the gateway does not permit this request: {reason}");
        return Err(ErrorBody::forbidden(NOT_ALLOWED, message));
    }
    Ok(upstream)
}

/// Returns the upstream for a request that is passed on. All requests of a client go to the same one, because they may
/// refer to objects there.
fn upstream_for(
    settings: &Settings,
    caller: &Caller,
    route: &Route,
    decision: &Decision,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Arc<Upstream>, ErrorBody> {
    let digest = || {
        let credentials: Vec<&[u8]> = presented(headers, query).map(str::as_bytes).collect();
        Digest::sha256_of_parts(&credentials)
    };
    let candidates = settings.candidates(caller, route, decision, "", digest)?;
    Ok(candidates.first)
}

/// Counts a request of a key.
fn admit(key: &VirtualKey) -> Result<(), ErrorBody> {
    key.rate.admit(Instant::now()).map_err(|(limit, wait)| {
        let message = format!("the key has reached its limit of {limit} per minute");
        let error = ErrorBody::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        error.retry_after(wait)
    })
}

/// Returns a name that no other client has: its key of the gateway, or the digest of its credentials.
fn client_name(caller: &Caller, parts: &Parts, key: &DigestKey) -> String {
    match caller.key() {
        Some(key) => format!("key:{}", key.name()),
        None => tenant_of_credentials(&parts.headers, parts.uri.query(), key),
    }
}

/// Returns the tenant of a client with a key of the gateway: the key, or the scope that the client names.
fn tenant(caller: &Caller, headers: &HeaderMap) -> Result<Option<String>, ErrorBody> {
    let scope = headers.get("x-cachalot-scope");
    let scope = scope.map(|scope| scope.to_str().unwrap_or_default());
    match (caller, scope) {
        (Caller::Key(key) | Caller::Named(key), scope) => key.tenant(scope).map(Some),
        (Caller::Own, None) => Ok(None),
        (Caller::Own, Some(_)) => Err(ErrorBody::forbidden(
            "scope_not_allowed",
            "only clients with a key of the gateway share answers",
        )),
    }
}

/// The maximum length of the name of a model in labels and reports, in characters.
const MAX_MODEL: usize = 128;

fn passed_on(response: Response<Body>, reason: &str) -> Answered {
    Answered {
        response,
        answered: "passed",
        reason: Some(reason.to_owned()),
        saved: Spend::default(),
        key: None,
    }
}

/// Checks that a body is JSON: forms that a web page may send without asking are refused.
fn check_content_type(headers: &HeaderMap) -> Result<(), ErrorBody> {
    // Only the upstream knows which one of several counts.
    let mut values = headers.get_all(http_header::CONTENT_TYPE).iter();
    let value = values.next().filter(|_| values.next().is_none());
    let value = value.and_then(|value| value.to_str().ok());
    let media = value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    // The body is judged as UTF-8, and a server may read it in another charset.
    let mut parameters = value.unwrap_or_default().split(';').skip(1);
    let is_utf8 = parameters.all(|parameter| {
        let (name, charset) = parameter.split_once('=').unwrap_or((parameter, ""));
        let charset = charset.trim().trim_matches('"');
        let names = ["utf-8", "utf8"];
        !name.trim().eq_ignore_ascii_case("charset")
            || names.iter().any(|name| name.eq_ignore_ascii_case(charset))
    });
    if media.eq_ignore_ascii_case("application/json") && is_utf8 {
        Ok(())
    } else {
        Err(ErrorBody::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            format!(
                "Content-Type is `{}`; expected application/json in UTF-8",
                value.unwrap_or_default()
            ),
        ))
    }
}

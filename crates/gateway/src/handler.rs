//! Handles one request: passes it on, or asks the engine for its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_cache::{
    Cache, CacheMode, CacheStatus, HANDLE_LABEL, HitPolicy, OrphanPolicy, Outcome, Policy, Reason,
    SingleFlight,
};
use cachalot_core::{Clock, DigestKey, SecretSet, Spend};
use cachalot_model::Catalog;
use cachalot_store::Label;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, header as http_header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};

use crate::body::{self, Body};
use crate::cache_status;
use crate::call::{self, CallIdentity, CallParts, Sample};
use crate::client::UpstreamClient;
use crate::control::Controls;
use crate::delivery::{Delivery, Lengths, Recipient};
use crate::endpoint::{Cacheability, DAY, Endpoint};
use crate::error_body::ErrorBody;
use crate::guard::Guard;
use crate::header;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::ordinals::{Ordinal, Ordinals, RunName};
use crate::recorded::FirstChunk;
use crate::replay::{self, Pace};
use crate::report::RequestReport;
use crate::request_body::{BodyRoom, RequestBody};
use crate::retries::{RETRY_WITHIN, Retries};
use crate::route::{self, Route};
use crate::run::{Keeping, RunContext, RunHead, SAMPLED};
use crate::upstream::Upstream;
use crate::{pass, tunnel};

/// Time for which a run without clients continues.
const FINISH_WITHIN: Duration = Duration::from_secs(300);
/// Time that a streaming request waits for the same run in another process.
const WAIT_FOR_STREAM: Duration = Duration::from_secs(2);
/// The same for a request for a whole answer.
const WAIT_FOR_WHOLE: Duration = Duration::from_secs(120);

/// The parts that all requests share.
pub(crate) struct Handler {
    pub(crate) guard: Guard,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) client: UpstreamClient,
    pub(crate) cache: Cache,
    pub(crate) tenant_key: DigestKey,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) ordinals: Arc<Ordinals>,
    pub(crate) retries: Arc<Retries>,
    pub(crate) lengths: Lengths,
    /// Room for WebSockets.
    pub(crate) tunnels: Arc<Semaphore>,
    pub(crate) bodies: BodyRoom,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observe: Arc<dyn Fn(&RequestReport) + Send + Sync>,
}

/// A response and what the report says about it.
struct Answered {
    response: Response<Body>,
    answered: &'static str,
    reason: Option<String>,
    saved: Spend,
}

/// A request whose body was read.
struct ReadRequest<'a> {
    route: &'a Route<'a>,
    parts: &'a Parts,
    sent: RequestBody,
    body: Value,
    model: String,
    is_streamed: bool,
    controls: Controls,
}

impl Handler {
    /// Handles a request.
    pub(crate) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let start = Instant::now();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if let Err(error) = self.guard.check(request.uri(), request.headers()) {
            return error.response(Endpoint::Other);
        }
        match path.as_str() {
            "/healthz" | "/readyz" => return Response::new(body::full("ok\n")),
            "/metrics" => return Response::new(body::full(self.metrics.text())),
            _ => {}
        }
        let mut report = RequestReport {
            method: method.to_string(),
            path,
            upstream: String::new(),
            endpoint: Endpoint::Other.name(),
            model: String::new(),
            status: 0,
            answered: "refused",
            reason: None,
            elapsed: Duration::ZERO,
            saved: Spend::default(),
        };
        let response = match route::find(&self.upstreams, &method, &report.path, request.headers())
        {
            Err(error) => {
                report.reason = Some(error.message.clone());
                error.response(Endpoint::Other)
            }
            Ok(route) => {
                route.upstream.name().clone_into(&mut report.upstream);
                report.endpoint = route.endpoint.name();
                match self.answer(&route, request, &mut report).await {
                    Ok(answered) => {
                        report.answered = answered.answered;
                        report.reason = answered.reason;
                        report.saved = answered.saved;
                        answered.response
                    }
                    Err(error) => {
                        report.reason = Some(error.message.clone());
                        error.response(route.endpoint)
                    }
                }
            }
        };
        report.status = response.status().as_u16();
        report.elapsed = start.elapsed();
        self.metrics.count(&report);
        (self.observe)(&report);
        response
    }

    async fn answer(
        &self,
        route: &Route<'_>,
        request: Request<Incoming>,
        report: &mut RequestReport,
    ) -> Result<Answered, ErrorBody> {
        let headers = request.headers();
        if tunnel::is_asked_for(&request) {
            let Ok(permit) = Arc::clone(&self.tunnels).try_acquire_owned() else {
                let message = "too many WebSockets are open";
                return Err(ErrorBody::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "too_many",
                    message,
                ));
            };
            let method = request.method().clone();
            let empty = body::full("");
            let passed =
                self.upstream_request(route, method, request.uri().query(), headers, empty)?;
            let response = tunnel::open(&self.client, request, passed, permit).await?;
            return Ok(passed_on(response, tunnel::REASON));
        }
        let coded = headers
            .get(http_header::CONTENT_ENCODING)
            .is_some_and(|coding| coding != "identity");
        if route.endpoint == Endpoint::Other || coded {
            let reason = match coded {
                true => "the body is compressed",
                false => "the endpoint is passed through",
            };
            let (parts, incoming) = request.into_parts();
            let passed = self.upstream_request(
                route,
                parts.method,
                parts.uri.query(),
                &parts.headers,
                body::passed(incoming),
            )?;
            let response =
                pass::unread(&self.client, passed, cache_status::of_pass(reason)).await?;
            return Ok(passed_on(response, reason));
        }
        let (parts, incoming) = request.into_parts();
        if route.endpoint.has_body() {
            check_content_type(&parts.headers)?;
        }
        let sent = self.bodies.read(&parts.headers, incoming).await?;
        // Malformed JSON is passed on, so that the client sees the provider's own error.
        let body: Value = serde_json::from_slice(&sent.bytes).unwrap_or_default();
        let read = ReadRequest {
            route,
            model: shortened(route.endpoint.model(&route.path, &body)),
            is_streamed: route
                .endpoint
                .is_streamed(&route.path, parts.uri.query(), &body),
            controls: Controls::read(&parts.headers)?,
            parts: &parts,
            sent,
            body,
        };
        report.model.clone_from(&read.model);
        self.answer_read(&read).await
    }

    async fn answer_read(&self, read: &ReadRequest<'_>) -> Result<Answered, ErrorBody> {
        let endpoint = read.route.endpoint;
        let canonical = match call::canonical(endpoint, &read.sent.bytes) {
            Ok(canonical) => canonical,
            Err(reason) => {
                let passed = self.request_of(read)?;
                let reason = format!("the body has no canonical form: {reason}");
                let status = cache_status::of_pass(&reason);
                let response = pass::unread(&self.client, passed, status).await?;
                return Ok(passed_on(response, &reason));
            }
        };
        let base = read.route.upstream.base();
        let parts = CallParts {
            endpoint,
            upstream: &base,
            path: &read.route.path,
            query: read.parts.uri.query(),
            headers: &read.parts.headers,
            body: &canonical,
            is_streamed: read.is_streamed,
            agent: read.route.agent.as_deref(),
        };
        let identify =
            |sample| CallIdentity::new(&parts, sample, &self.tenant_key, &self.secret_set);
        let identity = identify(Sample::Any);
        let mode = read.controls.mode;
        match endpoint.judge(&read.body) {
            Cacheability::Never(reason) => self.unstored(read, &identity, reason).await,
            Cacheability::Repeatable { ttl } => {
                self.stored(read, &identity, ttl, Keeping::Always).await
            }
            Cacheability::Sampled if read.route.agent.is_some() && mode != CacheMode::Off => {
                let Some(ordinal) = self.ordinal(read.route, &identity) else {
                    let reason = "too many different requests of the run are counted";
                    return self.unstored(read, &identity, reason.to_owned()).await;
                };
                let identity = identify(Sample::Ordinal(ordinal.number()));
                let delivery = Delivery::new(&self.lengths, identity.key());
                let settle = move |is_complete| ordinal.settle(is_complete);
                let recipient = Recipient::new(Arc::clone(&delivery), settle);
                let keeping = Keeping::Tracked(delivery);
                let answered = self.stored(read, &identity, DAY, keeping).await?;
                Ok(answered.received_by(recipient))
            }
            Cacheability::Sampled if mode == CacheMode::On => {
                let slot = self.retries.slot(identity.key(), Instant::now());
                let name = slot.name();
                let identity = identify(Sample::Attempt(&name));
                let delivery = Delivery::new(&self.lengths, identity.key());
                let settle = move |is_complete: bool| {
                    if !is_complete {
                        slot.free();
                    }
                };
                let recipient = Recipient::new(Arc::clone(&delivery), settle);
                let keeping = Keeping::IfUndelivered(delivery);
                let answered = self.stored(read, &identity, RETRY_WITHIN, keeping).await?;
                Ok(answered.received_by(recipient))
            }
            Cacheability::Sampled => self.unstored(read, &identity, SAMPLED.to_owned()).await,
        }
    }

    /// Returns the ordinal of a sampled request, if its client has opted in.
    fn ordinal(&self, route: &Route<'_>, identity: &CallIdentity) -> Option<Ordinal> {
        let run = RunName {
            tenant: identity.tenant().to_owned(),
            agent: route.agent.clone()?,
            run: route.run.clone(),
        };
        self.ordinals.next(run, identity.key(), Instant::now())
    }

    /// Returns the permitted operations: a fresh answer is asked for if the entry is older than the client accepts.
    ///
    /// # Errors
    /// The response to a client that accepts only an entry of a smaller age than there is.
    async fn mode(
        &self,
        read: &ReadRequest<'_>,
        identity: &CallIdentity,
    ) -> Result<CacheMode, ErrorBody> {
        let mode = read.controls.mode;
        let Some(max_age) = read.controls.max_age else {
            return Ok(mode);
        };
        let policy = self.policy(read, identity, mode, DAY, SingleFlight::Off);
        let Ok(found) = self.cache.probe(&identity.call(), &policy).await else {
            return Ok(mode);
        };
        let created = found.entry.map_or(0, |entry| entry.created);
        let age = self.clock.now().saturating_sub(created);
        match mode {
            _ if u128::from(age.unsigned_abs()) <= max_age.as_millis() => Ok(mode),
            CacheMode::On => Ok(CacheMode::Refresh),
            CacheMode::Frozen => Err(not_cached("the stored answer is older than `max-age`")),
            CacheMode::Refresh | CacheMode::Off | CacheMode::ReadOnly => Ok(mode),
        }
    }

    /// Returns the policy of a call whose answer may be stored for `ttl`.
    fn policy(
        &self,
        read: &ReadRequest<'_>,
        identity: &CallIdentity,
        mode: CacheMode,
        ttl: Duration,
        join: SingleFlight,
    ) -> Policy {
        let key = identity.key().to_string();
        let (upstream, endpoint) = (read.route.upstream.name(), read.route.endpoint.name());
        let handle = format!("{upstream}/{endpoint}/{}/{}", read.model, &key[..10]);
        let mut labels = vec![
            Label::new(HANDLE_LABEL, handle),
            Label::new("upstream", upstream),
            Label::new("model", read.model.as_str()),
        ];
        let agents = read.route.agent.iter();
        labels.extend(agents.map(|agent| Label::new("agent", agent.as_str())));
        let tags = read.controls.tags.iter();
        labels.extend(tags.map(|tag| Label::new("tag", tag.as_str())));
        Policy {
            mode,
            ttl: Some(read.controls.ttl.map_or(ttl, |asked| asked.min(ttl))),
            join,
            orphan: OrphanPolicy::Finish {
                within: FINISH_WITHIN,
            },
            max_bytes: self.limits.answer_bytes,
            labels,
            ..Policy::default()
        }
    }

    /// Passes a request on whose answer is not stored; the ledger gets its row.
    async fn unstored(
        &self,
        read: &ReadRequest<'_>,
        identity: &CallIdentity,
        reason: String,
    ) -> Result<Answered, ErrorBody> {
        if read.controls.mode == CacheMode::Frozen {
            return Err(not_cached(&reason));
        }
        let mode = read.controls.mode;
        let policy = self.policy(read, identity, mode, Duration::ZERO, SingleFlight::Off);
        let request = self.request_of(read)?;
        let reason = Reason::Declined(reason);
        let ticket = self.cache.bypass(&identity.call(), &policy, reason.clone());
        let status = CacheStatus::Bypass(reason.clone());
        let status = cache_status::of_call(&status, &identity.key(), None);
        let text = reason.to_string();
        let response = pass::read(self.run_context(read), request, ticket, reason, status).await?;
        Ok(Answered {
            response,
            answered: "bypass",
            reason: Some(text),
            saved: Spend::default(),
        })
    }

    /// Answers from the cache, or from a run whose answer may be stored for `ttl`.
    async fn stored(
        &self,
        read: &ReadRequest<'_>,
        identity: &CallIdentity,
        ttl: Duration,
        keeping: Keeping,
    ) -> Result<Answered, ErrorBody> {
        let mode = self.mode(read, identity).await?;
        let hit = HitPolicy {
            mode,
            domains: &[],
            session: None,
        };
        let mut join = match (&keeping, read.is_streamed) {
            // Slots are those of this process.
            (Keeping::IfUndelivered(_), _) => SingleFlight::Process,
            (_, true) => SingleFlight::AllProcesses {
                wait: WAIT_FOR_STREAM,
            },
            (_, false) => SingleFlight::AllProcesses {
                wait: WAIT_FOR_WHOLE,
            },
        };
        loop {
            let (head, head_of_run) = oneshot::channel();
            let policy = || self.policy(read, identity, mode, ttl, join);
            let work = |ticket| {
                let request = self.request_of(read);
                self.run_context(read)
                    .run(ticket, request, head, keeping.clone())
            };
            let call = identity.call();
            let outcome = self.cache.through_with(&call, &hit, policy, work).await;
            let outcome = outcome.map_err(|miss| not_cached(&miss.reason.to_string()))?;
            match self.respond(read, outcome, head_of_run, &keeping).await {
                Some(answered) => return answered,
                // The run of another request got no answer that can be shared: this request gets its own.
                None => join = SingleFlight::Off,
            }
        }
    }

    /// Returns the response for an outcome; `None` if a run of another request failed.
    async fn respond(
        &self,
        read: &ReadRequest<'_>,
        outcome: Outcome,
        head_of_run: oneshot::Receiver<RunHead>,
        keeping: &Keeping,
    ) -> Option<Result<Answered, ErrorBody>> {
        let is_shared = outcome.status == CacheStatus::Coalesced;
        let mut reader = outcome.body.reader();
        let first = match reader.next().await {
            Some(Ok(first)) => first,
            // The upstream did not answer.
            _ if is_shared => return None,
            _ => {
                let fault = head_of_run.await.ok().and_then(Result::err);
                let fault = fault.unwrap_or_else(|| {
                    ErrorBody::new(
                        StatusCode::BAD_GATEWAY,
                        "upstream_failed",
                        "the upstream gave no answer",
                    )
                });
                return Some(Err(fault));
            }
        };
        let mut response = match FirstChunk::decode(&first) {
            Ok(FirstChunk::Head(head)) if is_shared => {
                if head.status != StatusCode::OK.as_u16() {
                    return None;
                }
                replay::of_shared_run(&head, reader)
            }
            Ok(FirstChunk::Head(_)) => match head_of_run.await {
                Ok(Ok((status, headers))) => replay::of_own_run(status, headers, reader),
                Ok(Err(fault)) => return Some(Err(fault)),
                Err(_) => return None,
            },
            Ok(FirstChunk::Entry(recorded)) => {
                replay::of_entry(recorded, pace(&read.parts.headers))
            }
            Err(error) => {
                let message = format!("the stored answer is damaged: {error}");
                let fault =
                    ErrorBody::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged_entry", message);
                return Some(Err(fault));
            }
        };
        let entry = outcome.entry.filter(|_| outcome.status.is_hit());
        // A sampled answer is stored only if it is not delivered: its request is shown as one that does not ask the
        // cache, unless it is a retry.
        let shown = match (keeping, outcome.status) {
            (Keeping::IfUndelivered(_), CacheStatus::Miss(_)) => {
                CacheStatus::Bypass(Reason::Declined(SAMPLED.into()))
            }
            (_, status) => status,
        };
        let now = self.clock.now();
        let headers = response.headers_mut();
        let mut ttl = None;
        if let Some(entry) = &entry {
            let age = now.saturating_sub(entry.created).max(0) / 1_000;
            headers.insert(http_header::AGE, age.into());
            ttl = entry
                .expires
                .map(|expires| expires.saturating_sub(now) / 1_000);
        }
        let cache_status = cache_status::of_call(&shown, &outcome.key, ttl);
        headers.append(cache_status::HEADER, cache_status);
        Some(Ok(Answered {
            response,
            answered: shown.as_str(),
            reason: shown.reason().map(ToString::to_string),
            saved: entry.map_or_else(Spend::default, |entry| entry.spent),
        }))
    }

    fn run_context(&self, read: &ReadRequest<'_>) -> RunContext {
        RunContext {
            client: self.client.clone(),
            catalog: Arc::clone(&self.catalog),
            metrics: Arc::clone(&self.metrics),
            endpoint: read.route.endpoint,
            upstream: read.route.upstream.name().to_owned(),
            model: read.model.clone(),
            is_streamed: read.is_streamed,
            idle_timeout: self.limits.idle_timeout,
            max_bytes: self.limits.answer_bytes,
        }
    }

    fn request_of(&self, read: &ReadRequest<'_>) -> Result<Request<Body>, ErrorBody> {
        let parts = read.parts;
        let body = body::full(read.sent.bytes.clone());
        self.upstream_request(
            read.route,
            parts.method.clone(),
            parts.uri.query(),
            &parts.headers,
            body,
        )
    }

    fn upstream_request(
        &self,
        route: &Route<'_>,
        method: http::Method,
        query: Option<&str>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Request<Body>, ErrorBody> {
        let malformed = |error: http::Error| {
            ErrorBody::new(StatusCode::BAD_REQUEST, "malformed_path", error.to_string())
        };
        let uri = route.upstream.uri(&route.path, query).map_err(malformed)?;
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .body(body)
            .map_err(malformed)?;
        *request.headers_mut() = header::for_upstream(headers);
        Ok(request)
    }
}

impl Answered {
    /// Tracks the delivery of the response. An error is none: the client will ask again.
    fn received_by(mut self, recipient: Recipient) -> Self {
        if !self.response.status().is_success() {
            return self;
        }
        self.response = self
            .response
            .map(|body| recipient.receive(body).boxed_unsync());
        self
    }
}

/// The maximum length of the name of a model in labels and reports, in characters.
const MAX_MODEL: usize = 128;

fn shortened(model: String) -> String {
    match model.char_indices().nth(MAX_MODEL) {
        Some((end, _)) => format!("{}…", &model[..end]),
        None => model,
    }
}

fn passed_on(response: Response<Body>, reason: &str) -> Answered {
    Answered {
        response,
        answered: "passed",
        reason: Some(reason.to_owned()),
        saved: Spend::default(),
    }
}

fn not_cached(reason: &str) -> ErrorBody {
    ErrorBody::new(
        StatusCode::GATEWAY_TIMEOUT,
        "not_cached",
        format!("only an answer from the cache was asked for: {reason}"),
    )
}

/// Checks that a body is JSON: forms that a web page may send without asking are refused.
fn check_content_type(headers: &HeaderMap) -> Result<(), ErrorBody> {
    let value = headers
        .get(http_header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let media = value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    match media.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(ErrorBody::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            format!("Content-Type is `{media}`; expected application/json"),
        )),
    }
}

fn pace(headers: &HeaderMap) -> Pace {
    match headers
        .get("x-cachalot-replay")
        .map(http::HeaderValue::as_bytes)
    {
        Some(b"paced") => Pace::Original,
        _ => Pace::AtOnce,
    }
}

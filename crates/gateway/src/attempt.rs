//! One attempt to answer a request: from the cache, or from one upstream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_cache::{
    CacheMode, CacheStatus, EntryProvenance, HANDLE_LABEL, HitPolicy, Key, OrphanPolicy, Outcome,
    Policy, Reason, RunPolicy, SingleFlight,
};
use cachalot_core::{Digest, Spend};
use cachalot_store::Label;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, header as http_header};
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;

use crate::answer_form::AnswerForm;
use crate::billing::Billing;
use crate::body::Body;
use crate::cache_status;
use crate::call::{CallIdentity, CallParts, Sample, tenant_of_credentials};
use crate::call_ids::has_any;
use crate::checksum;
use crate::client_profile::Client;
use crate::config::{CacheTimes, KeepAliveConfig, PrefixConfig};
use crate::control::Controls;
use crate::delivery::{Delivery, Recipient};
use crate::endpoint::{Cacheability, DAY, MARKER_NAME};
use crate::error_body::{ErrorBody, NOT_CACHED};
use crate::header;
use crate::injection;
use crate::kept_answers::{self, KeptAnswers, Receiver, References};
use crate::key_body::KeyBody;
use crate::ordinals::{Ordinal, RunName};
use crate::outbound::{Outbound, OutboundHead};
use crate::parsed_body::ParsedBody;
use crate::pass;
use crate::payer::Payer;
use crate::prefix_watch::{self, PreviousBreak, SentBody, SentRequest, WatchedRequest};
use crate::price_bound;
use crate::recorded::FirstChunk;
use crate::renewal::Renewal;
use crate::renewal_notice::Renew;
use crate::replay::{self, Pace};
use crate::request_api::Decision;
use crate::request_body::RequestBody;
use crate::retries::RETRY_WITHIN;
use crate::route::Route;
use crate::run::{Keeping, RunContext, RunHead, SAMPLED};
use crate::run_body::RunRequest;
use crate::settings::Caller;
use crate::shared::Shared;
use crate::telemetry::request_span::RequestSpan;
use crate::telemetry::upstream_span::UpstreamSpan;
use crate::upstream::Upstream;

/// Maximum size of a body whose texts are searched for the reason of a miss, in bytes.
const MAX_SEARCHED: usize = 4 << 20;
/// Time for which a run without clients continues.
const FINISH_WITHIN: Duration = Duration::from_secs(300);
/// Time that a streaming request waits for the same run in another process.
const WAIT_FOR_STREAM: Duration = Duration::from_secs(2);
/// The same for a request for a whole answer.
const WAIT_FOR_WHOLE: Duration = Duration::from_secs(120);

/// A response and what the report says about it.
pub(crate) struct Answered {
    pub(crate) response: Response<Body>,
    pub(crate) answered: &'static str,
    pub(crate) reason: Option<String>,
    pub(crate) saved: Spend,
    /// The key of the call.
    pub(crate) key: Option<Key>,
}

/// A request whose body was read.
pub(crate) struct ReadRequest<'a> {
    pub(crate) route: &'a Route,
    pub(crate) decision: &'a Decision,
    pub(crate) parts: &'a Parts,
    pub(crate) sent: RequestBody,
    /// The body, decompressed.
    pub(crate) text: Bytes,
    pub(crate) parsed: Arc<ParsedBody>,
    /// The body for the key.
    pub(crate) canonical: KeyBody,
    /// The client by whose profile `canonical` is encoded.
    pub(crate) client: Option<Arc<Client>>,
    /// The IDs of calls that `canonical` has by their order only.
    pub(crate) numbered_calls: Vec<String>,
    /// The session that the client names in a header.
    pub(crate) session: Option<String>,
    /// The sub-agent that the request is of, as the client names it in a header.
    pub(crate) sub_agent: Option<String>,
    /// The upstream that keeps the answers which the request names, if the key of the client has got all of them.
    pub(crate) kept_at: Option<String>,
    pub(crate) model: String,
    pub(crate) form: AnswerForm,
    pub(crate) controls: Controls,
    pub(crate) caller: Caller,
    /// The tenant of a client with a key of the gateway.
    pub(crate) tenant: Option<String>,
    pub(crate) times: CacheTimes,
    pub(crate) span: &'a RequestSpan,
    pub(crate) prefix: PrefixConfig,
    /// The number of the settings.
    pub(crate) settings: u64,
}

/// The conditions under which the answer to a request is stored.
struct Storing {
    /// `None` if it does not expire.
    ttl: Option<Duration>,
    keeping: Keeping,
    /// True if no other request has had the key.
    is_new_key: bool,
    /// The number of the request among the equal ones of its run, from 0.
    ordinal: u32,
}

/// What an outcome of the engine gives.
enum Responded {
    Answered(Box<Result<Answered, ErrorBody>>),
    /// The run of another request failed.
    Nothing,
    /// The stored answer is none for this request, and why.
    Unfit(&'static str),
}

impl Responded {
    fn error(fault: ErrorBody) -> Self {
        Self::Answered(Box::new(Err(fault)))
    }
}

/// The label of an answer of a recording with the base URL of the server that gave it.
const SERVER: &str = "server";
/// The reason why a stored answer is not used that has the ID of a call of the request, too.
const OTHER_CALLS: &str = "the stored answer has the ID of a call of this request";
/// The reason why the answer of a recording is not used, unless nothing else may answer.
const OTHER_SERVER: &str = "the answer was recorded from another server";
/// The reason why a stored refusal is not used, unless nothing else may answer.
const REFUSED: &str = "the provider refused the request when it was recorded";

/// An attempt to answer a request.
pub(crate) struct Attempt<'a> {
    shared: &'a Shared,
    read: &'a ReadRequest<'a>,
    upstream: &'a Arc<Upstream>,
    payer: Option<Payer>,
    /// True if the credential of the operator is sent.
    is_of_operator: bool,
    /// The break of the previous request of the conversation, if the response shows it.
    previous_break: Option<PreviousBreak>,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt.
    ///
    /// # Errors
    /// The response to a client that may not reach the upstream, or whose budget needs a price that is not known.
    pub(crate) fn new(
        shared: &'a Shared,
        read: &'a ReadRequest<'a>,
        upstream: &'a Arc<Upstream>,
    ) -> Result<Self, ErrorBody> {
        let is_of_operator = read.caller.credential(upstream)?.is_some();
        if is_of_operator
            && read.kept_at.is_none()
            && let Some(member) = read.parsed.object_reference()
        {
            return Err(ErrorBody::forbidden(
                "object_not_allowed",
                format!(
                    "`{member}` refers to an object at the provider, which may belong to another client"
                ),
            ));
        }
        let payer = match read.caller.key() {
            None => None,
            Some(key) => Some(Payer {
                key: Arc::clone(key),
                budgets: shared.budgets.clone(),
                max_cost: if key.config.budget.is_unlimited() {
                    0
                } else {
                    max_cost(shared, read, upstream)?
                },
            }),
        };
        Ok(Self {
            shared,
            read,
            upstream,
            payer,
            is_of_operator,
            previous_break: read.prefix.header.then(PreviousBreak::default),
        })
    }

    /// Answers the request.
    ///
    /// # Errors
    /// The response to the client; another upstream may answer if [`ErrorBody::is_of_upstream`].
    pub(crate) async fn answer(&self) -> Result<Answered, ErrorBody> {
        let (read, shared) = (self.read, self.shared);
        // A replay has no server, and does not know which one answered. Another account may have other models and other
        // answers.
        let base = if self.recording().is_some() {
            self.upstream.name().to_owned()
        } else if self.is_of_operator {
            format!("{}#{}", self.upstream.base(), self.upstream.name())
        } else {
            self.upstream.base()
        };
        let parts = CallParts {
            endpoint: read.route.endpoint,
            upstream: &base,
            path: &read.route.path,
            query: read.parts.uri.query(),
            headers: &read.parts.headers,
            body: &read.canonical,
            client: read.client.as_deref(),
            numbered_calls: read.numbered_calls.len(),
            form: read.form,
            agent: read.route.agent.as_deref(),
            tenant: read.tenant.as_deref(),
        };
        let identify =
            |sample| CallIdentity::new(&parts, sample, &shared.tenant_key, &shared.secret_set);
        let identity = identify(Sample::Any);
        let mode = read.controls.mode;
        match &read.parsed.cacheability {
            Cacheability::Never(reason) => self.unstored(&identity, reason.clone()).await,
            Cacheability::Repeatable { ttl } => {
                let storing = Storing {
                    ttl: self.unless_recorded(*ttl),
                    keeping: Keeping::Always,
                    is_new_key: false,
                    ordinal: 0,
                };
                self.stored(&identity, storing).await
            }
            // Whoever names no run has all requests in one: a reference might be to an answer of another one.
            Cacheability::InRun(reason) if self.run_name().is_none() || !self.is_replayed() => {
                self.unstored(&identity, reason.clone()).await
            }
            Cacheability::Sampled | Cacheability::InRun(_) if self.is_replayed() => {
                let Some(ordinal) = self.ordinal(&identity) else {
                    let reason = "too many different requests of the run are counted";
                    return self.unstored(&identity, reason.to_owned()).await;
                };
                let number = ordinal.number();
                let identity = identify(Sample::Ordinal(number));
                let delivery = Delivery::new(&shared.lengths, identity.key(), read.form);
                let settle = move |is_complete| ordinal.settle(is_complete);
                let recipient = Recipient::new(Arc::clone(&delivery), settle);
                let storing = Storing {
                    ttl: self.unless_recorded(DAY),
                    keeping: Keeping::Tracked(delivery),
                    is_new_key: false,
                    ordinal: number,
                };
                let answered = self.stored(&identity, storing).await?;
                Ok(answered.received_by(recipient))
            }
            Cacheability::Sampled if mode == CacheMode::On => {
                let slot = shared.retries.slot(identity.key(), Instant::now());
                let (name, is_new_key) = (slot.name(), slot.is_new());
                let identity = identify(Sample::Attempt {
                    name: &name,
                    of: identity.key(),
                });
                let delivery = Delivery::new(&shared.lengths, identity.key(), read.form);
                // A retry of a client that has left gets this slot, and with it the key of the same answer.
                let settle = move |is_complete: bool| {
                    if !is_complete {
                        slot.free();
                    }
                };
                let recipient = Recipient::new(Arc::clone(&delivery), settle);
                let storing = Storing {
                    ttl: Some(RETRY_WITHIN),
                    keeping: Keeping::IfUndelivered(delivery),
                    is_new_key,
                    ordinal: 0,
                };
                let answered = self.stored(&identity, storing).await?;
                Ok(answered.received_by(recipient))
            }
            Cacheability::Sampled | Cacheability::InRun(_) => {
                self.unstored(&identity, SAMPLED.to_owned()).await
            }
        }
    }

    /// Returns true if the client or the operator asks for the replay of sampled answers.
    fn is_replayed(&self) -> bool {
        let read = self.read;
        read.route.agent.is_some() && read.controls.mode != CacheMode::Off
    }

    /// Returns a time to live; `None` in a recording, which is kept until it is erased.
    fn unless_recorded(&self, ttl: Duration) -> Option<Duration> {
        self.recording().is_none().then_some(ttl)
    }

    /// Returns true for an answer of a recording that another server gave.
    fn is_of_other_server(&self, entry: Option<&EntryProvenance>) -> bool {
        let labels = entry.into_iter().flat_map(|entry| entry.labels.iter());
        let server = labels.into_iter().find(|label| label.name == SERVER);
        self.recording().is_some()
            && server.is_none_or(|server| server.value != self.upstream.base())
    }

    fn recording(&self) -> Option<&str> {
        self.shared.command.as_ref()?.recording.as_deref()
    }

    /// Returns the name of the run: the one that the client gives it, or else that of its session.
    fn run_name(&self) -> Option<String> {
        let read = self.read;
        let of_session = || Some(format!("session {}", read.session.as_ref()?));
        read.route.run.clone().or_else(of_session)
    }

    /// Returns the ordinal of a sampled request, if its client has opted in.
    fn ordinal(&self, identity: &CallIdentity) -> Option<Ordinal> {
        let route = self.read.route;
        let run = RunName {
            tenant: identity.tenant().to_owned(),
            agent: route.agent.clone()?,
            run: self.run_name(),
        };
        self.shared
            .ordinals
            .next(run, identity.key(), Instant::now())
    }

    /// Returns the permitted operations: a fresh answer is asked for if the entry is older than the client accepts.
    ///
    /// # Errors
    /// The response to a client that accepts only an entry of a smaller age than there is.
    async fn mode(&self, identity: &CallIdentity) -> Result<CacheMode, ErrorBody> {
        let mode = self.read.controls.mode;
        let Some(max_age) = self.read.controls.max_age else {
            return Ok(mode);
        };
        let policy = self.policy(identity, mode, Some(DAY), SingleFlight::Off);
        let call = identity.call();
        let found = self.shared.cache.probe(identity.keyed(&call), &policy);
        let Ok(found) = found.await else {
            return Ok(mode);
        };
        let created = found.entry.map_or(0, |entry| entry.created);
        let age = self.shared.clock.now().saturating_sub(created);
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
        identity: &CallIdentity,
        mode: CacheMode,
        ttl: Option<Duration>,
        join: SingleFlight,
    ) -> Policy {
        Policy {
            hit: self.hit_policy(mode),
            run: self.run_policy(identity, ttl, join),
        }
    }

    fn hit_policy(&self, mode: CacheMode) -> HitPolicy {
        HitPolicy {
            mode,
            accepts: Some(self.read.form.accepts()),
            ..HitPolicy::default()
        }
    }

    fn run_policy(
        &self,
        identity: &CallIdentity,
        ttl: Option<Duration>,
        join: SingleFlight,
    ) -> RunPolicy {
        let (read, key) = (self.read, identity.key().to_string());
        let (upstream, endpoint) = (self.upstream.name(), read.route.endpoint.name());
        let handle = format!("{upstream}/{endpoint}/{}/{}", read.model, &key[..10]);
        let mut labels = vec![
            Label::new(HANDLE_LABEL, handle),
            Label::new("upstream", upstream),
            Label::new("model", read.model.as_str()),
        ];
        let agents = read.route.agent.iter();
        labels.extend(agents.map(|agent| Label::new("agent", agent.as_str())));
        if let Some(recording) = self.recording() {
            labels.push(Label::new(SERVER, self.upstream.base()));
            labels.push(Label::new("tag", format!("recording:{recording}")));
        }
        let tags = read.controls.tags.iter();
        labels.extend(tags.map(|tag| Label::new("tag", tag.as_str())));
        RunPolicy {
            // The shortest one counts: no party extends what another one permits.
            ttl: [read.controls.ttl, read.times.max_ttl, ttl]
                .into_iter()
                .flatten()
                .min(),
            join,
            orphan: OrphanPolicy::Finish {
                within: FINISH_WITHIN,
            },
            max_bytes: self.shared.limits.answer_bytes,
            form: read.form.for_engine(),
            stale_while_revalidate: read.times.stale_while_revalidate,
            // A client can shorten the window of the operator, and not extend it.
            stale_if_error: read
                .controls
                .stale_if_error
                .map_or(read.times.stale_if_error, |asked| {
                    asked.min(read.times.stale_if_error)
                }),
            labels,
            ..RunPolicy::default()
        }
    }

    /// Passes a request on whose answer is not stored; the ledger gets its row.
    async fn unstored(
        &self,
        identity: &CallIdentity,
        reason: String,
    ) -> Result<Answered, ErrorBody> {
        let read = self.read;
        if read.controls.mode == CacheMode::Frozen {
            return Err(not_cached(&reason));
        }
        let mode = read.controls.mode;
        let policy = self.policy(identity, mode, Some(Duration::ZERO), SingleFlight::Off);
        let outbound = self.outbound(identity)?;
        let reason = Reason::Declined(reason);
        let call = identity.call();
        let ticket = self
            .shared
            .cache
            .bypass(identity.keyed(&call), &policy, reason.clone());
        let status = CacheStatus::Bypass(reason.clone());
        let status = cache_status::of_call(&status, &identity.key(), None);
        let text = reason.to_string();
        let context = self.run_context(identity, Some(&outbound));
        let mut response = pass::read(context, &outbound, ticket, reason, status).await?;
        self.show_previous_break(response.headers_mut());
        Ok(Answered {
            response,
            answered: "bypass",
            reason: Some(text),
            saved: Spend::default(),
            key: Some(identity.key()),
        })
    }

    /// Answers from the cache, or from a run whose answer may be stored.
    async fn stored(
        &self,
        identity: &CallIdentity,
        storing: Storing,
    ) -> Result<Answered, ErrorBody> {
        let Storing {
            ttl,
            keeping,
            mut is_new_key,
            ordinal,
        } = storing;
        let mode = self.mode(identity).await?;
        let mut hit = self.hit_policy(mode);
        let mut join = match (&keeping, self.read.form.is_events()) {
            // The answer of a request with other IDs of calls may have one of them.
            _ if !self.read.numbered_calls.is_empty() => SingleFlight::Off,
            // Slots are those of this process.
            (Keeping::IfUndelivered(_), _) => SingleFlight::Process,
            (_, true) => SingleFlight::AllProcesses {
                wait: WAIT_FOR_STREAM,
            },
            (_, false) => SingleFlight::AllProcesses {
                wait: WAIT_FOR_WHOLE,
            },
        };
        let mut is_unfit = false;
        loop {
            let (head, head_of_run) = oneshot::channel();
            let run = || {
                let mut run = self.run_policy(identity, ttl, join);
                run.is_new_key = is_new_key;
                if is_unfit || !matches!(keeping, Keeping::Always) {
                    // An expired sample is no answer to a request for a new one, and neither is one that does not fit.
                    run.stale_while_revalidate = Duration::ZERO;
                    run.stale_if_error = Duration::ZERO;
                }
                run
            };
            let work = |ticket| {
                let outbound = self.outbound(identity);
                self.run_context(identity, outbound.as_ref().ok()).run(
                    ticket,
                    outbound,
                    head,
                    keeping.clone(),
                )
            };
            let call = identity.call();
            let asked = identity.keyed(&call);
            let outcome = self.shared.cache.through_with(asked, &hit, run, work).await;
            let outcome =
                outcome.map_err(|miss| not_cached(&self.why_absent(&miss.reason, ordinal)))?;
            match self.respond(outcome, head_of_run, &keeping, ordinal).await {
                Responded::Answered(answered) => return *answered,
                // The run of another request got no answer that can be shared: this request gets its own.
                Responded::Nothing => (join, is_new_key) = (SingleFlight::Off, false),
                Responded::Unfit(reason) if mode == CacheMode::Frozen => {
                    return Err(not_cached(reason));
                }
                Responded::Unfit(_) => (is_unfit, hit.mode) = (true, CacheMode::Refresh),
            }
        }
    }

    /// Returns the response for an outcome.
    async fn respond(
        &self,
        outcome: Outcome,
        head_of_run: oneshot::Receiver<Result<RunHead, ErrorBody>>,
        keeping: &Keeping,
        ordinal: u32,
    ) -> Responded {
        let is_shared = outcome.status == CacheStatus::Coalesced;
        let mut reader = outcome.body.into_reader();
        let first = match reader.next().await {
            Some(Ok(first)) => first,
            // The upstream did not answer.
            _ if is_shared => return Responded::Nothing,
            _ => {
                let fault = head_of_run.await.ok().and_then(Result::err);
                let fault = fault.unwrap_or_else(|| {
                    ErrorBody::new(
                        StatusCode::BAD_GATEWAY,
                        "upstream_failed",
                        "the upstream gave no answer",
                    )
                });
                return Responded::error(fault);
            }
        };
        let (mut entry, mut status) = (outcome.entry, outcome.status);
        let mut response = match FirstChunk::decode(&first) {
            Ok(FirstChunk::Head(head)) if is_shared => {
                // An error of another request's run is not passed on: this request gets a run of its own.
                if head.status != StatusCode::OK.as_u16() {
                    return Responded::Nothing;
                }
                replay::of_shared_run(&head, reader)
            }
            Ok(FirstChunk::Head(_)) => match head_of_run.await {
                Ok(Ok(RunHead::Upstream(status, headers))) => {
                    replay::of_own_run(status, headers, reader)
                }
                Ok(Err(fault)) => return Responded::error(fault),
                Ok(Ok(RunHead::Stale(_))) | Err(_) => return Responded::Nothing,
            },
            Ok(FirstChunk::Entry(recorded)) => {
                if !status.is_hit() && !is_shared {
                    // The run got an error, and serves an expired entry in place of it.
                    if let Ok(Ok(RunHead::Stale(provenance))) = head_of_run.await {
                        (entry, status) = (Some(provenance), CacheStatus::Stale);
                    }
                }
                if status.is_hit() && has_any(&recorded.body, &self.read.numbered_calls) {
                    return Responded::Unfit(OTHER_CALLS);
                }
                let is_asked = status.is_hit() && self.read.controls.mode != CacheMode::Frozen;
                if is_asked && self.is_of_other_server(entry.as_ref()) {
                    return Responded::Unfit(OTHER_SERVER);
                }
                // It may have been refused for want of credit, which is there by now.
                let is_refusal = recorded.head.status != StatusCode::OK.as_u16();
                if is_asked && is_refusal {
                    return Responded::Unfit(REFUSED);
                }
                let form = self.read.form;
                if recorded.head.form == form.number() {
                    replay::of_entry(recorded, pace(&self.read.parts.headers))
                } else {
                    match form.convert(&recorded) {
                        Some(body) => replay::of_converted(&recorded, form, body),
                        None => {
                            return Responded::error(damaged("it cannot be converted"));
                        }
                    }
                }
            }
            Err(error) => return Responded::error(damaged(&error.to_string())),
        };
        let entry = entry.filter(|_| status.is_hit());
        // A sampled answer is stored only if it is not delivered: its request is shown as one that does not ask the
        // cache, unless it is a retry.
        let shown = match (keeping, status) {
            (Keeping::IfUndelivered(_), CacheStatus::Miss(_)) => {
                CacheStatus::Bypass(Reason::Declined(SAMPLED.into()))
            }
            (_, CacheStatus::Miss(Reason::Absent)) if self.read.route.agent.is_some() => match self
                .why_absent(&Reason::Absent, ordinal)
            {
                reason if reason == Reason::Absent.to_string() => CacheStatus::Miss(Reason::Absent),
                reason => CacheStatus::Miss(Reason::Declined(reason)),
            },
            (_, status) => status,
        };
        let now = self.shared.clock.now();
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
        if entry.is_none() {
            self.show_previous_break(headers);
        }
        Responded::Answered(Box::new(Ok(Answered {
            response,
            answered: shown.as_str(),
            reason: shown.reason().map(ToString::to_string),
            saved: entry.map_or_else(Spend::default, |entry| entry.spent),
            key: Some(outcome.key),
        })))
    }

    /// Returns the reason why a run had no answer: it is a further sample, or the request may have a text that differs
    /// between two runs.
    fn why_absent(&self, reason: &Reason, ordinal: u32) -> String {
        if ordinal > 0 {
            return of_sample(reason, ordinal);
        }
        let read = self.read;
        let is_searched = *reason == Reason::Absent && read.text.len() <= MAX_SEARCHED;
        let client = read.client.as_ref().filter(|_| is_searched);
        let varying = client.and_then(|client| {
            RunRequest::new(&read.text, &read.parsed, Some(client), true).varying_text()
        });
        match varying {
            None => reason.to_string(),
            Some(text) => format!(
                "{reason}; its `{text}` may differ from that of the recorded run (ignore: [{text}])"
            ),
        }
    }

    /// Adds the header about the previous request, if this attempt has sent one and the break is known by now.
    fn show_previous_break(&self, headers: &mut HeaderMap) {
        let known = self.previous_break.as_ref();
        if let Some(value) = known.and_then(|previous| previous.get()) {
            headers.insert(prefix_watch::HEADER, value.clone());
        }
    }

    fn run_context(&self, identity: &CallIdentity, outbound: Option<&Outbound>) -> RunContext {
        let (read, shared) = (self.read, self.shared);
        let watched = outbound.and_then(|outbound| self.watched(identity, outbound));
        if let (Some(watched), Some(previous)) = (&watched, &self.previous_break) {
            watched.ask_for_previous(previous);
        }
        RunContext {
            client: shared.client.clone(),
            billing: self.billing(),
            metrics: Arc::clone(&shared.metrics),
            endpoint: read.route.endpoint,
            payer: self.payer.clone(),
            is_of_operator: self.is_of_operator,
            watched,
            guard: read.prefix.guard,
            references: self.references(),
            kept_for: self.kept_for(),
            numbered_calls: read.numbered_calls.clone(),
            keeps_refusals: self.recording().is_some(),
            upstream: self.upstream.name().to_owned(),
            model: read.model.clone(),
            hides_usage: self.adds_usage(),
            form: read.form,
            idle_timeout: self.shared.limits.idle_timeout,
            span: UpstreamSpan::new(read.span, self.upstream),
        }
    }

    /// Returns the request that renews the prefix of the request while its conversation is idle, if the operator wants
    /// that. A sub-agent is not continued by a user. A request that may cost more than its tokens may do more than to read
    /// the prefix, such as to run a tool of the provider.
    fn keep_alive(
        &self,
        identity: &CallIdentity,
        outbound: &Outbound,
    ) -> Option<(KeepAliveConfig, Arc<dyn Renew>)> {
        let (read, shared) = (self.read, self.shared);
        let config = read.prefix.keep_alive?;
        if self.is_compressed() || read.sub_agent.is_some() || read.parsed.extra_charge().is_some()
        {
            return None;
        }
        let identity = identity.of_renewal();
        let policy = self.policy(
            &identity,
            CacheMode::Off,
            Some(Duration::ZERO),
            SingleFlight::Off,
        );
        let renewal = Renewal {
            outbound: outbound.clone(),
            endpoint: read.route.endpoint,
            model: read.model.clone(),
            client: shared.client.clone(),
            billing: self.billing(),
            payer: self.payer.clone(),
            is_of_operator: self.is_of_operator,
            metrics: Arc::clone(&shared.metrics),
            cache: shared.cache.clone(),
            identity,
            policy,
            idle_timeout: shared.limits.idle_timeout,
            settings: read.settings,
        };
        Some((config, Arc::new(renewal)))
    }

    fn billing(&self) -> Billing {
        let (read, shared) = (self.read, self.shared);
        Billing::new(
            Arc::clone(&shared.catalog),
            Arc::clone(&shared.clock),
            read.route.endpoint,
            Arc::clone(self.upstream),
            read.model.clone(),
            &read.parsed.outline,
        )
    }

    /// Returns the request for the analysis of prefixes. A request that continues an answer which only the provider has
    /// cannot be compared.
    fn watched(&self, identity: &CallIdentity, outbound: &Outbound) -> Option<WatchedRequest> {
        let (read, shared) = (self.read, self.shared);
        let is_set = |name: &str| {
            read.parsed
                .outline
                .get(name)
                .is_some_and(|value| !value.is_null())
        };
        if !read.prefix.watch
            || !injection::has_prefix(read.route.endpoint)
            || injection::continues_elsewhere(is_set)
        {
            return None;
        }
        let key = read.caller.key();
        shared.prefixes.watch(SentRequest {
            tenant: self.client(identity),
            session: read.session.clone(),
            sub_agent: read.sub_agent.clone(),
            upstream: self.upstream.name().to_owned(),
            ignores_checksum: self.upstream.is_of_anthropic(),
            model: read.model.clone(),
            key: key.map_or_else(String::new, |key| key.name().to_owned()),
            call: identity.key(),
            bytes: outbound.body().len(),
            body: self.sent_body(outbound),
            at: shared.clock.now(),
            keep_alive: self.keep_alive(identity, outbound),
            is_guarded: read.prefix.guard.is_some(),
        })
    }

    /// Returns the name by which answers that the provider keeps are noted: that of the key of the gateway or, in a
    /// recording, which several accounts may share, that of the account. Other clients name objects of their own accounts.
    fn receiver(&self) -> Option<String> {
        let (read, shared) = (self.read, self.shared);
        match read.caller.key() {
            Some(key) => Some(key.name().to_owned()),
            None => {
                self.recording()?;
                let query = read.parts.uri.query();
                let account = tenant_of_credentials(&read.parts.headers, query, &shared.tenant_key);
                Some(kept_answers::account(&account))
            }
        }
    }

    /// Returns what a request of a recording names of earlier answers, which another account may have recorded.
    fn references(&self) -> Option<References> {
        self.recording()?;
        let read = self.read;
        read.parsed.object_reference()?;
        let ids = read.route.endpoint.kept_answers(read.parsed.value())?;
        Some(References {
            kept_answers: self.shared.kept_answers.clone(),
            receiver: self.receiver()?,
            ids: ids.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Returns who gets an answer that the provider keeps.
    fn kept_for(&self) -> Option<(KeptAnswers, Receiver)> {
        let (read, key) = (self.read, self.receiver()?);
        // Of a compaction and a count, nothing is kept.
        read.route.endpoint.format()?;
        let store = read
            .route
            .endpoint
            .members()?
            .stored_unless_false
            .as_ref()?;
        let is_kept = read.parsed.outline.get(store) != Some(&serde_json::Value::Bool(false));
        let receiver = Receiver {
            key,
            upstream: self.upstream.name().to_owned(),
        };
        is_kept.then(|| (self.shared.kept_answers.clone(), receiver))
    }

    /// Returns the body for the analysis of prefixes: its pieces, if they are those of the body that is sent, and all of
    /// them are compared.
    fn sent_body(&self, outbound: &Outbound) -> SentBody {
        let (sent, body) = (&self.read.sent.bytes, outbound.body());
        // The same bytes, not only equal ones.
        let is_unchanged = sent.as_ptr() == body.as_ptr() && sent.len() == body.len();
        let pieces = self.read.parsed.pieces.as_ref();
        let pieces = pieces.filter(|pieces| {
            let ignores_checksum = self.upstream.is_of_anthropic();
            is_unchanged
                && !self.is_compressed()
                && pieces.body.has_known_lists()
                && !(ignores_checksum && checksum::may_have(&pieces.body))
        });
        match pieces {
            Some(pieces) => SentBody::Pieces(Arc::clone(&pieces.body)),
            None => SentBody::Text(body.clone()),
        }
    }

    /// Returns the name of the client: its key of the gateway, even if it shares answers with others, or the digest of
    /// its credentials.
    fn client(&self, identity: &CallIdentity) -> String {
        match self.read.caller.key() {
            Some(key) => format!("key:{}", key.name()),
            None => identity.tenant().to_owned(),
        }
    }

    /// Returns the body for the upstream: the client's, with the additions that the operator wants.
    fn body(&self, identity: &CallIdentity) -> Bytes {
        let read = self.read;
        let (sent, options) = (&read.sent.bytes, read.prefix);
        let endpoint = read.route.endpoint;
        let changed = if options.inject_breakpoints && endpoint.takes(MARKER_NAME) {
            injection::with_breakpoints(sent, read.parsed.value())
        } else if options.prompt_cache_key && endpoint.takes(injection::CACHE_KEY) {
            injection::with_cache_key(sent, &read.parsed.outline, |first| {
                let client = self.client(identity);
                let parts = std::iter::once(client.as_str()).chain(first.iter().copied());
                let parts: Vec<&[u8]> = parts.map(str::as_bytes).collect();
                let digest = Digest::sha256_of_parts(&parts);
                let digest = self.shared.tenant_key.digest(digest.as_bytes());
                format!("cachalot-{}", &digest.to_hex()[..32])
            })
        } else {
            None
        };
        let body = changed.map_or_else(|| sent.clone(), Bytes::from);
        let asked = self
            .adds_usage()
            .then(|| injection::with_usage(&body, &read.parsed.outline));
        asked.flatten().map_or(body, Bytes::from)
    }

    /// Returns true if the gateway asks for the usage of the stream, which the client does not get.
    fn adds_usage(&self) -> bool {
        let read = self.read;
        self.upstream.stream_usage
            && read.route.endpoint.selects_form_by("stream_options")
            && !self.is_compressed()
            && injection::leaves_out_usage(&read.parsed.outline)
    }

    fn is_compressed(&self) -> bool {
        let headers = &self.read.parts.headers;
        headers.contains_key(http_header::CONTENT_ENCODING)
    }

    fn outbound(&self, identity: &CallIdentity) -> Result<Outbound, ErrorBody> {
        let read = self.read;
        let head = OutboundHead::new(self.upstream, &read.caller, read.route, read.parts)?;
        let body = self.body(identity);
        Ok(Outbound::new(Arc::clone(self.upstream), head, body))
    }
}

impl Answered {
    /// Tracks the delivery of the response. An error is none: the client will ask again.
    fn received_by(mut self, recipient: Recipient) -> Self {
        if !self.response.status().is_success() {
            return self;
        }
        let length = header::content_length(self.response.headers());
        self.response = self
            .response
            .map(|body| recipient.receive(body, length).boxed_unsync());
        self
    }
}

/// Returns the maximum cost of the request, for a key with a budget.
fn max_cost(
    shared: &Shared,
    read: &ReadRequest<'_>,
    upstream: &Upstream,
) -> Result<u64, ErrorBody> {
    let bound = price_bound::of_request(
        (&*shared.catalog, shared.clock.now()),
        upstream,
        &read.model,
        &read.parsed,
        read.text.len(),
        header::asks_for_longer_context(&read.parts.headers),
    );
    bound.map_err(|reason| {
        let message =
            format!("the key has a budget, and the cost of the request is not bounded: {reason}");
        ErrorBody::forbidden("unknown_cost", message)
    })
}

/// Returns the reason of a miss; of a further sample, why the answer to an equal request of the run was not used.
fn of_sample(reason: &Reason, ordinal: u32) -> String {
    match (reason, ordinal) {
        (reason, 0) => reason.to_string(),
        (Reason::Absent, ordinal) => format!("sample {} of this run", ordinal + 1),
        (reason, ordinal) => format!("sample {} of this run: {reason}", ordinal + 1),
    }
}

fn damaged(reason: &str) -> ErrorBody {
    let message = format!("the stored answer is damaged: {reason}");
    ErrorBody::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged_entry", message)
}

/// Returns the response to a request that only the cache may answer, and cannot.
pub(crate) fn not_cached(reason: &str) -> ErrorBody {
    ErrorBody::new(
        StatusCode::GATEWAY_TIMEOUT,
        NOT_CACHED,
        format!("only an answer from the cache was asked for: {reason}"),
    )
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

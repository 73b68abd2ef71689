//! `cache.wrap`: memoizes any action.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::{
    BeginResult, CacheMode, CacheStatus, Call, CallKind, CallSummary, Domain,
    Failure as RunFailure, HANDLE_LABEL, HitPolicy, Observation, Outcome, Policy, Reason,
    RunPolicy, RunResult, Scope, SingleFlight, Ticket,
};
use cachalot_core::tree::Node;
use cachalot_core::{Canonical, Effects, Problem, Spend};
use cachalot_store::Label;
use serde_json::{Value, json};

use super::TAG_LABEL;
use super::check::{self, ABOUT};
use super::handle::sealed;
use super::identity::{Guard, Identity, identify, nested_inputs, witnessed_paths};
use super::request::{Request, RequestError, invalid};
use super::response::{self, DecodedResult, Response};
use crate::action::announced;
use crate::actions::arguments::declared_by;
use crate::{
    Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Planned, Registry,
    Runtime, spending,
};

/// The maximum time that a call waits for another process that runs the same call.
const LEADER_TIMEOUT: Duration = Duration::from_secs(600);

pub(in crate::actions) struct Wrap;

#[async_trait]
impl Operation for Wrap {
    declared_by!(ABOUT);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        match Request::read(arguments.clone(), runtime) {
            Ok(request) => request.effects(runtime),
            Err(_) => Effects::UNKNOWN,
        }
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let request =
            Request::read(arguments.clone(), runtime).map_err(|refused| refused.failure)?;
        nested_inputs(&request, runtime)
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let answer = self.run_shared(arguments, runtime).await;
        answer.map(Arc::unwrap_or_clone)
    }
}

#[async_trait]
impl Action for Wrap {
    fn domains(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Domain> {
        match Request::read(arguments.clone(), runtime) {
            Ok(request) => request.domains(runtime),
            Err(_) => Vec::new(),
        }
    }

    fn check(&self, with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
        check::wrap(with, registry)
    }

    fn is_tool(&self) -> bool {
        false
    }

    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        let read = Request::read(arguments, runtime);
        let request = read.map_err(|refused| redacted(refused.failure, runtime))?;
        let pays = |handle: Option<String>, reason: &Reason| Planned::Miss {
            handle,
            reason: runtime.secret_set.redact(&reason.to_string()).into_owned(),
        };
        if request.mode == CacheMode::Off {
            return Ok(pays(None, &Reason::Off));
        }
        let identity = match identify(&request, runtime).await {
            Ok(identity) => identity,
            Err(reason) => return Ok(pays(None, &reason)),
        };
        let handle = identity.handle(&request, runtime);
        let policy = Policy {
            hit: hit_policy(&request, runtime),
            run: run_policy(&request, Some(handle), runtime),
        };
        match runtime
            .cache
            .probe(&call(&request, &identity.input), &policy)
            .await
        {
            Err(reason) => Ok(pays(Some(handle.to_owned()), &reason)),
            Ok(outcome) => match outcome.body.decoded(DecodedResult::decode).await {
                Err(failure) => Ok(pays(
                    Some(handle.to_owned()),
                    &Reason::Damaged(failure.to_string()),
                )),
                Ok(answer) => {
                    let summary = outcome.settled().await;
                    let response = served_response(&outcome, &summary);
                    let result = answer.respond(&response, || handle, runtime);
                    Ok(Planned::Hit {
                        result: Arc::unwrap_or_clone(result),
                        handle: handle.to_owned(),
                    })
                }
            },
        }
    }

    async fn run_shared(
        &self,
        arguments: Arguments,
        runtime: &Runtime,
    ) -> Result<Arc<Value>, Failure> {
        let answer = match read_request(arguments, runtime) {
            Ok(request) => answer(request, runtime).await,
            Err(refused) => refused,
        };
        answer.map_err(|failure| redacted(failure, runtime))
    }
}

/// Reads a request. The error is the answer to a call that is not carried out.
fn read_request(
    arguments: Arguments,
    runtime: &Runtime,
) -> Result<Box<Request>, Result<Arc<Value>, Failure>> {
    // Boxed, since the future of a hit is allocated, so it should be small.
    Request::read(arguments, runtime)
        .map(Box::new)
        .map_err(|RequestError { failure, returned }| {
            if returned {
                Ok(Arc::new(response::error(&redacted(failure, runtime), None)))
            } else {
                Err(failure)
            }
        })
}

/// Returns the failure without secrets, as required before it leaves the registry.
fn redacted(failure: Failure, runtime: &Runtime) -> Failure {
    let message = runtime.secret_set.redact(&failure.message).into_owned();
    Failure { message, ..failure }
}

fn call<'a>(request: &'a Request, input: &'a Canonical) -> Call<'a> {
    Call {
        kind: CallKind::Action,
        scope: &request.scope,
        name: request.name(),
        input,
    }
}

fn hit_policy(request: &Request, runtime: &Runtime) -> HitPolicy {
    HitPolicy {
        mode: request.mode,
        domains: request.domains(runtime),
        ..HitPolicy::default()
    }
}

fn run_policy(request: &Request, handle: Option<&str>, runtime: &Runtime) -> RunPolicy {
    let handle = handle.map(|handle| Label::new(HANDLE_LABEL, handle));
    let tags = request
        .tags
        .iter()
        .map(|tag| Label::new(TAG_LABEL, sealed(tag.clone(), &runtime.secret_set)));
    RunPolicy {
        ttl: Some(match request.action.metadata().cache_class {
            // An action that declares how long its results last is never kept longer.
            CacheClass::Ttl(declared) => declared.min(request.ttl),
            _ => request.ttl,
        }),
        join: SingleFlight::AllProcesses {
            wait: LEADER_TIMEOUT,
        },
        labels: handle.into_iter().chain(tags).collect(),
        ..RunPolicy::default()
    }
}

/// Answers a call. The code path of a run is separate from that of a hit: its future is large, and hits
/// are frequent.
async fn answer(request: Box<Request>, runtime: &Runtime) -> Result<Arc<Value>, Failure> {
    let frozen = match request.mode {
        CacheMode::Frozen => request.alternatives(runtime),
        _ => Vec::new(),
    };
    let miss = match answer_request(request, runtime).await {
        Err(miss) if miss.kind == FROZEN_MISS => miss,
        answer => return answer,
    };
    // Looks for the answer that an alternative gave when the call failed.
    for alternative in frozen {
        match Box::pin(answer_request(Box::new(alternative), runtime)).await {
            Err(failure) if failure.kind == FROZEN_MISS => {}
            answer => return answer,
        }
    }
    Err(miss)
}

/// The failure kind of a call that a frozen run does not find in the cache.
const FROZEN_MISS: &str = "frozen_miss";

async fn answer_request(request: Box<Request>, runtime: &Runtime) -> Result<Arc<Value>, Failure> {
    if request.mode == CacheMode::Off {
        return Box::pin(run_uncached(request, Reason::Off, runtime)).await;
    }
    let identified = identify(&request, runtime).await;
    // Borrowed: a second binding would have its own place in the future.
    let identity = match &identified {
        Ok(identity) => identity,
        Err(reason) if request.mode == CacheMode::Frozen => {
            let name = request.name();
            let message = format!("frozen: {name} is not answered by the cache ({reason})");
            return Err(Failure::new(FROZEN_MISS, message));
        }
        Err(reason) => {
            let reason = reason.clone();
            return Box::pin(run_uncached(request, reason, runtime)).await;
        }
    };
    match ask_cache(&request, identity, runtime).await? {
        CacheReply::Served(answer) => Ok(answer),
        CacheReply::Runs { ticket, damage } => {
            let run = WrappedRun {
                ticket: *ticket,
                handle: Some(identity.handle(&request, runtime).to_owned()),
                guard: identified.ok().and_then(|identity| identity.guard),
                damage,
            };
            Box::pin(run.lead(request, runtime)).await.map(Arc::new)
        }
    }
}

/// The cache's response to a call.
enum CacheReply {
    Served(Arc<Value>),
    Runs {
        ticket: Box<Ticket>,
        /// The damage of the entry that this run replaces.
        damage: Option<Reason>,
    },
}

async fn ask_cache(
    request: &Request,
    identity: &Identity,
    runtime: &Runtime,
) -> Result<CacheReply, Failure> {
    let handle = || identity.handle(request, runtime);
    let mut hit = hit_policy(request, runtime);
    let mut damage = None;
    loop {
        // Built for a miss only: its labels need the handle, for which the arguments are encoded and hashed again.
        let run = || run_policy(request, Some(handle()), runtime);
        let call = call(request, &identity.input);
        let started = runtime.cache.begin_with(&call, &hit, run).await;
        let outcome = match started.map_err(|miss| Failure::new(FROZEN_MISS, miss.to_string()))? {
            BeginResult::Run(ticket) => {
                let ticket = Box::new(ticket);
                return Ok(CacheReply::Runs { ticket, damage });
            }
            // The policy permits no stale entries.
            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => outcome,
        };
        let failure = match respond(outcome, handle, runtime).await {
            Ok(answer) => return Ok(CacheReply::Served(answer)),
            Err(failure) => failure,
        };
        match failure.cause::<Failure>() {
            Some(failure) if request.return_errors => {
                let error = response::error(failure, Some(handle()));
                return Ok(CacheReply::Served(Arc::new(error)));
            }
            Some(failure) => return Err(failure.clone()),
            None if request.mode == CacheMode::Frozen => {
                return Err(Failure::new(FROZEN_MISS, failure.to_string()));
            }
            // An entry that cannot be decoded is computed again and replaced.
            None => {
                damage = Some(Reason::Damaged(failure.to_string()));
                hit.mode = CacheMode::Refresh;
            }
        }
    }
}

/// Returns and reports the response that an outcome of the cache gives.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an `async fn` has room for two outcomes"
)]
fn respond<'h>(
    outcome: Outcome,
    handle: impl FnOnce() -> &'h str,
    runtime: &Runtime,
) -> impl Future<Output = Result<Arc<Value>, RunFailure>> {
    async move {
        let answer = outcome.body.decoded(DecodedResult::decode).await?;
        // Boxed, so that the future of a wrapped call stays small.
        let summary = Box::pin(outcome.settled()).await;
        let response = served_response(&outcome, &summary);
        let shared = answer.respond(&response, handle, runtime);
        let handle = shared["_cache_key"].as_str().map(ToOwned::to_owned);
        response.report(handle, runtime);
        Ok(shared)
    }
}

/// Runs the action without a key; the ledger records the reason.
async fn run_uncached(
    request: Box<Request>,
    reason: Reason,
    runtime: &Runtime,
) -> Result<Arc<Value>, Failure> {
    let policy = Policy {
        hit: hit_policy(&request, runtime),
        run: run_policy(&request, None, runtime),
    };
    let input = Canonical::sealed(&json!({ "args": request.args }), &runtime.secret_set);
    let ticket = runtime
        .cache
        .bypass(&call(&request, &input), &policy, reason);
    let run = WrappedRun {
        ticket,
        handle: None,
        guard: None,
        damage: None,
    };
    let (answer, _) = run.once(request, runtime).await?;
    Ok(Arc::new(answer))
}

/// A run of the wrapped action. Other callers may wait for it.
struct WrappedRun {
    ticket: Ticket,
    handle: Option<String>,
    guard: Option<Box<Guard>>,
    /// The damage of the entry that this run replaces.
    damage: Option<Reason>,
}

impl WrappedRun {
    /// Runs the action, and with the configured probability erases some expired entries.
    async fn lead(self, request: Box<Request>, runtime: &Runtime) -> Result<Value, Failure> {
        let (probability, limit) = (request.cleanup_probability, request.cleanup_limit);
        let (answer, store_is_available) = self.once(request, runtime).await?;
        if store_is_available && limit > 0 && runtime.random.unit() < probability {
            // A failed sweep does not affect the answer.
            let sweep_expired = runtime.cache.sweep(Some(limit));
            let time_limit = runtime.cache.bounds().lookup_timeout;
            let _ = tokio::time::timeout(time_limit, sweep_expired).await;
        }
        Ok(answer)
    }

    /// Runs the wrapped action and completes the ticket. The flag in the result is true if the action
    /// succeeded and the store was available.
    async fn once(
        self,
        request: Box<Request>,
        runtime: &Runtime,
    ) -> Result<(Value, bool), Failure> {
        let Self {
            mut ticket,
            handle,
            guard,
            damage,
        } = self;
        // A run without a key stores nothing, so that the files that it reads need no witness.
        if handle.is_some() {
            witness(&request, &ticket, runtime).await?;
        }
        let status = damage.map_or_else(|| ticket.status().clone(), CacheStatus::Miss);
        let alternatives = request.alternatives(runtime);
        let witness_list = ticket.witness().clone();
        let scope = request.scope.clone();
        let action = &*request.action;
        let running = announced(action, request.args, runtime, |arguments| {
            action.run_without_alternatives(arguments, runtime, &witness_list)
        });
        let (ended, inner_spend) = spending::run_metered(running).await;
        // Wraps inside have rows of their own in the ledger. Their spend must not be counted in the row of this one
        // again.
        ticket.charge(inner_spend.charged);
        ticket.subtract_nested(inner_spend.accounted);
        spending::add_accounted(Spend {
            time: ticket.elapsed(),
            ..inner_spend.charged
        });
        let result = match ended {
            Ok(result) => result,
            Err(failure) => {
                let failure = redacted(failure, runtime);
                // Before the alternatives, which have keys of their own: callers that wait for this key would otherwise
                // wait for them, too.
                let summary = ticket.fail(RunFailure::new(failure.clone())).await;
                Response {
                    status: &status,
                    summary: &summary,
                    created: None,
                    is_error: true,
                }
                .report(handle.clone(), runtime);
                let failure = match try_alternatives(failure, alternatives, runtime).await {
                    Ok(answer) => return Ok((answer, false)),
                    Err(failure) => failure,
                };
                return if request.return_errors {
                    Ok((response::error(&failure, handle.as_deref()), false))
                } else {
                    Err(failure)
                };
            }
        };
        let value = serde_json::to_vec(&result)
            .map_err(|error| Failure::new("serialization_error", error.to_string()))?;
        // A wrap around this one must not keep the result longer, or share it more widely.
        if let Some(lifetime) = inner_spend.lifetime {
            spending::limit_lifetime(lifetime);
            ticket.limit_ttl(lifetime);
        }
        let shared = inner_spend.private && matches!(scope, Scope::Workspace(_) | Scope::Global);
        if inner_spend.private {
            spending::keep_private();
        }
        let declined = if shared {
            Some("the result is for one user only".to_owned())
        } else {
            inner_spend.declined
        };
        let storable = match (
            declined,
            response::check_storable(&result, &runtime.secret_set),
        ) {
            (Some(why), _) => {
                // The wrap around this one must not store its answer either.
                spending::decline_storing(why.as_str());
                Err(Reason::Declined(why))
            }
            (None, Ok(())) => match guard {
                Some(guard) => guard.check(runtime).await,
                None => Ok(()),
            },
            (None, declined) => declined,
        };
        let is_error = response::error_in(&result).is_some();
        if is_error {
            ticket.mark_error();
        }
        let spent = Spend::for_call(ticket.elapsed());
        let product = RunResult {
            value: Some(value.into()),
            storable,
            spent,
            labels: Vec::new(),
        };
        let summary = ticket.finish(product).await;
        let response = Response {
            status: &status,
            summary: &summary,
            created: None,
            is_error,
        };
        response.report(handle.clone(), runtime);
        let is_unavailable =
            |reason: &Reason| reason.is_store_fault() || *reason == Reason::NoStore;
        let store_is_available = !status.reason().is_some_and(is_unavailable)
            && !summary.stored.as_ref().is_err_and(is_unavailable);
        let answer = response.with_result(result, handle.as_deref(), runtime);
        Ok((answer, store_is_available))
    }
}

/// Answers a failed call with the first alternative that succeeds, from the cache or by running it. The
/// result is stored under the alternative's own key.
async fn try_alternatives(
    mut failure_so_far: Failure,
    alternatives: Vec<Request>,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    for alternative in alternatives {
        if !failure_so_far.allows_alternatives {
            break;
        }
        let alternative = Box::new(Request {
            return_errors: false,
            ..alternative
        });
        match Box::pin(answer_request(alternative, runtime)).await {
            Ok(answer) => return Ok(Arc::unwrap_or_clone(answer)),
            Err(failure) => {
                failure_so_far = failure_so_far.with_alternative(redacted(failure, runtime))
            }
        }
    }
    Err(failure_so_far)
}

/// Records the files that the action reads and those in `depends_on`, before the action reads them.
async fn witness(request: &Request, ticket: &Ticket, runtime: &Runtime) -> Result<(), Failure> {
    let mut paths = witnessed_paths(request, runtime).map_err(invalid)?;
    paths.extend(request.files(runtime));
    if paths.is_empty() {
        return Ok(());
    }
    let witness = ticket.witness().clone();
    if paths.iter().any(|path| {
        runtime
            .secret_set
            .occurs_in(path.as_os_str().as_encoded_bytes())
    }) {
        witness.mark_incomplete("the path of a file that it depends on holds a secret");
        return Ok(());
    }
    let observed = tokio::task::spawn_blocking(move || {
        paths
            .iter()
            .for_each(|path| witness.observe(Observation::Content(path)));
    });
    observed
        .await
        .map_err(|error| Failure::new("internal_error", error.to_string()))
}

/// Returns the response fields of an outcome that the cache served.
fn served_response<'a>(outcome: &'a Outcome, summary: &'a CallSummary) -> Response<'a> {
    let entry = outcome.entry.as_ref().filter(|_| outcome.status.is_hit());
    Response {
        status: &outcome.status,
        summary,
        created: entry.map(|entry| entry.created),
        is_error: false,
    }
}

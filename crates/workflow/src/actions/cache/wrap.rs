//! `cache.wrap`: any action, memoized.

use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::{
    Begun, Call, DecodeError, Failure as RunFailure, HANDLE_LABEL, Join, Kind, Mode, Observation,
    Outcome, Policy, Product, Reason, Ticket,
};
use cachalot_core::tree::Node;
use cachalot_core::{Canonical, Problem, Spend};
use cachalot_memory::Label;
use serde_json::Value;

use super::identity::{Guard, Identity, identify, witnessed_paths};
use super::request::{Request, invalid};
use super::response::{self, Response};
use super::{TAG_LABEL, check};
use crate::action::{About, Action, Arguments, Failure, Memoizable, Planned};
use crate::actions::Registry;
use crate::Runtime;

/// How long a call waits for another process that is at work on the same call.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(600);

pub(super) struct Wrap;

static ABOUT: About = About {
    names: &["cache.wrap", "actions.cache_wrap"],
    version: 1,
    doc: "Runs an action, or answers it from the cache.",
    parameters: super::check::WRAP_PARAMETERS,
    // A wrap in a wrap is allowed: the inner answer is then part of the outer one.
    memoizable: Memoizable::Yes,
};

#[async_trait]
impl Action for Wrap {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn check(&self, with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
        check::wrap(with, registry)
    }

    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        let mut request = Request::read(arguments, runtime)?;
        if request.mode == Mode::Off {
            return Ok(Planned::Pays { handle: None, reason: Reason::Off.to_string() });
        }
        let identity = match identify(&mut request, runtime).await {
            Ok(identity) => identity,
            Err(reason) => return Ok(Planned::Pays { handle: None, reason: reason.to_string() }),
        };
        let policy = policy(&request, Some(&identity.handle), runtime);
        let call = call(&request, &identity.input);
        match runtime.cache.probe(&call, &policy).await {
            Ok(outcome) => {
                let result = hit(&outcome, &identity.handle).await?.with_result;
                Ok(Planned::Hit { result, handle: identity.handle })
            }
            Err(reason) => {
                Ok(Planned::Pays { handle: Some(identity.handle), reason: reason.to_string() })
            }
        }
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let mut request = Request::read(arguments, runtime)?;
        if request.mode == Mode::Off {
            return uncached(request, Reason::Off, runtime).await;
        }
        match identify(&mut request, runtime).await {
            Ok(identity) => memoized(request, identity, runtime).await,
            Err(reason) if request.mode == Mode::Frozen => Err(Failure::new(
                "frozen_miss",
                format!("frozen: {}: {reason}", request.action.about().names[0]),
            )),
            Err(reason) => uncached(request, reason, runtime).await,
        }
    }
}

fn call<'a>(request: &'a Request, input: &'a Canonical) -> Call<'a> {
    let name = request.action.about().names[0];
    Call { kind: Kind::Action, scope: &request.scope, name, input }
}

fn policy(request: &Request, handle: Option<&str>, runtime: &Runtime) -> Policy {
    let patience = runtime
        .settings
        .pointer("/cache/patience_ms")
        .and_then(Value::as_u64)
        .map_or(cachalot_cache::DEFAULT_PATIENCE, Duration::from_millis);
    let handle = handle.map(|handle| Label::new(HANDLE_LABEL, handle));
    let tags = request.tags.iter().map(|tag| Label::new(TAG_LABEL, tag));
    Policy {
        mode: request.mode,
        ttl: Some(request.ttl),
        join: Join::Fleet { wait: WAIT_FOR_OTHERS },
        patience,
        labels: handle.into_iter().chain(tags).collect(),
        ..Policy::default()
    }
}

async fn memoized(
    request: Request,
    identity: Identity,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    let policy = policy(&request, Some(&identity.handle), runtime);
    let begun = runtime
        .cache
        .begin(&call(&request, &identity.input), &policy)
        .await
        .map_err(|miss| Failure::new("frozen_miss", miss.to_string()))?;
    let Identity { handle, guard, .. } = identity;
    match begun {
        Begun::Served(outcome) => served(&request, &outcome, &handle, runtime).await,
        Begun::Run(ticket) => {
            let swept = ticket.how().reason().is_some();
            let answer = lead(request, ticket, Some(handle), guard, runtime);
            let (answer, cleanup) = answer.await;
            if swept && answer.is_ok() {
                clean_up(cleanup, runtime).await;
            }
            answer
        }
    }
}

/// Runs without a key; the ledger says why.
async fn uncached(request: Request, reason: Reason, runtime: &Runtime) -> Result<Value, Failure> {
    let policy = policy(&request, None, runtime);
    let args = Value::Object(request.args.clone());
    let input = Canonical::sealed(&args, &runtime.seals);
    let ticket = runtime.cache.bypass(&call(&request, &input), &policy, reason);
    lead(request, ticket, None, Guard::Nothing, runtime).await.0
}

/// How a miss cleans up.
struct Cleanup {
    probability: f64,
    limit: u32,
}

async fn lead(
    request: Request,
    ticket: Ticket,
    handle: Option<String>,
    guard: Guard,
    runtime: &Runtime,
) -> (Result<Value, Failure>, Cleanup) {
    let cleanup =
        Cleanup { probability: request.cleanup_probability, limit: request.cleanup_limit };
    (run_once(request, ticket, handle.as_deref(), guard, runtime).await, cleanup)
}

/// Runs the wrapped action and ends the ticket.
async fn run_once(
    request: Request,
    ticket: Ticket,
    handle: Option<&str>,
    guard: Guard,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    if handle.is_some() {
        witness(&request, &ticket, runtime).await?;
    }
    let how = ticket.how().clone();
    let result = match request.action.run(request.args, runtime).await {
        Ok(result) => result,
        Err(failure) => {
            let shown = runtime.seals.redact(&failure.message).into_owned();
            let failure = Failure { message: shown, ..failure };
            ticket.fail(RunFailure::new(failure.clone())).await;
            let returned = response::error(&failure, handle);
            return if request.return_errors { Ok(returned) } else { Err(failure) };
        }
    };
    let value = serde_json::to_vec(&result)
        .map_err(|error| Failure::new("serialization_error", error.to_string()))?;
    let keep = match worth_keeping(&result) {
        Ok(()) => guard.check(runtime).await,
        declined => declined,
    };
    let spent = Spend::one(ticket.elapsed());
    let product = Product { value: Some(value.into()), keep, spent, labels: Vec::new() };
    let settled = ticket.finish(product).await;
    let response = Response { handle, how: &how, settled: &settled, created: None };
    response.tell(runtime);
    Ok(response.with(result))
}

/// Notes what the user says that the result depends on, before the action looks at it.
async fn witness(request: &Request, ticket: &Ticket, runtime: &Runtime) -> Result<(), Failure> {
    if request.depends_on.is_empty() {
        return Ok(());
    }
    let paths = witnessed_paths(request, runtime).map_err(invalid)?;
    let witness = ticket.witness().clone();
    let noted = tokio::task::spawn_blocking(move || {
        paths.iter().for_each(|path| witness.observe(Observation::Content(path)));
    });
    noted.await.map_err(|error| Failure::new("internal_error", error.to_string()))
}

/// Errors are not kept, in whatever way an action tells them.
fn worth_keeping(result: &Value) -> Result<(), Reason> {
    if !response::is_success(result) {
        return Err(Reason::Declined("the action did not report success".to_owned()));
    }
    let says_nothing_of_success = result.get("success").is_none();
    match result.get("error") {
        Some(error) if says_nothing_of_success && !error.is_null() => {
            Err(Reason::Declined("the result carries an error".to_owned()))
        }
        _ => Ok(()),
    }
}

/// An answer from the cache, ready to be handed on.
struct Answer {
    with_result: Value,
}

async fn hit(outcome: &Outcome, handle: &str) -> Result<Answer, Failure> {
    let decode = |bytes: &[u8]| {
        serde_json::from_slice::<Value>(bytes).map_err(|error| DecodeError(error.to_string()))
    };
    let result = outcome.body.decoded(decode).await.map_err(|failure| {
        match failure.cause::<Failure>() {
            Some(failure) => failure.clone(),
            None => Failure::passing("cache_error", failure.to_string()),
        }
    })?;
    let settled = outcome.settled().await;
    let created = response::created(outcome);
    let response = Response { handle: Some(handle), how: &outcome.how, settled: &settled, created };
    Ok(Answer { with_result: response.with((*result).clone()) })
}

async fn served(
    request: &Request,
    outcome: &Outcome,
    handle: &str,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    match hit(outcome, handle).await {
        Ok(answer) => {
            let settled = outcome.settled().await;
            let created = response::created(outcome);
            Response { handle: Some(handle), how: &outcome.how, settled: &settled, created }
                .tell(runtime);
            Ok(answer.with_result)
        }
        Err(failure) if request.return_errors => Ok(response::error(&failure, Some(handle))),
        Err(failure) => Err(failure),
    }
}

/// Now and then, a miss erases a few entries whose time is over. A fault here concerns nobody.
async fn clean_up(cleanup: Cleanup, runtime: &Runtime) {
    if cleanup.limit == 0 || runtime.random.unit() >= cleanup.probability {
        return;
    }
    let sweeping = runtime.cache.sweep(Some(cleanup.limit));
    let _ = tokio::time::timeout(cachalot_cache::DEFAULT_PATIENCE, sweeping).await;
}

//! `ltm.store`, `ltm.retrieve`, `ltm.delete` and `ltm.search`: long-term memory.

mod search;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::Domain;
use cachalot_core::{EffectTarget, Effects};
use cachalot_store::user_record::{UserRecord, has_key};
use cachalot_store::{
    Error, ErrorKind, PageRequest, PutResult, RecordFilter, Store, StoreReply, space,
};
use cachalot_tools::builtin::MEMORY_RESOURCE;
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, any, declared_by, object, required, text};
use super::order;
use crate::report::Event;
use crate::{
    Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Parameter, Runtime,
};

pub(super) use search::Search;

/// The maximum time of a store operation.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

const KEY: Parameter = required(text("key", "The key; a number is taken as its text."));

#[rustfmt::skip]
static STORE: OperationMetadata = OperationMetadata::declared(
    "ltm.store",
    &["actions.ltm_store"],
    "Remembers a value under a key, in place of what was there.",
    &[
        KEY,
        required(any("value", "The value to store; any JSON data.")),
        object("metadata", "Kept with the value; its text, numbers, booleans and nulls can be searched by."),
    ],
)
.with_cache_class(CacheClass::EffectOnly);

#[rustfmt::skip]
static RETRIEVE: OperationMetadata = OperationMetadata::declared(
    "ltm.retrieve",
    &["actions.ltm_retrieve"],
    "The value that is remembered under a key.",
    &[
        KEY,
        any("default", "The value if nothing is remembered; null by default."),
    ],
)
.read_only();

static DELETE: OperationMetadata = OperationMetadata::declared(
    "ltm.delete",
    &["actions.ltm_delete"],
    "Forgets what is remembered under a key.",
    &[KEY],
)
.with_cache_class(CacheClass::EffectOnly);

pub(super) struct StoreAction;

#[async_trait]
impl Operation for StoreAction {
    declared_by!(STORE);

    fn effects(&self, _arguments: &Arguments, _runtime: &Runtime) -> Effects {
        Effects::writing(vec![EffectTarget::Named(MEMORY_RESOURCE.to_owned())])
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&STORE, &arguments);
        let key = given.required_text("key")?;
        let stored_value = UserRecord {
            value: given.required("value")?.clone(),
            metadata: given.object("metadata")?.cloned(),
        };
        let record = stored_value.to_record(key);
        if runtime.secret_set.occurs_in(&record.value)
            || runtime.secret_set.occurs_in(key.as_bytes())
        {
            let what = "what is to be remembered holds a secret of this run, and nothing that is stored may: leave it out";
            return Err(given.failure("secret_refused", what));
        }
        let store = store(&given, runtime)?;
        // A future, so that the write starts only after the announcement: a store may answer at once.
        let put = async {
            let put = || store.put(space::USER, record.clone(), None, &[]);
            await_reply(&given, put).await
        };
        match run_change(runtime, put).await? {
            PutResult::Stored { revision } => {
                Ok(json!({ "success": true, "stored": true, "key": key, "created": revision == 1 }))
            }
            PutResult::LeaseLost | PutResult::CounterChanged { .. } => {
                Err(given.failure("storage_error", "the store did not accept the value"))
            }
        }
    }
}

impl Action for StoreAction {}

pub(super) struct Retrieve;

#[async_trait]
impl Operation for Retrieve {
    declared_by!(RETRIEVE);

    fn implicit_inputs(&self, arguments: &Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        Ok(order::implicit_input(arguments, &["default"]))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&RETRIEVE, &arguments);
        let key = given.required_text("key")?;
        let store = store(&given, runtime)?;
        let found = await_reply(&given, || store.get(space::USER, key, &[])).await?;
        let now = runtime.clock.now();
        match found
            .record
            .filter(|record| record.expires.is_none_or(|expires| expires > now))
        {
            None => {
                let default = given.value_of("default").cloned().unwrap_or_default();
                Ok(json!({ "success": true, "value": default, "found": false, "metadata": null }))
            }
            Some(record) => {
                let stored_value = UserRecord::read(&record).map_err(|error| {
                    given.failure(
                        "serialization_error",
                        format_args!("what is stored under `{key}` is not readable: {error}"),
                    )
                })?;
                Ok(json!({
                    "success": true,
                    "value": stored_value.value,
                    "found": true,
                    "metadata": stored_value.metadata,
                }))
            }
        }
    }
}

impl Action for Retrieve {
    fn domains(&self, _arguments: &Arguments, _runtime: &Runtime) -> Vec<Domain> {
        vec![domain()]
    }
}

pub(super) struct Delete;

#[async_trait]
impl Operation for Delete {
    declared_by!(DELETE);

    fn effects(&self, _arguments: &Arguments, _runtime: &Runtime) -> Effects {
        Effects::writing(vec![EffectTarget::Named(MEMORY_RESOURCE.to_owned())])
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&DELETE, &arguments);
        let key = given.required_text("key")?;
        let store = store(&given, runtime)?;
        // By label, because the prefix also matches longer keys, which must stay.
        let exactly = [has_key(key)];
        let filter = RecordFilter {
            prefix: key,
            labels: &exactly,
            ..RecordFilter::default()
        };
        // Not repeated: the second call would not find what the first one has erased.
        let erase = async {
            let erased = store.erase(space::USER, &filter, PageRequest::keys(1));
            let erased = erased.within(STORE_TIMEOUT).await;
            erased.map_err(|error| failure(&given, error))
        };
        let erased = run_change(runtime, erase).await?;
        Ok(json!({ "success": true, "deleted": !erased.records.is_empty(), "key": key }))
    }
}

impl Action for Delete {}

/// Returns the cache domain of long-term memory.
fn domain() -> Domain {
    Domain::new(MEMORY_RESOURCE)
}

/// Runs a change of long-term memory and announces it to the cache, which holds answers that depend on
/// it. A failed announcement is a warning, not a failure of the change.
async fn run_change<T>(
    runtime: &Runtime,
    change: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let write_guard = runtime.cache.write_guard(&[domain()]).await;
    let changed = change.await;
    if let Err(failure) = write_guard.finish().await {
        let message = format!(
            "user memory has changed, and other processes may answer from the cache as if it had not: {failure}"
        );
        runtime.reporter.report(Event::Warning { message });
    }
    changed
}

fn store<'a>(
    given: &CheckedArguments<'_>,
    runtime: &'a Runtime,
) -> Result<&'a Arc<dyn Store>, Failure> {
    let store = runtime.long_term_memory();
    store.map_err(|why| given.failure("configuration_error", why))
}

/// Makes a call that can be repeated, so that the restart of a server does not end a run.
async fn await_reply<'a, T: Send + 'a>(
    given: &CheckedArguments<'_>,
    call: impl Fn() -> StoreReply<'a, T>,
) -> Result<T, Failure> {
    let answer = StoreReply::repeat(STORE_TIMEOUT, call).await;
    answer.map_err(|error| failure(given, error))
}

fn failure(given: &CheckedArguments<'_>, error: Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::Unavailable => "connection_error",
        ErrorKind::Busy => "lock_timeout",
        ErrorKind::TimedOut => "timeout",
        _ => "storage_error",
    };
    Failure {
        retryable: error.is_retryable(),
        ..given.failure(kind, error)
    }
}

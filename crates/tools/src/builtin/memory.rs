//! The tool `memory`: long-term memory of users and agents, beyond a session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::config::{CallArguments, Custom, ParameterKind as Kind, tool_schema};
use cachalot_core::{EffectTarget, Effects};
use cachalot_operation::ResourceAccess;
use cachalot_store::user_record::{UserRecord, has_key, metadata_label};
use cachalot_store::{
    Label, LabelMatch, Order, PageRequest, PutResult, Record, RecordFilter, Store, StoreReply,
    space,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::call_error::CallError;
use cachalot_operation::{CacheClass, OperationMetadata, ToolContext, ToolOutput, TypedTool};

/// Timeout of a request to the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

/// Default and maximum number of records in a search result.
const DEFAULT_RESULTS: u64 = 10;
const MAX_RESULTS: u64 = 100;

/// The name of long-term memory as a resource whose changes are announced; the workflow's `ltm` actions use
/// the same one.
pub const MEMORY_RESOURCE: &str = "ltm";

/// The tool `memory`: stores, searches and forgets records of long-term memory, the same ones as the
/// workflow's `ltm` actions. Cache entries are in another space of the store and are never found. A value
/// that contains a known secret is not stored.
pub struct MemoryTool {
    metadata: OperationMetadata,
}

impl Default for MemoryTool {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryTool {
    /// Creates the tool.
    #[must_use]
    pub fn new() -> Self {
        let mut parameters = tool_schema(MemoryArguments::PARAMETERS);
        parameters["properties"]["limit"]["description"] =
            format!("search: at most so many records; {DEFAULT_RESULTS} by default.").into();
        Self {
            metadata: super::metadata(
                "memory",
                "Long-term memory, beyond this conversation: stores a value under a key, searches what is stored, forgets it. Store what will matter later (preferences, decisions, facts about the user and the project), never credentials.",
                parameters,
                false,
                CacheClass::Never,
            ),
        }
    }
}

const ACTION: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": "string", "enum": ["store", "search", "forget"] }),
));

/// The arguments of `memory`.
#[derive(Debug, CallArguments, Deserialize)]
pub struct MemoryArguments {
    /// What to do.
    #[setting(kind = ACTION)]
    action: MemoryAction,
    /// store, forget: the name of the record; storing under a name that is there replaces its record.
    key: Option<String>,
    /// store: what to remember; text or any JSON.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
    /// store: fields kept with the value. search: fields that a record must have with exactly these values (text,
    /// numbers, booleans, null).
    metadata: Option<Map<String, Value>>,
    /// search: words that a record must all hold; a word that ends in * stands for all that begin so. Without it:
    /// the newest records.
    query: Option<String>,
    // The default is in its description.
    #[setting(range = 1..=MAX_RESULTS)]
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MemoryAction {
    Store,
    Search,
    Forget,
}

/// Reads a value that may be null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl MemoryArguments {
    fn key(&self, action: &str) -> Result<&str, CallError> {
        let key = self.key.as_deref().filter(|key| !key.is_empty());
        key.ok_or_else(|| {
            CallError::Refused(format!("`{action}` needs `key`: the name of the record"))
        })
    }
}

#[async_trait]
impl TypedTool for MemoryTool {
    type Arguments = MemoryArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &MemoryArguments, _context: &ToolContext) -> Effects {
        let resource = vec![EffectTarget::Named(MEMORY_RESOURCE.to_owned())];
        match arguments.action {
            MemoryAction::Search => Effects::reading(resource),
            MemoryAction::Store | MemoryAction::Forget => Effects::writing(resource),
        }
    }

    fn resource_access(&self, _arguments: &MemoryArguments) -> ResourceAccess {
        // Records have no paths.
        ResourceAccess::default()
    }

    async fn run(&self, arguments: MemoryArguments, context: &ToolContext) -> ToolOutput {
        let Some(store) = &context.store else {
            return ToolOutput::error("there is no long-term memory here; continue without it");
        };
        let done = match arguments.action {
            MemoryAction::Store => store_value(store, arguments, context).await,
            MemoryAction::Search => search(store, &arguments, context).await,
            MemoryAction::Forget => forget(store, &arguments).await,
        };
        match done {
            Ok(answer) => ToolOutput::text(context.secret_set.redact(&answer.to_string())),
            Err(error) => error.output(&context.secret_set),
        }
    }
}

async fn store_value(
    store: &Arc<dyn Store>,
    arguments: MemoryArguments,
    context: &ToolContext,
) -> Result<Value, CallError> {
    let key = arguments.key("store")?.to_owned();
    let remembered = UserRecord {
        value: arguments.value.ok_or_else(|| {
            CallError::Refused("`store` needs `value`: what to remember".to_owned())
        })?,
        metadata: arguments.metadata,
    };
    let record = remembered.to_record(&key);
    if context.secret_set.occurs_in(&record.value) || context.secret_set.occurs_in(key.as_bytes()) {
        return Err(CallError::Refused(
            "this holds a secret, and nothing that is stored may: leave it out".to_owned(),
        ));
    }
    match await_store(|| store.put(space::USER, record.clone(), None, &[])).await? {
        PutResult::Stored { revision } => {
            Ok(json!({ "stored": true, "key": key, "replaced": revision > 1 }))
        }
        PutResult::LeaseLost | PutResult::CounterChanged { .. } => Err(CallError::Refused(
            "the store did not accept the value; retry".to_owned(),
        )),
    }
}

async fn forget(store: &Arc<dyn Store>, arguments: &MemoryArguments) -> Result<Value, CallError> {
    let key = arguments.key("forget")?;
    // Selected by label, because the key as a prefix would also match longer keys.
    let exactly = [has_key(key)];
    let filter = RecordFilter {
        prefix: key,
        labels: &exactly,
        ..RecordFilter::default()
    };
    // Not repeated: the second call would not find what the first one has erased.
    let erased = store.erase(space::USER, &filter, PageRequest::keys(1));
    let erased = erased.within(STORE_TIMEOUT).await?;
    Ok(json!({ "forgotten": !erased.records.is_empty(), "key": key }))
}

async fn search(
    store: &Arc<dyn Store>,
    arguments: &MemoryArguments,
    context: &ToolContext,
) -> Result<Value, CallError> {
    let limit = arguments
        .limit
        .unwrap_or(DEFAULT_RESULTS)
        .clamp(1, MAX_RESULTS);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let required_labels = required_labels(arguments.metadata.as_ref())?;
    let labels: Vec<LabelMatch<'_>> = required_labels
        .iter()
        .map(|Label { name, value }| LabelMatch::Is { name, value })
        .collect();
    let query = arguments.query.as_deref();
    let found = match query.filter(|query| !query.trim().is_empty()) {
        Some(query) => search_text(store.as_ref(), query, &labels, limit).await?,
        None => list_newest(store.as_ref(), &labels, limit).await?,
    };
    let now = context.clock.now();
    let mut unreadable = 0_u64;
    let mut records = Vec::new();
    for record in found {
        if record.expires.is_some_and(|expires| expires <= now) {
            continue;
        }
        match UserRecord::read(&record) {
            Ok(remembered) => records.push(shown(&record, remembered)),
            Err(_) => unreadable += 1,
        }
    }
    let mut answer = json!({ "count": records.len(), "records": records });
    if unreadable > 0 {
        answer["unreadable"] = unreadable.into();
    }
    Ok(answer)
}

fn shown(record: &Record, remembered: UserRecord) -> Value {
    let mut shown = json!({ "key": record.key, "value": remembered.value });
    if let Some(metadata) = remembered.metadata {
        shown["metadata"] = metadata.into();
    }
    shown
}

/// Returns the labels that `metadata` requires.
fn required_labels(metadata: Option<&Map<String, Value>>) -> Result<Vec<Label>, CallError> {
    metadata
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            metadata_label(name, value).ok_or_else(|| CallError::Refused(format!(
                "`metadata` asks for a list or an object in `{name}`: only text, numbers, booleans and null can be searched by"
            )))
        })
        .collect()
}

async fn search_text(
    store: &dyn Store,
    query: &str,
    labels: &[LabelMatch<'_>],
    limit: u32,
) -> Result<Vec<Record>, CallError> {
    let recall = store.recall().ok_or_else(|| {
        CallError::Refused(format!(
            "the store `{}` has no full-text search: leave `query` out, or search by `metadata`",
            store.about().name
        ))
    })?;
    let found = await_store(|| recall.search(query, labels, limit)).await?;
    Ok(found.into_iter().map(|found| found.record).collect())
}

async fn list_newest(
    store: &dyn Store,
    labels: &[LabelMatch<'_>],
    limit: u32,
) -> Result<Vec<Record>, CallError> {
    let filter = RecordFilter {
        labels,
        order: Order::Newest,
        ..RecordFilter::default()
    };
    let find = || store.find(space::USER, &filter, PageRequest::first(limit));
    let batch = await_store(find).await?;
    Ok(batch.records)
}

/// Makes a call that can be repeated, so that the restart of a server is not a failure.
async fn await_store<'a, T: Send + 'a>(
    call: impl Fn() -> StoreReply<'a, T>,
) -> Result<T, CallError> {
    Ok(StoreReply::repeat(STORE_TIMEOUT, call).await?)
}

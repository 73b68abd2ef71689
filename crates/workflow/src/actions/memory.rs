//! `memory.*`: values that are kept until the run ends, and summaries of conversations.

use async_trait::async_trait;
use cachalot_core::{Effects, Millis};
use serde_json::{Value, json};

use super::arguments::{
    CheckedArguments, any, count, declared_by, duration, kind_name, required, text,
};
use super::llm;
use crate::exact_json::as_text;
use crate::{
    Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Parameter, Runtime,
    origin,
};

const KEY: Parameter = required(text("key", "The key. A number counts as its text."));

#[rustfmt::skip]
const NAMESPACE: Parameter = text("namespace", "Keys of different namespaces are different; `default` by default.");

/// The namespace of a call that names none.
const DEFAULT_NAMESPACE: &str = "default";

#[rustfmt::skip]
static STORE: OperationMetadata = OperationMetadata::declared(
    "memory.store",
    &["actions.memory_store"],
    "Stores a value under a key until the run ends, in place of the earlier value.",
    &[
        KEY,
        required(any("value", "The value; any JSON data.")),
        duration("ttl", "The time after which the value expires, such as `1h`; it does not by default."),
        NAMESPACE,
    ],
)
.with_cache_class(CacheClass::EffectOnly);

#[rustfmt::skip]
static RETRIEVE: OperationMetadata = OperationMetadata::declared(
    "memory.retrieve",
    &["actions.memory_retrieve"],
    "Returns the value that the run has stored under a key.",
    &[
        KEY,
        any("default", "The value if nothing is stored, or it has expired; null by default."),
        NAMESPACE,
    ],
)
.read_only()
.with_cache_class(CacheClass::Excluded(
    "reads the memory of the run, which is in no cache key",
));

#[rustfmt::skip]
static SUMMARIZE: OperationMetadata = OperationMetadata::declared(
    "memory.summarize",
    &["actions.memory_summarize"],
    "Summarizes a conversation in the state with a model, if it is too long. The result has `summary`, `original_count`, `token_estimate`, and `usage` and `cost` of the model.",
    &[
        required(text("messages_key", "The field of the state with the conversation: a list of texts, or of mappings with `role` and `content`.")),
        count("max_tokens", (1, 1_000_000), "The length of the summary in tokens of about 4 characters, 1 to 1000000; 1000 by default. A conversation that is not longer is returned as it is."),
        text("model", "The model; `settings.llm.model` by default."),
    ],
)
.read_only()
.with_cache_class(CacheClass::Excluded("reads the state, which is in no cache key"));

pub(super) struct Store;

#[async_trait]
impl Operation for Store {
    declared_by!(STORE);

    fn effects(&self, _arguments: &Arguments, _runtime: &Runtime) -> Effects {
        // It changes only the memory of the run, which no cache reads.
        Effects::reading(Vec::new())
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&STORE, &arguments);
        let key = given.required_text("key")?;
        let namespace = namespace(&given)?;
        let value = given.value_of("value").cloned().unwrap_or_default();
        let ttl = given.duration("ttl")?;
        let ttl = ttl.map(|ttl| Millis::try_from(ttl.as_millis()).unwrap_or(Millis::MAX));
        let clock = &*runtime.clock;
        runtime.session.store(namespace, key, value, ttl, clock);
        Ok(json!({ "stored": true, "key": key, "namespace": namespace }))
    }
}

impl Action for Store {}

pub(super) struct Retrieve;

#[async_trait]
impl Operation for Retrieve {
    declared_by!(RETRIEVE);

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&RETRIEVE, &arguments);
        let key = given.required_text("key")?;
        let clock = &*runtime.clock;
        let stored = runtime.session.retrieve(namespace(&given)?, key, clock);
        // As in the reference implementation, null is as good as nothing.
        let stored = stored.filter(|value| !value.is_null());
        Ok(json!({
            "found": stored.is_some(),
            "value": stored.or_else(|| given.value_of("default").cloned()),
            "key": key,
        }))
    }
}

impl Action for Retrieve {}

fn namespace<'g>(given: &'g CheckedArguments<'_>) -> Result<&'g str, Failure> {
    Ok(given.text("namespace")?.unwrap_or(DEFAULT_NAMESPACE))
}

pub(super) struct Summarize;

#[async_trait]
impl Operation for Summarize {
    declared_by!(SUMMARIZE);

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&SUMMARIZE, &arguments);
        let maximum = given.count("max_tokens")?.unwrap_or(1_000);
        let messages = conversation(&given)?;
        let text: Vec<String> = messages.iter().map(format_message).collect();
        let text = text.join("\n");
        let result = |summary: &str, answer: Value| {
            json!({
                "summary": summary,
                "original_count": messages.len(),
                "token_estimate": estimate_tokens(summary),
                "success": true,
                "usage": answer["usage"],
                "cost": answer["cost"],
            })
        };
        if estimate_tokens(&text) <= maximum {
            return Ok(result(&text, json!({ "usage": null, "cost": 0.0 })));
        }
        let system = format!(
            "Summarize the conversation in at most {maximum} tokens. Keep facts, decisions, open questions, \
             and what is needed to continue it."
        );
        let mut question = Arguments::from_iter([
            ("system".to_owned(), system.into()),
            ("prompt".to_owned(), text.into()),
        ]);
        if let Some(model) = given.value_of("model") {
            question.insert("model".to_owned(), model.clone());
        }
        let answer = llm::ask_embedded(question, runtime).await?;
        let summary = answer["content"].as_str().unwrap_or_default().trim();
        if summary.is_empty() {
            let message = "the summary of the model is empty";
            return Err(given.transient("invalid_answer", message));
        }
        Ok(result(summary, answer.clone()))
    }
}

impl Action for Summarize {}

/// Returns the conversation in the state of the call.
fn conversation(given: &CheckedArguments<'_>) -> Result<Vec<Value>, Failure> {
    let key = given.required_text("messages_key")?;
    let origin = origin::current();
    match origin.as_ref().and_then(|origin| origin.state_field(key)) {
        Some(Value::Array(messages)) => Ok(messages.clone()),
        Some(other) => Err(given.wrong(
            "messages_key",
            format_args!(
                "names `state.{key}`, which is {}: expected a list",
                kind_name(other)
            ),
        )),
        None => Err(given.failure("not_found", format_args!("there is no `state.{key}`"))),
    }
}

fn format_message(message: &Value) -> String {
    match (message.get("role"), message.get("content")) {
        (None, None) => as_text(message),
        (role, content) => format!(
            "{}: {}",
            role.map_or_else(|| "user".to_owned(), as_text),
            content.map_or_else(|| message.to_string(), as_text)
        ),
    }
}

/// Returns the estimated number of tokens of a text.
fn estimate_tokens(text: &str) -> u64 {
    u64::try_from(text.chars().count() / 4).unwrap_or(u64::MAX)
}

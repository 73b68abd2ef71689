//! `llamaextract.extract`, through the REST API of LlamaCloud.

mod client;
mod wire;

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::tree::Node;
use cachalot_core::{Effects, Problem, suggest};
use client::Client;
use serde_json::{Value, json};
use wire::Status;

use super::arguments::{CheckedArguments, boolean, declared_by, duration, object, required, text};
use super::run_settings::{setting, trim_base_url, variable};
use super::{location, order};
use crate::action::argument_checker::ArgumentChecker;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Registry, Runtime};

/// The maximum size of an upload, in bytes.
const MAX_BYTES: u64 = 256 << 20;

const DEFAULT_BASE: &str = "https://api.cloud.llamaindex.ai";

#[rustfmt::skip]
static EXTRACT: OperationMetadata = OperationMetadata::declared(
    "llamaextract.extract",
    &["actions.llamaextract_extract"],
    "Extracts structured data from a document with LlamaCloud: uploads it, runs an extraction, waits for the result. \
          The key comes from `settings.llamaextract.api_key` or `LLAMA_CLOUD_API_KEY`.",
    &[
        required(text("file", "The document: a path (relative to the run's directory) or a URI: file://, http(s)://, s3://, gs://, az://.")),
        text("agent_name", "The extraction agent, by its name; this, `agent_id` or `schema` must be given."),
        text("agent_id", "The extraction agent, by its id."),
        object("schema", "The JSON Schema of what to extract: without an agent, or in place of the agent's own."),
        duration("timeout", "The maximum time from uploading to the result; `5m` by default."),
        duration("poll_interval", "The time between two looks at the job; `2s` by default.").with_aliases(&["polling_interval"]),
        text("mode", "How thorough an extraction by `schema` is: `FAST`, `BALANCED`, `PREMIUM`, `MULTIMODAL`, in any case; the service's default otherwise. An agent has its own."),
        boolean("use_rest", "Taken, and without effect: the REST API is always used.").unkeyed(),
    ],
)
.read_only();

const AGENT_OR_SCHEMA_HELP: &str = "give `agent_name`, `agent_id` or `schema`";

const MODE_HELP: &str = "leave `mode` out: an agent has its own";

/// Modes of an extraction, under the names that the service uses.
const MODES: [&str; 4] = ["FAST", "BALANCED", "PREMIUM", "MULTIMODAL"];

/// Returns the mode of this name, ignoring case.
fn mode(text: &str) -> Option<&'static str> {
    let text = text.trim();
    MODES
        .into_iter()
        .find(|mode| mode.eq_ignore_ascii_case(text))
}

pub(super) struct Extract;

#[async_trait]
impl Operation for Extract {
    declared_by!(EXTRACT);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        location::effects(runtime, arguments, "file")
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        // The API key is left out: another key of the same account gets the same answer.
        // The service evaluates the name of the upload, so it matters even when the content is keyed.
        let name = arguments.get("file").and_then(Value::as_str);
        let implicit =
            json!({ "base_url": base_url(runtime), "uploaded_as": name.map(upload_name) });
        let of_file = location::implicit_input(runtime, arguments, "file");
        let order = order::implicit_input(arguments, &["schema"]);
        Ok(location::joined(location::joined(implicit, of_file), order))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&EXTRACT, &arguments);
        let file = given.required_text("file")?;
        let options = ExtractionOptions::from_arguments(&given)?;
        let timeout = given
            .duration("timeout")?
            .unwrap_or(Duration::from_secs(300));
        let interval = given
            .duration("poll_interval")?
            .unwrap_or(Duration::from_secs(2));
        let client = Client::new(&given, runtime, base_url(runtime), key(&given, runtime)?)?;
        let document = location::read(&given, runtime, file, MAX_BYTES).await?;
        let work = extract(&given, &client, &options, file, document.into(), interval);
        match tokio::time::timeout(timeout, work).await {
            Ok(result) => result,
            Err(_) => Err(given.transient(
                "timeout",
                format_args!("no result within {timeout:?}; raise `timeout`"),
            )),
        }
    }
}

impl Action for Extract {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        ArgumentChecker::new(&EXTRACT, with)
            .at_least_one_of(&["agent_name", "agent_id", "schema"], AGENT_OR_SCHEMA_HELP)
            .at_most_one_of(&["agent_id", "agent_name"], "give one of them")
            .at_most_one_of(&["agent_id", "mode"], MODE_HELP)
            .at_most_one_of(&["agent_name", "mode"], MODE_HELP)
            .one_of("mode", &MODES, |text| mode(text).is_some())
            .problems()
    }
}

/// Schema, mode and agent of an extraction.
struct ExtractionOptions<'a> {
    /// The id of the agent, or else its name.
    agent_id: Option<&'a str>,
    agent_name: Option<&'a str>,
    schema: Option<&'a Arguments>,
    mode: Option<&'static str>,
}

impl<'a> ExtractionOptions<'a> {
    fn from_arguments(given: &CheckedArguments<'a>) -> Result<Self, Failure> {
        let invalid = |what| Err(given.failure("validation_error", what));
        let (agent_id, agent_name) = (
            given.non_empty_text("agent_id")?,
            given.non_empty_text("agent_name")?,
        );
        if agent_id.and(agent_name).is_some() {
            return invalid("`agent_id` and `agent_name` exclude each other: give one");
        }
        let agent = agent_id.or(agent_name);
        let schema = given.object("schema")?;
        if agent.is_none() && schema.is_none() {
            return invalid(AGENT_OR_SCHEMA_HELP);
        }
        let mode = match given.non_empty_text("mode")? {
            None => None,
            Some(_) if agent.is_some() => return invalid(MODE_HELP),
            Some(name) => Some(mode(name).ok_or_else(|| {
                let help = suggest::did_you_mean(name, &MODES);
                given.wrong("mode", format_args!("is `{name}`: {help}"))
            })?),
        };
        Ok(Self {
            agent_id,
            agent_name,
            schema,
            mode,
        })
    }
}

async fn extract(
    given: &CheckedArguments<'_>,
    client: &Client<'_>,
    options: &ExtractionOptions<'_>,
    file: &str,
    document: Vec<u8>,
    interval: Duration,
) -> Result<Value, Failure> {
    // The agent is looked up first: if it does not exist, nothing has been uploaded.
    let agent_id = match options.agent_name {
        Some(name) => Some(client.find_agent(name).await?),
        None => options.agent_id.map(str::to_owned),
    };
    let file_id = client.upload(upload_name(file), document).await?;
    let job = client
        .start(agent_id.as_deref(), options.schema, options.mode, &file_id)
        .await?;
    let job = client.wait_for_end(job, interval).await?;
    let status = json!(job.status);
    if !matches!(job.status, Status::Success | Status::PartialSuccess) {
        let what = format_args!(
            "the job {} ended as {}: {}",
            job.id,
            status.as_str().unwrap_or_default(),
            client.redacted(job.error.as_deref().unwrap_or("no reason was given"))
        );
        return Err(given.failure("extraction_failed", what));
    }
    let result = client.result(&job.id).await?;
    let mut answer = json!({
        // A partial result may be used, but must not be treated (and stored) as complete.
        "success": job.status == Status::Success,
        "data": result.data,
        "extraction_metadata": result.extraction_metadata,
        "status": status,
        "job_id": job.id,
        "file_id": file_id,
    });
    if let Value::Object(fields) = &mut answer {
        fields.extend(agent_id.map(|id| ("agent_id".to_owned(), id.into())));
        let agent_name = options.agent_name;
        fields.extend(agent_name.map(|name| ("agent_name".to_owned(), name.into())));
    }
    Ok(answer)
}

/// Returns the name of the upload. LlamaCloud evaluates only the extension, so the rest of the name is
/// left out, and copies of a document under different names are the same document.
fn upload_name(uri: &str) -> String {
    const MAX_CHARS: usize = 16;
    let path = if uri.starts_with("http") {
        uri.split(['?', '#']).next().unwrap_or(uri)
    } else {
        uri
    };
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_extension = |text: &&str| {
        (1..=MAX_CHARS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match Path::new(name)
        .extension()
        .and_then(OsStr::to_str)
        .filter(is_extension)
    {
        Some(extension) => format!("document.{extension}"),
        None => "document".to_owned(),
    }
}

fn base_url(runtime: &Runtime) -> &str {
    let configured = setting(runtime, "/llamaextract/base_url")
        .or_else(|| variable(runtime, "LLAMA_CLOUD_BASE_URL"));
    trim_base_url(configured.unwrap_or(DEFAULT_BASE))
}

/// Returns the API key, and registers it as a secret of the run.
fn key<'a>(given: &CheckedArguments<'_>, runtime: &'a Runtime) -> Result<&'a str, Failure> {
    let key = setting(runtime, "/llamaextract/api_key")
        .or_else(|| variable(runtime, "LLAMA_CLOUD_API_KEY"));
    let key = key.map(str::trim).filter(|key| !key.is_empty()).ok_or_else(|| {
        given.failure(
            "configuration_error",
            "there is no key for LlamaCloud: set the environment variable LLAMA_CLOUD_API_KEY, or `settings.llamaextract.api_key`",
        )
    })?;
    runtime.secret_set.learn(key);
    Ok(key)
}

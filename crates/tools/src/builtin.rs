//! The built-in tools.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::tree::{MapEntry, Node};
use cachalot_operation::permissions::ToolSignature;
use cachalot_operation::{CacheClass, OperationMetadata, Tool, ToolOutput};
use serde_json::{Map, Value, json};

mod api;
pub mod background_jobs;
mod call_error;
pub mod files;
mod internal_tool;
pub mod memory;
mod open_url;
pub mod rag;
mod script;
mod session_state;
pub mod shell;
pub mod skills;
pub mod think;
pub mod todo;
pub mod user_prompt;
pub mod web_fetch;

pub use api::{ApiMethod, ApiRequest, ApiSettings, ApiTool};
pub use background_jobs::{BackgroundJobsSettings, background_jobs};
pub use files::files;
pub use memory::{MEMORY_RESOURCE, MemoryTool};
pub use open_url::{OpenUrl, OpenUrlSettings, open_address};
pub use rag::{Embedder, RagSettings, RagTool};
pub use script::{ScriptSettings, ScriptTool};
pub use session_state::{SessionState, SessionStates};
pub use shell::{CommandSettings, Shell, ShellSettings};
pub use skills::{InlineSkill, SkillSelection, selected_skills, skills};
pub use think::think;
pub use todo::todo;
pub use user_prompt::user_prompt;
pub use web_fetch::{WebFetch, WebFetchSettings};

/// Describes a tool that runs beside others unless it changes something.
fn metadata(
    name: &'static str,
    description: &'static str,
    parameters: Value,
    read_only: bool,
    cache_class: CacheClass,
) -> OperationMetadata {
    OperationMetadata {
        read_only,
        exclusive: false,
        cache_class,
        ..OperationMetadata::with_side_effects(name, description, parameters)
    }
}

/// Describes a tool that changes nothing outside of its session, runs alone, and is never answered from the
/// cache.
fn harmless_metadata(
    name: &'static str,
    description: &'static str,
    parameters: Value,
) -> OperationMetadata {
    OperationMetadata {
        read_only: true,
        cache_class: CacheClass::Excluded("depends on its session or its user"),
        ..OperationMetadata::with_side_effects(name, description, parameters)
    }
}

/// Returns the parameters of a tool that an agent file defines: names with the JSON Schemas of their values, and
/// the names that every call must have, by default all.
fn parameters_of_file(arguments: &[(String, Value)], required: Option<&[String]>) -> Value {
    let all = || arguments.iter().map(|(name, _)| name.clone()).collect();
    let required = required.map_or_else(all, <[String]>::to_vec);
    let properties: Map<String, Value> = arguments.iter().cloned().collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Reads the arguments of a tool that an agent file defines: names, and the JSON Schemas of their values.
fn arguments_of_file(node: &Node) -> Option<Vec<(String, Value)>> {
    let argument = |entry: &MapEntry| {
        let mut schema = match entry.value.to_value() {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        schema.entry("type").or_insert_with(|| "string".into());
        (entry.key.clone(), Value::Object(schema))
    };
    Some(node.as_map()?.iter().map(argument).collect())
}

/// Returns a result from which no answer may be built that is replayed later: the same call would have
/// another result, or an effect on the session.
fn passing_result(output: ToolOutput) -> ToolOutput {
    ToolOutput {
        lifetime: Some(Duration::ZERO),
        ..output
    }
}

/// Returns all built-in tools with the defaults of their settings, to describe them.
#[must_use]
pub fn all() -> Vec<Arc<dyn Tool>> {
    let state = Arc::new(SessionState::default());
    let mut tools = files();
    tools.extend(skills(Some(std::path::Path::new("."))));
    tools.push(Arc::new(MemoryTool::new()));
    tools.extend(todo(&state));
    tools.push(user_prompt());
    let shell = Shell::new(ShellSettings::default());
    tools.extend(shell.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    let web_fetch = WebFetch::new(WebFetchSettings::default());
    tools.extend(web_fetch.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    let jobs = background_jobs(
        BackgroundJobsSettings::default(),
        &state,
        &Default::default(),
    );
    tools.extend(jobs.into_iter().flatten());
    tools.push(think(state));
    tools
}

/// Returns the built-in tools and their arguments, which permission rules may refer to.
#[must_use]
pub fn signatures() -> Vec<ToolSignature> {
    all()
        .iter()
        .map(|tool| signature(&tool.metadata().name, &tool.metadata().parameters.schema()))
        .collect()
}

/// Returns a tool with the arguments of its schema.
#[must_use]
pub fn signature(name: &str, parameters: &Value) -> ToolSignature {
    let properties = parameters.get("properties").and_then(Value::as_object);
    ToolSignature {
        name: name.to_owned(),
        arguments: properties
            .into_iter()
            .flat_map(|all| all.keys().cloned())
            .collect(),
    }
}

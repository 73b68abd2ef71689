//! The built-in tools.

use cachalot_operation::permissions::ToolSignature;
use cachalot_operation::{CacheClass, OperationMetadata};
use serde_json::Value;

pub mod files;
pub mod memory;
pub mod shell;
pub mod skills;
pub mod web_fetch;

pub use files::files;
pub use memory::{MEMORY_RESOURCE, MemoryTool};
pub use shell::{Shell, ShellSettings};
pub use skills::skills;
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

/// Returns the built-in tools and their arguments, which permission rules may refer to.
#[must_use]
pub fn signatures() -> Vec<ToolSignature> {
    let mut tools = files();
    tools.extend(skills(Some(std::path::Path::new("."))));
    tools.push(std::sync::Arc::new(MemoryTool::new()));
    if let Ok(shell) = Shell::new(ShellSettings::default()) {
        tools.push(std::sync::Arc::new(shell));
    }
    if let Ok(web_fetch) = WebFetch::new(WebFetchSettings::default()) {
        tools.push(std::sync::Arc::new(web_fetch));
    }
    tools
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

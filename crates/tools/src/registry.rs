//! The registry of tools: keeps them in a stable order, looks calls up, casts and checks their arguments, and
//! runs them. It caches no results.

mod error;
mod perform;
mod prepare;
mod result_witnesses;
mod schedule;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_model::ToolDefinition;

use crate::toolbox::{BatchContext, PreparedCall, ToolCall, ToolCallResult, Toolbox};
use cachalot_operation::{Arguments, Origin, Schema, Tool, WriteNotifier};

pub use error::RegistryError;
pub use perform::run_guarded;
pub(crate) use perform::{expires, lifetime};
pub(crate) use result_witnesses::result_witnesses;
pub(crate) use schedule::schedule;

/// The tools of an agent. Immutable: when a server's tools change, a new registry is built.
#[derive(Clone)]
pub struct Registry {
    /// Built-in tools by name, then those of MCP servers by server and name.
    entries: Arc<[Entry]>,
    indexes: Arc<HashMap<String, usize>>,
    definitions: Arc<[ToolDefinition]>,
}

/// A tool with its compiled schema.
struct Entry {
    tool: Arc<dyn Tool>,
    schema: Schema,
}

impl Registry {
    /// Creates a registry.
    ///
    /// # Errors
    /// If two tools have the same name, providers refuse a name, or a schema is not one of an object. A
    /// schema of an MCP server that cannot be compiled is not an error: arguments are cast as far as the
    /// schema is understood, and the server checks them.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, RegistryError> {
        let mut entries = tools
            .into_iter()
            .map(Entry::new)
            .collect::<Result<Vec<_>, _>>()?;
        // The definitions are the beginning of the cached prefix. Their order must not depend on the order in which
        // tools arrive.
        entries.sort_by(|a, b| (a.origin(), a.name()).cmp(&(b.origin(), b.name())));
        let mut indexes: HashMap<String, usize> = HashMap::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            if let Some(first) = indexes.insert(entry.name().to_owned(), place) {
                return Err(RegistryError::DuplicateName {
                    name: entry.name().to_owned(),
                    first: entries[first].origin().clone(),
                    second: entry.origin().clone(),
                });
            }
        }
        let definitions = entries.iter().map(Entry::definition).collect();
        Ok(Self {
            entries: entries.into(),
            indexes: Arc::new(indexes),
            definitions,
        })
    }

    /// Returns the tool of exactly this name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.entry(name).map(|entry| &entry.tool)
    }

    /// Returns all tools, in the order of their definitions.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Tool>> {
        self.entries.iter().map(|entry| &entry.tool)
    }

    /// True if a call may run concurrently with its neighbors. A refused call runs nothing.
    pub(crate) fn concurrency_safe(&self, prepared: &PreparedCall) -> bool {
        prepared.ready().is_none_or(|ready| {
            let tool = self.tool(&ready.call.name);
            tool.is_none_or(|tool| tool.concurrency_safe(&ready.arguments))
        })
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.indexes.get(name).map(|place| &self.entries[*place])
    }
}

impl Entry {
    fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        let metadata = tool.metadata();
        if !is_valid_name(&metadata.name) {
            return Err(RegistryError::Name {
                name: metadata.name.to_string(),
                origin: metadata.origin.clone(),
            });
        }
        let lenient = metadata.origin != Origin::BuiltIn;
        let schema = Schema::compile(&metadata.parameters.schema(), lenient).map_err(|error| {
            RegistryError::Schema {
                name: metadata.name.to_string(),
                origin: metadata.origin.clone(),
                reason: error.to_string(),
            }
        })?;
        Ok(Self { tool, schema })
    }

    fn name(&self) -> &str {
        &self.tool.metadata().name
    }

    fn origin(&self) -> &Origin {
        &self.tool.metadata().origin
    }

    fn definition(&self) -> ToolDefinition {
        let metadata = self.tool.metadata();
        ToolDefinition {
            name: metadata.name.to_string(),
            description: metadata.description.to_string(),
            parameters: metadata.parameters.schema().into_owned(),
        }
    }
}

/// Maximum length of a tool name that providers accept.
pub const MAX_NAME_BYTES: usize = 64;

/// True for a name that all providers accept.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(is_name_character)
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

/// Replaces characters that providers refuse in names of tools by `_`.
#[must_use]
pub fn sanitize_name(name: &str) -> String {
    let sanitize = |character| {
        if is_name_character(character) {
            character
        } else {
            '_'
        }
    };
    name.chars().map(sanitize).collect()
}

#[async_trait]
impl Toolbox for Registry {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.definitions.to_vec()
    }

    fn writing_tools(&self) -> Vec<String> {
        let metadata = self.tools().map(|tool| tool.metadata());
        let writing = metadata.filter(|metadata| !metadata.read_only);
        writing.map(|metadata| metadata.name.to_string()).collect()
    }

    fn prepare(&self, call: ToolCall) -> PreparedCall {
        self.prepare_call(call)
    }

    fn prepare_rewritten(&self, call: &ToolCall, arguments: Arguments) -> PreparedCall {
        self.prepare_rewritten_call(call, arguments)
    }

    async fn run(&self, calls: Vec<PreparedCall>, batch: &BatchContext) -> Vec<ToolCallResult> {
        self.run_announced(calls, batch, &WriteNotifier::new())
            .await
    }
}

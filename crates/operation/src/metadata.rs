//! The declared properties of an operation.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use crate::parameter::{Parameter, Parameters};

/// The origin of an operation. Its order sorts definitions: built-in tools by name, then MCP tools by server and
/// name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// This program, or a program that links this crate.
    BuiltIn,
    /// An MCP server, by its name in the configuration.
    Mcp(String),
}

/// The conditions under which a result may be replayed. Independent of [`OperationMetadata::read_only`]: an
/// operation that changes nothing may still return results that go stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheClass {
    /// Never, unless the user states a time to live.
    Never,
    /// While everything that the call recorded as a witness is unchanged, and nothing that its
    /// [`Operation::effects`](crate::Operation::effects) reads was written.
    Validated,
    /// For this time, which the user or the server has stated.
    Ttl(Duration),
    /// Always: equal arguments give equal results forever.
    Immutable,
    /// For the time that the author of a workflow states in `cache.wrap`.
    Wrappable,
    /// Never: the only purpose of the operation is a side effect, which a hit would skip.
    EffectOnly,
    /// Never, for this reason: a clause that follows the name of the operation.
    Excluded(&'static str),
}

/// The declared properties of an operation.
#[derive(Debug, Clone)]
pub struct OperationMetadata {
    /// The name. That of a tool matches `^[a-zA-Z0-9_-]{1,64}$`; that of an action is like `file.read`.
    pub name: Cow<'static, str>,
    /// Further names that agent files may use.
    pub aliases: &'static [&'static str],
    /// The purpose of the operation: one sentence, or for a tool instructions to the model.
    pub description: Cow<'static, str>,
    /// The parameters.
    pub parameters: Parameters,
    /// Raised when the same arguments would give another result; part of every key.
    pub version: u32,
    /// The origin.
    pub origin: Origin,
    /// True if the operation changes nothing. A server's own annotation is only a hint, and never sufficient.
    pub read_only: bool,
    /// True if the operation must run alone although it changes nothing.
    pub exclusive: bool,
    /// The conditions under which results may be replayed.
    pub cache_class: CacheClass,
}

impl OperationMetadata {
    /// Creates a description of a built-in tool with side effects: it runs alone, and its results are never
    /// replayed.
    #[must_use]
    pub fn with_side_effects(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        parameters: Value,
    ) -> Self {
        Self {
            name: name.into(),
            aliases: &[],
            description: description.into(),
            parameters: parameters.into(),
            version: 1,
            origin: Origin::BuiltIn,
            read_only: false,
            exclusive: true,
            cache_class: CacheClass::Never,
        }
    }

    /// Creates a description from a declared table of parameters, for an operation that may change something
    /// and that `cache.wrap` may wrap.
    #[must_use]
    pub const fn declared(
        name: &'static str,
        aliases: &'static [&'static str],
        description: &'static str,
        parameters: &'static [Parameter],
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            aliases,
            description: Cow::Borrowed(description),
            parameters: Parameters::Table(parameters),
            version: 1,
            origin: Origin::BuiltIn,
            read_only: false,
            exclusive: false,
            cache_class: CacheClass::Wrappable,
        }
    }

    /// Declares that the operation changes nothing.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Sets the version.
    #[must_use]
    pub const fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets the conditions under which results may be replayed.
    #[must_use]
    pub const fn with_cache_class(mut self, cache_class: CacheClass) -> Self {
        self.cache_class = cache_class;
        self
    }

    /// Returns all names, the preferred one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.aliases.iter().copied())
    }

    /// True if it is the name or an alias.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Returns the declared parameter that has this name or alias.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters
            .table()
            .iter()
            .find(|parameter| parameter.has_name(name))
    }

    /// True if it may run concurrently with other such operations.
    #[must_use]
    pub fn concurrency_safe(&self) -> bool {
        self.read_only && !self.exclusive
    }
}

//! The cacheability of the results of a tool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{Reason, Witness};
use cachalot_core::{Canonical, Effects};
use serde_json::Value;

use super::counters::bypass;
use cachalot_operation::domains::{self, Domains};
use cachalot_operation::{CacheClass, OperationMetadata, Origin, Tool, ToolContext, ToolOutput};

/// A tool, and its properties for the cache.
pub(super) struct ToolProfile {
    /// The tool itself.
    pub(super) tool: Arc<dyn Tool>,
    pub(super) cacheability: Cacheability,
    /// Set if the layer adds the argument `force`.
    pub(super) takes_force: bool,
    /// The digest of its schema.
    pub(super) schema: String,
    /// The origin, as part of keys.
    pub(super) origin: String,
}

/// The conditions under which results of a tool may be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cacheability {
    /// Never, with the reason.
    Never(&'static str),
    /// For the lifetime that a result itself states.
    IfStated,
    /// While everything that it read is unchanged.
    Validated {
        /// Maximum time, in addition.
        ttl: Option<Duration>,
    },
    /// For this time.
    Timed(Duration),
    /// Always, or for the time that the user configured.
    Immutable {
        /// The configured time.
        ttl: Option<Duration>,
    },
}

impl Cacheability {
    /// Combines the declarations of a tool with the user's configuration.
    pub(super) fn new(metadata: &OperationMetadata, configured_ttls: Option<Duration>) -> Self {
        if !metadata.read_only {
            return Self::Never(bypass::NOT_READ_ONLY);
        }
        match (metadata.cache_class, configured_ttls) {
            (CacheClass::Validated, ttl) => Self::Validated { ttl },
            (CacheClass::Immutable, ttl) => Self::Immutable { ttl },
            (CacheClass::EffectOnly | CacheClass::Excluded(_), _) => Self::Never(bypass::NEVER),
            (CacheClass::Never | CacheClass::Wrappable | CacheClass::Ttl(_), Some(ttl))
            | (CacheClass::Ttl(ttl), None) => Self::Timed(ttl),
            (CacheClass::Never | CacheClass::Wrappable, None) => Self::IfStated,
        }
    }

    /// The time to live, as far as it is known before the run.
    pub(super) fn ttl(self) -> Option<Duration> {
        match self {
            Self::Never(_) | Self::IfStated => None,
            Self::Validated { ttl } | Self::Immutable { ttl } => ttl,
            Self::Timed(ttl) => Some(ttl),
        }
    }

    /// The domains that a call with these effects joins, besides those of announced changes.
    pub(super) fn domains(self, effects: &Effects, context: &ToolContext) -> Domains {
        match self {
            // Nothing that is written changes such a result, so that no write may invalidate it.
            Self::Immutable { .. } => Domains::NONE,
            _ => domains::joined_domains(&effects.reads, context.workspace.root()),
        }
    }

    /// Fails with the reason if the tool's declarations forbid storing the result.
    pub(super) fn check_storable(
        self,
        output: &ToolOutput,
        effects: &Effects,
        witness: &Witness,
    ) -> Result<(), Reason> {
        let declined = |why: &str| Err(Reason::Declined(why.to_owned()));
        if let Some(why) = &output.not_storable {
            return declined(why);
        }
        match self {
            Self::Never(why) => declined(why),
            Self::IfStated if output.lifetime.is_none() => declined(bypass::NEVER),
            _ if output.lifetime.is_some_and(|lifetime| lifetime.is_zero()) => {
                declined("its author declares that its results do not stay valid")
            }
            // Without witnesses, a later hit would have nothing to compare and would be served forever.
            Self::Validated { .. } if effects.reads.include_files() && witness.is_empty() => {
                declined("it read files and noted nothing of them")
            }
            _ => Ok(()),
        }
    }
}

impl ToolProfile {
    pub(super) fn is_built_in(&self) -> bool {
        self.tool.metadata().origin == Origin::BuiltIn
    }

    pub(super) fn new(tool: &Arc<dyn Tool>, configured_ttls: &BTreeMap<String, Duration>) -> Self {
        let metadata = tool.metadata();
        let cacheability =
            Cacheability::new(metadata, configured_ttls.get(&*metadata.name).copied());
        let wanted = match cacheability {
            Cacheability::Never(_) => false,
            // A server may state a lifetime; built-in tools that are never cached do not.
            Cacheability::IfStated => matches!(metadata.origin, Origin::Mcp(_)),
            Cacheability::Validated { .. }
            | Cacheability::Timed(_)
            | Cacheability::Immutable { .. } => true,
        };
        let schema = metadata.parameters.schema();
        Self {
            tool: Arc::clone(tool),
            cacheability,
            takes_force: wanted && !has_own_force(&schema),
            schema: Canonical::value(&schema).digest().to_string(),
            origin: match &metadata.origin {
                Origin::BuiltIn => "built-in".to_owned(),
                Origin::Mcp(server) => format!("mcp:{server}"),
            },
        }
    }
}

fn has_own_force(parameters: &Value) -> bool {
    parameters
        .get("properties")
        .is_some_and(|properties| properties.get(super::force::FORCE_ARGUMENT).is_some())
}

//! Whether and on what grounds results of a tool may be served again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{Reason, Witness};
use cachalot_core::{Canonical, Effects, Extent, Touched};
use serde_json::Value;

use super::counters::bypass;
use super::domains::{self, Domains};
use crate::tool::{About, CacheClass, Context, Origin, Output, Tool};

/// A tool, and what the cache makes of what it says of itself.
pub(super) struct Profile {
    /// The tool as it is.
    pub(super) tool: Arc<dyn Tool>,
    pub(super) standing: Standing,
    /// Whether the layer takes a `force` argument for it.
    pub(super) takes_force: bool,
    /// The digest of its schema.
    pub(super) schema: String,
    /// Where it comes from, as keys say it.
    pub(super) origin: String,
}

/// On what grounds results of a tool may be served again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Never, and why.
    Never(&'static str),
    /// For a time that only a result itself can state.
    IfStated,
    /// While what it read is unchanged.
    Validated {
        /// And no longer than that.
        ttl: Option<Duration>,
    },
    /// For this long.
    Timed(Duration),
    /// Always, or for as long as the user said.
    Immutable {
        /// What the user said.
        ttl: Option<Duration>,
    },
}

impl Standing {
    /// What a tool says of itself and the user of it.
    pub(super) fn of(about: &About, stated: Option<Duration>) -> Self {
        if !about.read_only {
            return Self::Never(bypass::NOT_READ_ONLY);
        }
        match (about.class, stated) {
            (CacheClass::Validated, ttl) => Self::Validated { ttl },
            (CacheClass::Immutable, ttl) => Self::Immutable { ttl },
            (CacheClass::Never | CacheClass::Ttl(_), Some(ttl)) | (CacheClass::Ttl(ttl), None) => {
                Self::Timed(ttl)
            }
            (CacheClass::Never, None) => Self::IfStated,
        }
    }

    /// For how long at most, as far as is known before it runs.
    pub(super) fn ttl(self) -> Option<Duration> {
        match self {
            Self::Never(_) | Self::IfStated => None,
            Self::Validated { ttl } | Self::Immutable { ttl } => ttl,
            Self::Timed(ttl) => Some(ttl),
        }
    }

    /// The domains that a call joins which reads this much.
    pub(super) fn domains(self, effects: &Effects, context: &Context) -> Domains {
        match self {
            Self::Immutable { .. } => Domains::NONE,
            _ => domains::joined(&effects.reads, context.workspace.root()),
        }
    }

    /// Whether a result may be kept, as far as the tool's own words go.
    pub(super) fn keeps(
        self,
        output: &Output,
        effects: &Effects,
        witness: &Witness,
    ) -> Result<(), Reason> {
        let declined = |why: &str| Err(Reason::Declined(why.to_owned()));
        match self {
            Self::Never(why) => declined(why),
            Self::IfStated if output.lifetime.is_none() => declined(bypass::NEVER),
            _ if output.lifetime.is_some_and(|lifetime| lifetime.is_zero()) => {
                declined("whoever made it says that it does not last")
            }
            Self::Validated { .. } if reads_files(&effects.reads) && witness.is_empty() => {
                declined("it read files and noted nothing of them")
            }
            _ => Ok(()),
        }
    }
}

fn reads_files(reads: &Extent) -> bool {
    match reads {
        Extent::Unknown => true,
        Extent::Known(touched) => touched.iter().any(|one| !matches!(one, Touched::Named(_))),
    }
}

impl Profile {
    pub(super) fn is_built_in(&self) -> bool {
        self.tool.about().origin == Origin::BuiltIn
    }

    pub(super) fn of(tool: &Arc<dyn Tool>, stated: &BTreeMap<String, Duration>) -> Self {
        let about = tool.about();
        let standing = Standing::of(about, stated.get(&about.name).copied());
        let wanted = match standing {
            Standing::Never(_) => false,
            // A server may state a lifetime; our own tools that are never kept do not.
            Standing::IfStated => matches!(about.origin, Origin::Mcp(_)),
            Standing::Validated { .. } | Standing::Timed(_) | Standing::Immutable { .. } => true,
        };
        Self {
            tool: Arc::clone(tool),
            standing,
            takes_force: wanted && !has_own_force(&about.parameters),
            schema: Canonical::value(&about.parameters).digest().to_string(),
            origin: match &about.origin {
                Origin::BuiltIn => "built-in".to_owned(),
                Origin::Mcp(server) => format!("mcp:{server}"),
            },
        }
    }
}

fn has_own_force(parameters: &Value) -> bool {
    parameters
        .get("properties")
        .is_some_and(|properties| properties.get(super::force::ARGUMENT).is_some())
}

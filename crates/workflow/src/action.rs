//! What a step can do: the seam of the action registry. One file under `actions/` per namespace.

use std::path::PathBuf;

use async_trait::async_trait;
use cachalot_cache::Domain;
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use serde_json::Value;

use crate::Runtime;
use crate::actions::Registry;

/// The arguments of an action, templates already rendered.
pub type Arguments = serde_json::Map<String, Value>;

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text; numbers and booleans are taken as their text.
    Text,
    /// A whole number; the text of one is taken too (templates render to text).
    Integer,
    /// A number; the text of one is taken too.
    Number,
    /// `true` or `false`, also as text.
    Boolean,
    /// A mapping.
    Object,
    /// A list.
    List,
    /// Anything.
    Any,
}

/// One parameter of an action.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it takes; null stands for "not given" unless the kind is [`ParameterKind::Any`].
    pub kind: ParameterKind,
    /// Whether leaving it out is a load-time error.
    pub required: bool,
    /// One sentence, for the schema and the reference.
    pub doc: &'static str,
    /// Its names in other runtimes. Arguments get the parameter's own name when they are checked, so
    /// that actions and keys never see these.
    pub aliases: &'static [&'static str],
    /// Whether it can change the result. An argument that cannot is in no key.
    pub keyed: bool,
}

impl Parameter {
    /// A parameter that may be left out, is part of every key and has one name.
    #[must_use]
    pub const fn optional(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            required: false,
            doc,
            aliases: &[],
            keyed: true,
        }
    }

    /// A parameter that must be given.
    #[must_use]
    pub const fn required(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, kind, doc)
        }
    }

    /// The same, under these names as well.
    #[must_use]
    pub const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The same, in no key.
    #[must_use]
    pub const fn unkeyed(self) -> Self {
        Self {
            keyed: false,
            ..self
        }
    }

    /// Whether this is one of its names.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Whether `cache.wrap` takes an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memoizable {
    /// Its author may wrap it.
    Yes,
    /// Its only purpose is an effect, so that answering from the cache would swallow it: a load-time error.
    EffectOnly,
}

/// What an action is.
#[derive(Debug, Clone)]
pub struct About {
    /// Its names, the first of which is the one shown: `file.read`, `actions.file_read`.
    pub names: &'static [&'static str],
    /// Raised when the same arguments would give another result; part of every key.
    pub version: u32,
    /// One sentence, for the schema and the reference.
    pub doc: &'static str,
    /// Its parameters. Others are load-time errors.
    pub parameters: &'static [Parameter],
    /// Whether it may be wrapped.
    pub memoizable: Memoizable,
}

impl About {
    /// The parameter that has this name or alias.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.is_called(name))
    }
}

/// What an action would do.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// It runs; nothing of it is memoized.
    Runs,
    /// It would be answered from the cache.
    Hit {
        /// The node's result, as the run would get it.
        result: Value,
        /// The handle of the entry.
        handle: String,
    },
    /// It would run, and be stored if it may be.
    Pays {
        /// The handle, if it has one.
        handle: Option<String>,
        /// Why the cache does not answer.
        reason: String,
    },
}

/// Why an action failed. Its text never holds a secret once it has left the registry.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Stable: `not_found`, `validation_error`, `http_error`, `timeout`, …
    pub kind: &'static str,
    /// What happened, to what, and what to do about it.
    pub message: String,
    /// Whether the same call may succeed if made again (`on_error: retry` retries only these).
    pub retryable: bool,
    /// Whether [`Action::alternatives`] may be run in its place: the work failed at another's end, and
    /// nothing of it was shown.
    pub elsewhere: bool,
}

impl Failure {
    /// A failure that will happen again.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: false,
            elsewhere: false,
        }
    }

    /// A failure that may pass.
    pub fn passing(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: true,
            elsewhere: false,
        }
    }

    /// The failure of a call whose alternative failed as well. It is still that of the first call: an
    /// alternative that fails for good says nothing of it.
    pub(crate) fn and_of(self, alternative: Self) -> Self {
        Self {
            message: format!("{}; in its place, {}", self.message, alternative.message),
            ..self
        }
    }
}

/// Something a step can do. Implementations hold no state of a run: what they need comes with the
/// arguments and the [`Runtime`]. Dropping the future of [`Action::run`] cancels the work.
#[async_trait]
pub trait Action: Send + Sync {
    /// What it is.
    fn about(&self) -> &About;

    /// What is wrong with the arguments as written, beyond what [`About::parameters`] tells: called
    /// when a file is loaded, before any template is rendered.
    fn check(&self, with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
        let _ = (with, registry);
        Vec::new()
    }

    /// What [`Action::run`] would do with these arguments, as far as that can be told without doing
    /// it: what a plan shows. By default: it runs.
    ///
    /// # Errors
    /// What `run` would fail with before it begins.
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        let _ = (arguments, runtime);
        Ok(Planned::Runs)
    }

    /// What is not in the arguments but changes the result (a working directory, named environment
    /// variables, a base URL from the settings); part of every key. By default nothing.
    ///
    /// # Errors
    /// If it cannot be told; the action then runs uncached.
    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let _ = (arguments, runtime);
        Ok(Value::Null)
    }

    /// Local files and directories whose content the result depends on; `cache.wrap` witnesses them
    /// before the action runs, so that an entry is not served after they changed. What a directory
    /// holds is the names and kinds of its entries. By default nothing.
    ///
    /// May read directories, so that two calls can differ if something changes between them; blocks
    /// for as long as that takes. Arguments that the action would fail with look at nothing.
    fn looks_at(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<PathBuf> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// What the result depends on whose changes are announced without saying what changed; an entry
    /// is not served after one was announced ([`cachalot_cache::Cache::writing`]). By default nothing.
    fn domains(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Domain> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// Arguments of further calls of this action, each of which may be made in place of one that failed
    /// with [`Failure::elsewhere`], in this order. Each is a call of its own, with its own key. By
    /// default none.
    fn alternatives(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Arguments> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// Does it as [`Action::run`] does, without [`Action::alternatives`].
    ///
    /// # Errors
    /// As of [`Action::run`].
    async fn run_alone(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        self.run(arguments, runtime).await
    }

    /// Does it. The arguments have been checked against [`About::parameters`] and cast to their
    /// kinds; arguments that are null or absent are absent.
    ///
    /// # Errors
    /// A failure fails the node (and is never stored).
    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure>;
}

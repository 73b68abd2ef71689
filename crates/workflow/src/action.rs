//! The `Action` trait and its metadata: the interface of the action registry. Each namespace has one
//! file under `actions/`.

use std::path::PathBuf;

use async_trait::async_trait;
use cachalot_cache::Domain;
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use serde_json::Value;

use crate::Runtime;
use crate::actions::Registry;

/// The arguments of an action, with templates rendered.
pub type Arguments = serde_json::Map<String, Value>;

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text. Numbers and booleans are converted to text.
    Text,
    /// An integer. Text that holds an integer is accepted too, because templates render to text.
    Integer,
    /// A number. Text that holds a number is accepted too.
    Number,
    /// `true` or `false`, also as text.
    Boolean,
    /// A mapping.
    Object,
    /// A list.
    List,
    /// Any value.
    Any,
}

/// One parameter of an action.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The parameter's name.
    pub name: &'static str,
    /// The accepted type. Null means "not given" unless the kind is [`ParameterKind::Any`].
    pub kind: ParameterKind,
    /// Set when leaving the parameter out is a load-time error.
    pub required: bool,
    /// One sentence, for the JSON Schema and the reference documentation.
    pub doc: &'static str,
    /// The names of the parameter in other runtimes. The argument check renames them to `name`, so
    /// actions and cache keys never see an alias.
    pub aliases: &'static [&'static str],
    /// Set when the argument can change the result. An argument that cannot is not part of any cache
    /// key.
    pub keyed: bool,
    /// Names that templates in the argument may use besides those of every template. If there are any,
    /// the action itself renders a text with templates, as often as it likes, and its argument is a
    /// mapping of the template's source and the values that it reads.
    pub late_names: &'static [&'static str],
}

impl Parameter {
    /// Creates an optional parameter that is part of every cache key and has no aliases.
    #[must_use]
    pub const fn optional(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            required: false,
            doc,
            aliases: &[],
            keyed: true,
            late_names: &[],
        }
    }

    /// Creates a required parameter.
    #[must_use]
    pub const fn required(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, kind, doc)
        }
    }

    /// Adds aliases.
    #[must_use]
    pub const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Lets the action render templates in the argument, with these names.
    #[must_use]
    pub const fn rendered_with(self, late_names: &'static [&'static str]) -> Self {
        Self { late_names, ..self }
    }

    /// Leaves the parameter out of cache keys.
    #[must_use]
    pub const fn unkeyed(self) -> Self {
        Self {
            keyed: false,
            ..self
        }
    }

    /// True if `name` is the parameter's name or one of its aliases.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Eligibility of an action for `cache.wrap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memoizable {
    /// The author of a file may wrap the action.
    Yes,
    /// The only purpose of the action is a side effect, which a cache hit would skip. Wrapping it is a
    /// load-time error.
    EffectOnly,
    /// The result must not be cached, for this reason: a clause that follows the action's name. Wrapping
    /// the action is a load-time error.
    No(&'static str),
}

/// Metadata of an action.
#[derive(Debug, Clone)]
pub struct About {
    /// The action's names, such as `file.read` and `actions.file_read`. Messages and the reference
    /// documentation show the first one.
    pub names: &'static [&'static str],
    /// Version of the action's behavior, part of every cache key. Raised when the same arguments would
    /// give another result.
    pub version: u32,
    /// One sentence, for the JSON Schema and the reference documentation.
    pub doc: &'static str,
    /// The accepted parameters. Any other argument is a load-time error.
    pub parameters: &'static [Parameter],
    /// Eligibility for `cache.wrap`.
    pub memoizable: Memoizable,
}

impl About {
    /// Returns the parameter that has this name or alias.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.is_called(name))
    }
}

/// The planned outcome of an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// The action runs and is not memoized.
    Runs,
    /// The cache would answer.
    Hit {
        /// The node's result, as a run would get it.
        result: Value,
        /// The handle of the entry.
        handle: String,
    },
    /// The action would run, and its result would be stored if that is permitted.
    Pays {
        /// The handle, if the call has one.
        handle: Option<String>,
        /// The reason why the cache does not answer.
        reason: String,
    },
}

/// The failure of an action. Its text may contain secrets until the run loop or `cache.wrap` masks them, which
/// happens before it is reported or set in the state.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The failure kind, a stable identifier: `not_found`, `validation_error`, `http_error`, `timeout`,
    /// …
    pub kind: &'static str,
    /// The message: what failed, on what, and what to do.
    pub message: String,
    /// Set when the same call may succeed if repeated. `on_error: retry` retries only these failures
    /// unless `retryable_errors` is set.
    pub retryable: bool,
    /// Set when [`Action::alternatives`] may run instead: an external service or program failed, and
    /// none of its output has been shown.
    pub elsewhere: bool,
}

impl Failure {
    /// Creates a permanent failure; a retry cannot help.
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: false,
            elsewhere: false,
        }
    }

    /// Creates a transient failure; a retry may help.
    pub fn passing(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: true,
            elsewhere: false,
        }
    }

    /// Adds the message of an alternative that failed as well. Kind and retryability stay those of the
    /// first call, because a permanent failure of the alternative does not make the first call's
    /// failure permanent.
    pub(crate) fn and_of(self, alternative: Self) -> Self {
        Self {
            message: format!("{}; in its place, {}", self.message, alternative.message),
            ..self
        }
    }
}

/// An operation that a workflow step can run. Implementations hold no state of a run: arguments and
/// [`Runtime`] carry all input. Dropping the future of [`Action::run`] cancels the work.
#[async_trait]
pub trait Action: Send + Sync {
    /// Returns the action's metadata.
    fn about(&self) -> &About;

    /// Returns problems of the arguments as written, beyond what [`About::parameters`] specifies.
    /// Called when a file is loaded, before any template is rendered.
    fn check(&self, with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
        let _ = (with, registry);
        Vec::new()
    }

    /// True if the author of a file may name the action as a tool of `reason.react`. False for an action
    /// that runs other actions: its arguments are chosen by a model, which could then run any action.
    fn is_tool(&self) -> bool {
        true
    }

    /// Returns what [`Action::run`] would do with these arguments, as far as that can be determined
    /// without running the action. A plan shows it. Defaults to [`Planned::Runs`].
    ///
    /// # Errors
    /// Failures that `run` would return before it starts to work.
    async fn plan(&self, arguments: Arguments, runtime: &Runtime) -> Result<Planned, Failure> {
        let _ = (arguments, runtime);
        Ok(Planned::Runs)
    }

    /// Returns inputs that are not arguments but change the result (a working directory, named
    /// environment variables, a base URL from the settings). They are part of every cache key. Defaults
    /// to none.
    ///
    /// # Errors
    /// Returned if the inputs cannot be determined; the action then runs uncached.
    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let _ = (arguments, runtime);
        Ok(Value::Null)
    }

    /// Returns local files and directories whose content the result depends on. `cache.wrap` records
    /// witnesses of them before the action runs, so an entry is not served after they change. The
    /// content of a directory is the names and kinds of its entries. Defaults to none.
    ///
    /// May read directories, and blocks while it does. Two calls can return different paths if files
    /// change in between. Returns nothing for arguments that the action would refuse.
    fn looks_at(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<PathBuf> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// Returns domains that the result depends on. An entry is not served after a change of one of its
    /// domains was announced ([`cachalot_cache::Cache::write_guard`]). Defaults to none.
    fn domains(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Domain> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// Returns arguments for alternative calls of this action, in order. Each may run in place of a
    /// call that failed with [`Failure::elsewhere`]. Each is a separate call with its own cache key.
    /// Defaults to none.
    fn alternatives(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Arguments> {
        let _ = (arguments, runtime);
        Vec::new()
    }

    /// Runs the action like [`Action::run`], but without [`Action::alternatives`].
    ///
    /// # Errors
    /// The same as those of [`Action::run`].
    async fn run_alone(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        self.run(arguments, runtime).await
    }

    /// Runs the action. The arguments have been checked against [`About::parameters`] and converted to
    /// their kinds. Null arguments have been removed, except those of kind [`ParameterKind::Any`].
    ///
    /// # Errors
    /// A failure fails the node and is never stored.
    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure>;
}

//! Parsed arguments of `cache.wrap`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{CacheMode, Domain, Scope};
use cachalot_core::{EffectTarget, EffectTargets, Effects};
use serde_json::Value;

use super::check::{self, ON_ERROR, SCOPES, STRATEGIES, TTL};
use crate::{Action, Arguments, Failure, Registry, Runtime};

/// The default time to live of an entry: 60 days.
pub(super) const DEFAULT_TTL: Duration = Duration::from_secs(60 * 86_400);
/// The default probability that a miss sweeps expired entries.
pub(super) const DEFAULT_CLEANUP_PROBABILITY: f64 = 0.05;
/// The default maximum of expired entries that one sweep erases.
pub(super) const DEFAULT_CLEANUP_LIMIT: u32 = 5;

/// Source of the key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Strategy {
    /// All arguments.
    Arguments,
    /// The value of one argument, and all other arguments.
    Value,
    /// The content of the file that the argument of this name points to, and all other arguments.
    FileContent(String),
    /// A key that the user sets.
    Key(String),
}

impl Strategy {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Arguments => "args",
            Self::Value => "sha256",
            Self::FileContent(_) => "file_content",
            Self::Key(_) => "custom",
        }
    }
}

/// A call of `cache.wrap`.
pub(super) struct Request {
    pub(super) action: Arc<dyn Action>,
    pub(super) args: Arguments,
    pub(super) strategy: Strategy,
    pub(super) scope: Scope,
    pub(super) ttl: Duration,
    pub(super) mode: CacheMode,
    pub(super) cleanup_probability: f64,
    pub(super) cleanup_limit: u32,
    pub(super) depends_on: Vec<String>,
    pub(super) version: Value,
    pub(super) tags: Vec<String>,
    pub(super) return_errors: bool,
    /// True if the request replaces a call that failed; such a request has no alternatives itself.
    pub(super) is_alternative: bool,
}

/// Error for a request that is not carried out.
pub(super) struct RequestError {
    pub(super) failure: Failure,
    /// True if the wrapped action rejects its arguments and the caller asked for failures as results
    /// (`on_error: return`).
    pub(super) returned: bool,
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            returned: false,
        }
    }
}

pub(super) fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::new("validation_error", format!("cache.wrap: {message}"))
}

fn one_of(name: &str, value: &str, known: &[&str]) -> Failure {
    let help = cachalot_core::suggest::did_you_mean(value, known);
    invalid(format!("{name} is `{value}`, {help}"))
}

impl Request {
    /// Returns the effects of the wrapped action. A file that is keyed by its content is not among the reads.
    pub(super) fn effects(&self, runtime: &Runtime) -> Effects {
        match &self.strategy {
            Strategy::FileContent(source) => {
                let mut others = self.args.clone();
                others.shift_remove(source);
                self.action.effects(&others, runtime)
            }
            _ => self.action.effects(&self.args, runtime),
        }
    }

    /// Returns the files and directories that [`Request::effects`] reads.
    pub(super) fn files(&self, runtime: &Runtime) -> Vec<PathBuf> {
        let EffectTargets::Known(reads) = self.effects(runtime).reads else {
            return Vec::new();
        };
        reads
            .into_iter()
            .filter_map(|read| match read {
                EffectTarget::Path(path) => Some(path),
                EffectTarget::Glob { .. } | EffectTarget::Named(_) => None,
            })
            .collect()
    }

    /// Returns the first name of the wrapped action, under which the cache knows it, independent of the
    /// name that the call uses.
    pub(super) fn name(&self) -> &str {
        name_of(self.action.as_ref())
    }

    /// Returns the domains that the result depends on.
    pub(super) fn domains(&self, runtime: &Runtime) -> Vec<Domain> {
        self.action.domains(&self.args, runtime)
    }

    /// Returns the agent's segment of the handle and the key; scopes wider than the agent have none.
    pub(super) fn agent<'r>(&self, runtime: &'r Runtime) -> Option<&'r str> {
        let has_agent = matches!(self.scope, Scope::Agent(_) | Scope::Run(_));
        has_agent.then_some(runtime.agent.as_str())
    }

    pub(super) fn read(given: Arguments, runtime: &Runtime) -> Result<Self, RequestError> {
        let mut given = ArgumentList(given);
        let name = given.text("action").unwrap_or_default();
        let action = find_action(&name, &runtime.actions)?;
        let return_errors = match given.text("on_error").as_deref() {
            None | Some("fail") => false,
            Some("return") => true,
            Some(other) => return Err(one_of("on_error", other, &ON_ERROR).into()),
        };
        let args = match given.take("args") {
            Some(Value::Object(args)) => args,
            _ => return Err(invalid("`args` must be a mapping").into()),
        };
        let args = action
            .metadata()
            .check(args)
            .map_err(|failure| RequestError {
                failure,
                returned: return_errors,
            })?;
        let strategy = strategy(&mut given, &args)?;
        let key_prefix = given.flag("key_prefix", true);
        let scope = scope(given.text("scope").as_deref(), key_prefix, runtime)?;
        Ok(Self {
            ttl: ttl(&given)?,
            mode: mode(&given).overridden_by(runtime.mode),
            cleanup_probability: probability(&given)?,
            cleanup_limit: limit(&given)?,
            depends_on: texts(given.take("depends_on"), "depends_on")?,
            tags: texts(given.take("tags"), "tags")?,
            version: given.take("version").unwrap_or(Value::Null),
            action,
            args,
            strategy,
            scope,
            return_errors,
            is_alternative: false,
        })
    }

    /// Returns the requests that may replace this one; each has its own key.
    pub(super) fn alternatives(&self, runtime: &Runtime) -> Vec<Self> {
        if self.is_alternative {
            return Vec::new();
        }
        let alternatives = self.action.alternatives(&self.args, runtime).into_iter();
        alternatives
            .map(|args| Self {
                args,
                action: Arc::clone(&self.action),
                strategy: self.strategy.clone(),
                scope: self.scope.clone(),
                depends_on: self.depends_on.clone(),
                version: self.version.clone(),
                tags: self.tags.clone(),
                is_alternative: true,
                ..*self
            })
            .collect()
    }
}

/// Returns the first name of an action.
pub(super) fn name_of(action: &dyn Action) -> &str {
    &action.metadata().name
}

fn find_action(name: &str, registry: &Registry) -> Result<Arc<dyn Action>, Failure> {
    let Some(action) = registry.get(name) else {
        let help = registry.help_for(name);
        let message = format!("there is no action `{name}`: {help}");
        return Err(Failure::new("action_not_found", message));
    };
    match check::refusal(action.metadata()) {
        None => Ok(Arc::clone(action)),
        Some(refusal) => Err(invalid(format!(
            "`{name}` {}: {}",
            refusal.why, refusal.remedy
        ))),
    }
}

/// Arguments that are found by comparing names: they are few, and each is looked up once.
struct ArgumentList(Arguments);

impl ArgumentList {
    fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    /// Leaves null in place of the value.
    fn take(&mut self, name: &str) -> Option<Value> {
        let found = self.0.iter_mut().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.take())
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::as_f64)
    }
}

fn strategy(given: &mut ArgumentList, args: &Arguments) -> Result<Strategy, Failure> {
    let key = given.text("key").filter(|key| !key.trim().is_empty());
    let name = given.text("key_strategy");
    let name = name.as_deref().unwrap_or("args");
    let source = given.text("key_source");
    if !STRATEGIES.contains(&name) {
        return Err(one_of("key_strategy", name, &STRATEGIES));
    }
    if let Some(key) = key {
        return Ok(Strategy::Key(key));
    }
    let with_argument = |source: String| {
        if args.contains_key(&source) {
            Ok(source)
        } else {
            Err(invalid(format!(
                "key_source names `{source}`, which is not among `args`"
            )))
        }
    };
    match name {
        "custom" => Err(invalid("key_strategy `custom` needs `key`")),
        "file_content" => {
            with_argument(source.unwrap_or_else(|| "file".to_owned())).map(Strategy::FileContent)
        }
        "sha256" => match source {
            Some(source) => with_argument(source).map(|_| Strategy::Value),
            None => Err(invalid("key_strategy `sha256` needs `key_source`")),
        },
        _ => Ok(Strategy::Arguments),
    }
}

fn scope(given: Option<&str>, key_prefix: bool, runtime: &Runtime) -> Result<Scope, Failure> {
    match given {
        Some(scope) if !key_prefix && scope != "global" => Err(invalid(format!(
            "`key_prefix: false` shares with every agent, `scope: {scope}` does not: leave one of them out"
        ))),
        None if !key_prefix => Ok(Scope::Global),
        None | Some("agent") => Ok(Scope::Agent(runtime.agent.clone())),
        Some("run") => Ok(Scope::Run(format!("{}:{}", runtime.agent, runtime.run))),
        Some("workspace") => {
            let directory = runtime.directory.to_string_lossy();
            Ok(Scope::Workspace(directory.into_owned()))
        }
        Some("user") => user(runtime).map(Scope::User),
        Some("global") => Ok(Scope::Global),
        Some(other) => Err(one_of("scope", other, &SCOPES)),
    }
}

/// Returns the scopes whose entries this run shares: those that it may see without naming another agent
/// or user.
pub(super) fn own_scopes(runtime: &Runtime) -> Vec<Scope> {
    let scopes = SCOPES.iter();
    scopes
        .filter_map(|name| scope(Some(name), true, runtime).ok())
        .collect()
}

/// Returns the user of the run. Fails without a user name: an anonymous user shares with no other.
fn user(runtime: &Runtime) -> Result<String, Failure> {
    let names = ["USER", "LOGNAME", "USERNAME"];
    let found = names
        .iter()
        .filter_map(|name| runtime.environment.get(*name));
    match found.into_iter().find(|name| !name.trim().is_empty()) {
        Some(name) => Ok(name.clone()),
        None => Err(invalid(
            "`scope: user` needs to know the user, and none of USER, LOGNAME and USERNAME is set",
        )),
    }
}

fn ttl(given: &ArgumentList) -> Result<Duration, Failure> {
    const UNITS: [(&str, f64); 3] = [
        ("ttl_seconds", 1.0),
        ("ttl_hours", 3_600.0),
        ("ttl_days", 86_400.0),
    ];
    // In order of precedence: the first one that is given wins.
    let mut chosen = match given.get("ttl") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let ttl = TTL
                .read_json(value)
                .map_err(|refusal| invalid(format!("ttl {}: {}", refusal.cause, refusal.remedy)))?;
            Some(ttl.max(Duration::from_millis(1)))
        }
    };
    for (name, seconds) in UNITS {
        let Some(count) = given.number(name) else {
            continue;
        };
        if !(count > 0.0 && count.is_finite()) {
            return Err(invalid(format!(
                "{name} is {count}: it must be a positive number"
            )));
        }
        // A time to live that exceeds the range of a duration never ends.
        let ttl = Duration::try_from_secs_f64(count * seconds).unwrap_or(Duration::MAX);
        chosen.get_or_insert(ttl.max(Duration::from_millis(1)));
    }
    Ok(chosen.unwrap_or(DEFAULT_TTL))
}

fn mode(given: &ArgumentList) -> CacheMode {
    if !given.flag("cache_enabled", true) {
        CacheMode::Off
    } else if given.flag("skip_cache", false) {
        CacheMode::Refresh
    } else {
        CacheMode::On
    }
}

fn probability(given: &ArgumentList) -> Result<f64, Failure> {
    match given.number("cleanup_probability") {
        None => Ok(DEFAULT_CLEANUP_PROBABILITY),
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Some(other) => Err(invalid(format!(
            "cleanup_probability is {other}: expected 0 to 1"
        ))),
    }
}

fn limit(given: &ArgumentList) -> Result<u32, Failure> {
    match given.get("cleanup_limit").and_then(Value::as_i64) {
        None => Ok(DEFAULT_CLEANUP_LIMIT),
        Some(limit) => u32::try_from(limit).map_err(|_| {
            invalid(format!(
                "cleanup_limit is {limit}: expected a whole number from 0"
            ))
        }),
    }
}

/// Reads a list of texts, or one text.
pub(super) fn texts(value: Option<Value>, name: &str) -> Result<Vec<String>, Failure> {
    let wrong = || invalid(format!("`{name}` must be a list of texts"));
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one]),
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                _ => Err(wrong()),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

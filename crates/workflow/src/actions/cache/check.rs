//! Load-time checks of the arguments of `cache.wrap`.

mod lists;

use cachalot_core::duration::Range;
use cachalot_core::tree::{Node, NodeKind};
use cachalot_core::{Problem, suggest};

use crate::action::argument_checker::ArgumentChecker;
use crate::actions::arguments::{any, boolean, integer, number, object, required, text, word};
use crate::actions::check_arguments;
use crate::codes::{BAD_VALUE, EFFECT_ONLY_WRAPPED, MISSING_KEY, NOT_MEMOIZABLE};
use crate::{CacheClass, OperationMetadata, Parameter, ParameterKind, Registry};

/// Names of the strategies.
pub(super) const STRATEGIES: [&str; 4] = ["args", "sha256", "file_content", "custom"];
/// Names of the scopes that a workflow supports.
pub(super) const SCOPES: [&str; 5] = ["run", "workspace", "agent", "user", "global"];
/// Allowed values of `on_error`.
pub(super) const ON_ERROR: [&str; 2] = ["fail", "return"];

pub(super) static ABOUT: OperationMetadata = OperationMetadata::declared(
    "cache.wrap",
    &["actions.cache_wrap"],
    "Runs an action, or answers it from the cache.",
    PARAMETERS,
)
// The wrapped action announces what it writes.
.read_only();

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    required(text("action", "The action to wrap.")),
    required(object("args", "The arguments of the wrapped action.")),
    text("key", "The cache key; takes the place of any strategy."),
    word("key_strategy", &STRATEGIES, "The source of the key: `args` (default), `sha256`, `file_content`, `custom`."),
    text("key_source", "The argument whose content is keyed: required for `sha256`; for `file_content` the path, `file` by default."),
    boolean("key_prefix", "`false`: without the agent's name, shared by all agents of this store."),
    word("scope", &SCOPES, "The sharing scope: `run`, `workspace`, `agent` (default), `user`, `global`."),
    any("version", "Part of the key: change it to start afresh."),
    any("depends_on", "Files and directories whose change makes the entry stale."),
    any("tags", "Tags by which entries are invalidated."),
    Parameter::optional("ttl", ParameterKind::Duration(TTL), "Time to live, such as `30s`, `1h`, `1h30m`, `60d`; `60d` by default."),
    number("ttl_days", "Time to live in days; `ttl` wins."),
    number("ttl_hours", "Time to live in hours; wins over ttl_days."),
    number("ttl_seconds", "Time to live in seconds; wins over both."),
    boolean("skip_cache", "Runs afresh, then stores."),
    boolean("cache_enabled", "`false`: neither looks up nor stores."),
    number("cleanup_probability", "The probability that a miss erases expired entries, from 0 to 1; 0.05 by default."),
    integer("cleanup_limit", "The maximum number of entries that it erases; 5 by default."),
    word("on_error", &ON_ERROR, "`fail` (default): a failing action fails the node. `return`: the error is returned."),
];

/// Help text for a time to live.
const LIFETIME_HELP: &str =
    "a time to live must be a positive number; to store nothing, set `cache_enabled: false`";

/// The values of `ttl`.
pub(super) const TTL: Range =
    Range::POSITIVE.instead_of_zero("to store nothing, set `cache_enabled: false`");

/// Returns a text that contains no template, so that its value is known at load time.
fn literal(node: Option<&Node>) -> Option<&str> {
    match node.map(|node| &node.kind) {
        Some(NodeKind::Text(text)) if !text.contains("{{") && !text.contains("{%") => Some(text),
        _ => None,
    }
}

pub(super) fn wrap(with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
    let Some(arguments) = with else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    wrapped_action(arguments, registry, &mut problems);
    let is_lifetime = |time: f64| time > 0.0 && time.is_finite();
    let mut checker = ArgumentChecker::new(&ABOUT, with)
        .bounded("ttl_days", LIFETIME_HELP, is_lifetime)
        .bounded("ttl_hours", LIFETIME_HELP, is_lifetime)
        .bounded("ttl_seconds", LIFETIME_HELP, is_lifetime)
        .bounded("cleanup_probability", "expected 0 to 1", |share| {
            (0.0..=1.0).contains(&share)
        })
        .bounded("cleanup_limit", "expected a whole number from 0", |limit| {
            limit >= 0.0
        });
    key_source(arguments, &mut checker);
    sharing(arguments, &mut checker);
    problems.extend(checker.problems());
    lists::check(arguments, &mut problems);
    problems
}

/// Rejects `key_prefix: false` with a scope narrower than `global`: the former shares with every agent.
fn sharing(with: &Node, checker: &mut ArgumentChecker<'_>) {
    let prefix = with.get("key_prefix").and_then(Node::as_boolean);
    let scope = literal(with.get("scope")).filter(|scope| *scope != "global");
    if let (Some(false), Some(scope)) = (prefix, scope) {
        let message =
            format!("`key_prefix: false` shares with every agent, `scope: {scope}` does not");
        checker.report(BAD_VALUE, "scope", message, "leave one of them out");
    }
}

fn wrapped_action(with: &Node, registry: &Registry, problems: &mut Vec<Problem>) {
    let node = with.get("action");
    let (Some(node), Some(name)) = (node, literal(node)) else {
        return;
    };
    let Some(action) = registry.get(name) else {
        problems.push(registry.unknown(name).at(&node.place));
        return;
    };
    if let Some(refusal) = refusal(action.metadata()) {
        let problem = Problem::new(refusal.code, format!("`{name}` {}", refusal.why));
        problems.push(problem.at(&node.place).help(refusal.remedy));
        return;
    }
    let args = with.get("args");
    problems.extend(check_arguments(action.metadata(), args, &node.place));
    problems.extend(action.check(args, registry));
}

/// The reason why `cache.wrap` refuses an operation.
pub(super) struct Refusal {
    code: &'static str,
    /// A clause that follows the name of the operation.
    pub(super) why: &'static str,
    pub(super) remedy: &'static str,
}

/// Returns the reason why `cache.wrap` must not wrap an operation.
pub(super) fn refusal(metadata: &OperationMetadata) -> Option<Refusal> {
    let (code, why, remedy) = match metadata.cache_class {
        CacheClass::EffectOnly => (
            EFFECT_ONLY_WRAPPED,
            "only has an effect",
            "answered from the cache, the effect would be missing: call it directly",
        ),
        CacheClass::Excluded(why) => (
            NOT_MEMOIZABLE,
            why,
            "a cached result could be wrong: call it directly",
        ),
        CacheClass::Wrappable => return None,
        _ if !metadata.read_only => (
            EFFECT_ONLY_WRAPPED,
            "may change something",
            "answered from the cache, the change would be missing: call it directly",
        ),
        CacheClass::Never => (
            NOT_MEMOIZABLE,
            "is not declared cacheable",
            "call it directly, or declare in `mcps` that the tool is read-only and how long its results last",
        ),
        CacheClass::Validated | CacheClass::Ttl(_) | CacheClass::Immutable => return None,
    };
    Some(Refusal { code, why, remedy })
}

/// Checks that `custom` has a key, and that `sha256` and `file_content` have an argument to read.
fn key_source(with: &Node, checker: &mut ArgumentChecker<'_>) {
    let is_given =
        |key: &Node| !key.is_null() && key.as_text().is_none_or(|text| !text.trim().is_empty());
    if with.get("key").is_some_and(is_given) {
        return;
    }
    let Some(strategy) = literal(with.get("key_strategy")) else {
        return;
    };
    let source_node = with.get("key_source");
    let source = match (strategy, literal(source_node)) {
        ("custom", _) => {
            let message = "`key_strategy: custom` needs `key`".to_owned();
            let help = "add `key: …`, or leave the strategy out to key on all arguments";
            return checker.report(MISSING_KEY, "key_strategy", message, help);
        }
        ("sha256", None) if source_node.is_none() => {
            let message = "`key_strategy: sha256` needs `key_source`".to_owned();
            let help = "name the argument whose value is keyed";
            return checker.report(MISSING_KEY, "key_strategy", message, help);
        }
        ("sha256" | "file_content", Some(source)) => source,
        ("file_content", None) if source_node.is_none() => "file",
        _ => return,
    };
    let Some(args) = with.get("args").and_then(Node::as_map) else {
        return;
    };
    if !args.iter().any(|entry| entry.key == source) {
        let names: Vec<&str> = args.iter().map(|entry| entry.key.as_str()).collect();
        let place = source_node.map_or("key_strategy", |_| "key_source");
        let message = format!("`key_source` names `{source}`, which is not among `args`");
        let help = suggest::did_you_mean(source, &names);
        checker.report(BAD_VALUE, place, message, help);
    }
}

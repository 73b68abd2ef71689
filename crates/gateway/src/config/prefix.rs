//! `prefix` of a configuration file.

use std::time::Duration;

use cachalot_accounting::avoidable::FIVE_MINUTES;
use cachalot_core::Problem;
use cachalot_core::config::{ParameterKind as Kind, Settings, Values};
use cachalot_model::DURATION;
use cachalot_model::budget::{DOLLARS, dollars};

/// Options about the prefixes that providers cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
#[settings(name = "`prefix`", check = check)]
pub(crate) struct PrefixConfig {
    /// Recognizes conversations, and records which of their prefixes break, and why.
    #[setting(default = true)]
    pub(crate) watch: bool,
    /// Adds the header `x-cachalot-prefix` to responses, about the break of the previous request.
    #[setting(default = false)]
    pub(crate) header: bool,
    /// Adds cache markers to requests of Anthropic Messages that have none.
    #[setting(default = false)]
    pub(crate) inject_breakpoints: bool,
    /// Adds a `prompt_cache_key` to requests of Chat Completions and Responses that have none.
    #[setting(default = false)]
    pub(crate) prompt_cache_key: bool,
    /// Refuses a request once that would write an expired prefix again.
    pub(crate) guard: Option<GuardConfig>,
    /// Renews the prefixes of idle conversations.
    pub(crate) keep_alive: Option<KeepAliveConfig>,
}

/// The guard before an expired prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
#[settings(name = "`guard`")]
pub(crate) struct GuardConfig {
    /// The cost in US dollars, beyond that of reading the prefix, from which a request is refused once.
    // In picodollars.
    #[setting(kind = Kind::Custom(&DOLLARS), with = dollars)]
    pub(crate) above: u64,
}

/// Renewal of the prefixes of idle conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
#[settings(name = "`keep_alive`")]
pub(crate) struct KeepAliveConfig {
    /// The time after the last request of a conversation up to which its prefix is renewed, such as `30m`.
    #[setting(kind = DURATION)]
    pub(crate) until: Duration,
    /// The maximum of the estimated cost in US dollars of the renewals in one pause of a conversation.
    // In picodollars.
    #[setting(kind = Kind::Custom(&DOLLARS), with = dollars)]
    pub(crate) max: u64,
}

/// The shortest lifetime of a prefix in the cache of a provider: nothing is renewed within it.
pub const MIN_KEEP_ALIVE: Duration = Duration::from_millis(FIVE_MINUTES as u64);

impl Default for PrefixConfig {
    fn default() -> Self {
        Self {
            watch: true,
            header: false,
            inject_breakpoints: false,
            prompt_cache_key: false,
            guard: None,
            keep_alive: None,
        }
    }
}

fn check(config: &PrefixConfig, values: Values<'_>, problems: &mut Vec<Problem>) {
    let needs_watch = [
        ("guard", config.guard.is_some()),
        ("keep_alive", config.keep_alive.is_some()),
    ];
    let keep_alive = config.keep_alive;
    if keep_alive.is_some_and(|keep_alive| keep_alive.until <= MIN_KEEP_ALIVE) {
        let message =
            "`until` is no longer than the shortest lifetime of a prefix: nothing is renewed";
        let problem = Problem::new("out-of-range", message).at(&values.place("keep_alive"));
        problems.push(problem.help("write more than 5m, such as 30m"));
    }
    for (name, is_set) in needs_watch {
        if is_set && !config.watch {
            let message =
                format!("`{name}` needs the conversations that `watch: false` leaves out");
            let problem = Problem::new("bad-value", message).at(&values.place(name));
            problems.push(problem.help("remove `watch: false`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn problems(prefix: &str) -> Vec<String> {
        let read = Config::parse("gateway.yaml", &format!("prefix: {prefix}"));
        let problems = read.err().unwrap_or_default();
        problems
            .iter()
            .map(|problem| problem.message.clone())
            .collect()
    }

    #[test]
    fn options_without_an_effect_are_refused() {
        assert!(problems("{guard: {above: $0.50}, keep_alive: {until: 30m, max: 0.2}}").is_empty());
        for (prefix, expected) in [
            ("{keep_alive: {until: 5m, max: 1}}", "nothing is renewed"),
            ("{keep_alive: {until: 30, max: 1}}", "nothing is renewed"),
            ("{watch: false, guard: {above: 1}}", "`guard` needs"),
            (
                "{watch: false, keep_alive: {until: 1h, max: 1}}",
                "`keep_alive` needs",
            ),
        ] {
            let found = problems(prefix);
            assert!(
                found.iter().any(|problem| problem.contains(expected)),
                "{prefix}: {found:?}"
            );
        }
    }
}

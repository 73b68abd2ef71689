//! The debug log: events of the gateway and the cache on stderr, for operators. `CACHALOT_LOG` selects them.
//!
//! Only events of these crates can be selected: those of libraries may contain requests and credentials. There are no
//! spans, so a subscriber of our own is smaller than one for all cases.

use std::fmt::{self, Write as _};
use std::str::FromStr as _;
use std::sync::Arc;

use cachalot_core::clock::iso8601;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::{Clock, Problem};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::command_error::{CommandError, Result};
use crate::render;
use crate::render::visible::on_one_line;
use crate::wiring::ProcessEnvironment;

/// The variable that selects events.
const VARIABLE: &str = "CACHALOT_LOG";

/// The crates with events.
const CRATES: [&str; 2] = ["cachalot_cache", "cachalot_gateway"];

/// The levels, from the one with the fewest events.
const LEVELS: [&str; 5] = ["off", "error", "warn", "info", "debug"];

/// Writes the events that the environment selects to stderr, from now on.
///
/// # Errors
/// The variable has another form, or names another crate or level.
pub(crate) fn install(process_environment: &ProcessEnvironment) -> Result<()> {
    let text = process_environment.environment.get(VARIABLE);
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Ok(());
    };
    let filter = Filter::parse(text).map_err(|problem| CommandError::usage(*problem))?;
    let log = DebugLog {
        filter,
        clock: Arc::clone(&process_environment.clock),
    };
    // A test that runs commands in its own process may have installed one.
    let _ = tracing::subscriber::set_global_default(log);
    Ok(())
}

/// The levels of targets.
#[derive(Debug, PartialEq, Eq)]
struct Filter(Vec<(String, LevelFilter)>);

impl Filter {
    /// Reads a list such as `warn,cachalot_gateway::client=debug`. A level alone is that of all targets, and a target
    /// alone has the level `debug`.
    fn parse(text: &str) -> std::result::Result<Self, Box<Problem>> {
        let mut rules = Vec::new();
        for rule in text
            .split(',')
            .map(str::trim)
            .filter(|rule| !rule.is_empty())
        {
            let (target, level) = match rule.split_once('=') {
                Some((target, level)) => (target.trim(), level.trim()),
                None if LEVELS.contains(&rule.to_ascii_lowercase().as_str()) => ("", rule),
                None => (rule, "debug"),
            };
            let name = target.split("::").next().unwrap_or_default();
            if !target.is_empty() && !CRATES.contains(&name) {
                let message = format!("{VARIABLE}: there are no events of `{name}`");
                let words = [&LEVELS[..], &CRATES[..]].concat();
                return Err(problem(message, did_you_mean(name, &words)));
            }
            let lower = level.to_ascii_lowercase();
            let level = LevelFilter::from_str(&lower).ok();
            let Some(level) = level.filter(|_| LEVELS.contains(&lower.as_str())) else {
                let message = format!("{VARIABLE}: `{lower}` is no level of events");
                return Err(problem(message, did_you_mean(&lower, &LEVELS)));
            };
            rules.push((target.to_owned(), level));
        }
        Ok(Self(rules))
    }

    /// Returns the level of a target: that of the longest one that contains it, and of several equal ones the last.
    fn level(&self, target: &str) -> LevelFilter {
        let rules = self
            .0
            .iter()
            .filter(|(parent, _)| is_within(target, parent));
        let rule = rules.max_by_key(|(parent, _)| parent.len());
        rule.map_or(LevelFilter::OFF, |(_, level)| *level)
    }

    fn permits(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        CRATES.iter().any(|name| is_within(target, name)) && *metadata.level() <= self.level(target)
    }
}

/// Returns true if a target is another one, or a module of it; every target is within the empty one.
fn is_within(target: &str, parent: &str) -> bool {
    let rest = target.strip_prefix(parent);
    parent.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn problem(message: String, help: String) -> Box<Problem> {
    Box::new(Problem::new("bad-value", message).help(format!(
        "{help}; for example {VARIABLE}=info,cachalot_gateway=debug"
    )))
}

/// Writes the selected events.
struct DebugLog {
    filter: Filter,
    clock: Arc<dyn Clock>,
}

impl Subscriber for DebugLog {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.filter.permits(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.filter.0.iter().map(|(_, level)| *level).max()
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, others } = fields;
        render::err(&on_one_line(&format!(
            "{} {:<5} {}: {message}{others}",
            iso8601(self.clock.now()),
            metadata.level(),
            metadata.target(),
        )));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event, as text.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_target_decides() {
        let filter = Filter::parse("warn, cachalot_gateway=INFO,cachalot_gateway::client").unwrap();
        for (target, level) in [
            ("cachalot_cache::access", LevelFilter::WARN),
            ("cachalot_gateway", LevelFilter::INFO),
            ("cachalot_gateway::handler", LevelFilter::INFO),
            ("cachalot_gateway::client", LevelFilter::DEBUG),
            ("cachalot_gateway::client::inner", LevelFilter::DEBUG),
            ("cachalot_gateway::clients", LevelFilter::INFO),
            ("cachalot_gateways", LevelFilter::WARN),
        ] {
            assert_eq!(filter.level(target), level, "{target}");
        }
        let filter = Filter::parse("debug,debug,cachalot_cache=off,,").unwrap();
        assert_eq!(filter.level("cachalot_cache::access"), LevelFilter::OFF);
        assert_eq!(filter.level("cachalot_gateway"), LevelFilter::DEBUG);
        assert_eq!(Filter::parse(" ").unwrap().level("x"), LevelFilter::OFF);
    }

    #[test]
    fn misspelled_names_are_reported() {
        for (text, message, help) in [
            (
                "cachalot_gatway=debug",
                "no events of `cachalot_gatway`",
                "`cachalot_gateway`?",
            ),
            ("debgu", "no events of `debgu`", "`debug`?"),
            ("hyper=debug", "no events of `hyper`", "expected one of"),
            ("cachalot_cache=wran", "`wran` is no level", "`warn`?"),
            (
                "cachalot_cache=trace",
                "`trace` is no level",
                "expected one of",
            ),
            ("cachalot_cache=5", "`5` is no level", "expected one of"),
            ("=", "`` is no level", "expected one of"),
        ] {
            let problem = Filter::parse(text).unwrap_err();
            assert!(problem.message.contains(message), "{}", problem.message);
            let found = problem.help.as_deref().unwrap_or_default();
            assert!(found.contains(help), "{text}: {found}");
        }
    }
}

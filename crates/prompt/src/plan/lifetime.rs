//! The lifetime of cached prefixes.

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, Section};

/// The requested lifetime of cached prefixes. One hour costs more to write than five minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrefixLifetime {
    /// Five minutes after the last read.
    FiveMinutes,
    /// One hour after the last read.
    OneHour,
    /// Five minutes; but one hour for the prefix up to the end of the previous turn if the next turn
    /// depends on a person and [`Pauses::favor_one_hour`](super::Pauses).
    #[default]
    Auto,
}

impl PrefixLifetime {
    const WORDS: [(&str, Self); 3] = [
        ("5m", Self::FiveMinutes),
        ("1h", Self::OneHour),
        ("auto", Self::Auto),
    ];

    /// Reads and claims `ttl`.
    fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Self {
        let Some(said) = section.text("ttl", problems) else {
            return Self::default();
        };
        let known = Self::WORDS.iter().find(|(word, _)| *word == said);
        if let Some((_, keep)) = known {
            return *keep;
        }
        let words = Self::WORDS.map(|(word, _)| word);
        let place = section
            .node("ttl")
            .map_or(section.place(), |node| &node.place);
        let problem = Problem::new("bad-value", format!("`ttl` of `prefix` is no `{said}`"));
        problems.push(problem.at(place).help(did_you_mean(said, &words)));
        Self::default()
    }
}

/// The default of `warn_above`: the cost in US dollars from which a prefix break causes a warning.
const DEFAULT_WARN_ABOVE: f64 = 0.01;

/// Settings of an agent's prefix: `prefix: {ttl: 5m|1h|auto, warn_above: DOLLARS, diagnostics:
/// BOOLEAN}`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixSettings {
    /// The lifetime of cached prefixes.
    pub keep: PrefixLifetime,
    /// The minimum cost of a prefix break, in US dollars, for a warning to the user.
    pub warn_above: f64,
    /// True if the provider should compare each request with the previous one
    /// ([`ComparisonParameter`](cachalot_model::ComparisonParameter)). The provider stores digests of requests for that.
    pub diagnostics: bool,
}

impl Default for PrefixSettings {
    fn default() -> Self {
        Self {
            keep: PrefixLifetime::default(),
            warn_above: DEFAULT_WARN_ABOVE,
            diagnostics: false,
        }
    }
}

impl PrefixSettings {
    /// Parses the mapping under `prefix`.
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let Some(mut section) = Section::from_node(node, "`prefix`", problems) else {
            return Self::default();
        };
        let keep = PrefixLifetime::read(&mut section, problems);
        let warn_above = section
            .number("warn_above", problems)
            .unwrap_or(DEFAULT_WARN_ABOVE);
        if warn_above.is_nan() || warn_above < 0.0 {
            let place = section
                .node("warn_above")
                .map_or(&node.place, |node| &node.place);
            let problem = Problem::new(
                "out-of-range",
                format!("`warn_above` must not be less than 0, but it is {warn_above}"),
            );
            problems.push(problem.at(place).help("write dollars: 0.05"));
        }
        let diagnostics = section.boolean("diagnostics", problems).unwrap_or(false);
        section.finish(problems);
        Self {
            keep,
            warn_above,
            diagnostics,
        }
    }
}

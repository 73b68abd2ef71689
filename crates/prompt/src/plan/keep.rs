//! How long marked prefixes are to be kept.

use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, Section};

/// How long marked prefixes are to be kept. An hour costs more to write than five minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keep {
    /// Five minutes after the last reading.
    FiveMinutes,
    /// An hour after the last reading.
    OneHour,
    /// Five minutes; where a person is waited for and [`Pauses::favor_an_hour`](super::Pauses), an hour up
    /// to the end of the turn before.
    #[default]
    Auto,
}

impl Keep {
    const WORDS: [(&str, Self); 3] = [
        ("5m", Self::FiveMinutes),
        ("1h", Self::OneHour),
        ("auto", Self::Auto),
    ];

    /// Claims `ttl`.
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

/// From so much on, in US dollars, a broken prefix is worth a warning, unless the file says otherwise.
const WARN_ABOVE: f64 = 0.01;

/// Settings of an agent's prefix: `prefix: {ttl: 5m|1h|auto, warn_above: DOLLARS,
/// diagnostics: BOOLEAN}`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixSettings {
    /// How long marked prefixes are to be kept.
    pub keep: Keep,
    /// What a broken prefix has to cost, in US dollars, for the user to be warned.
    pub warn_above: f64,
    /// True if the provider is to compare each request with the one before
    /// ([`Comparison`](cachalot_model::Comparison)). It keeps digests of requests for that.
    pub diagnostics: bool,
}

impl Default for PrefixSettings {
    fn default() -> Self {
        Self {
            keep: Keep::default(),
            warn_above: WARN_ABOVE,
            diagnostics: false,
        }
    }
}

impl PrefixSettings {
    /// Of the mapping that is the value of `prefix`.
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let Some(mut section) = Section::of(node, "`prefix`", problems) else {
            return Self::default();
        };
        let keep = Keep::read(&mut section, problems);
        let warn_above = section.number("warn_above", problems).unwrap_or(WARN_ABOVE);
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

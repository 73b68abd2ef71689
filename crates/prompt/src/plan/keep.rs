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
    /// An hour up to the end of the turn before where a person has to be waited for, five minutes
    /// behind it and everywhere else.
    #[default]
    Auto,
}

impl Keep {
    const WORDS: [(&str, Self); 3] = [
        ("5m", Self::FiveMinutes),
        ("1h", Self::OneHour),
        ("auto", Self::Auto),
    ];

    /// Of a mapping `prefix: {ttl: 5m|1h|auto}`, whose value is `node`.
    pub fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let Some(mut section) = Section::of(node, "`prefix`", problems) else {
            return Self::default();
        };
        let said = section.text("ttl", problems);
        let known = said.and_then(|said| Self::WORDS.iter().find(|(word, _)| *word == said));
        if let (Some(said), None) = (said, known) {
            let words = Self::WORDS.map(|(word, _)| word);
            let place = section.node("ttl").map_or(&node.place, |node| &node.place);
            problems.push(
                Problem::new("bad-value", format!("`ttl` of `prefix` is no `{said}`"))
                    .at(place)
                    .help(did_you_mean(said, &words)),
            );
        }
        section.finish(problems);
        known.map_or_else(Self::default, |(_, keep)| *keep)
    }
}

//! The words for what a turn of a session shows, in text and in HTML.

use std::time::Duration;

use cachalot_core::Millis;
use cachalot_core::duration::rounded;
use cachalot_prefix::diagnosis::TextChange;
use cachalot_prefix::walk::{Jump, Turn};

use crate::render;
use crate::render::visible::on_one_line;

/// The shortest pause that is named, in milliseconds: no published lifetime is shorter.
const MIN_PAUSE: Millis = 300_000;

/// Returns the pause before a turn, if it was long.
pub(super) fn pause(turn: &Turn<'_>) -> Option<String> {
    let pause = turn.pause.filter(|pause| *pause >= MIN_PAUSE)?;
    let mut text = format!("pause of {}", duration(pause));
    if let Some(lifetime) = turn.lifetime.filter(|lifetime| pause > *lifetime) {
        text += &format!(", longer than the cache lives ({})", duration(lifetime));
    }
    Some(text)
}

/// Returns a growth of the cost with its cause: `$0.12: cold cache`.
pub(super) fn jump(jump: &Jump) -> String {
    format!("{}: {}", jump.more.amount(), jump.cause)
}

/// Returns the tools that an answer calls, each once: `Read ×3, Bash`.
pub(super) fn tools(turn: &Turn<'_>) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    let details = turn.answer.details.as_ref();
    for tool in details.iter().flat_map(|details| &details.tools) {
        match counts.iter_mut().find(|(name, _)| *name == &**tool) {
            Some((_, count)) => *count += 1,
            None => counts.push((tool, 1)),
        }
    }
    let texts = counts.iter().map(|(name, count)| match count {
        1 => on_one_line(name),
        count => format!("{} ×{}", on_one_line(name), render::grouped(*count)),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Formats a time span in the unit that a person would choose.
pub(super) fn duration(span: Millis) -> String {
    rounded(Duration::from_millis(u64::try_from(span).unwrap_or(0)))
}

/// Returns the two texts of a break, below each other.
pub(crate) fn change(change: &TextChange) -> String {
    let quoted = |text: &str| match text {
        "" => "nothing".to_owned(),
        text => format!("`{}`", on_one_line(text)),
    };
    let TextChange { before, after } = change;
    format!("     {}\n     became {}\n", quoted(before), quoted(after))
}

//! The first place where two prompts differ.

use cachalot_prompt::continuation::{BreakCause, PrefixBreak, sent_pieces};
use cachalot_prompt::{Level, Node, Prompt};
use serde_json::Value;

/// The first place where two prompts differ.
pub(super) struct DifferenceSite<'a> {
    pub(super) level: Level,
    /// The pieces of the previous request that have bytes.
    pub(super) previous: Vec<&'a Node>,
    /// The pieces of the next request that have bytes.
    pub(super) next: Vec<&'a Node>,
    /// The index in both lists of the first piece that differs.
    pub(super) at: usize,
    /// The pieces of this level at that index, before and after.
    pub(super) before: Option<&'a Node>,
    pub(super) after: Option<&'a Node>,
    /// The first byte within these pieces that differs.
    pub(super) offset: usize,
    /// Number of bytes before these pieces.
    pub(super) bytes_before: u64,
    /// The last piece of the common prefix.
    pub(super) last_common: Option<&'a Node>,
}

impl<'a> DifferenceSite<'a> {
    pub(super) fn new(broken: &PrefixBreak, previous: &'a Prompt, next: &'a Prompt) -> Self {
        let (previous, next) = (sent_pieces(previous), sent_pieces(next));
        let both = previous.iter().zip(&next);
        let same =
            |(one, other): &(&&Node, &&Node)| one.level == other.level && one.bytes == other.bytes;
        let at = both.take_while(same).count();
        let of_level = |node: &&Node| node.level == broken.level;
        let last_common = at.checked_sub(1).and_then(|at| next.get(at).copied());
        Self {
            level: broken.level,
            at,
            before: previous.get(at).copied().filter(of_level),
            after: next.get(at).copied().filter(of_level),
            offset: match broken.cause {
                BreakCause::Changed { offset } => offset,
                _ => 0,
            },
            bytes_before: last_common.map_or(0, |node| node.total),
            last_common,
            previous,
            next,
        }
    }

    /// The text of the piece before; empty if there was none.
    pub(super) fn text_before(&self) -> &'a str {
        self.before.map_or("", text)
    }

    /// The text of the piece after; empty if there is none.
    pub(super) fn text_after(&self) -> &'a str {
        self.after.map_or("", text)
    }

    pub(super) fn value_before(&self) -> Value {
        value(self.text_before())
    }

    pub(super) fn value_after(&self) -> Value {
        value(self.text_after())
    }
}

/// The text of a piece.
pub(super) fn text(node: &Node) -> &str {
    std::str::from_utf8(&node.bytes).unwrap_or_default()
}

/// The JSON value of a piece; null if it is no JSON.
pub(super) fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

//! Checks that a request continues an earlier one: it begins with the same pieces and has the same
//! parameters.

use std::fmt;

use cachalot_model::Format;

use crate::Level;
use crate::chain::{Node, Prompt};
use crate::namespace::Namespace;

/// The parts of a sent request that the provider's cache depends on.
#[derive(Debug, Clone)]
pub struct SentPrompt {
    /// The pieces.
    pub prompt: Prompt,
    /// The parameters that the provider's cache depends on.
    pub namespace: Namespace,
}

/// The position at which a request stops being a continuation of an earlier one. From there on, the
/// provider cannot read the cached prefix of the earlier request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixBreak {
    /// The level of the first invalidated piece.
    pub level: Level,
    /// The index of the piece within the level, from 0.
    pub index: usize,
    /// The cause.
    pub cause: BreakCause,
}

/// The cause of a prefix break.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakCause {
    /// The piece's bytes differ.
    Changed {
        /// The first byte that differs, from 0.
        offset: usize,
    },
    /// The piece is missing.
    Missing,
    /// A piece was inserted before pieces that had been sent: a tool was added.
    Inserted,
    /// A parameter was changed, added or removed.
    Parameter {
        /// Its name.
        name: String,
    },
    /// The conversation was rendered again, for another format, provider or model.
    Rerendered {
        /// The previous format.
        from: Format,
        /// The new format.
        to: Format,
    },
}

impl fmt::Display for PrefixBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            level,
            index,
            cause,
        } = self;
        write!(f, "the prefix breaks at {level}[{index}]: ")?;
        match cause {
            BreakCause::Changed { offset } => write!(f, "its bytes differ from byte {offset} on"),
            BreakCause::Missing => f.write_str("what was sent there is gone"),
            BreakCause::Inserted => f.write_str("a new piece stands before what had been sent"),
            BreakCause::Parameter { name } => write!(f, "the parameter `{name}` changed"),
            BreakCause::Rerendered { from, to } if from == to => {
                f.write_str("the conversation goes to another provider or model")
            }
            BreakCause::Rerendered { from, to } => write!(
                f,
                "the conversation was rendered anew, from the format {from:?} to {to:?}"
            ),
        }
    }
}

impl std::error::Error for PrefixBreak {}

/// Checks that `next` continues `previous`: the segments of `previous`, without markers and up to the
/// end of its messages, are a prefix of those of `next`, and all parameters that the provider's cache
/// depends on are equal.
///
/// # Errors
/// The first difference, in the order in which providers hash.
pub fn extends(previous: &SentPrompt, next: &SentPrompt) -> Result<(), PrefixBreak> {
    let piece = divergence(&previous.prompt, &next.prompt);
    let parameter = previous.namespace.difference(&next.namespace);
    let parameter = parameter.map(|field| PrefixBreak {
        level: field.level,
        index: 0,
        cause: BreakCause::Parameter {
            name: field.name.clone(),
        },
    });
    // A parameter that invalidates a level does so from its first piece on.
    let first = [parameter, piece]
        .into_iter()
        .flatten()
        .min_by_key(|broken| (broken.level, broken.index));
    first.map_or(Ok(()), Err)
}

/// Returns the first piece of `previous` that `next` does not have at its position.
#[must_use]
pub fn divergence(previous: &Prompt, next: &Prompt) -> Option<PrefixBreak> {
    let tip = previous.last()?;
    let same = next.backwards().find(|node| node.depth <= tip.depth);
    // Equal ids mean equal bytes from the first piece on, so the pieces need not be compared.
    if same.is_some_and(|node| node.id == tip.id) {
        return None;
    }
    let (previous, next) = (sent_pieces(previous), sent_pieces(next));
    let at = (0..previous.len()).find(|&at| !are_equal(previous.get(at), next.get(at)))?;
    let ours = previous.get(at)?;
    let (level, cause) = match next.get(at) {
        None => (ours.level, BreakCause::Missing),
        Some(theirs) if theirs.level < ours.level => (theirs.level, BreakCause::Inserted),
        Some(theirs) if theirs.level > ours.level => (ours.level, BreakCause::Missing),
        Some(theirs) => {
            let offset = common(&ours.bytes, &theirs.bytes);
            (ours.level, BreakCause::Changed { offset })
        }
    };
    let index = previous[..at]
        .iter()
        .filter(|node| node.level == level)
        .count();
    Some(PrefixBreak {
        level,
        index,
        cause,
    })
}

/// Returns the pieces that are sent: those that have bytes.
#[must_use]
pub fn sent_pieces(prompt: &Prompt) -> Vec<&Node> {
    let mut nodes = prompt.nodes();
    nodes.retain(|node| !node.bytes.is_empty());
    nodes
}

fn are_equal(ours: Option<&&Node>, theirs: Option<&&Node>) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.level == theirs.level && ours.bytes == theirs.bytes,
        _ => false,
    }
}

fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

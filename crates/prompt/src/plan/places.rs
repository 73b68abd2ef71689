//! Where markers may stand, kept with each piece: so a plan costs the same however long a prompt is.

use cachalot_model::{Block, Message, Role};

use crate::chain::{Level, Node};

/// A piece that may carry a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of the piece.
    pub(crate) node: u32,
    /// How many bytes the pieces have up to its end.
    pub(crate) bytes: u64,
}

impl Place {
    /// In this piece, if a marker may stand there.
    pub(crate) fn in_piece(node: &Node) -> Option<Self> {
        node.mark_at.map(|_| Self {
            node: node.depth,
            bytes: node.total,
        })
    }
}

/// The places up to a piece that a plan chooses from. A piece where no marker may stand leaves its
/// place to the one before, within its part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The end of what stands before the last of the system's text: tools, and text that does not
    /// change from session to session.
    pub(crate) stable: Option<Place>,
    /// The end of tools and system's text.
    pub(crate) frozen: Option<Place>,
    /// The end of the messages before the turn: before the last message of the user that holds no
    /// result of a tool.
    pub(crate) turn: Option<Place>,
    /// The end of the messages.
    pub(crate) newest: Option<Place>,
}

impl Places {
    /// With one more piece, which is this place if a marker may stand there.
    pub(crate) fn with(self, level: Level, here: Option<Place>, source: Option<&Message>) -> Self {
        match level {
            Level::Tool => Self {
                frozen: here.or(self.frozen),
                ..self
            },
            Level::System if here.is_some() => Self {
                stable: self.frozen,
                frozen: here,
                ..self
            },
            Level::System => self,
            Level::Message => Self {
                turn: match source.is_some_and(begins_turn) {
                    true => self.newest,
                    false => self.turn,
                },
                newest: here.or(self.newest),
                ..self
            },
        }
    }
}

/// Returns true for a message of the user that holds no result of a tool.
pub(crate) fn begins_turn(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    message.role == Role::User && !message.content.iter().any(is_result)
}

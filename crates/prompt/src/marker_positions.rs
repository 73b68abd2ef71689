//! Candidate places for markers, stored with each piece, so that the cost of a plan does not depend on
//! the length of the prompt.

use cachalot_model::{Block, Message, Role};

use crate::Level;

/// A piece that may contain a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MarkerPosition {
    /// The index of the piece.
    pub(crate) node: u32,
    /// The total bytes of the pieces up to its end.
    pub(crate) bytes: u64,
}

/// The candidate places up to a piece. Where a piece allows no marker, the place is the previous piece
/// of the same part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MarkerPositions {
    /// The end of the prefix before the last piece of the system text: the tools, and text that is the
    /// same in all sessions.
    pub(crate) stable: Option<MarkerPosition>,
    /// The end of the tools and the system text.
    pub(crate) frozen: Option<MarkerPosition>,
    /// The end of the messages before the turn, which begins with the last user message without tool
    /// results.
    pub(crate) turn: Option<MarkerPosition>,
    /// The end of the messages.
    pub(crate) newest: Option<MarkerPosition>,
}

impl MarkerPositions {
    /// Returns the places after one more piece; `here` is its place if a marker is allowed there.
    pub(crate) fn with(
        self,
        level: Level,
        here: Option<MarkerPosition>,
        source: Option<&Message>,
    ) -> Self {
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
                turn: if source.is_some_and(begins_turn) {
                    self.newest
                } else {
                    self.turn
                },
                newest: here.or(self.newest),
                ..self
            },
        }
    }
}

/// True for a user message without tool results.
pub(crate) fn begins_turn(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    message.role == Role::User && !message.content.iter().any(is_result)
}

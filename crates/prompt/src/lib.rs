//! The frozen prompt: what has been sent is bytes, and is never rendered again.
//!
//! A [`Prompt`] is a chain of pieces (tools, the system's text, messages), each rendered once by a
//! [`Wire`](cachalot_model::wire::Wire) and shared by every prompt that begins with it. Appending makes
//! a longer prompt; a clone is a fork. A request body is the pieces in order ([`segments`],
//! [`contiguous`]), with cache markers spliced in by a [`Plan`] that is no part of them, and the tail
//! with all that may differ. So the bytes of one request are a prefix of those of the next;
//! [`extends`] checks that for whoever wants it checked.
//!
//! [`Sessions`] keep prompts in a memory, so that another process goes on with the identical prefix. A
//! [`Tree`] tells what prompts have in common.

mod body;
mod chain;
pub mod continuation;
mod error;
mod head;
mod hex_digest;
pub mod namespace;
pub mod normal;
mod pins;
mod plan;
mod record;
mod removal;
mod session;
mod sessions;
mod store;
mod tail;
mod tree;

pub use body::{contiguous, prefix, segments};
pub use chain::{Level, Node, NodeId, Prompt};
pub use continuation::{Break, Cause, Sent, extends};
pub use error::{Error, ErrorKind};
pub use head::{Head, Origin, Totals};
pub use namespace::{Field, Namespace};
pub use plan::{
    FIVE_MINUTES, Keep, MOST_MARKS, Mark, Note, Occasion, Part, Pauses, Plan, Planned,
    PrefixSettings, Rules, plan,
};
pub use removal::Swept;
pub use session::{Session, Target};
pub use sessions::{Listing, Overview, Sessions, Summary};
pub use store::{PIECES, SESSIONS};
pub use tail::Tail;
pub use tree::{End, Forest, Run, Sharing, Tree};

//! The frozen prompt: bytes that were sent are never rendered again.
//!
//! A [`Prompt`] is a chain of pieces (tools, system text, messages). Each piece is rendered once by a
//! [`Wire`](cachalot_model::wire::Wire) and shared by every prompt that begins with it. Appending
//! creates a longer prompt; a clone is a fork.
//!
//! A request body consists of the pieces in order ([`segments`], [`contiguous`]), the cache markers of a
//! [`Plan`], which are inserted and not part of the pieces, and a tail with everything that may differ
//! between requests. The bytes of one request are therefore a prefix of those of the next, apart from
//! markers and tail; [`extends`] checks this.
//!
//! [`Sessions`] save prompts in a store, so that another process can continue with the identical prefix.
//! A [`PrefixTree`] shows the common prefixes of prompts.

mod body;
mod chain;
pub mod continuation;
mod error;
mod head;
mod hex_digest;
mod marker_positions;
pub mod namespace;
pub mod normal;
mod plan;
mod record;
mod removal;
mod session;
mod sessions;
mod store;
mod tail;
mod tree;

pub use body::{contiguous, prefix, segments};
pub use cachalot_model::wire::Level;
pub use chain::{Node, NodeId, Prompt};
pub use continuation::{BreakCause, PrefixBreak, SentPrompt, extends};
pub use error::{Error, ErrorKind};
pub use head::{Origin, SessionHead, SessionTotals};
pub use namespace::{Field, Namespace};
pub use plan::{
    FIVE_MINUTES, MAX_MARKERS, Mark, Note, Part, Pauses, Plan, PlanContext, PlannedMarkers,
    PrefixGuard, PrefixLifetime, PrefixSettings, Rules, plan,
};
pub use removal::SweepReport;
pub use session::{Session, Target};
pub use sessions::{SessionFilter, SessionOverview, SessionSummary, Sessions};
pub use store::{PIECES, SESSIONS};
pub use tail::Tail;
pub use tree::{PrefixTree, PrefixTreeBuilder, PromptEnd, TreeRun, TreeSharing};

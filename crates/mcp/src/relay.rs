//! The relay of messages between clients and servers of MCP.
//!
//! A message is passed on as the bytes that were received. Only its envelope, progress tokens and what a decision needs
//! are read; unknown methods and members pass. Each hop has request ids and progress tokens of its own.

mod authorized;
mod cache_account;
mod calls;
mod connection;
mod exchange;
mod frame;
mod header;
mod http_answer;
mod http_front;
mod program;
mod remote;
mod report;
mod servers_file;
mod several;
mod stdio_front;
mod variables;

pub use authorized::AuthorizedConnector;
pub(crate) use cache_account::AccountCompletion;
pub use cache_account::CacheAccount;
pub use connection::{Close, Connection, Connector};
pub use exchange::{Exchange, ExchangeSender, RequestContext, Upstream};
pub use frame::{Frame, FrameError, FrameKind, Renames};
pub use header::read_header;
pub use http_answer::HttpAnswer;
pub use http_front::{HttpFront, HttpFrontOptions};
pub use program::{ProgramConnector, ProgramServer, ServerCommand};
pub use remote::{RemoteConnector, ServerAddress};
pub(crate) use report::CACHE_MARK;
pub use report::{CallObserver, CallReport};
pub use servers_file::{ServerEntry, read_servers};
pub use several::SeveralConnector;
pub use stdio_front::StdioFront;
pub use variables::variables_in;

/// Maximum size of a message. Larger ones are refused: each is in memory as a whole.
pub const MAX_MESSAGE_BYTES: usize = 256 << 20;

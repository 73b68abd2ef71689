//! What somebody who does not work on Cachalot can add to it, with its public items alone:
//!
//! - [`JournalMemory`], a memory that keeps its records in one file of JSON lines. It passes the
//!   conformance suite of `cachalot-store` (`tests/memory.rs`).
//! - [`WordCount`], an action for agent files. The cache takes it like any other (`tests/workflow.rs`).
//! - [`LongestLine`], a tool for agents. Its results are kept, and never stale (`tests/tool.rs`).

mod journal;
mod longest_line;
mod word_count;

pub use journal::JournalMemory;
pub use longest_line::LongestLine;
pub use word_count::WordCount;

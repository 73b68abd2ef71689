//! The built-in tools.

pub mod files;
pub mod memory;
pub mod shell;
pub mod skills;
pub mod web_fetch;

pub use files::files;
pub use memory::{MEMORY_RESOURCE, MemoryTool};
pub use shell::{Shell, ShellSettings};
pub use skills::skills;
pub use web_fetch::{WebFetch, WebFetchSettings};

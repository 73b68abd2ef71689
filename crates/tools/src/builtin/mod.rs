//! The built-in tools.

pub mod files;

pub use files::files;

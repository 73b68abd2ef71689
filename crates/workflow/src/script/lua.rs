//! Lua 5.5, which is embedded.

mod check;
mod convert;
mod diagnose;
pub(super) mod interpreter;

pub use check::check;

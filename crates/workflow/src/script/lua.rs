//! Lua 5.4, which is embedded.

mod check;
mod convert;
mod diagnose;
pub(super) mod interpreter;

pub use check::check;

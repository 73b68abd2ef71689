//! `file.read`, `file.write` and `file.glob`.

mod glob;
mod read;
mod write;

pub(super) use glob::Glob;
pub(super) use read::Read;
pub(super) use write::Write;

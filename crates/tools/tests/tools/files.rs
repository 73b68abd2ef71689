//! The tools for files.

mod apply_patch;
pub(crate) mod denied;
mod edit_file;
mod effects;
mod glob;
mod grep;
mod list_dir;
mod properties;
mod read_file;
mod witnesses;
mod write_file;

//! `file.read`, `file.write` and `file.glob`.

mod glob;
mod read;
mod write;

use crate::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.register(read::Read);
    registry.register(write::Write);
    registry.register(glob::Glob);
}

//! `cache.wrap`, `cache.get`, `cache.invalidate`: the engine as a workflow sees it.

mod check;
mod get;
mod handle;
mod identity;
mod invalidate;
mod request;
mod response;
mod wrap;

pub use handle::{agent_segment, escape};

use super::Registry;

/// `_cache_type` of every entry that `cache.wrap` makes.
const CACHE_TYPE: &str = "action_result";
/// The label of a tag.
pub const TAG_LABEL: &str = "tag";

pub(super) fn register(registry: &mut Registry) {
    registry.register(wrap::Wrap);
    registry.register(get::Get);
    registry.register(invalidate::Invalidate);
}

//! `cache.wrap`, `cache.get`, `cache.invalidate`: the cache engine for workflows.

mod check;
mod get;
mod handle;
mod identity;
mod invalidate;
mod request;
mod response;
mod wrap;

pub use handle::{agent_segment, escape};

use crate::Registry;

/// The `_cache_type` of every entry that `cache.wrap` creates.
const CACHE_TYPE: &str = "action_result";
/// The name of the label that holds a tag.
pub const TAG_LABEL: &str = "tag";

pub(super) fn register(registry: &mut Registry) {
    registry.register(wrap::Wrap);
    registry.register(get::Get);
    registry.register(invalidate::Invalidate);
}

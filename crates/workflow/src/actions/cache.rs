//! `cache.wrap`, `cache.get`, `cache.invalidate`: the cache engine for workflows.

mod check;
mod get;
mod handle;
mod identity;
mod invalidate;
mod request;
mod response;
mod wrap;

pub(super) use get::Get;
pub use handle::{agent_segment, escape};
pub(super) use invalidate::Invalidate;
pub(super) use wrap::Wrap;

/// The `_cache_type` of every entry that `cache.wrap` creates.
const CACHE_TYPE: &str = "action_result";
/// The name of the label that holds a tag.
pub const TAG_LABEL: &str = "tag";

//! Names that `cachalot-agent` gives to tools and forks.

/// The tool with which an agent delegates a task to another one.
pub(crate) const DELEGATION: &str = "transfer_task";
/// The fork of a review.
pub(crate) const REVIEW: &str = "the review";
/// The fork of a side question.
pub(crate) const ASIDE: &str = "the side question";

//! A chat on a terminal or through a pipe: what is shown, who is asked, what is typed.

mod approval;
mod awaited;
mod command;
pub(crate) mod pipe;
mod prompt;
mod review;
pub(crate) mod show;
mod status;
pub(crate) mod sum;
pub(crate) mod terminal;
mod turn;
pub(crate) mod words;

/// How the crate of the agents calls the fork that is a review.
pub(crate) const REVIEW: &str = "the review";
/// And the one that answers a side question.
const ASIDE: &str = "the side question";

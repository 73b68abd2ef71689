//! A chat on a terminal or through a pipe: what is shown, who is asked, what is typed.

mod approval;
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

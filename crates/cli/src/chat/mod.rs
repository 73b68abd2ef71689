//! A chat on a terminal or through a pipe: what is shown, who is asked, what is typed.

pub(crate) mod approval;
pub(crate) mod prompt;
pub(crate) mod show;
pub(crate) mod sum;

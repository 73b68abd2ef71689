//! Interactive terminal: input line, live region and scrollback. It knows nothing of agents.

pub(crate) mod cells;
mod completion;
mod console;
mod editor;
mod entries;
mod highlight;
mod history;
mod inline_markdown;
mod keys;
mod line;
mod markdown;
mod mode;
mod multi_line;
mod pastes;
mod picker;
mod question;
mod region;
mod screen;
mod search;
mod table;
mod ui;

pub(crate) use completion::{CommandHint, Completer};
pub(crate) use console::{Console, Terminal};
pub(crate) use entries::Entry;
pub(crate) use multi_line::{is_continued, unfenced};
pub(crate) use question::{Choice, Question, Reply};
pub(crate) use ui::Input;

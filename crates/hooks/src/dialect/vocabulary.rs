//! The names and conventions of a dialect.

use std::time::Duration;

use crate::Event;
use crate::matcher::ResultFilter;

/// The timeout of a handler without a `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The names and conventions of a dialect.
pub(crate) struct Vocabulary {
    /// Events. If an event has several names, the first is used in hook input.
    pub(crate) events: &'static [NamedEvent],
    /// Events of the dialect that never fire here.
    pub(crate) unsupported: &'static [UnsupportedEvent],
    /// Tools.
    pub(crate) tools: &'static [Tool],
    /// Keys of hooks that are only for human readers.
    pub(crate) comment_keys: &'static [&'static str],
    /// Set if hooks may have `once`, `if`, `async`, `asyncRewake` and `shell`.
    pub(crate) options_of_claude: bool,
    /// Set if the dialect's argument names are added to our own instead of replacing them.
    pub(crate) arguments_beside: bool,
    /// Set if leaving an argument out of a rewrite removes it.
    pub(crate) input_is_replaced: bool,
    /// Set if timeouts are in milliseconds.
    pub(crate) timeouts_in_milliseconds: bool,
    /// The default timeout.
    pub(crate) timeout: Duration,
    /// Events at which plain text output is context.
    pub(crate) plain_context: &'static [Event],
}

/// An event under one of its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedEvent {
    pub(crate) name: &'static str,
    pub(crate) event: Event,
    pub(crate) only: Option<ResultFilter>,
    /// Set if a failed hook always denies, overriding the event's contract and the hook's `on_error`.
    pub(crate) guards: bool,
}

/// An event of another runtime that never fires here.
pub(crate) struct UnsupportedEvent {
    pub(crate) name: &'static str,
    /// A hint at the nearest alternative; empty if there is none.
    pub(crate) nearest: &'static str,
    /// Set if its hooks guard an operation that also exists here. They would guard nothing, so the event
    /// is an error; otherwise it is a warning.
    pub(crate) guards: bool,
}

/// An event that never fires here, without an alternative.
pub(super) const fn unsupported_event(name: &'static str) -> UnsupportedEvent {
    UnsupportedEvent {
        name,
        nearest: "",
        guards: false,
    }
}

/// An event with a name.
pub(super) const fn named_event(name: &'static str, event: Event) -> NamedEvent {
    NamedEvent {
        name,
        event,
        only: None,
        guards: false,
    }
}

/// An event with a name, whose hooks deny if they fail.
pub(super) const fn guarding(name: &'static str, event: Event) -> NamedEvent {
    NamedEvent {
        guards: true,
        ..named_event(name, event)
    }
}

/// A tool event with a name, restricted to some calls.
pub(super) const fn filtered_event(
    name: &'static str,
    event: Event,
    only: ResultFilter,
) -> NamedEvent {
    NamedEvent {
        name,
        event,
        only: Some(only),
        guards: false,
    }
}

/// One of our tools and its names in the dialect.
pub(crate) struct Tool {
    pub(crate) own: &'static str,
    /// The names; the first is used in hook input.
    pub(crate) theirs: &'static [&'static str],
    /// The arguments with another name or another form.
    pub(crate) arguments: &'static [Argument],
}

/// An argument of a tool.
pub(crate) struct Argument {
    pub(crate) own: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) form: Form,
}

/// The conversion of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// No conversion.
    Same,
    /// An absolute path; ours may be relative to the workspace.
    AbsolutePath,
    /// Milliseconds; ours are seconds.
    Milliseconds,
    /// A shell command line; ours may be a list of a program and its arguments.
    Line,
}

/// Declares an argument with another name.
pub(super) const fn argument(own: &'static str, theirs: &'static str, form: Form) -> Argument {
    Argument { own, theirs, form }
}

/// Declares a tool with other names.
pub(super) const fn tool(
    own: &'static str,
    theirs: &'static [&'static str],
    arguments: &'static [Argument],
) -> Tool {
    Tool {
        own,
        theirs,
        arguments,
    }
}

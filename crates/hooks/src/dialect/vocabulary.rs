//! What a dialect calls things.

use std::time::Duration;

use crate::Event;
use crate::definition::Only;

/// What a dialect calls things.
pub(crate) struct Vocabulary {
    /// Events; of several names for one event, the first is the one that handlers are told.
    pub(crate) events: &'static [Spoken],
    /// Events that it has and that never happen here.
    pub(crate) unheard: &'static [Unheard],
    /// Tools.
    pub(crate) tools: &'static [Tool],
    /// Keys of hooks that are for people.
    pub(crate) remarks: &'static [&'static str],
    /// Whether hooks may have `once`, `if`, `async`, `asyncRewake` and `shell`.
    pub(crate) options_of_claude: bool,
    /// Whether its names of arguments stand beside our own, rather than in place of them.
    pub(crate) arguments_beside: bool,
    /// Whether arguments that a handler leaves out of those that it rewrites are taken away.
    pub(crate) input_is_replaced: bool,
    /// Whether time limits are milliseconds.
    pub(crate) timeouts_in_milliseconds: bool,
    /// How long a handler may take, unless its definition says otherwise.
    pub(crate) timeout: Duration,
    /// Events for which text that is no JSON is context.
    pub(crate) plain_context: &'static [Event],
}

/// An event by one of its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spoken {
    pub(crate) name: &'static str,
    pub(crate) event: Event,
    pub(crate) only: Option<Only>,
    /// Whether a hook that fails denies, even if the event lets it fail and the hook wants it to.
    pub(crate) guards: bool,
}

/// An event that another runtime has and that never happens here.
pub(crate) struct Unheard {
    pub(crate) name: &'static str,
    /// What comes nearest; empty if nothing does.
    pub(crate) nearest: &'static str,
    /// Whether its hooks guard what happens here, too, and would guard nothing: then it is wrong to
    /// name it. Otherwise it is worth a warning.
    pub(crate) guards: bool,
}

/// An event that never happens here, and that nothing comes near to.
pub(super) const fn unheard(name: &'static str) -> Unheard {
    Unheard {
        name,
        nearest: "",
        guards: false,
    }
}

/// An event under a name.
pub(super) const fn spoken(name: &'static str, event: Event) -> Spoken {
    Spoken {
        name,
        event,
        only: None,
        guards: false,
    }
}

/// An event under a name under which hooks that fail deny.
pub(super) const fn guarding(name: &'static str, event: Event) -> Spoken {
    Spoken {
        guards: true,
        ..spoken(name, event)
    }
}

/// An event of tools under a name, for some calls only.
pub(super) const fn only(name: &'static str, event: Event, only: Only) -> Spoken {
    Spoken {
        name,
        event,
        only: Some(only),
        guards: false,
    }
}

/// A tool of ours, and what it is called.
pub(crate) struct Tool {
    pub(crate) own: &'static str,
    /// Its names; the first is the one that handlers are told.
    pub(crate) theirs: &'static [&'static str],
    /// The arguments that are called something else, or count in something else.
    pub(crate) arguments: &'static [Argument],
}

/// An argument of a tool.
pub(crate) struct Argument {
    pub(crate) own: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) form: Form,
}

/// In what form they have an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The same.
    Same,
    /// An absolute path, where ours may be relative to the workspace.
    AbsolutePath,
    /// Milliseconds, where ours are seconds.
    Milliseconds,
    /// A shell line, where ours may be a list of a program and its arguments.
    Line,
}

/// An argument that has another name.
pub(super) const fn argument(own: &'static str, theirs: &'static str, form: Form) -> Argument {
    Argument { own, theirs, form }
}

/// A tool that has other names.
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

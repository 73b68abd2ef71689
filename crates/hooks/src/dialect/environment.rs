//! Environment variables of handlers.

use super::Dialect;
use crate::input::Input;

/// The content of a variable.
#[derive(Clone, Copy)]
enum Says {
    Directory,
    Session,
    Event,
    Agent,
}

const OWN: [(&str, Says); 4] = [
    ("CACHALOT_PROJECT_DIR", Says::Directory),
    ("CACHALOT_SESSION_ID", Says::Session),
    ("CACHALOT_HOOK_EVENT", Says::Event),
    ("CACHALOT_AGENT_NAME", Says::Agent),
];

const CLAUDE: [(&str, Says); 1] = [("CLAUDE_PROJECT_DIR", Says::Directory)];

/// Gemini CLI also sets Claude Code's variable.
const GEMINI: [(&str, Says); 4] = [
    ("GEMINI_PROJECT_DIR", Says::Directory),
    ("GEMINI_CWD", Says::Directory),
    ("GEMINI_SESSION_ID", Says::Session),
    ("CLAUDE_PROJECT_DIR", Says::Directory),
];

/// The variables of a dialect, in addition to our own.
pub(super) fn variables(dialect: Dialect, input: &Input) -> Vec<(String, String)> {
    let theirs: &[(&str, Says)] = match dialect {
        Dialect::DockerAgent => &[],
        Dialect::Claude | Dialect::Codex => &CLAUDE,
        Dialect::Gemini => &GEMINI,
    };
    OWN.iter()
        .chain(theirs)
        .map(|(name, says)| ((*name).to_owned(), value(*says, input)))
        .collect()
}

fn value(says: Says, input: &Input) -> String {
    match says {
        Says::Directory => input.cwd.to_string_lossy().into_owned(),
        Says::Session => input.session_id.clone(),
        Says::Event => input.event.name().to_owned(),
        Says::Agent => input.agent_name.clone(),
    }
}

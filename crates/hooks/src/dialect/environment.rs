//! Environment variables of handlers.

use super::Dialect;
use crate::input::Input;

/// The content of a variable.
#[derive(Clone, Copy)]
enum Variable {
    Directory,
    Session,
    Event,
    Agent,
}

const OWN: [(&str, Variable); 4] = [
    ("CACHALOT_PROJECT_DIR", Variable::Directory),
    ("CACHALOT_SESSION_ID", Variable::Session),
    ("CACHALOT_HOOK_EVENT", Variable::Event),
    ("CACHALOT_AGENT_NAME", Variable::Agent),
];

const CLAUDE: [(&str, Variable); 1] = [("CLAUDE_PROJECT_DIR", Variable::Directory)];

/// Gemini CLI also sets Claude Code's variable.
const GEMINI: [(&str, Variable); 4] = [
    ("GEMINI_PROJECT_DIR", Variable::Directory),
    ("GEMINI_CWD", Variable::Directory),
    ("GEMINI_SESSION_ID", Variable::Session),
    ("CLAUDE_PROJECT_DIR", Variable::Directory),
];

/// The variables of a dialect, in addition to our own.
pub(super) fn variables(dialect: Dialect, input: &Input) -> Vec<(String, String)> {
    let theirs: &[(&str, Variable)] = match dialect {
        Dialect::DockerAgent => &[],
        Dialect::Claude | Dialect::Codex => &CLAUDE,
        Dialect::Gemini => &GEMINI,
    };
    OWN.iter()
        .chain(theirs)
        .map(|(name, says)| ((*name).to_owned(), value(*says, input)))
        .collect()
}

fn value(says: Variable, input: &Input) -> String {
    match says {
        Variable::Directory => input.cwd.to_string_lossy().into_owned(),
        Variable::Session => input.session_id.clone(),
        Variable::Event => input.event.name().to_owned(),
        Variable::Agent => input.agent_name.clone(),
    }
}

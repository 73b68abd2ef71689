//! The places in which programs keep their transcripts.

use std::path::PathBuf;

use cachalot_prefix::spend::is_opencode_database;

use crate::wiring::ProcessEnvironment;

/// Returns the places in which the programs keep transcripts, where they exist; all of them if none does, for the
/// message.
pub(super) fn default_places(process_environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let variable = |name: &str| {
        let value = process_environment.environment.get(name)?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    };
    let home = variable("HOME").or_else(|| variable("USERPROFILE"));
    let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let either = |name: &str, default: &str| variable(name).or_else(|| below_home(default));
    let below = |folder: Option<PathBuf>, name: &str| folder.map(|folder| folder.join(name));
    let codex = either("CODEX_HOME", ".codex");
    let qwen = variable("QWEN_RUNTIME_DIR").or_else(|| either("QWEN_HOME", ".qwen"));
    let cline = variable("CLINE_DATA_DIR").or_else(|| below(either("CLINE_DIR", ".cline"), "data"));
    let pi = || below(either("PI_CODING_AGENT_DIR", ".pi/agent"), "sessions");
    let places = [
        below(either("CLAUDE_CONFIG_DIR", ".claude"), "projects"),
        below(codex.clone(), "sessions"),
        below(codex, "archived_sessions"),
        below_home(".gemini/tmp"),
        below(qwen, "projects"),
        variable("PI_CODING_AGENT_SESSION_DIR").or_else(pi),
        below(either("COPILOT_HOME", ".copilot"), "session-state"),
        variable("CLINE_SESSION_DATA_DIR").or_else(|| below(cline, "sessions")),
        below(either("KIMI_CODE_HOME", ".kimi-code"), "sessions"),
    ];
    let mut places: Vec<PathBuf> = places.into_iter().flatten().collect();
    let opencode = below(either("XDG_DATA_HOME", ".local/share"), "opencode");
    // Its folder also has copies of the user's files.
    let databases = opencode.and_then(|folder| folder.read_dir().ok());
    let databases = databases.into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(is_opencode_database)
    });
    places.extend(databases.map(|entry| entry.path()));
    places.extend(variable("OPENCODE_DB"));
    let existing: Vec<PathBuf> = places
        .iter()
        .filter(|place| place.exists())
        .cloned()
        .collect();
    if existing.is_empty() {
        places
    } else {
        existing
    }
}

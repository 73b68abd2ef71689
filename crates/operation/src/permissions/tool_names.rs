//! Names of tools in docker-agent, and ours.

/// Names of tools in docker-agent, and those of our tools that do the same.
const NAMES: [(&str, &str); 16] = [
    ("list_directory", "list_dir"),
    ("directory_tree", "list_dir"),
    ("read_multiple_files", "read_file"),
    ("search_files", "glob"),
    ("search_files_content", "grep"),
    ("create_directory", "write_file"),
    ("fetch", "web_fetch"),
    ("add_memory", "memory"),
    ("get_memories", "memory"),
    ("search_memories", "memory"),
    ("delete_memory", "memory"),
    ("update_memory", "memory"),
    ("list_skills", "skills_list"),
    ("read_skill", "skill_view"),
    ("read_skill_file", "skill_view"),
    ("run_skill", "skill_view"),
];

/// Returns our name for a tool of docker-agent.
#[must_use]
pub fn own_name(name: &str) -> Option<&'static str> {
    let found = NAMES.iter().find(|(theirs, _)| *theirs == name);
    found.map(|(_, own)| *own)
}

/// Returns the names in docker-agent of one of our tools.
pub(super) fn other_names(own: &str) -> impl Iterator<Item = &'static str> {
    let names = NAMES.iter().filter(move |(_, known)| *known == own);
    names.map(|(theirs, _)| *theirs)
}

//! The directories of skills, and the precedence of skills with the same name.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cachalot_cache::{Observation, Witness};
use cachalot_core::EffectTarget;

use crate::builtin::call_error::CallError;
use crate::workspace::{EntryKind, FileStamp, PathKind, ResolvedPath, Workspace};
use cachalot_operation::ToolContext;

/// The file that every skill has.
pub(super) const SKILL_FILE: &str = "SKILL.md";

/// Maximum size in bytes of a file that is returned to a model.
pub(super) const MAX_FILE_BYTES: u64 = 256 << 10;

/// The owner of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Workspace,
    User,
}

impl Owner {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::User => "user",
        }
    }
}

/// A directory whose subdirectories are skills.
#[derive(Debug, Clone)]
pub(super) struct SkillRoot {
    pub(super) owner: Owner,
    /// The workspace or data folder that confines it.
    within: Workspace,
    /// The path of the directory within it.
    folder: &'static str,
}

/// Directories of skills in a workspace, in order of precedence; new skills are created in the first.
const WORKSPACE_DIRECTORIES: [&str; 3] = [".cachalot/skills", "skills", ".claude/skills"];

/// Returns the directories of skills in a workspace.
pub fn workspace_directories(root: &Path) -> impl Iterator<Item = PathBuf> {
    WORKSPACE_DIRECTORIES
        .map(|folder| root.join(folder))
        .into_iter()
}

/// Directory of skills in the user's data folder.
const DATA_DIRECTORY: &str = "skills";

/// Returns all directories in order of precedence, those of the workspace first. Witnesses that the data
/// folder does not exist yet.
pub(super) fn roots(
    workspace: &Workspace,
    data: Option<&Path>,
    witness: &Witness,
) -> Vec<SkillRoot> {
    let mut roots: Vec<SkillRoot> = WORKSPACE_DIRECTORIES
        .map(|folder| SkillRoot {
            owner: Owner::Workspace,
            within: workspace.clone(),
            folder,
        })
        .into();
    if let Some(data) = data {
        match user_root(data) {
            Ok(root) => roots.push(root),
            Err(_) => witness.observe(Observation::Existence(&data.join(DATA_DIRECTORY))),
        }
    }
    roots
}

/// Returns the directory of the user's own skills.
pub(super) fn user_root(data: &Path) -> io::Result<SkillRoot> {
    Ok(SkillRoot {
        owner: Owner::User,
        within: Workspace::open(data)?,
        folder: DATA_DIRECTORY,
    })
}

/// The touches of a call on all skills, or on one, in any of the directories.
pub(super) fn touched(
    context: &ToolContext,
    data: Option<&Path>,
    name: Option<&str>,
) -> Vec<EffectTarget> {
    let mut all = Vec::new();
    let mut add = |directory: PathBuf| {
        let directory = name.map_or_else(|| directory.clone(), |name| directory.join(name));
        all.push(EffectTarget::Glob {
            root: directory.clone(),
            pattern: "**".to_owned(),
        });
        all.push(EffectTarget::Path(directory));
    };
    for folder in WORKSPACE_DIRECTORIES {
        let requested = context.workspace.root().join(folder);
        // The target of a link can be written to under its own path.
        if let Ok(real) = context
            .workspace
            .resolve(folder)
            .map(|real| real.to_owned())
            && real != requested
        {
            add(real);
        }
        add(requested);
    }
    if let Some(data) = data {
        add(data.join(DATA_DIRECTORY));
        if let Ok(real) = data.join(DATA_DIRECTORY).canonicalize() {
            add(real);
        }
    }
    all
}

/// Returns the possible paths of a file of a skill, one per directory; of the skill's folder if `file` is
/// empty.
pub(super) fn paths(data: Option<&Path>, name: &str, file: &str) -> Vec<PathBuf> {
    let folders = WORKSPACE_DIRECTORIES.iter().map(PathBuf::from);
    folders
        .chain(data.map(|data| data.join(DATA_DIRECTORY)))
        .map(|folder| {
            let parts = [name, file].into_iter().filter(|part| !part.is_empty());
            parts.fold(folder, |path, part| path.join(part.trim_start_matches('/')))
        })
        .collect()
}

/// True for a valid name of a skill: lower-case letters, digits, `-` and `_`, at most 64.
pub(super) fn is_valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
}

/// An existing skill.
#[derive(Debug, Clone)]
pub(super) struct Skill {
    pub(super) root: SkillRoot,
    pub(super) name: String,
    /// The directory of the skill.
    pub(super) resolved: ResolvedPath,
}

impl SkillRoot {
    /// Resolves a path in the directory.
    pub(super) fn resolved(&self, path: &str) -> Result<ResolvedPath, CallError> {
        let path = match path {
            "" => self.folder.to_owned(),
            path => format!("{}/{path}", self.folder),
        };
        Ok(self.within.resolved(&path)?)
    }

    /// Returns the names of possible skills in the directory, sorted, and witnesses the listing.
    pub(super) fn names(&self, witness: &Witness) -> Result<Vec<String>, CallError> {
        let resolved = self.resolved("")?;
        if resolved.found != PathKind::Directory {
            witness.observe(Observation::Existence(&resolved.requested));
            return Ok(Vec::new());
        }
        let entries = resolved
            .open_directory()
            .and_then(|directory| directory.entries(witness))
            .map_err(|error| CallError::File(resolved.requested.display().to_string(), error))?;
        Ok(entries
            .into_iter()
            .filter(|entry| matches!(entry.kind, EntryKind::Directory | EntryKind::Link))
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| is_valid_name(name))
            .collect())
    }

    /// Returns the skill of a name, if it exists here, and witnesses the result.
    pub(super) fn skill(&self, name: &str, witness: &Witness) -> Result<Option<Skill>, CallError> {
        let file = self.resolved(&format!("{name}/{SKILL_FILE}"))?;
        witness.observe(Observation::Existence(&file.requested));
        if file.found != PathKind::File {
            return Ok(None);
        }
        Ok(Some(Skill {
            root: self.clone(),
            name: name.to_owned(),
            resolved: self.resolved(name)?,
        }))
    }
}

/// Returns the skill of a name. A directory that cannot be read is skipped, unless no skill is found.
pub(super) fn find(
    roots: &[SkillRoot],
    name: &str,
    witness: &Witness,
) -> Result<Option<Skill>, CallError> {
    let mut unreadable = None;
    for root in roots {
        match root.skill(name, witness) {
            Ok(Some(skill)) => return Ok(Some(skill)),
            Ok(None) => {}
            Err(why) => {
                witness.mark_incomplete(why.to_string());
                unreadable.get_or_insert(why);
            }
        }
    }
    unreadable.map_or(Ok(None), Err)
}

impl Skill {
    /// Resolves the path of a file in the skill: relative, and within the folder after resolving links.
    pub(super) fn file(&self, path: &str) -> Result<ResolvedPath, CallError> {
        if path.is_empty() || path.starts_with('/') || path.split('/').any(|name| name == "..") {
            return Err(CallError::Refused(format!(
                "`{path}` is no file of a skill: give a path relative to the skill's folder, without `..`"
            )));
        }
        let resolved = self.root.resolved(&format!("{}/{path}", self.name))?;
        if resolved.real == self.resolved.real || !resolved.real.starts_with(&self.resolved.real) {
            return Err(CallError::Refused(format!(
                "`{path}` leads out of the skill's folder"
            )));
        }
        Ok(resolved)
    }

    /// Reads the text of a file in the skill, and witnesses it.
    pub(super) fn text(&self, path: &str, witness: &Witness) -> Result<String, CallError> {
        let resolved = self.file(path)?;
        match resolved.found {
            PathKind::File => {}
            PathKind::Nothing => {
                witness.observe(Observation::Existence(&resolved.requested));
                return Err(CallError::Refused(format!(
                    "the skill `{}` has no file `{path}`",
                    self.name
                )));
            }
            PathKind::Directory => {
                return Err(CallError::Refused(format!(
                    "`{path}` is a directory: name a file in it"
                )));
            }
            PathKind::Special(what) => {
                return Err(CallError::Refused(format!("`{path}` is {what}, no file")));
            }
        }
        let bytes = read(&resolved, witness)
            .map_err(|error| CallError::File(format!("`{path}`"), error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(CallError::Refused(format!(
                "`{path}` is larger than {MAX_FILE_BYTES} bytes; read parts of it with other tools"
            )));
        }
        String::from_utf8(bytes)
            .map_err(|_| CallError::Refused(format!("`{path}` is not UTF-8 text")))
    }

    /// Returns the paths of the skill's files, sorted, at most `most` of them, and true if that is all;
    /// witnesses the listings.
    pub(super) fn files(
        &self,
        maximum: usize,
        witness: &Witness,
    ) -> Result<(Vec<String>, bool), CallError> {
        let fault = |error| CallError::File(self.resolved.requested.display().to_string(), error);
        let mut found = Vec::new();
        let mut open = vec![(
            String::new(),
            self.resolved.open_directory().map_err(fault)?,
        )];
        while let Some((prefix, directory)) = open.pop() {
            for entry in directory.entries(witness).map_err(fault)? {
                let Some(name) = entry.name.to_str() else {
                    continue;
                };
                let path = format!("{prefix}{name}");
                match entry.kind {
                    EntryKind::Directory => {
                        let inner = directory.directory(&entry.name).map_err(fault)?;
                        open.push((format!("{path}/"), inner));
                    }
                    // A link to a file outside of the folder is not a file of the skill.
                    EntryKind::Link => {
                        let resolved = self.file(&path);
                        if resolved.is_ok_and(|resolved| resolved.found == PathKind::File) {
                            found.push(path);
                        }
                    }
                    EntryKind::File => found.push(path),
                    EntryKind::Special => {}
                }
                if found.len() > maximum {
                    found.truncate(maximum);
                    found.sort();
                    return Ok((found, false));
                }
            }
        }
        found.sort();
        Ok((found, true))
    }
}

/// Reads up to one byte more than [`MAX_FILE_BYTES`] of a file, after witnessing it. If the file changes during the
/// read, its content is returned, and the witness is marked as incomplete.
fn read(resolved: &ResolvedPath, witness: &Witness) -> io::Result<Vec<u8>> {
    let file = resolved.open_file()?;
    let before = FileStamp::new(&file)?;
    witness.observe(Observation::Content(&resolved.requested));
    let mut bytes = Vec::new();
    (&file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if FileStamp::new(&file)? != before || !before.is_at(&resolved.requested) {
        witness.mark_incomplete(format!(
            "{} changed while it was read",
            resolved.requested.display()
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["pdf", "a", "0x", "web-search_2", &"a".repeat(64)] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in [
            "",
            "-a",
            "_a",
            "Pdf",
            "a b",
            "a/b",
            "..",
            ".",
            "a.b",
            "é",
            &"a".repeat(65),
        ] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}

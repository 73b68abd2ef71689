//! The directories of skills, and the precedence of skills with the same name.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cachalot_cache::{Observation, Witness};
use cachalot_core::Touched;

use crate::tool::Context;
use crate::workspace::{Found, Kind, Place, Stamp, Workspace};

/// The file that every skill has.
pub(super) const SKILL_FILE: &str = "SKILL.md";

/// Maximum size in bytes of a file that is returned to a model.
pub(super) const LARGEST: u64 = 256 << 10;

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
pub(super) struct Root {
    pub(super) owner: Owner,
    /// The workspace or data folder that confines it.
    within: Workspace,
    /// The path of the directory within it.
    folder: &'static str,
}

/// Directories of skills in a workspace, in order of precedence; new skills are created in the first.
const IN_WORKSPACE: [&str; 2] = [".cachalot/skills", "skills"];

/// Directory of skills in the user's data folder.
const IN_DATA: &str = "skills";

/// Returns all directories in order of precedence, those of the workspace first. Witnesses that the data
/// folder does not exist yet.
pub(super) fn roots(context: &Context, data: Option<&Path>) -> Vec<Root> {
    let mut roots: Vec<Root> = IN_WORKSPACE
        .map(|folder| Root {
            owner: Owner::Workspace,
            within: Workspace::clone(&context.workspace),
            folder,
        })
        .into();
    if let Some(data) = data {
        match user_root(data) {
            Ok(root) => roots.push(root),
            Err(_) => context
                .witness
                .observe(Observation::Existence(&data.join(IN_DATA))),
        }
    }
    roots
}

/// Returns the directory of the user's own skills.
pub(super) fn user_root(data: &Path) -> io::Result<Root> {
    Ok(Root {
        owner: Owner::User,
        within: Workspace::open(data)?,
        folder: IN_DATA,
    })
}

/// The touches of a call on all skills, or on one, in any of the directories.
pub(super) fn touched(context: &Context, data: Option<&Path>, name: Option<&str>) -> Vec<Touched> {
    let mut all = Vec::new();
    let mut add = |directory: PathBuf| {
        let directory = name.map_or_else(|| directory.clone(), |name| directory.join(name));
        all.push(Touched::Glob {
            root: directory.clone(),
            pattern: "**".to_owned(),
        });
        all.push(Touched::Path(directory));
    };
    for folder in IN_WORKSPACE {
        let asked = context.workspace.root().join(folder);
        // The target of a link can be written to under its own path.
        if let Ok(real) = context
            .workspace
            .resolve(folder)
            .map(|real| real.to_owned())
            && real != asked
        {
            add(real);
        }
        add(asked);
    }
    if let Some(data) = data {
        add(data.join(IN_DATA));
        if let Ok(real) = data.join(IN_DATA).canonicalize() {
            add(real);
        }
    }
    all
}

/// Returns the possible paths of a file of a skill, one per directory; of the skill's folder if `file` is
/// empty.
pub(super) fn paths(data: Option<&Path>, name: &str, file: &str) -> Vec<PathBuf> {
    let folders = IN_WORKSPACE.iter().map(PathBuf::from);
    folders
        .chain(data.map(|data| data.join(IN_DATA)))
        .map(|folder| {
            let parts = [name, file].into_iter().filter(|part| !part.is_empty());
            parts.fold(folder, |path, part| path.join(part.trim_start_matches('/')))
        })
        .collect()
}

/// True for a valid name of a skill: lower-case letters, digits, `-` and `_`, at most 64.
pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
}

/// An existing skill.
#[derive(Debug, Clone)]
pub(super) struct Skill {
    pub(super) root: Root,
    pub(super) name: String,
    /// The directory of the skill.
    pub(super) place: Place,
}

impl Root {
    /// Resolves a path in the directory.
    pub(super) fn place(&self, path: &str) -> Result<Place, String> {
        let path = match path {
            "" => self.folder.to_owned(),
            path => format!("{}/{path}", self.folder),
        };
        self.within
            .place(&path)
            .map_err(|refusal| refusal.to_string())
    }

    /// Returns the names of possible skills in the directory, sorted, and witnesses the listing.
    pub(super) fn names(&self, witness: &Witness) -> Result<Vec<String>, String> {
        let place = self.place("")?;
        if place.found != Found::Directory {
            witness.observe(Observation::Existence(&place.asked));
            return Ok(Vec::new());
        }
        let entries = place
            .open_directory()
            .and_then(|directory| directory.entries(witness))
            .map_err(|error| format!("{}: {error}", place.asked.display()))?;
        Ok(entries
            .into_iter()
            .filter(|entry| matches!(entry.kind, Kind::Directory | Kind::Link))
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| is_name(name))
            .collect())
    }

    /// Returns the skill of a name, if it exists here, and witnesses the result.
    pub(super) fn skill(&self, name: &str, witness: &Witness) -> Result<Option<Skill>, String> {
        let file = self.place(&format!("{name}/{SKILL_FILE}"))?;
        witness.observe(Observation::Existence(&file.asked));
        if file.found != Found::File {
            return Ok(None);
        }
        Ok(Some(Skill {
            root: self.clone(),
            name: name.to_owned(),
            place: self.place(name)?,
        }))
    }
}

/// Returns the skill of a name. A directory that cannot be read is skipped, unless no skill is found.
pub(super) fn find(roots: &[Root], name: &str, witness: &Witness) -> Result<Option<Skill>, String> {
    let mut unreadable = None;
    for root in roots {
        match root.skill(name, witness) {
            Ok(Some(skill)) => return Ok(Some(skill)),
            Ok(None) => {}
            Err(why) => {
                witness.spoil(why.clone());
                unreadable.get_or_insert(why);
            }
        }
    }
    unreadable.map_or(Ok(None), Err)
}

impl Skill {
    /// Resolves the path of a file in the skill: relative, and within the folder after resolving links.
    pub(super) fn file(&self, path: &str) -> Result<Place, String> {
        if path.is_empty() || path.starts_with('/') || path.split('/').any(|name| name == "..") {
            return Err(format!(
                "`{path}` is no file of a skill: give a path relative to the skill's folder, without `..`"
            ));
        }
        let place = self.root.place(&format!("{}/{path}", self.name))?;
        if place.real == self.place.real || !place.real.starts_with(&self.place.real) {
            return Err(format!("`{path}` leads out of the skill's folder"));
        }
        Ok(place)
    }

    /// Reads the text of a file in the skill, and witnesses it.
    pub(super) fn text(&self, path: &str, witness: &Witness) -> Result<String, String> {
        let place = self.file(path)?;
        match place.found {
            Found::File => {}
            Found::Nothing => {
                witness.observe(Observation::Existence(&place.asked));
                return Err(format!("the skill `{}` has no file `{path}`", self.name));
            }
            Found::Directory => return Err(format!("`{path}` is a directory: name a file in it")),
            Found::Special(what) => return Err(format!("`{path}` is {what}, no file")),
        }
        let bytes = read(&place, witness).map_err(|error| format!("`{path}`: {error}"))?;
        if bytes.len() as u64 > LARGEST {
            return Err(format!(
                "`{path}` is larger than {LARGEST} bytes; read parts of it with other tools"
            ));
        }
        String::from_utf8(bytes).map_err(|_| format!("`{path}` is not UTF-8 text"))
    }

    /// Returns the paths of the skill's files, sorted, at most `most` of them, and true if that is all;
    /// witnesses the listings.
    pub(super) fn files(
        &self,
        most: usize,
        witness: &Witness,
    ) -> Result<(Vec<String>, bool), String> {
        let fault = |error: io::Error| format!("{}: {error}", self.place.asked.display());
        let mut found = Vec::new();
        let mut open = vec![(String::new(), self.place.open_directory().map_err(fault)?)];
        while let Some((prefix, directory)) = open.pop() {
            for entry in directory.entries(witness).map_err(fault)? {
                let Some(name) = entry.name.to_str() else {
                    continue;
                };
                let path = format!("{prefix}{name}");
                match entry.kind {
                    Kind::Directory => {
                        let inner = directory.directory(&entry.name).map_err(fault)?;
                        open.push((format!("{path}/"), inner));
                    }
                    // A link to a file outside of the folder is not a file of the skill.
                    Kind::Link => {
                        let place = self.file(&path);
                        if place.is_ok_and(|place| place.found == Found::File) {
                            found.push(path);
                        }
                    }
                    Kind::File => found.push(path),
                    Kind::Special => {}
                }
                if found.len() > most {
                    found.truncate(most);
                    found.sort();
                    return Ok((found, false));
                }
            }
        }
        found.sort();
        Ok((found, true))
    }
}

/// Reads up to one byte more than [`LARGEST`] of a file, after witnessing it. If the file changes during the
/// read, its content is returned, and the witness is marked as incomplete.
fn read(place: &Place, witness: &Witness) -> io::Result<Vec<u8>> {
    let file = place.open_file()?;
    let before = Stamp::of(&file)?;
    witness.observe(Observation::Content(&place.asked));
    let mut bytes = Vec::new();
    (&file).take(LARGEST + 1).read_to_end(&mut bytes)?;
    if Stamp::of(&file)? != before || !before.is_at(&place.asked) {
        witness.spoil(format!(
            "{} changed while it was read",
            place.asked.display()
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
            assert!(is_name(good), "{good}");
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
            assert!(!is_name(bad), "{bad}");
        }
    }
}

//! The files that the answer to a call depends on, as the policy declares them.

use std::path::{Component, Path, PathBuf};

use cachalot_cache::{Observation, Witness};
use cachalot_core::config::Word as _;
use cachalot_core::json;
use serde_json::Value;

use crate::proxy_policy::{PathKind, ToolPolicy};

/// Maximum number of files and directories below a directory.
const MAX_FILES: usize = 4_000;
/// Maximum number of bytes of the files below a directory.
const MAX_BYTES: u64 = 64 << 20;

/// The directories in which a server finds files.
#[derive(Debug, Clone)]
pub(super) struct FilePlace {
    /// The working directory of a server that sees the files of this machine.
    pub(super) directory: Option<PathBuf>,
    /// The directory of relative paths, relative to `directory`.
    pub(super) relative_to: Option<PathBuf>,
}

/// Files whose state is recorded before a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WitnessPlan(Vec<(PathBuf, PathKind)>);

impl WitnessPlan {
    /// Finds the files that a call depends on.
    ///
    /// # Errors
    /// The reason why they cannot be known.
    pub(super) fn new(
        policy: &ToolPolicy,
        arguments: Option<&str>,
        place: &FilePlace,
    ) -> Result<Self, String> {
        let mut plan = Self::default();
        if policy.paths.is_empty() && policy.also.is_empty() {
            return Ok(plan);
        }
        let Some(directory) = &place.directory else {
            return Err(
                "`paths` and `also` need a server that is started as a program on this machine, without a container"
                    .to_owned(),
            );
        };
        let arguments = arguments.unwrap_or("{}");
        for (argument, kind) in &policy.paths {
            let kind = kind_of(kind)?;
            for path in path_texts(arguments, argument)? {
                plan.0.push((place.resolve(&path, directory)?, kind));
            }
        }
        for (template, kind) in &policy.also {
            let path = fill(template, arguments, |text| {
                place
                    .resolve(text, directory)
                    .map(|path| path.to_string_lossy().into_owned())
            })?;
            plan.0.push((directory.join(path), kind_of(kind)?));
        }
        Ok(plan)
    }

    /// Returns true if there are no files.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records the state of the files. Blocks.
    pub(super) fn observe(&self, witness: &Witness) {
        for (path, kind) in &self.0 {
            // The answer may name the place that links lead to.
            witness.observe(Observation::Target(path));
            match kind {
                PathKind::File => witness.observe(Observation::Content(path)),
                PathKind::Listing => witness.observe(Observation::Listing(path)),
                PathKind::Names => observe_below(path, false, witness),
                PathKind::Tree => observe_below(path, true, witness),
            }
        }
    }
}

impl FilePlace {
    /// Resolves a path of an argument as the server does.
    fn resolve(&self, path: &str, directory: &Path) -> Result<PathBuf, String> {
        let refuse = |why: &str| Err(format!("the path `{path}` {why}"));
        if path.is_empty() || path.contains('\0') {
            return refuse("is empty, or has a zero byte");
        }
        if path.starts_with('~') {
            return refuse("begins with `~`, which servers resolve in different ways");
        }
        if path.contains("://") {
            return refuse("is a URL");
        }
        let path = Path::new(path);
        if path.components().any(|part| part == Component::ParentDir) {
            return refuse("has `..`, which servers resolve in different ways");
        }
        if path.is_absolute() {
            return Ok(path.to_owned());
        }
        match &self.relative_to {
            Some(base) => Ok(directory.join(base).join(path)),
            None => refuse("is relative; set `relative_to` to the directory that it starts at"),
        }
    }
}

fn kind_of(word: &str) -> Result<PathKind, String> {
    PathKind::from_word(word).ok_or_else(|| format!("`{word}` is no kind of path"))
}

/// Returns the texts of an argument: one, or a list.
fn path_texts(arguments: &str, name: &str) -> Result<Vec<String>, String> {
    let value = json::member(arguments, name)
        .ok_or_else(|| format!("the argument `{name}` of `paths` is missing"))?;
    let no_path = || format!("the argument `{name}` of `paths` is no path");
    match serde_json::from_str(value) {
        Ok(Value::String(path)) => Ok(vec![path]),
        Ok(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::String(path) => Ok(path),
                _ => Err(no_path()),
            })
            .collect(),
        _ => Err(no_path()),
    }
}

/// Replaces each `{NAME}` by the argument of that name. At the beginning of the template, an argument is a path.
fn fill(
    template: &str,
    arguments: &str,
    resolve: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind
            .split_once('}')
            .ok_or_else(|| format!("`{template}` of `also` has a brace without its other one"))?;
        let value = json::member(arguments, name).map(serde_json::from_str::<Value>);
        let Some(Ok(Value::String(value))) = value else {
            return Err(format!(
                "the argument `{name}` of `also` is missing, or no text"
            ));
        };
        filled.push_str(before);
        if filled.is_empty() {
            filled.push_str(&resolve(&value)?);
        } else if value.split('/').any(|part| part == "..") || value.contains('\0') {
            return Err(format!(
                "the argument `{name}` of `also` has `..` or a zero byte"
            ));
        } else {
            filled.push_str(&value);
        }
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Records everything below a directory: names, and contents if asked for.
fn observe_below(root: &Path, contents: bool, witness: &Witness) {
    let too_large = |what: &str| {
        let root = root.display();
        witness.mark_incomplete(format!(
            "{root} has more than {what}: too many to be checked"
        ));
    };
    let (mut files, mut bytes) = (0_usize, 0_u64);
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        // Before its entries are read. A file in place of a directory is recorded as such.
        witness.observe(Observation::Listing(&directory));
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(_) if directory == root => {
                witness.observe(Observation::Content(root));
                return;
            }
            Err(error) => {
                witness.mark_incomplete(format!("{}: {error}", directory.display()));
                return;
            }
        };
        for entry in entries {
            let Ok(kind) = entry.as_ref().map(std::fs::DirEntry::file_type) else {
                witness.mark_incomplete(format!("{} cannot be read", directory.display()));
                return;
            };
            let Ok(entry) = entry else { return };
            files += 1;
            if files > MAX_FILES {
                return too_large(&format!("{MAX_FILES} files"));
            }
            let path = entry.path();
            match kind {
                Ok(kind) if kind.is_dir() => directories.push(path),
                Ok(kind) if kind.is_symlink() => {
                    witness.observe(Observation::Target(&path));
                    // A server may follow it into another tree, which is not observed.
                    if path.is_dir() {
                        witness.mark_incomplete(format!("{} links to a directory", path.display()));
                        return;
                    }
                    if contents {
                        witness.observe(Observation::Content(&path));
                    }
                }
                Ok(_) if contents => {
                    bytes += entry.metadata().map_or(0, |metadata| metadata.len());
                    if bytes > MAX_BYTES {
                        return too_large(&format!("{} MiB", MAX_BYTES >> 20));
                    }
                    witness.observe(Observation::Content(&path));
                }
                Ok(_) => {}
                Err(error) => {
                    witness.mark_incomplete(format!("{}: {error}", path.display()));
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn entries(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        let of = of.iter();
        of.map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
            .collect()
    }

    fn place(relative_to: Option<&str>) -> FilePlace {
        FilePlace {
            directory: Some("/srv".into()),
            relative_to: relative_to.map(PathBuf::from),
        }
    }

    fn plan(
        policy: &ToolPolicy,
        arguments: &str,
        place: &FilePlace,
    ) -> Result<Vec<String>, String> {
        let plan = WitnessPlan::new(policy, Some(arguments), place)?;
        let paths = plan.0.iter();
        Ok(paths.map(|(path, _)| path.display().to_string()).collect())
    }

    #[test]
    fn paths_are_resolved_only_where_there_is_one_way() {
        let policy = ToolPolicy {
            paths: entries(&[("path", "file")]),
            ..ToolPolicy::default()
        };
        let of = |arguments: &str| plan(&policy, arguments, &place(None));
        assert_eq!(of(r#"{"path":"/a/b"}"#).unwrap(), ["/a/b"]);
        assert_eq!(of(r#"{"path":["/a","/b"]}"#).unwrap(), ["/a", "/b"]);
        for arguments in [
            r#"{"path":"a"}"#,
            r#"{"path":"~/a"}"#,
            r#"{"path":"/a/../b"}"#,
            r#"{"path":"file:///a"}"#,
            r#"{"path":"/a\u0000b"}"#,
            r#"{"path":""}"#,
            r#"{"path":1}"#,
            r#"{"path":["/a",1]}"#,
            r#"{"paths":"/a"}"#,
        ] {
            assert!(of(arguments).is_err(), "{arguments}");
        }
        let relative = plan(&policy, r#"{"path":"a"}"#, &place(Some("work")));
        assert_eq!(relative.unwrap(), ["/srv/work/a"]);
        let elsewhere = FilePlace {
            directory: None,
            relative_to: None,
        };
        assert!(plan(&policy, r#"{"path":"/a"}"#, &elsewhere).is_err());
    }

    #[test]
    fn further_files_are_named_by_arguments() {
        let policy = ToolPolicy {
            also: entries(&[
                ("{repo}/.git/refs/heads/{branch}", "file"),
                ("config", "file"),
            ]),
            ..ToolPolicy::default()
        };
        let of = |arguments: &str| plan(&policy, arguments, &place(None));
        let paths = of(r#"{"repo":"/r","branch":"main"}"#).unwrap();
        assert_eq!(paths, ["/srv/config", "/r/.git/refs/heads/main"]);
        assert!(of(r#"{"repo":"r","branch":"main"}"#).is_err());
        assert!(of(r#"{"repo":"/r","branch":"../x"}"#).is_err());
        assert!(of(r#"{"repo":"/r"}"#).is_err());
    }

    #[tokio::test]
    async fn a_change_anywhere_below_a_tree_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("f"), "one").unwrap();
        type Change = fn(&Path);
        let changes: [(bool, Change); 3] = [
            (true, |deep| std::fs::write(deep.join("f"), "two").unwrap()),
            (false, |deep| std::fs::write(deep.join("g"), "new").unwrap()),
            (false, |deep| std::fs::create_dir(deep.join("h")).unwrap()),
        ];
        for (of_content, change) in changes {
            let witnesses = [PathKind::Tree, PathKind::Names].map(|kind| {
                let witness = Witness::default();
                WitnessPlan(vec![(home.path().to_owned(), kind)]).observe(&witness);
                witness
            });
            for witness in &witnesses {
                witness.snapshot().holds().await.unwrap();
            }
            change(&deep);
            assert!(witnesses[0].snapshot().holds().await.is_err());
            assert_eq!(witnesses[1].snapshot().holds().await.is_ok(), of_content);
        }
    }

    #[tokio::test]
    async fn a_link_to_a_directory_makes_a_tree_unknown() {
        let home = tempfile::tempdir().unwrap();
        let tree = home.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::os::unix::fs::symlink(home.path(), tree.join("link")).unwrap();
        let witness = Witness::default();
        WitnessPlan(vec![(tree, PathKind::Tree)]).observe(&witness);
        assert!(witness.snapshot().holds().await.is_err());
    }
}

//! Walks a directory tree for searches: without hidden and ignored files, sorted. Every directory and every
//! ignore file is recorded as a witness before it is read.
//!
//! Ignore rules come from `.ignore` and `.gitignore` files between the directory that confines the walk and
//! the entry; the former take precedence. Rules of the user, of the machine, and outside of that directory
//! are not used: the result depends on the workspace only.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cachalot_cache::Observation;
use cachalot_core::EffectTarget;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::file_call::RunningCall;
use super::file_content::FileContent;
use super::list_dir::GIT_DIRECTORY;
use super::{format_count, relative_path, skipped, tree_reads};
use crate::workspace::{Directory, DirectoryEntry, EntryKind, PathKind, ResolvedPath, Workspace};

/// The names of ignore files, highest precedence first.
const IGNORE_FILES: [&str; 2] = [".ignore", ".gitignore"];

/// Maximum number of entries of a walk; a longer one ends with a notice.
const MAX_ENTRIES: usize = 200_000;

/// Maximum depth of directories that are entered: each keeps a handle open.
const MAX_DEPTH: usize = 100;

/// The visitor of a walk.
pub(super) trait WalkVisitor {
    /// True to enter a directory; its path is relative to the start of the walk.
    fn should_enter(&self, directory: &Path) -> bool {
        let _ = directory;
        true
    }

    /// Visits an entry that is not a directory, with its path relative to the start of the walk.
    fn visit(
        &mut self,
        directory: &Directory,
        entry: &DirectoryEntry,
        path: &Path,
    ) -> ControlFlow<()>;
}

/// A walk.
pub(super) struct Walk<'a> {
    running: RunningCall<'a>,
    /// Set to include entries that begin with a dot.
    hidden: bool,
    /// The ignore rules of the current directory and its parents, outermost first.
    levels: Vec<IgnoreLevel>,
    seen: usize,
    /// Number of entries that permission rules exclude.
    skipped: usize,
    notices: Vec<String>,
}

/// The ignore rules in one directory, in the order of [`IGNORE_FILES`].
#[derive(Default)]
struct IgnoreLevel([Option<Gitignore>; 2]);

/// The reads of a walk that starts at a place.
pub(super) fn touched(resolved: &ResolvedPath) -> Vec<EffectTarget> {
    let mut all = tree_reads(&resolved.real);
    for directory in outer_directories(resolved) {
        all.extend(IGNORE_FILES.map(|name| EffectTarget::Path(directory.join(name))));
    }
    all
}

/// The parent directories of a place within the directory that confines it, outermost first.
fn outer_directories(resolved: &ResolvedPath) -> Vec<&Path> {
    let mut all: Vec<&Path> = resolved
        .real
        .ancestors()
        .skip(1)
        .take_while(|directory| directory.starts_with(resolved.base()))
        .collect();
    all.reverse();
    all
}

impl<'a> Walk<'a> {
    pub(super) fn new(running: RunningCall<'a>, hidden: bool) -> Self {
        Self {
            running,
            hidden,
            levels: Vec::new(),
            seen: 0,
            skipped: 0,
            notices: Vec::new(),
        }
    }

    /// Walks the tree below a directory; returns notices about it.
    pub(super) fn walk(
        mut self,
        resolved: &ResolvedPath,
        directory: &Directory,
        visit: &mut impl WalkVisitor,
    ) -> io::Result<Vec<String>> {
        if resolved.is_behind_links() {
            // The applicable rules are those of the target directory of the links, and a witness does not
            // record link targets.
            self.running.witness().mark_incomplete(format!(
                "{} lies behind symbolic links",
                resolved.requested.display()
            ));
        }
        for outer_directories in outer_directories(resolved) {
            let mut level = IgnoreLevel::default();
            for (index, name) in IGNORE_FILES.iter().enumerate() {
                level.0[index] = self.rules(&outer_directories.join(name), outer_directories);
            }
            self.levels.push(level);
        }
        let _ = self.enter(directory, &resolved.real, Path::new(""), visit)?;
        self.notices.extend(skipped(self.skipped));
        Ok(self.notices)
    }

    /// `real` is the canonical path of the directory, `path` the path relative to the start.
    fn enter(
        &mut self,
        directory: &Directory,
        real: &Path,
        path: &Path,
        visit: &mut impl WalkVisitor,
    ) -> io::Result<ControlFlow<()>> {
        let entries = directory.entries(self.running.witness())?;
        self.levels.push(self.level(directory, real, &entries));
        let mut flow = ControlFlow::Continue(());
        for entry in &entries {
            flow = self.take(directory, entry, real, path, visit);
            if flow.is_break() {
                break;
            }
        }
        self.levels.pop();
        Ok(flow)
    }

    fn take(
        &mut self,
        directory: &Directory,
        entry: &DirectoryEntry,
        real: &Path,
        path: &Path,
        visit: &mut impl WalkVisitor,
    ) -> ControlFlow<()> {
        self.seen += 1;
        if self.seen > MAX_ENTRIES {
            self.notices.push(format!(
                "stopped after {}; name a directory below",
                format_count(MAX_ENTRIES, "name")
            ));
            return ControlFlow::Break(());
        }
        if self.running.abandoned.is_cancelled() {
            return ControlFlow::Break(());
        }
        let is_directory = entry.kind == EntryKind::Directory;
        let real = real.join(&entry.name);
        if self.is_excluded(&entry.name, &real, is_directory) {
            return ControlFlow::Continue(());
        }
        if self.running.denied.hides(&real, self.running.workspace()) {
            self.skipped += 1;
            return ControlFlow::Continue(());
        }
        let path = path.join(&entry.name);
        if !is_directory {
            return visit.visit(directory, entry, &path);
        }
        if !visit.should_enter(&path) {
            return ControlFlow::Continue(());
        }
        self.descend(directory, &entry.name, &real, &path, visit)
    }

    fn descend(
        &mut self,
        directory: &Directory,
        name: &OsStr,
        real: &Path,
        path: &Path,
        visit: &mut impl WalkVisitor,
    ) -> ControlFlow<()> {
        if self.levels.len() > MAX_DEPTH {
            self.notices.push(format!(
                "{} lies too deep and was not entered",
                path.display()
            ));
            return ControlFlow::Continue(());
        }
        match directory
            .directory(name)
            .and_then(|next| self.enter(&next, real, path, visit))
        {
            Ok(flow) => flow,
            Err(error) => {
                // A witness does not record readability.
                self.running
                    .witness()
                    .mark_incomplete(format!("{}: {error}", path.display()));
                self.notices
                    .push(format!("cannot be listed: {}: {error}", path.display()));
                ControlFlow::Continue(())
            }
        }
    }

    fn is_excluded(&self, name: &OsStr, real: &Path, is_directory: bool) -> bool {
        if name == GIT_DIRECTORY || (!self.hidden && name.as_bytes().starts_with(b".")) {
            return true;
        }
        // The outer loop is over the kinds: every `.ignore` file precedes every `.gitignore` file. Within a kind, the
        // innermost directory decides.
        for index in 0..IGNORE_FILES.len() {
            for rules in self
                .levels
                .iter()
                .rev()
                .filter_map(|level| level.0[index].as_ref())
            {
                match rules.matched(real, is_directory) {
                    Match::None => {}
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                }
            }
        }
        false
    }

    /// Returns the rules in a directory. Their absence is witnessed by the recorded listing.
    fn level(&self, directory: &Directory, real: &Path, entries: &[DirectoryEntry]) -> IgnoreLevel {
        let mut level = IgnoreLevel::default();
        for (index, name) in IGNORE_FILES.iter().enumerate() {
            if entries.iter().any(|entry| entry.name == *name) {
                level.0[index] = self.rules(&directory.requested().join(name), real);
            }
        }
        level
    }

    /// Returns the rules in the file at `path` for the content of `directory`.
    fn rules(&self, path: &Path, directory: &Path) -> Option<Gitignore> {
        // A link to a file outside of the workspace provides no rules.
        self.running.witness().observe(Observation::Target(path));
        let opened = match self.running.workspace().resolved(path) {
            Ok(resolved) if resolved.found == PathKind::File => resolved.open_file(),
            Ok(_) => {
                self.running.witness().observe(Observation::Content(path));
                return None;
            }
            Err(refused) => {
                self.running.witness().mark_incomplete(refused.to_string());
                return None;
            }
        };
        match opened.and_then(|file| FileContent::read(file, path, self.running.witness())) {
            Ok(FileContent::Whole(bytes)) => Some(compile(&bytes, directory)),
            // A file of this size is not a rule file.
            Ok(FileContent::FileStream(stream)) => {
                stream.end(self.running.witness());
                None
            }
            Err(error) => {
                self.running
                    .witness()
                    .mark_incomplete(format!("{}: {error}", path.display()));
                None
            }
        }
    }
}

/// Compiles ignore rules. Invalid lines are skipped, as in Git.
fn compile(bytes: &[u8], directory: &Path) -> Gitignore {
    let text = String::from_utf8_lossy(bytes);
    let mut builder = GitignoreBuilder::new(directory);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Formats notices for the end of a result.
pub(super) fn format_notices(notices: &[String]) -> String {
    notices
        .iter()
        .map(|notice| format!("[{notice}]\n"))
        .collect()
}

/// Formats a path found by a walk: relative to the workspace.
pub(super) fn shown(workspace: &Workspace, resolved: &ResolvedPath, path: &Path) -> String {
    let requested: PathBuf = resolved.requested.join(path);
    if requested.starts_with(workspace.root()) {
        relative_path(&requested, workspace.root())
    } else {
        requested.display().to_string()
    }
}

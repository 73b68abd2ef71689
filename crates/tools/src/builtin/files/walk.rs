//! Walking a directory tree the way people search one: without hidden and ignored files, sorted,
//! every directory and every file of rules noted before it is looked at.
//!
//! Rules are those of `.ignore` and `.gitignore` files between the directory that confines the walk
//! and the entry; the former win. Rules of the user or the machine, and those outside, have no say:
//! what is found depends on the workspace alone.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cachalot_cache::{Observation, Witness};
use cachalot_core::Touched;
use cachalot_operation::permissions::SearchFilter;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::list_dir::VERSION_CONTROL;
use super::source::Source;
use super::{below, counted, passed_over, relative};
use crate::blocking::Abandoned;
use crate::tool::Context;
use crate::workspace::{Directory, Entry, Found, Kind, Place, Workspace};

/// The files of rules, the strongest first.
const RULES: [&str; 2] = [".ignore", ".gitignore"];

/// After so many entries a walk ends, and says so.
const MOST: usize = 200_000;

/// Directories are entered this deep: each holds a handle open.
const DEEPEST: usize = 100;

/// Who is shown what a walk finds.
pub(super) trait Visit {
    /// Whether to enter a directory; its path is relative to where the walk begins.
    fn enters(&self, directory: &Path) -> bool {
        let _ = directory;
        true
    }

    /// Something that is no directory, with its path relative to where the walk begins.
    fn meet(&mut self, directory: &Directory, entry: &Entry, path: &Path) -> ControlFlow<()>;
}

/// A walk.
pub(super) struct Walk<'a> {
    workspace: &'a Workspace,
    witness: &'a Witness,
    abandoned: &'a Abandoned,
    /// Whether to look at what begins with a dot.
    hidden: bool,
    /// The rules that hold where the walk is, from the outermost directory inwards.
    levels: Vec<Level>,
    seen: usize,
    denied: &'a SearchFilter,
    /// The number of entries that permission rules leave out.
    passed_over: usize,
    notices: Vec<String>,
}

/// The rules in one directory, in the order of [`RULES`].
#[derive(Default)]
struct Level([Option<Gitignore>; 2]);

/// What a walk that begins at a place depends on.
pub(super) fn touched(place: &Place) -> Vec<Touched> {
    let mut all = below(&place.real);
    for directory in outer(place) {
        all.extend(RULES.map(|name| Touched::Path(directory.join(name))));
    }
    all
}

/// The directories around a place, as far as it is confined, the outermost first.
fn outer(place: &Place) -> Vec<&Path> {
    let mut all: Vec<&Path> = place
        .real
        .ancestors()
        .skip(1)
        .take_while(|directory| directory.starts_with(place.base()))
        .collect();
    all.reverse();
    all
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        context: &'a Context,
        denied: &'a SearchFilter,
        abandoned: &'a Abandoned,
        hidden: bool,
    ) -> Self {
        Self {
            denied,
            passed_over: 0,
            workspace: &context.workspace,
            witness: &context.witness,
            abandoned,
            hidden,
            levels: Vec::new(),
            seen: 0,
            notices: Vec::new(),
        }
    }

    /// Walks what is below a directory, and says what has to be said about it.
    pub(super) fn walk(
        mut self,
        place: &Place,
        directory: &Directory,
        visit: &mut impl Visit,
    ) -> io::Result<Vec<String>> {
        if place.is_behind_links() {
            // The rules around it are those of the directory that the links lead to, and a witness
            // does not know where links lead.
            self.witness.spoil(format!(
                "{} lies behind symbolic links",
                place.asked.display()
            ));
        }
        for outer in outer(place) {
            let mut level = Level::default();
            for (index, name) in RULES.iter().enumerate() {
                level.0[index] = self.rules(&outer.join(name), outer);
            }
            self.levels.push(level);
        }
        let _ = self.enter(directory, &place.real, Path::new(""), visit)?;
        self.notices.extend(passed_over(self.passed_over));
        Ok(self.notices)
    }

    /// `real` is where the directory is, `path` the same relative to the beginning.
    fn enter(
        &mut self,
        directory: &Directory,
        real: &Path,
        path: &Path,
        visit: &mut impl Visit,
    ) -> io::Result<ControlFlow<()>> {
        let entries = directory.entries(self.witness)?;
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
        entry: &Entry,
        real: &Path,
        path: &Path,
        visit: &mut impl Visit,
    ) -> ControlFlow<()> {
        self.seen += 1;
        if self.seen > MOST {
            self.notices.push(format!(
                "stopped after {}; name a directory below",
                counted(MOST, "name")
            ));
            return ControlFlow::Break(());
        }
        if self.abandoned.is() {
            return ControlFlow::Break(());
        }
        let is_directory = entry.kind == Kind::Directory;
        let real = real.join(&entry.name);
        if self.leaves_out(&entry.name, &real, is_directory) {
            return ControlFlow::Continue(());
        }
        if self.denied.hides(&real, self.workspace) {
            self.passed_over += 1;
            return ControlFlow::Continue(());
        }
        let path = path.join(&entry.name);
        if !is_directory {
            return visit.meet(directory, entry, &path);
        }
        if !visit.enters(&path) {
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
        visit: &mut impl Visit,
    ) -> ControlFlow<()> {
        if self.levels.len() > DEEPEST {
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
                // Whether it can be read is not among what a witness knows.
                self.witness.spoil(format!("{}: {error}", path.display()));
                self.notices
                    .push(format!("cannot be listed: {}: {error}", path.display()));
                ControlFlow::Continue(())
            }
        }
    }

    fn leaves_out(&self, name: &OsStr, real: &Path, is_directory: bool) -> bool {
        if name == VERSION_CONTROL || (!self.hidden && name.as_bytes().starts_with(b".")) {
            return true;
        }
        for index in 0..RULES.len() {
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

    /// The rules in a directory; the listing, which is noted, tells whether there are any.
    fn level(&self, directory: &Directory, real: &Path, entries: &[Entry]) -> Level {
        let mut level = Level::default();
        for (index, name) in RULES.iter().enumerate() {
            if entries.iter().any(|entry| entry.name == *name) {
                level.0[index] = self.rules(&directory.asked().join(name), real);
            }
        }
        level
    }

    /// The rules in the file at `path` for what is in `directory`.
    fn rules(&self, path: &Path, directory: &Path) -> Option<Gitignore> {
        // Rules that a link leads out of the workspace are none, whatever they say.
        self.witness.observe(Observation::Target(path));
        let opened = match self.workspace.readable_place(path) {
            Ok(place) if place.found == Found::File => place.open_file(),
            Ok(_) => {
                self.witness.observe(Observation::Content(path));
                return None;
            }
            Err(refused) => {
                self.witness.spoil(refused.to_string());
                return None;
            }
        };
        match opened.and_then(|file| Source::read(file, path, self.witness)) {
            Ok(Source::Whole(bytes)) => Some(compile(&bytes, directory)),
            // Nobody writes so many rules.
            Ok(Source::Stream(stream)) => {
                stream.end(self.witness);
                None
            }
            Err(error) => {
                self.witness.spoil(format!("{}: {error}", path.display()));
                None
            }
        }
    }
}

/// A line that is no pattern is left out, as Git does.
fn compile(bytes: &[u8], directory: &Path) -> Gitignore {
    let text = String::from_utf8_lossy(bytes);
    let mut builder = GitignoreBuilder::new(directory);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Notices, as they end an answer.
pub(super) fn noticed(notices: &[String]) -> String {
    notices
        .iter()
        .map(|notice| format!("[{notice}]\n"))
        .collect()
}

/// How a path that a walk met is shown: relative to the workspace.
pub(super) fn shown(workspace: &Workspace, place: &Place, path: &Path) -> String {
    let asked: PathBuf = place.asked.join(path);
    if asked.starts_with(workspace.root()) {
        relative(&asked, workspace.root())
    } else {
        asked.display().to_string()
    }
}

//! A small tree, and what happens to it from outside: editors, `git`, other programs.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::random::Random;

/// Files that come and go.
pub(super) const FILES: [&str; 16] = [
    "a.txt",
    "src/main.rs",
    "src/lib.rs",
    "b.txt",
    "doc/one.md",
    "src/deep/x.rs",
    "doc/two.md",
    "src/deep/y.txt",
    "link",
    "src/link.rs",
    ".hidden",
    "new/file.txt",
    ".gitignore",
    "src/.ignore",
    "linked/x.rs",
    "twisted/one.md",
];

/// Directories that come and go.
pub(super) const DIRECTORIES: [&str; 7] = [
    "src",
    "doc",
    "src/deep",
    "new",
    "linked",
    "twisted",
    "src/other",
];

/// Files that are edited so seldom that their time stamps come to be trusted.
pub(super) const LIBRARY: [&str; 5] =
    ["lib/f0", "lib/f1", "lib/f2.rs", "lib/in/f3.rs", "lib/in/f4"];

const WORDS: [&str; 6] = ["alpha", "beta", "gamma", "delta", "omega", "*.rs"];

/// The tree, and a directory outside that links may lead to.
pub(super) struct Tree {
    root: tempfile::TempDir,
    outside: tempfile::TempDir,
}

impl Tree {
    pub(super) fn new() -> Self {
        let tree = Self {
            root: tempfile::tempdir().unwrap(),
            outside: tempfile::tempdir().unwrap(),
        };
        for directory in ["src/deep", "doc", "lib/in"] {
            fs::create_dir_all(tree.path(directory)).unwrap();
        }
        let mut random = Random::new(1);
        for file in FILES[..8].iter().chain(&LIBRARY) {
            fs::write(tree.path(file), text(&mut random)).unwrap();
        }
        fs::write(tree.outside.path().join("one.md"), "alpha from outside\n").unwrap();
        // The same text inside and outside: only where a link leads tells them apart.
        fs::write(tree.path("lib/rules"), "*.rs\n").unwrap();
        fs::write(tree.outside.path().join("rules"), "*.rs\n").unwrap();
        tree
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub(super) fn text_of(&self, relative: &str) -> Option<String> {
        fs::read_to_string(self.path(relative)).ok()
    }

    /// Something happens from outside; what, for the report. It may fail, like anything.
    pub(super) fn disturb(&self, random: &mut Random) -> String {
        let file = *random.favour(&FILES);
        let path = self.path(file);
        let (what, done) = match random.below(19) {
            0 | 1 => ("write", fs::write(&path, text(random))),
            2 | 3 => ("same-size edit", edit_in_place(&path, random)),
            4 => (
                "same-size edit, mtime set back",
                edit_and_set_back(&path, random),
            ),
            5 => ("swap two bytes there and back", there_and_back(&path)),
            6 => ("touch", touch(&path)),
            7 => ("save like an editor", self.save(&path, random)),
            8 => ("append", append(&path, random)),
            9 => ("remove", fs::remove_file(&path)),
            10 => ("chmod", chmod(&path, random)),
            11 => ("truncate", fs::write(&path, "")),
            12 => {
                let to = *random.pick(&FILES);
                return self.reported(
                    &format!("rename {file} to {to}"),
                    rename(&path, &self.path(to)),
                );
            }
            13 => return self.link(random),
            14 => return self.hard_link(random),
            15..=17 => return self.disturb_directory(random),
            _ => ("copy the content of another", self.copy(&path, random)),
        };
        self.reported(&format!("{what} {file}"), done)
    }

    /// A file that has not been touched for long changes as little as possible.
    pub(super) fn disturb_library(&self, random: &mut Random) -> String {
        let file = *random.pick(&LIBRARY);
        let path = self.path(file);
        let (what, done) = match random.below(5) {
            0 => ("same-size edit", edit_in_place(&path, random)),
            1 | 2 => (
                "same-size edit, mtime set back",
                edit_and_set_back(&path, random),
            ),
            3 => ("save like an editor", self.save(&path, random)),
            _ => ("touch", touch(&path)),
        };
        self.reported(&format!("{what} {file}"), done)
    }

    fn disturb_directory(&self, random: &mut Random) -> String {
        let directory = *random.pick(&DIRECTORIES);
        let path = self.path(directory);
        let (what, done) = match random.below(5) {
            0 | 1 => ("make", fs::create_dir_all(&path)),
            2 => ("remove, if it is empty,", fs::remove_dir(&path)),
            3 => {
                let to = *random.pick(&DIRECTORIES);
                return self.reported(
                    &format!("rename {directory} to {to}"),
                    rename(&path, &self.path(to)),
                );
            }
            _ => {
                let kept = path.with_extension("kept");
                let done = rename(&path, &kept).and_then(|()| rename(&kept, &path));
                ("rename there and back", done)
            }
        };
        self.reported(&format!("{what} {directory}"), done)
    }

    /// A symbolic link, to a file, a directory, nothing, or out of the tree, in place of whatever is there.
    fn link(&self, random: &mut Random) -> String {
        let link = *random.pick(&[
            "link",
            "src/link.rs",
            "linked",
            "twisted",
            "b.txt",
            ".gitignore",
            "src/.ignore",
        ]);
        let outside = self.outside.path();
        let target = match random.below(10) {
            0 => self.path("a.txt"),
            1 => self.path("b.txt"),
            2 => PathBuf::from("src/deep"),
            3 => PathBuf::from("doc"),
            4 => outside.to_owned(),
            5 => outside.join("one.md"),
            6 => PathBuf::from("nowhere"),
            7 => self.path("lib/rules"),
            8 => outside.join("rules"),
            _ => PathBuf::from(link),
        };
        let path = self.path(link);
        let beside = path.with_extension("beside");
        let done = symlink(&target, &beside).and_then(|()| rename(&beside, &path));
        let _ = fs::remove_file(&beside);
        self.reported(&format!("link {link} to {}", target.display()), done)
    }

    /// Two names for one file: what is written under one shows under the other.
    fn hard_link(&self, random: &mut Random) -> String {
        let (from, to) = (*random.pick(&FILES), *random.pick(&FILES));
        let _ = fs::remove_file(self.path(to));
        self.reported(
            &format!("hard link {from} as {to}"),
            fs::hard_link(self.path(from), self.path(to)),
        )
    }

    fn save(&self, path: &Path, random: &mut Random) -> std::io::Result<()> {
        let beside = path.with_extension("saved");
        let old = fs::read_to_string(path).unwrap_or_default();
        let new = if random.permille(500) {
            shuffled(&old, random)
        } else {
            text(random)
        };
        fs::write(&beside, new)?;
        rename(&beside, path)
    }

    fn copy(&self, path: &Path, random: &mut Random) -> std::io::Result<()> {
        let other = self.path(FILES[random.below(FILES.len())]);
        fs::read(other).and_then(|bytes| fs::write(path, bytes))
    }

    fn reported(&self, what: &str, done: std::io::Result<()>) -> String {
        match done {
            Ok(()) => format!("outside: {what}"),
            Err(error) => format!("outside: {what} ({error})"),
        }
    }
}

/// A short text; half of them have the same length.
pub(super) fn text(random: &mut Random) -> String {
    let lines = if random.permille(500) {
        4
    } else {
        random.below(9)
    };
    (0..lines)
        .map(|_| format!("{:<7}{:03}\n", random.pick(&WORDS), random.below(1_000)))
        .collect()
}

/// Another text of the same length, if there is one.
fn shuffled(old: &str, random: &mut Random) -> String {
    old.chars()
        .map(|c| match c {
            '0'..='9' => char::from(b'0' + random.below(10) as u8),
            other => other,
        })
        .collect()
}

fn edit_in_place(path: &Path, random: &mut Random) -> std::io::Result<()> {
    use std::io::Write as _;
    let new = shuffled(&fs::read_to_string(path)?, random);
    // Not truncated first: one write, and the size never changes.
    fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(new.as_bytes())
}

fn edit_and_set_back(path: &Path, random: &mut Random) -> std::io::Result<()> {
    let modified = fs::metadata(path)?.modified()?;
    edit_in_place(path, random)?;
    File::options()
        .write(true)
        .open(path)?
        .set_times(FileTimes::new().set_modified(modified))
}

fn there_and_back(path: &Path) -> std::io::Result<()> {
    let old = fs::read(path)?;
    fs::write(path, b"something else")?;
    fs::write(path, old)
}

fn touch(path: &Path) -> std::io::Result<()> {
    let when = SystemTime::now() - Duration::from_secs(7);
    File::options()
        .write(true)
        .open(path)?
        .set_times(FileTimes::new().set_modified(when))
}

fn append(path: &Path, random: &mut Random) -> std::io::Result<()> {
    use std::io::Write as _;
    let size = fs::metadata(path)?.len();
    if size > 500 {
        return fs::write(path, text(random));
    }
    fs::OpenOptions::new()
        .append(true)
        .open(path)?
        .write_all(text(random).as_bytes())
}

fn chmod(path: &Path, random: &mut Random) -> std::io::Result<()> {
    let mode = *random.pick(&[0o644, 0o600, 0o755, 0o444, 0o000, 0o644]);
    if mode & 0o200 == 0 && fs::metadata(path)?.is_dir() {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Not into itself.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to)
}

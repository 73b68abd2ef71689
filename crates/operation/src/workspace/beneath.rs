//! Opens files beneath a directory, relative to its handle, without following links.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::names;

/// Flags of a handle for entering a directory, which need not be listable.
#[cfg(target_os = "linux")]
pub(super) const ENTER_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(super) const ENTER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens `relative`, which must contain neither links nor `..`, beneath `base`. A link in the path,
/// including its last component, is an error: it was created in the meantime.
pub(super) fn open(base: &Path, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let base = rustix::fs::open(base, ENTER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
    open_from(base.as_fd(), relative, flags)
}

/// The same, relative to a handle.
pub(super) fn open_from(
    base: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
) -> io::Result<OwnedFd> {
    if relative.as_os_str().is_empty() {
        return Ok(rustix::fs::openat(
            base,
            ".",
            flags | OFlags::CLOEXEC,
            Mode::empty(),
        )?);
    }
    match open_in_one_call(base, relative, flags) {
        // Kernels before 5.6, and sandboxes that do not support the system call.
        Err(Errno::NOSYS | Errno::PERM) => Ok(step_by_step(base, relative, flags)?),
        other => Ok(other?),
    }
}

#[cfg(target_os = "linux")]
fn open_in_one_call(
    base: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        let flags = flags | OFlags::CLOEXEC;
        match rustix::fs::openat2(base, relative, flags, Mode::empty(), rules) {
            // A concurrent rename made the resolution ambiguous.
            Err(Errno::AGAIN) if tries < 32 => tries += 1,
            other => return other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn open_in_one_call(_: BorrowedFd<'_>, _: &Path, _: OFlags) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// Opens one component after the other, each relative to the handle of the previous one.
fn step_by_step(
    base: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut names = names(relative).peekable();
    let mut here: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let at = here.as_ref().map_or(base, |handle| handle.as_fd());
        let flags = match names.peek() {
            Some(_) => ENTER_FLAGS | OFlags::NOFOLLOW,
            None => flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        };
        here = Some(rustix::fs::openat(at, name, flags, Mode::empty())?);
    }
    here.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::{File, create_dir_all, write};
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn neither_implementation_follows_links() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        write(outside.path().join("secret"), "secret").unwrap();
        create_dir_all(root.path().join("a/b")).unwrap();
        write(root.path().join("a/b/file"), "inside").unwrap();
        symlink(outside.path(), root.path().join("a/out")).unwrap();
        symlink("b", root.path().join("a/also")).unwrap();
        symlink(outside.path().join("secret"), root.path().join("a/link")).unwrap();
        let base = rustix::fs::open(root.path(), ENTER_FLAGS, Mode::empty()).unwrap();
        for way in [open_in_one_call, step_by_step] {
            let open = |path: &str| way(base.as_fd(), Path::new(path), OFlags::RDONLY);
            let mut text = String::new();
            File::from(open("a/b/file").unwrap())
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "inside");
            for path in ["a/out/secret", "a/link", "a/also/file"] {
                let refused = open(path).unwrap_err();
                assert!(
                    matches!(refused, Errno::LOOP | Errno::NOTDIR),
                    "{path}: {refused}"
                );
            }
            assert_eq!(open("a/none").unwrap_err(), Errno::NOENT);
        }
    }
}

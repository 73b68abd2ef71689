//! The view of the file system: what can be read and written.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_change,
    move_mount, open_tree,
};

use super::error::{Error, Step as _};
use super::system::{NO_SUID, READ_ONLY, set_mount_attributes};
use crate::Policy;

/// Directories where programs leave sockets and files for others.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
/// The devices that a program can use.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Makes the view of a policy, in a mount namespace of its own. The files in `read_only` exist. Returns the numbers of
/// the mounts that protect files which can be written otherwise.
///
/// # Errors
/// If the system refuses a step.
pub(super) fn make(
    policy: &Policy,
    read_only: &BTreeSet<PathBuf>,
) -> Result<BTreeSet<String>, Error> {
    // Mounts that the machine makes later must not appear in the view.
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).step("private mounts")?;
    // Copies of mounts keep what they permit when everything is made read-only.
    let writable = copies(&policy.write)?;
    let visible = copies(&policy.visible)?;
    let devices = DEVICES.map(|name| (name, Path::new("/dev").join(name)));
    let devices = devices.map(|(name, path)| copy(&path).map(|device| (name, device)));

    let everything = open(Path::new("/")).step("the root")?;
    set_mount_attributes(&everything, READ_ONLY | NO_SUID, true).step("read-only mounts")?;
    let shared = SHARED.iter().filter_map(|path| fs::canonicalize(path).ok());
    for shared in shared.collect::<BTreeSet<_>>() {
        if !policy.write.iter().any(|root| shared.starts_with(root)) {
            empty(&shared, &[&writable, &visible])?;
        }
    }
    for copy in &visible {
        set_mount_attributes(&copy.mount, READ_ONLY | NO_SUID, true).on("the mount", &copy.path)?;
        copy.attach()?;
    }
    // After the visible ones: a mount covers what was attached below it before, and a writable directory may be inside
    // of a visible one.
    for copy in &writable {
        copy.attach()?;
    }
    let nothing = Nothing::new()?;
    devices_of_its_own(devices.into_iter().collect::<Result<_, _>>()?)?;

    let mut denied = Vec::new();
    // With the records, a program could have files removed, and keep other commands waiting.
    for path in policy.denied.iter().chain([&policy.records]) {
        match open(path) {
            Ok(_) => denied.push(path),
            // Not even this user can read it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(error) => return Err(error).on("the denied file", path),
        }
    }
    let (inside, outside): (Vec<_>, Vec<_>) = denied
        .into_iter()
        .partition(|path| policy.write.iter().any(|root| path.starts_with(root)));
    let list = File::open("/proc/self/mountinfo").step("the list of mounts")?;
    let before = mounts(&list).step("the list of mounts")?;
    fix_ancestors(
        read_only.iter().chain(inside.iter().copied()),
        &policy.write,
    )?;
    for path in read_only {
        // An outer one makes this one read-only, too.
        if !path
            .ancestors()
            .skip(1)
            .any(|outer| read_only.contains(outer))
        {
            protect(path)?;
        }
    }
    inside
        .into_iter()
        .try_for_each(|path| nothing.cover(path))?;
    let now = mounts(&list).step("the list of mounts")?;
    let protecting = now.difference(&before).cloned().collect();
    outside
        .into_iter()
        .try_for_each(|path| nothing.cover(path))?;
    // Only with the processes of the namespace. It is read-only, because the system may take this user for its own, who
    // may write settings of the kernel.
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).step("the list of processes")?;
    Ok(protecting)
}

/// Returns the numbers of all mounts of this process from the list of the system.
///
/// # Errors
/// If it cannot be read.
pub(super) fn mounts(mut list: &File) -> std::io::Result<BTreeSet<String>> {
    let mut text = String::new();
    list.rewind()?;
    list.read_to_string(&mut text)?;
    let numbers = text.lines().filter_map(|line| line.split(' ').next());
    Ok(numbers.map(str::to_owned).collect())
}

/// A copy of a mount, or of a part of it, that is attached nowhere.
struct Copy {
    path: PathBuf,
    is_directory: bool,
    mount: OwnedFd,
}

impl Copy {
    /// Attaches it where it was.
    fn attach(&self) -> Result<(), Error> {
        let target = open(&self.path).on("the mount", &self.path)?;
        attach(&self.mount, &target).on("the mount", &self.path)
    }
}

fn copies(paths: &[PathBuf]) -> Result<Vec<Copy>, Error> {
    // The outermost first: a mount covers what was attached below before.
    let paths: BTreeSet<_> = paths.iter().collect();
    let copies = paths.into_iter().map(|path| {
        Ok(Copy {
            mount: copy(path)?,
            is_directory: path.is_dir(),
            path: path.clone(),
        })
    });
    copies.collect()
}

/// Copies the mount of a file or directory, with those below it.
fn copy(path: &Path) -> Result<OwnedFd, Error> {
    let file = open(path).on("the mount", path)?;
    copy_at(file.as_fd()).on("the mount", path)
}

fn copy_at(file: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(file, c"", flags)
}

/// Attaches a mount to a file or directory.
fn attach(mount: impl AsFd, target: impl AsFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", target, c"", flags)
}

/// Opens a path to refer to it. Links are not followed: a concurrent command could have made them.
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Creates an empty file system in memory, attached nowhere.
fn file_system(mode: &str, attributes: MountAttrFlags) -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "mode", mode)?;
    fsconfig_create(context.as_fd())?;
    let attributes =
        attributes | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Covers a directory with an empty one, in which only the ways to these copies exist.
fn empty(directory: &Path, copies: &[&[Copy]]) -> Result<(), Error> {
    let cover = file_system("0755", MountAttrFlags::empty()).on("the directory", directory)?;
    let target = open(directory).on("the directory", directory)?;
    attach(&cover, &target).on("the directory", directory)?;
    for Copy {
        path, is_directory, ..
    } in copies.iter().copied().flatten()
    {
        if !path.starts_with(directory) {
            continue;
        }
        let directories = if *is_directory {
            Some(path.as_path())
        } else {
            path.parent()
        };
        let made = directories.map_or(Ok(()), fs::create_dir_all);
        let made = made.and_then(|()| {
            if *is_directory {
                Ok(())
            } else {
                fs::write(path, "")
            }
        });
        made.on("the directory", path)?;
    }
    set_mount_attributes(&cover, READ_ONLY, false).on("the directory", directory)
}

/// Makes a mount of each directory between a root and one of the paths: a mount cannot be renamed or removed, so a path
/// stays the way to the same file.
fn fix_ancestors<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
    roots: &[PathBuf],
) -> Result<(), Error> {
    let is_below = |path: &&Path| {
        roots.iter().any(|root| path.starts_with(root)) && !roots.iter().any(|root| *path == root)
    };
    let directories = paths.flat_map(|path| path.ancestors().skip(1).filter(is_below));
    // The outermost first, because a mount covers what is below it; each once, because a copy has all mounts below.
    let directories: BTreeSet<_> = directories.collect();
    for directory in directories {
        let target = open(directory).on("the directory", directory)?;
        let mount = copy_at(target.as_fd()).on("the directory", directory)?;
        attach(&mount, &target).on("the directory", directory)?;
    }
    Ok(())
}

/// Makes a file or directory read-only.
fn protect(path: &Path) -> Result<(), Error> {
    let step = "the read-only file";
    let target = open(path).on(step, path)?;
    let mount = copy_at(target.as_fd()).on(step, path)?;
    set_mount_attributes(&mount, READ_ONLY, true).on(step, path)?;
    attach(&mount, &target).on(step, path)
}

/// An unreadable file.
struct Nothing {
    file: OwnedFd,
}

impl Nothing {
    fn new() -> Result<Self, Error> {
        let step = "an unreadable file";
        // Only of mounts that are attached, a part can be copied on all systems. Other devices cover this one.
        let system = file_system("0700", MountAttrFlags::empty()).step(step)?;
        attach(&system, &open(Path::new("/dev")).step(step)?).step(step)?;
        let path = Path::new("/dev/nothing");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC;
        drop(rustix::fs::open(path, flags, Mode::empty()).step(step)?);
        let file = open(path).step(step)?;
        Ok(Self { file })
    }

    /// Covers a file or directory.
    fn cover(&self, path: &Path) -> Result<(), Error> {
        let target = open(path).on("the denied file", path)?;
        let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let cover = if is_directory {
            file_system("0000", MountAttrFlags::empty())
        } else {
            copy_at(self.file.as_fd())
        };
        let cover = cover.on("the denied file", path)?;
        set_mount_attributes(&cover, READ_ONLY, false).on("the denied file", path)?;
        attach(&cover, &target).on("the denied file", path)
    }
}

/// Replaces the devices by those that a program may use.
fn devices_of_its_own(devices: Vec<(&str, OwnedFd)>) -> Result<(), Error> {
    let step = "devices";
    let directory = file_system("0755", MountAttrFlags::empty()).step(step)?;
    attach(&directory, &open(Path::new("/dev")).step(step)?).step(step)?;
    for (name, device) in devices {
        let path = Path::new("/dev").join(name);
        fs::write(&path, "").on(step, &path)?;
        let target = open(&path).on(step, &path)?;
        attach(&device, &target).on(step, &path)?;
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/dev/ptmx", "pts/ptmx"),
    ] {
        std::os::unix::fs::symlink(target, link).step(step)?;
    }
    fs::create_dir("/dev/pts").step(step)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let terminals = c"newinstance,ptmxmode=0666,mode=0620";
    mount("devpts", "/dev/pts", "devpts", flags, terminals).step(step)?;
    fs::create_dir("/dev/shm").step(step)?;
    let memory = file_system("1777", MountAttrFlags::empty()).step(step)?;
    attach(&memory, &open(Path::new("/dev/shm")).step(step)?).step(step)?;
    set_mount_attributes(&directory, READ_ONLY, false).step(step)
}

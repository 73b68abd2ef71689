//! The sandbox of macOS: a profile of `sandbox-exec`. It is written by the documentation of others and was never tried on
//! a Mac.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::{Network, Policy};

/// Becomes a program in the sandbox.
#[cfg(target_os = "macos")]
pub(crate) fn run(arguments: impl Iterator<Item = std::ffi::OsString>) -> ! {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;
    let error = match Policy::parse(arguments) {
        Ok((policy, program)) => {
            let mut command = std::process::Command::new("/usr/bin/sandbox-exec");
            command.arg("-p").arg(profile(&policy)).args(program);
            command.exec().to_string()
        }
        Err(error) => error.to_string(),
    };
    // Nothing else can be done.
    let _ = writeln!(
        std::io::stderr(),
        "cachalot: the sandbox cannot be made: {error}"
    );
    std::process::exit(126)
}

/// Returns the profile of a policy. Of its rules, the last one that matches decides. A proxy cannot be reached.
fn profile(policy: &Policy) -> String {
    let read_only = policy.read_only.iter().map(|file| file.path.as_path());
    let denied = policy.denied.iter().map(std::path::PathBuf::as_path);
    // What is above a read-only file could otherwise be renamed.
    let ancestors = read_only
        .clone()
        .chain(denied.clone())
        .flat_map(|path| path.ancestors().skip(1));
    let is_writable = |path: &&Path| policy.write.iter().any(|root| path.starts_with(root));
    let ancestors: BTreeSet<_> = ancestors.filter(is_writable).collect();
    let mut profile = "(version 1)\n(allow default)\n(deny file-write*)\n".to_owned();
    let mut rule = |rule: &str, filter: &str, paths: &mut dyn Iterator<Item = &Path>| {
        for path in paths {
            // Writing to a text does not fail.
            let _ = writeln!(profile, "({rule} ({filter} {}))", quoted(path));
        }
    };
    let writable = policy.write.iter().map(std::path::PathBuf::as_path);
    rule("allow file-write*", "subpath", &mut writable.clone());
    let devices = ["/dev/null", "/dev/zero"].map(Path::new);
    rule("allow file-write-data", "literal", &mut devices.into_iter());
    rule("deny file-write*", "subpath", &mut read_only.clone());
    rule(
        "deny file-write-unlink",
        "literal",
        &mut ancestors.into_iter(),
    );
    rule(
        "deny file-read* file-write*",
        "subpath",
        &mut denied.clone(),
    );
    if policy.network != Network::All {
        profile += "(deny network*)\n";
    }
    if policy.unix_sockets {
        profile += "(allow network* (remote unix-socket) (local unix-socket))\n";
    }
    profile
}

/// Returns a path as a string of the profile.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    format!("\"{}\"", path.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Absent, ReadOnly};

    #[test]
    fn profile_has_the_rules_of_the_policy_in_order() {
        let policy = Policy {
            write: vec!["/w".into()],
            read_only: vec![ReadOnly {
                path: "/w/a/AGENTS.md".into(),
                absent: Absent::File,
            }],
            denied: vec!["/home/me/.ssh".into(), "/w/\"x\"".into()],
            ..Policy::default()
        };
        let expected = r#"(version 1)
(allow default)
(deny file-write*)
(allow file-write* (subpath "/w"))
(allow file-write-data (literal "/dev/null"))
(allow file-write-data (literal "/dev/zero"))
(deny file-write* (subpath "/w/a/AGENTS.md"))
(deny file-write-unlink (literal "/w"))
(deny file-write-unlink (literal "/w/a"))
(deny file-read* file-write* (subpath "/home/me/.ssh"))
(deny file-read* file-write* (subpath "/w/\"x\""))
(deny network*)
"#;
        assert_eq!(profile(&policy), expected);
    }
}

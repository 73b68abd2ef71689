//! The limited sandbox of a machine without user namespaces: Landlock and seccomp.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use super::error::Error;
use super::init::give_up_rights;
use super::{syscalls, system};
use crate::policy::ArgumentError;
use crate::{Network, Policy};

/// The version whose rules for files a system needs: before it, any file could be truncated.
const FILES: ABI = ABI::V3;
/// The version whose rules for signals and abstract sockets are used if a system has them.
const SCOPES: ABI = ABI::V6;
/// Devices that can be written.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Restricts this process, and becomes the program.
///
/// # Errors
/// The system has no Landlock, or the program cannot be run.
pub(super) fn run(
    policy: &Policy,
    program: &[OsString],
) -> Result<std::convert::Infallible, Error> {
    let (program, arguments) = program.split_first().ok_or(ArgumentError::NoProgram)?;
    system::leave_terminal();
    give_up_rights()?;
    let refused = |error: &dyn std::fmt::Display| Error::Refused {
        step: "the rules for files".to_owned(),
        error: std::io::Error::other(error.to_string()),
    };
    // A partial status is sufficient: the rules for files are hard requirements, and only the scopes of signals and
    // sockets may be missing.
    match restrict_writes(policy) {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => {}
        Ok(RulesetStatus::NotEnforced) => return Err(refused(&"the system has no Landlock")),
        Err(error) => return Err(refused(&error)),
    }
    syscalls::restrict(policy.network == Network::All, policy.unix_sockets)?;
    let error = Command::new(program).args(arguments).exec();
    Err(Error::Program {
        program: program.to_string_lossy().into_owned(),
        error,
    })
}

/// Permits to write below the paths of a policy only.
fn restrict_writes(policy: &Policy) -> Result<RulesetStatus, RulesetError> {
    let rights = AccessFs::from_write(FILES);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(rights)?
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(SCOPES))?
        .create()?;
    let paths = policy.write.iter().map(std::path::PathBuf::as_path);
    for path in paths.chain(DEVICES.map(Path::new)) {
        // One that is gone cannot be written either.
        if let Ok(opened) = PathFd::new(path) {
            let rights = if path.is_dir() {
                rights
            } else {
                rights & AccessFs::from_file(FILES)
            };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, rights))?;
        }
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

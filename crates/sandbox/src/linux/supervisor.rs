//! The process that the caller has started. It stays outside of the namespaces, and ends as the program does.

use std::ffi::OsString;
use std::io::{PipeReader, Read as _};

use rustix::process::{Pid, WaitOptions, getgid, getuid, waitpid};
use rustix::thread::UnshareFlags;

use super::error::{Error, Step as _};
use super::placeholders::Placeholders;
use super::report::{Ended, Report};
use super::system::{self, Fork};
use super::{CANNOT_RUN, hard_links, init, limited};
use crate::{Mechanism, Network, Policy};

/// Runs the program of the helper's arguments, and returns how it ended.
///
/// # Errors
/// If the sandbox cannot be made.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> Result<Ended, Error> {
    system::close_others();
    let (policy, program) = Policy::parse(arguments)?;
    if policy.mechanism == Mechanism::Landlock {
        let never = limited::run(&policy, &program)?;
        match never {}
    }
    // Before the fork, and by the process that stays outside: it removes them when everything inside has ended.
    let placeholders = Placeholders::make(&policy)?;
    match start(&policy, &program, &placeholders) {
        Ok((init, reports)) => supervise(init, reports, placeholders),
        Err(error) => {
            placeholders.remove_if_last();
            Err(error)
        }
    }
}

/// Starts init, and returns it with its reports.
fn start(
    policy: &Policy,
    program: &[OsString],
    placeholders: &Placeholders,
) -> Result<(Pid, PipeReader), Error> {
    hard_links::refuse(policy, placeholders.read_only())?;
    let (reports, to_supervisor) = std::io::pipe().step("a pipe")?;
    let mut namespaces = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    if policy.network != Network::All {
        namespaces |= UnshareFlags::NEWNET;
    }
    let user = (getuid().as_raw(), getgid().as_raw());
    match system::fork(namespaces).step("namespaces")? {
        // The return closes the writing end of this process: only init has it then, so the end of init is the end of
        // the stream.
        Fork::Parent(init) => Ok((init, reports)),
        Fork::Child => {
            // Only the supervisor may have the reading end: init recognizes the end of the supervisor by a pipe without
            // a reader.
            drop(reports);
            match init::run(policy, user, program, placeholders, &to_supervisor) {
                Ok(()) => std::process::exit(0),
                Err(error) => {
                    system::report(&error);
                    std::process::exit(CANNOT_RUN)
                }
            }
        }
    }
}

/// Waits for the program, and removes the placeholders when nothing is left in the sandbox.
fn supervise(
    init: Pid,
    mut reports: PipeReader,
    placeholders: Placeholders,
) -> Result<Ended, Error> {
    let report = Report::receive(&reports);
    if let Some(Report::EndedAndLeft(ended)) = report {
        // The caller waits for this process, so another one removes them.
        // If the fork fails, the records keep the placeholders for the next command, which removes them.
        if matches!(system::fork(UnshareFlags::empty()), Ok(Fork::Child)) {
            // The caller may read the outputs to their end, which this process must not delay.
            system::close_standard_streams().step("the outputs")?;
            // To the end of init, which has the other end of the pipe.
            let _ = reports.read(&mut [0]);
            placeholders.remove_if_last();
            std::process::exit(0)
        }
        return Ok(ended);
    }
    let of_init = waitpid(Some(init), WaitOptions::empty()).step("the end of a process")?;
    placeholders.remove_if_last();
    match report {
        Some(Report::Ended(ended) | Report::EndedAndLeft(ended)) => Ok(ended),
        Some(Report::MountRemoved) => Err(Error::MountRemoved),
        None => Ok(of_init.map_or(Ended::Exited(CANNOT_RUN), |(_, status)| status.into())),
    }
}

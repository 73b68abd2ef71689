//! The first process of the process namespace: it makes the view, gives up all rights, runs the program and waits for
//! what it leaves.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::PipeWriter;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, set_dumpable_behavior,
    set_parent_process_death_signal, wait,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::error::{Error, Step as _};
use super::placeholders::Placeholders;
use super::report::{Ended, Report};
use super::{CANNOT_RUN, proxy, syscalls, system, view};
use crate::policy::ArgumentError;
use crate::{Network, Policy};

/// Runs the program for a user and group, reports its end, and returns when everything that it started has ended.
///
/// # Errors
/// If the sandbox cannot be made, or the program cannot be started.
pub(super) fn run(
    policy: &Policy,
    user: (u32, u32),
    program: &[OsString],
    placeholders: &Placeholders,
    to_supervisor: &PipeWriter,
) -> Result<(), Error> {
    // First: a supervisor that is killed during the steps below must not leave a half-made sandbox behind.
    end_with_supervisor(to_supervisor)?;
    keep_user(user)?;
    if policy.network != Network::All {
        let socket = UdpSocket::bind("0.0.0.0:0").step("a socket")?;
        system::start_loopback(socket.as_fd()).step("the loopback interface")?;
    }
    // Before the view, which may hide the socket of the proxy, and before the filter, which refuses Unix sockets.
    let proxy = match &policy.network {
        Network::Proxy(socket) => Some(proxy::listen(socket).on("the proxy", socket)?),
        Network::None | Network::All => None,
    };
    // Before the view, which has no `/dev/tty`.
    system::leave_terminal();
    let directory = std::env::current_dir().step("the working directory")?;
    let protecting = view::make(policy, placeholders.read_only())?;
    // It is still the one of the old view.
    std::env::set_current_dir(&directory).on("the working directory", &directory)?;
    // After the view, whose mounts need the rights. Before the filter: without rights, the kernel accepts one only from
    // a process with `no_new_privs`, which this sets.
    give_up_rights()?;
    syscalls::restrict(true, policy.unix_sockets)?;
    // Rights and filters belong to a thread and are inherited from its creator: the thread that watches starts after
    // both were reduced, and before the program can do anything.
    watch_mounts(protecting, to_supervisor)?;

    let program = start(program, proxy.is_some())?;
    // A reader of the output waits for the last process that has it.
    system::close_standard_streams().step("the outputs")?;
    let ended = wait_for(program)?;
    // Removes the processes that have ended.
    let is_going_on = loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    // The supervisor ends with the program. Without this, its end would kill init, and with it the processes that the
    // program has left. It has to happen before the report, after which the supervisor ends.
    if is_going_on {
        set_parent_process_death_signal(None).step("going on")?;
    }
    let report = if is_going_on {
        Report::EndedAndLeft
    } else {
        Report::Ended
    };
    report(ended).send(to_supervisor);
    while wait(WaitOptions::empty()).is_ok() {}
    Ok(())
}

/// Lets this process end with the supervisor.
fn end_with_supervisor(to_supervisor: &PipeWriter) -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL)).step("the end of the supervisor")?;
    // It may have ended before.
    let mut reader = [PollFd::new(to_supervisor, PollFlags::empty())];
    poll(&mut reader, Some(&Timespec::default())).step("the end of the supervisor")?;
    if reader[0].revents().contains(PollFlags::ERR) {
        std::process::exit(CANNOT_RUN)
    }
    Ok(())
}

/// Keeps the numbers of the user and the group in the new namespace.
fn keep_user((user, group): (u32, u32)) -> Result<(), Error> {
    // Without it, a group cannot be mapped: groups can be used to refuse a right.
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text)
            .step("the number of the user in the namespace")?;
    }
    Ok(())
}

/// Starts the program.
fn start(program: &[OsString], has_proxy: bool) -> Result<Option<Pid>, Error> {
    let (program, arguments) = program.split_first().ok_or(ArgumentError::NoProgram)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if has_proxy {
        command.envs(proxy::variables());
    }
    // In a group of its own, so that its signals to its group do not reach the supervisor.
    let child = command
        .process_group(0)
        .spawn()
        .map_err(|error| Error::Program {
            program: program.to_string_lossy().into_owned(),
            error,
        })?;
    Ok(i32::try_from(child.id()).ok().and_then(Pid::from_raw))
}

/// Waits for the end of the program, and of all that end before it.
fn wait_for(program: Option<Pid>) -> Result<Ended, Error> {
    loop {
        let ended = wait(WaitOptions::empty()).step("the end of a process")?;
        if let Some((process, status)) = ended
            && Some(process) == program
        {
            return Ok(status.into());
        }
    }
}

/// Gives up all rights of this process and of those that it starts, in the namespaces as well. The program cannot look
/// into this process or change it, which has files open that the program has not.
pub(super) fn give_up_rights() -> Result<(), Error> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).step("rights")?;
    set_no_new_privs(true).step("rights")?;
    // Also those that have no name here; at the first error, the system knows no more.
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if remove_capability_from_bounding_set(capability).is_err() {
            break;
        }
    }
    clear_ambient_capability_set().step("rights")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).step("rights")
}

/// Ends everything when one of these mounts is removed. A process outside of the sandbox can remove or replace a file
/// that something is mounted on; nothing protects what is there next.
fn watch_mounts(protecting: BTreeSet<String>, to_supervisor: &PipeWriter) -> Result<(), Error> {
    let step = "the list of mounts";
    let list = File::open("/proc/self/mountinfo").step(step)?;
    let to_supervisor = to_supervisor.try_clone().step(step)?;
    let watching = move || {
        // The kernel announces a change of the list as priority data. A list that cannot be read counts as a removed
        // mount.
        while view::mounts(&list).is_ok_and(|now| now.is_superset(&protecting)) {
            let _ = poll(&mut [PollFd::new(&list, PollFlags::PRI)], None);
        }
        Report::MountRemoved.send(&to_supervisor);
        // The first process of a namespace takes all others with it.
        std::process::exit(CANNOT_RUN)
    };
    std::thread::Builder::new()
        .spawn(watching)
        .step("a thread")?;
    Ok(())
}

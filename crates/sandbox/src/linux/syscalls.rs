//! The system calls that a program may make.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::error::Error;

/// Calls that are refused: those that make or enter namespaces, mount, load code into the kernel, open files by number,
/// or watch other programs. Those that need a right are refused without a filter, because programs have none.
const REFUSED: [libc::c_long; 22] = [
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_fanotify_init,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];
/// Calls that do not exist: their arguments are in memory, which a filter cannot read. Programs use others instead.
const ABSENT: [libc::c_long; 4] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];
/// Flags of `clone` for new namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];
/// Families of sockets that stay within the network namespace.
const NETWORK: [libc::c_int; 2] = [libc::AF_INET, libc::AF_INET6];
/// The bits of the kind of a socket; the others are flags.
const SOCKET_KINDS: u64 = 0xf;
/// Requests that type into a terminal: `TIOCSTI` and `TIOCLINUX`, whose types differ among C libraries.
const TYPING: [libc::c_int; 2] = [0x5412, 0x541C];
/// The bit of the numbers of calls in a second form of x86-64, in which pointers have 32 bits.
const SHORT_POINTERS: libc::c_long = 0x4000_0000;

/// Restricts this process and those that it starts, and permits them sockets of the network and Unix sockets.
///
/// # Errors
/// If the system refuses a filter.
pub(super) fn restrict(network: bool, unix_sockets: bool) -> Result<(), Error> {
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let absent = ABSENT.map(|call| (call, Vec::new()));
    install(absent.into(), errno(libc::ENOSYS))?;

    let mut refused: BTreeMap<_, _> = REFUSED.map(|call| (call, Vec::new())).into();
    let mut families = vec![libc::AF_NETLINK];
    families.extend(network.then_some(NETWORK).into_iter().flatten());
    families.extend(unix_sockets.then_some(libc::AF_UNIX));
    let others = families
        .into_iter()
        .map(|family| is(0, SeccompCmpOp::Ne, family));
    refused.insert(libc::SYS_socket, vec![all(others.collect())?]);
    if !unix_sockets {
        // One of a pair of these can be connected to any other.
        let kind = SeccompCmpOp::MaskedEq(SOCKET_KINDS);
        refused.insert(
            libc::SYS_socketpair,
            vec![all(vec![is(1, kind, libc::SOCK_DGRAM)])?],
        );
    }
    let namespaces = NAMESPACES.map(|flag| {
        all(vec![is(
            0,
            SeccompCmpOp::MaskedEq(u64::from(flag.cast_unsigned())),
            flag,
        )])
    });
    refused.insert(
        libc::SYS_clone,
        namespaces.into_iter().collect::<Result<_, _>>()?,
    );
    let typing = TYPING.map(|request| all(vec![is(1, SeccompCmpOp::Eq, request)]));
    refused.insert(
        libc::SYS_ioctl,
        typing.into_iter().collect::<Result<_, _>>()?,
    );
    install(refused, errno(libc::EPERM))
}

/// Returns a condition on the lower half of an argument, which is all that the kernel reads of these.
fn is(argument: u8, operator: SeccompCmpOp, value: libc::c_int) -> Result<SeccompCondition, Error> {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).map_err(refused)
}

fn all(conditions: Vec<Result<SeccompCondition, Error>>) -> Result<SeccompRule, Error> {
    let conditions = conditions.into_iter().collect::<Result<_, _>>()?;
    SeccompRule::new(conditions).map_err(refused)
}

/// Installs a filter that answers these calls with an action.
fn install(mut calls: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> Result<(), Error> {
    if cfg!(target_arch = "x86_64") {
        let short = calls.clone();
        calls.extend(
            short
                .into_iter()
                .map(|(call, rules)| (call | SHORT_POINTERS, rules)),
        );
    }
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(refused)?;
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, architecture);
    let program = filter.and_then(BpfProgram::try_from).map_err(refused)?;
    apply_filter(&program).map_err(refused)
}

fn refused(error: impl std::error::Error) -> Error {
    Error::Refused {
        step: "the filter of system calls".to_owned(),
        error: std::io::Error::other(error.to_string()),
    }
}

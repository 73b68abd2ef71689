//! Resource limits that a worker process sets for itself before it receives a block, and the message of
//! the time limit.

use std::time::Duration;

/// Returns the message for a block that was stopped at its time limit.
pub(super) fn timed_out(limit: Duration) -> String {
    format!("the block ran longer than its time limit of {limit:?} and was stopped")
}

/// Permanently drops everything that running a block does not need: memory beyond `memory_limit` bytes
/// more than now (on Linux; 0 means no limit), core dumps, writing files, all but a few open files, and
/// new processes and threads.
///
/// A limit that the system refuses to set is ignored: the interpreter has no access to files, processes
/// or the network in the first place, and the parent process enforces the time limit.
#[cfg(unix)]
pub(super) fn confine(memory_limit: u64) {
    use rustix::process::Resource;

    #[cfg(target_os = "linux")]
    if memory_limit > 0
        && let Some(now) = address_space()
    {
        limit(Resource::As, now.saturating_add(memory_limit));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory_limit;
    limit(Resource::Core, 0);
    limit(Resource::Fsize, 0);
    limit(Resource::Nofile, 16);
    limit(Resource::Nproc, 0);
}

#[cfg(not(unix))]
pub(super) fn confine(_memory_limit: u64) {}

#[cfg(unix)]
fn limit(resource: rustix::process::Resource, to: u64) {
    let to = rustix::process::Rlimit {
        current: Some(to),
        maximum: Some(to),
    };
    // Fails if the current limit is already lower.
    let _ = rustix::process::setrlimit(resource, to);
}

/// Returns the address space in use, in bytes; `None` if the system does not report it.
#[cfg(target_os = "linux")]
fn address_space() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

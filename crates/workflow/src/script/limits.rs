//! What a worker process takes away from itself before it sees a block.

/// Gives up everything that running a block does not need, for good: memory beyond
/// `memory_limit` bytes more than now (on Linux; 0 is no limit), core dumps, writing files, all
/// but a few open files, and new processes and threads.
///
/// A limit that the system refuses to set is left as it is: the interpreter inside has no way to
/// files, processes or the network to begin with, and its parent watches the clock.
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
    // Refused where there is less already.
    let _ = rustix::process::setrlimit(resource, to);
}

/// Bytes of address space in use; nothing if the system does not say.
#[cfg(target_os = "linux")]
fn address_space() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

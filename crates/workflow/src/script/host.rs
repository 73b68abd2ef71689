//! Host functions for the helpers of a block: time, sleep, digest, entropy.

use std::thread;
use std::time::{Duration, Instant};

use blake2::Blake2b512;
use md5::Md5;
use monty_types::{ExcType, ExtFunctionResult, MontyException, MontyObject};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::diagnose;

/// Answers a call of a name that the block does not define; `now` is in microseconds since 1970-01-01 UTC,
/// `deadline` is the latest end of the block.
pub(super) fn answer(
    function: &str,
    arguments: &[MontyObject],
    now: i64,
    deadline: Instant,
) -> ExtFunctionResult {
    let answer = match (function, arguments) {
        ("__host_now__", []) => Ok(MontyObject::Int(now)),
        ("__host_entropy__", []) => entropy(),
        ("__host_sleep__", [MontyObject::Int(microseconds)]) => sleep(*microseconds, deadline),
        ("__host_digest__", [MontyObject::String(name), MontyObject::Bytes(data)]) => {
            digest(name, data)
        }
        ("__host_caught__", [MontyObject::String(kind), MontyObject::String(message)]) => {
            reraise_limitation(kind, message)
        }
        _ => return ExtFunctionResult::NotFound(function.to_owned()),
    };
    match answer {
        Ok(value) => ExtFunctionResult::Return(value),
        Err(error) => ExtFunctionResult::Error(error),
    }
}

/// Sleeps, at most until the block's time limit.
fn sleep(microseconds: i64, deadline: Instant) -> Result<MontyObject, MontyException> {
    let asked = Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
    let left = deadline.saturating_duration_since(Instant::now());
    thread::sleep(asked.min(left));
    if asked > left {
        let message = "time limit exceeded while the block slept".to_owned();
        return Err(MontyException::new(ExcType::TimeoutError, Some(message)));
    }
    Ok(MontyObject::None)
}

/// Raises an error again if it indicates a limitation of the interpreter: a block that catches it would
/// continue with a value that differs from Python's.
fn reraise_limitation(kind: &str, message: &str) -> Result<MontyObject, MontyException> {
    let name = kind.split('(').next().unwrap_or_default();
    let Ok(kind) = name.parse::<ExcType>() else {
        return Ok(MontyObject::None);
    };
    match diagnose::limitation(kind, message, false) {
        Some(_) => Err(MontyException::new(kind, Some(message.to_owned()))),
        None => Ok(MontyObject::None),
    }
}

fn entropy() -> Result<MontyObject, MontyException> {
    let mut bytes = [0; 32];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(MontyObject::Bytes(bytes.to_vec())),
        Err(error) => Err(MontyException::new(
            ExcType::RuntimeError,
            Some(format!("no randomness: {error}")),
        )),
    }
}

fn digest(name: &str, data: &[u8]) -> Result<MontyObject, MontyException> {
    let bytes = match name {
        "md5" => Md5::digest(data).to_vec(),
        "sha224" => Sha224::digest(data).to_vec(),
        "sha256" => Sha256::digest(data).to_vec(),
        "sha384" => Sha384::digest(data).to_vec(),
        "sha512" => Sha512::digest(data).to_vec(),
        "blake2b" => Blake2b512::digest(data).to_vec(),
        _ => {
            return Err(MontyException::new(
                ExcType::NotImplementedError,
                Some(format!("embedded Python: the digest `{name}`")),
            ));
        }
    };
    Ok(MontyObject::Bytes(bytes))
}

//! Limits on what a child process may read, write and reach, enforced by the operating system.
//!
//! A [`Policy`] starts a program through a helper, which is the same executable: its `main` calls
//! [`run_if_helper`] first. The helper makes the namespaces and mounts of the sandbox and runs the program in them.
//! [`available`] says what this machine can enforce.

#[cfg(unix)]
mod attempts;
mod availability;
mod command_sandbox;
mod credentials;
mod helper;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(target_os = "macos", test))]
mod macos;
mod mechanism;
mod policy;

#[cfg(unix)]
pub use attempts::{Attempt, attempt_all};
pub use availability::available;
pub use command_sandbox::CommandSandbox;
pub use credentials::credentials;
#[cfg(unix)]
pub use helper::receive_listener;
pub use helper::{remove_placeholders, run_if_helper};
pub use mechanism::Mechanism;
pub use policy::{Absent, Network, Policy, ReadOnly};

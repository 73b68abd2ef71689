//! Credentials and framing of the cloud platforms that serve Anthropic's models: signatures and event
//! streams of AWS, access tokens of Google.
//!
//! Credentials are checked as by the platforms, for one account each, whose secrets are published here.

pub(crate) mod aws;
pub(crate) mod google;

pub use aws::{ACCESS_KEY, SECRET_KEY};
pub use google::service_account;

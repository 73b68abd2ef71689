//! Items that at least three crates of Cachalot share, and nothing else: canonical bytes, digests, the JSON
//! scanner, clocks, secrets, causes of errors, effects, costs and witnesses of work, problems in configuration, the
//! configuration tree with source positions, durations, truncation of texts, atomic replacement of files, and the user's
//! data directory.

pub mod atomic_file;
pub mod canonical;
pub mod causes;
pub mod clock;
pub mod config;
pub mod digest;
pub mod disk;
pub mod duration;
pub mod effects;
pub mod json;
pub mod links;
pub mod problem;
pub mod secret;
pub mod spend;
pub mod suggest;
pub mod text;
pub mod tree;
pub mod user_data;
pub mod witnesses;

pub use canonical::{Canonical, CanonicalError, ObjectEncoder};
pub use clock::{Clock, ManualClock, Millis, SystemClock};
pub use digest::Digest;
pub use effects::{EffectTarget, EffectTargets, Effects};
pub use problem::{Problem, SourceSpan};
pub use secret::{DigestKey, Secret, SecretSet};
pub use spend::{Cost, Spend};
pub use witnesses::Witnesses;

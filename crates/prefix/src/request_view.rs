//! The parts of a request that the provider's cache depends on.

use cachalot_prompt::{Namespace, Plan, Prompt};

/// A request as the provider's cache sees it.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// The pieces.
    pub prompt: &'a Prompt,
    /// The parameters that the provider's cache depends on.
    pub namespace: &'a Namespace,
    /// The cache markers.
    pub plan: &'a Plan,
    /// The other members of the body; `}` if they are unknown, and then no values of them are shown.
    pub tail: &'a [u8],
}

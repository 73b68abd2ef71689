//! What runs when an event fires.

use async_trait::async_trait;

use crate::input::Input;
use crate::output::{Fault, Output};

/// What runs when an event fires. Dropping the future of [`Handler::handle`] ends it, with all that it
/// has started. Time limits and what a failure brings about are the dispatcher's.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Hears, and says.
    ///
    /// # Errors
    /// It has nothing to say: it broke down, was not there, or spoke nonsense.
    async fn handle(&self, input: &Input) -> Result<Output, Fault>;
}

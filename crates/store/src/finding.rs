//! What a store knows of its server.

/// A property of a server, or of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The property: `version`, `persistence`, …
    pub topic: &'static str,
    /// Its state, for people.
    pub state: String,
    /// What does not work as well as it could, and what to do about it.
    pub remedy: Option<String>,
}

impl Finding {
    /// A property that needs no attention.
    #[must_use]
    pub fn good(topic: &'static str, state: impl Into<String>) -> Self {
        let state = state.into();
        Self {
            topic,
            state,
            remedy: None,
        }
    }

    /// A property that limits what the store can promise.
    #[must_use]
    pub fn degraded(
        topic: &'static str,
        state: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..Self::good(topic, state)
        }
    }
}

//! Methods of requests, by what they may do to stored answers.

/// The treatment of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MethodClass {
    /// `tools/call`, which the policy decides about.
    ToolCall,
    /// The server may state for how long the answer is fresh.
    Hinted(Hinted),
    /// The handshake of older revisions.
    Initialize,
    /// Changes nothing, and is not stored.
    Read,
    /// Asks for the state of a task, or its result.
    Task,
    /// May change anything, such as a method that is not known.
    Write,
}

/// The methods whose answers have `ttlMs` and `cacheScope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Hinted {
    Discover,
    Tools,
    Prompts,
    Resources,
    Templates,
    Read,
}

impl MethodClass {
    pub(super) fn new(method: &str) -> Self {
        match method {
            "tools/call" => Self::ToolCall,
            "server/discover" => Self::Hinted(Hinted::Discover),
            "tools/list" => Self::Hinted(Hinted::Tools),
            "prompts/list" => Self::Hinted(Hinted::Prompts),
            "resources/list" => Self::Hinted(Hinted::Resources),
            "resources/templates/list" => Self::Hinted(Hinted::Templates),
            "resources/read" => Self::Hinted(Hinted::Read),
            "initialize" => Self::Initialize,
            "ping"
            | "prompts/get"
            | "completion/complete"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "subscriptions/listen"
            | "tasks/list" => Self::Read,
            "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => Self::Task,
            _ => Self::Write,
        }
    }
}

/// Returns true for a notification of the client that changes nothing at the server.
pub(super) fn is_harmless_notification(method: &str) -> bool {
    matches!(
        method,
        "notifications/initialized" | "notifications/cancelled" | "notifications/progress"
    )
}

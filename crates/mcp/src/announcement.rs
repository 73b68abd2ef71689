//! An announcement of a server that something of it changed.

/// An announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Announcement {
    /// `notifications/tools/list_changed`.
    Tools,
    /// `notifications/prompts/list_changed`.
    Prompts,
    /// `notifications/resources/list_changed`.
    Resources,
    /// `notifications/resources/updated`, with the URI.
    Resource(String),
    /// A message that could not be read.
    Unreadable,
}

impl Announcement {
    /// Returns the announcement of a method with this `uri` among its parameters.
    pub(super) fn new(method: &str, uri: Option<String>) -> Option<Self> {
        match method.strip_prefix("notifications/")? {
            "tools/list_changed" => Some(Self::Tools),
            "prompts/list_changed" => Some(Self::Prompts),
            "resources/list_changed" => Some(Self::Resources),
            // Without a readable URI, any resource may be meant.
            "resources/updated" => Some(uri.map_or(Self::Resources, Self::Resource)),
            _ => None,
        }
    }
}

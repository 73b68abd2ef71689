//! Announcements of a server that something of it changed. They take effect before the next message is
//! parsed: an answer that is older than an announcement is never stored after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cachalot_operation::WriteNotifier;
use tokio::sync::watch;

use super::announcement::Announcement;
use super::server_domains::ServerDomains;

/// Handles the announcements of a server. Clones share everything.
#[derive(Clone)]
pub(super) struct Announcements {
    domains: ServerDomains,
    write_notifier: WriteNotifier,
    /// Counts the announcements that a list changed. Some servers announce unchanged lists.
    changed_lists: watch::Sender<u64>,
    /// The number of answers of a program since its start; `None` for a server that was not started here.
    answers: Option<Arc<AtomicU32>>,
}

impl Announcements {
    pub(super) fn new(domains: ServerDomains, write_notifier: WriteNotifier) -> Self {
        Self {
            domains,
            write_notifier,
            changed_lists: watch::channel(0).0,
            answers: None,
        }
    }

    /// Returns the handler for a program that is being started.
    pub(super) fn of_new_program(&self) -> Self {
        Self {
            answers: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// The names of the server's domains.
    pub(super) fn domains(&self) -> &ServerDomains {
        &self.domains
    }

    /// The counter of announcements that a list changed.
    pub(super) fn changed_lists(&self) -> &watch::Sender<u64> {
        &self.changed_lists
    }

    /// Records that the server answered a request with a result.
    pub(super) fn note_answer(&self) {
        if let Some(answers) = &self.answers {
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Expires what an announcement names.
    pub(super) fn handle(&self, announcement: &Announcement) {
        let is_resource = matches!(announcement, Announcement::Resource(_));
        if !is_resource {
            self.changed_lists.send_modify(|count| *count += 1);
        }
        // A program that registers its tools, resources and prompts when it starts announces them, too. Nothing
        // that it answered before can have changed: besides the handshake, it has answered nothing.
        let answers = self.answers.as_ref();
        let is_starting = answers.is_some_and(|answers| answers.load(Ordering::Relaxed) < 2);
        if is_resource || !is_starting {
            let raised = self.domains.raised(announcement);
            self.write_notifier.expire(&raised);
        }
    }
}

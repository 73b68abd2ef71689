//! This process's own record of writes: the domains that are being written, and their number of writes.
//!
//! The store's counters are the same information for other processes. This table needs no round trip and
//! works while the store does not.

use std::collections::HashMap;

use crate::policy::Domain;
use crate::sync::{Mutex, lock};

#[derive(Default)]
pub(crate) struct Epochs {
    domains: Mutex<HashMap<Domain, DomainCounters>>,
}

#[derive(Default, Clone, Copy)]
struct DomainCounters {
    /// Raised at the beginning and at the end of every write.
    generation: u64,
    /// Number of writes in progress, and of writes whose end the store does not know yet.
    writers: u32,
}

/// The state of a call's domains at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LocalEpochs {
    /// One generation per domain.
    pub(crate) generations: Vec<u64>,
    /// The first domain that was being written.
    pub(crate) being_written: Option<Domain>,
}

impl Epochs {
    pub(crate) fn local_epochs(&self, domains: &[Domain]) -> LocalEpochs {
        if domains.is_empty() {
            return LocalEpochs::default();
        }
        let table = lock(&self.domains);
        let mut local_epochs = LocalEpochs {
            generations: Vec::with_capacity(domains.len()),
            being_written: None,
        };
        for domain in domains {
            let local = table.get(domain).copied().unwrap_or_default();
            local_epochs.generations.push(local.generation);
            if local.writers > 0 && local_epochs.being_written.is_none() {
                local_epochs.being_written = Some(domain.clone());
            }
        }
        local_epochs
    }

    pub(crate) fn begin_write(&self, domains: &[Domain]) {
        let mut table = lock(&self.domains);
        for domain in domains {
            let local = table.entry(domain.clone()).or_default();
            local.generation += 1;
            local.writers += 1;
        }
    }

    pub(crate) fn end_write(&self, domains: &[Domain]) {
        let mut table = lock(&self.domains);
        for domain in domains {
            let local = table.entry(domain.clone()).or_default();
            local.generation += 1;
            local.writers = local.writers.saturating_sub(1);
        }
    }

    /// Ends several writes to one domain.
    pub(crate) fn end_writes(&self, domain: &Domain, writes: u32) {
        let mut table = lock(&self.domains);
        let local = table.entry(domain.clone()).or_default();
        local.generation += 1;
        local.writers = local.writers.saturating_sub(writes);
    }
}

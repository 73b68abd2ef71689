//! What this process knows of writes: which domains are being written, and how often they were.
//!
//! The memory's counters tell the same to other processes; this table needs no round trip and
//! works when the memory does not.

use std::collections::HashMap;

use crate::policy::Domain;
use crate::sync::{Mutex, lock};

#[derive(Default)]
pub(crate) struct Epochs {
    domains: Mutex<HashMap<Domain, Local>>,
}

#[derive(Default, Clone, Copy)]
struct Local {
    /// Raised at the beginning and at the end of every write.
    generation: u64,
    /// Writes under way, and writes whose end the memory has not been told yet.
    writers: u32,
}

/// The state of a call's domains at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Moment {
    /// A generation per domain.
    pub(crate) generations: Vec<u64>,
    /// The first domain that was being written.
    pub(crate) being_written: Option<Domain>,
}

impl Epochs {
    pub(crate) fn moment(&self, domains: &[Domain]) -> Moment {
        if domains.is_empty() {
            return Moment::default();
        }
        let table = lock(&self.domains);
        let mut moment = Moment {
            generations: Vec::with_capacity(domains.len()),
            being_written: None,
        };
        for domain in domains {
            let local = table.get(domain).copied().unwrap_or_default();
            moment.generations.push(local.generation);
            if local.writers > 0 && moment.being_written.is_none() {
                moment.being_written = Some(domain.clone());
            }
        }
        moment
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

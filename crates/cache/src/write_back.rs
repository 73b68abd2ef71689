//! Writes the statuses under which the files of an entry were found unchanged back to the store, so that no
//! process has to read the files again.

use std::sync::Arc;

use cachalot_store::{ErrorKind, space};
use tokio::task::JoinSet;

use crate::access::StoreAccess;
use crate::front::FrontEntry;
use crate::policy::DEFAULT_LOOKUP_TIMEOUT;
use crate::sync::{Mutex, lock};

/// Tasks that write entries back.
pub(crate) struct WriteBacks {
    access: Arc<StoreAccess>,
    running: Mutex<JoinSet<()>>,
}

impl WriteBacks {
    pub(crate) fn new(access: &Arc<StoreAccess>) -> Self {
        Self {
            access: Arc::clone(access),
            running: Mutex::default(),
        }
    }

    /// Writes an entry back in the background, if its check has read files and found them unchanged. An entry
    /// that was replaced or erased since it was read is left as it is.
    pub(crate) fn write_back(&self, front_entry: &Arc<FrontEntry>) {
        let entry = &front_entry.entry;
        if !entry.observations.take_updated() || !entry.is_worth_updating() {
            return;
        }
        let mut running = lock(&self.running);
        // Ended tasks are removed here, because nothing else awaits them before the end of the engine.
        while running.try_join_next().is_some() {}
        running.spawn(amend(Arc::clone(&self.access), Arc::clone(front_entry)));
    }

    /// Resolves when all entries are written back.
    pub(crate) async fn finish(&self) {
        let mut running = std::mem::take(&mut *lock(&self.running));
        while running.join_next().await.is_some() {}
    }
}

async fn amend(access: Arc<StoreAccess>, front_entry: Arc<FrontEntry>) {
    let Ok(store) = access.store() else { return };
    // Encoding a large answer takes long.
    let updated_record =
        tokio::task::spawn_blocking(move || front_entry.entry.updated_record()).await;
    let Ok(Ok(record)) = updated_record else {
        return;
    };
    let amending = store.amend(space::CACHE, record);
    match amending.within(DEFAULT_LOOKUP_TIMEOUT).await {
        // A store that cannot amend is not at fault: processes read the files again.
        Err(error) if error.kind != ErrorKind::Unsupported => {
            access.fault(&error);
        }
        Ok(_) | Err(_) => {}
    }
}

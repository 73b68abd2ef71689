//! Writes the statuses under which the files of an entry were found unchanged back to the store, so that no
//! process has to read the files again.

use std::sync::Arc;

use cachalot_store::{ErrorKind, space};
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::front::FrontEntry;
use crate::policy::DEFAULT_LOOKUP_TIMEOUT;
use crate::sync::{Mutex, lock};

/// Tasks that write entries back.
#[derive(Default)]
pub(crate) struct WriteBacks(Mutex<JoinSet<()>>);

impl Engine {
    /// Writes an entry back in the background, if its check has read files and found them unchanged. An entry
    /// that was replaced or erased since it was read is left as it is.
    pub(crate) fn write_back(self: &Arc<Self>, front_entry: &Arc<FrontEntry>) {
        let entry = &front_entry.entry;
        if !entry.observations.take_updated() || !entry.is_worth_updating() {
            return;
        }
        let (engine, front_entry) = (Arc::clone(self), Arc::clone(front_entry));
        let mut running = lock(&self.write_backs.0);
        while running.try_join_next().is_some() {}
        running.spawn(async move { engine.amend(front_entry).await });
    }

    async fn amend(&self, front_entry: Arc<FrontEntry>) {
        let Ok(store) = self.store() else { return };
        // Encoding a large answer takes long.
        let updated_record =
            tokio::task::spawn_blocking(move || front_entry.entry.updated_record()).await;
        let Ok(Ok(record)) = updated_record else {
            return;
        };
        let amending = store.amend(space::CACHE, record);
        match amending.within(DEFAULT_LOOKUP_TIMEOUT).await {
            Err(error) if error.kind != ErrorKind::Unsupported => {
                self.fault(&error);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Resolves when all entries are written back.
    pub(crate) async fn finish_write_backs(&self) {
        let mut running = std::mem::take(&mut *lock(&self.write_backs.0));
        while running.join_next().await.is_some() {}
    }
}

//! Writes the statuses under which the files of an entry were found unchanged back to the store, so that no
//! process has to read the files again.

use std::sync::Arc;

use cachalot_memory::{ErrorKind, space};
use tokio::task::JoinSet;

use crate::engine::Shared;
use crate::front::Fronted;
use crate::policy::DEFAULT_PATIENCE;
use crate::sync::{Mutex, lock};

/// Tasks that write entries back.
#[derive(Default)]
pub(crate) struct WriteBacks(Mutex<JoinSet<()>>);

impl Shared {
    /// Writes an entry back in the background, if its check has read files and found them unchanged. An entry
    /// that was replaced or erased since it was read is left as it is.
    pub(crate) fn write_back(self: &Arc<Self>, fronted: &Arc<Fronted>) {
        let entry = &fronted.entry;
        if !entry.watched.take_news() || !entry.is_worth_amending() {
            return;
        }
        let (shared, fronted) = (Arc::clone(self), Arc::clone(fronted));
        let mut running = lock(&self.write_backs.0);
        while running.try_join_next().is_some() {}
        running.spawn(async move { shared.amend(fronted).await });
    }

    async fn amend(&self, fronted: Arc<Fronted>) {
        let Ok(memory) = self.memory() else { return };
        // Encoding a large answer takes long.
        let amended = tokio::task::spawn_blocking(move || fronted.entry.amended()).await;
        let Ok(Ok(record)) = amended else { return };
        let amending = memory.amend(space::CACHE, record);
        match amending.within(DEFAULT_PATIENCE).await {
            Err(error) if error.kind != ErrorKind::Unsupported => {
                self.fault(&error);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Resolves when all entries are written back.
    pub(crate) async fn written_back(&self) {
        let mut running = std::mem::take(&mut *lock(&self.write_backs.0));
        while running.join_next().await.is_some() {}
    }
}

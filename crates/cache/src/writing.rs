//! Announced writes: nothing of a domain that is being written is served, joined or stored.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cachalot_memory::{Answer, space};

use crate::engine::Shared;
use crate::policy::{DEFAULT_PATIENCE, Domain};
use crate::{Cache, Failure};

/// The guard of a write. Its end raises the epochs once more; a guard that is dropped does so in the
/// background, and until the memory has been told the domain stays blocked in this process.
#[must_use = "the write ends when this is dropped"]
pub struct Writing {
    shared: Arc<Shared>,
    domains: Vec<Domain>,
    ended: bool,
}

impl Cache {
    /// Raises the domains' epochs now and again when the guard ends. In between nothing of them is
    /// served, joined or stored in this process; other processes serve nothing that is older.
    /// Raised on both sides: before only, a read that starts in between stores old bytes; after
    /// only, a crash loses it.
    pub async fn writing(&self, domains: &[Domain]) -> Writing {
        let writing = self.announce(domains);
        writing.begun().await;
        writing
    }

    /// The first half of [`Cache::writing`], at once: from now on nothing of these domains is served,
    /// joined or stored in this process. Other processes know nothing of it before [`Writing::begun`].
    pub fn announce(&self, domains: &[Domain]) -> Writing {
        self.0.epochs.begin_write(domains);
        Writing {
            shared: Arc::clone(&self.0),
            domains: domains.to_vec(),
            ended: false,
        }
    }
}

impl Shared {
    async fn raise(&self, domains: &[Domain]) -> Result<(), cachalot_memory::Error> {
        let Ok(memory) = self.memory() else {
            return Ok(());
        };
        let counters: Vec<String> = domains.iter().map(Domain::counter).collect();
        let mut raising = Vec::new();
        for counter in &counters {
            match memory.raise(space::CACHE, counter) {
                Answer::Now(raised) => {
                    raised?;
                }
                later @ Answer::Later(_) => raising.push(Box::pin(later.within(DEFAULT_PATIENCE))),
            }
        }
        // All at once: a memory that writes in batches needs one of them.
        poll_fn(|context| {
            let mut failed = None;
            raising.retain_mut(|raise| match raise.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(raised) => {
                    failed = failed.take().or(raised.err());
                    false
                }
            });
            match failed {
                Some(error) => Poll::Ready(Err(error)),
                None if raising.is_empty() => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Tries until the memory has been told, then unblocks the domains.
    async fn raise_eventually(&self, domains: &[Domain]) {
        let mut pause = Duration::from_millis(50);
        while let Err(error) = self.raise(domains).await {
            self.fault(&error);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
        self.epochs.end_write(domains);
    }
}

impl Writing {
    /// Tells the memory that the write begins. A fault is warned of.
    pub async fn begun(&self) {
        if let Err(error) = self.shared.raise(&self.domains).await {
            self.shared.fault(&error);
        }
    }

    /// Ends the write.
    ///
    /// # Errors
    /// If the memory could not be told. The domains then stay blocked in this process while it is
    /// tried again in the background; other processes may serve older answers until then.
    pub async fn done(mut self) -> Result<(), Failure> {
        match self.shared.raise(&self.domains).await {
            Ok(()) => {
                self.ended = true;
                self.shared.epochs.end_write(&self.domains);
                Ok(())
            }
            Err(error) => {
                self.shared.fault(&error);
                Err(Failure::new(error))
            }
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Without a runtime nobody can be told: the domains stay blocked, which is safe.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = Arc::clone(&self.shared);
            let domains = std::mem::take(&mut self.domains);
            runtime.spawn(async move { shared.raise_eventually(&domains).await });
        }
    }
}

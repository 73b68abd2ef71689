//! Reservations: the right to store what a run answers, held against other processes.

use std::sync::Arc;
use std::time::Duration;

use cachalot_memory::{Memory, Reserved, space};

use crate::Reason;
use crate::begin::Request;
use crate::engine::{Looked, Shared};
use crate::flight::Flight;
use crate::front::Fronted;
use crate::policy::{Join, Mode};
use crate::sync::sleep;
use crate::ticket::Ticket;

/// A reservation lasts this long and is renewed three times in that span while the run goes on: who
/// dies holding one keeps others waiting no longer than this.
const HOLD: Duration = Duration::from_secs(4);

/// Whoever waits longer than this for another process is told so.
const TELL_OF_WAITING: Duration = Duration::from_secs(1);

/// The reservation of a flight, or why it has none.
pub(crate) enum Secured {
    Held,
    /// Without a reservation: the answer is not stored.
    Unsecured(Reason),
    /// Another process was faster: here is its answer.
    Answered {
        fronted: Arc<Fronted>,
        /// Whether we waited for it while that process was at work.
        waited: bool,
    },
}

impl Request<'_> {
    /// Reserves the key, or waits for whoever has it as long as the policy says.
    pub(crate) async fn secure(
        &self,
        memory: &Arc<dyn Memory>,
        ticket: &Ticket,
        stamp: Option<u64>,
    ) -> Secured {
        let key = self.key.text();
        let asked = tokio::time::Instant::now();
        let wait = match self.policy.join {
            Join::Fleet { wait } => wait,
            Join::Alone | Join::Process => Duration::ZERO,
        };
        let mut pause = Duration::from_millis(2);
        let (mut waited, mut told) = (false, false);
        loop {
            let reserving = memory.reserve(space::CACHE, &key, &ticket.flight.labels, HOLD);
            let reserved = self.shared.ask(reserving, &self.patience).await;
            let left = match reserved {
                Err(reason) => return Secured::Unsecured(reason),
                Ok(Reserved::Held(lease)) => {
                    ticket.flight.hold(lease);
                    None
                }
                Ok(Reserved::Busy { left, .. }) => Some(left),
            };
            waited |= left.is_some();
            // Somebody may have stored since we looked.
            if let Some(fronted) = self.answer_since(stamp, memory, &key).await {
                return Secured::Answered { fronted, waited };
            }
            let Some(left) = left else {
                return Secured::Held;
            };
            if !told && asked.elapsed() >= TELL_OF_WAITING {
                told = true;
                self.tell_of_waiting();
            }
            let remaining = wait.saturating_sub(asked.elapsed());
            if remaining.is_zero() {
                return Secured::Unsecured(Reason::BusyElsewhere);
            }
            self.patience.keep_up(self.policy);
            sleep(pause.min(remaining).min(left.max(Duration::from_millis(1)))).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// The answer that was stored since the record had that stamp, unless a fresh one is wanted.
    async fn answer_since(
        &self,
        stamp: Option<u64>,
        memory: &Arc<dyn Memory>,
        key: &str,
    ) -> Option<Arc<Fronted>> {
        let unchanged = stamp.is_some() && memory.stamp(space::CACHE, key) == stamp;
        if unchanged || self.policy.mode == Mode::Refresh {
            return None;
        }
        match self.look().await {
            Looked::Hit(fronted) => Some(fronted),
            Looked::Miss(_) => None,
        }
    }

    fn tell_of_waiting(&self) {
        let name = self.call.name;
        self.shared.say(&format!(
            "{name}: waiting for another process that is at work on the same call"
        ));
    }
}

/// Keeps a reservation alive for as long as the flight holds it.
pub(crate) fn renew(
    shared: &Arc<Shared>,
    memory: &Arc<dyn Memory>,
    flight: &Arc<Flight>,
) -> tokio::task::AbortHandle {
    let (shared, memory, flight) = (
        Arc::clone(shared),
        Arc::clone(memory),
        Arc::downgrade(flight),
    );
    let renewing = tokio::spawn(async move {
        loop {
            tokio::time::sleep(HOLD / 4).await;
            let Some((flight, lease)) = flight
                .upgrade()
                .and_then(|flight| flight.lease().map(|lease| (flight, lease)))
            else {
                return;
            };
            match memory.renew(&lease, HOLD).within(HOLD / 4).await {
                Ok(true) => {}
                Ok(false) => {
                    // Another process has revoked it, or it has lapsed: the answer will not be
                    // stored, and who asks from now on may have been told of what revoked it.
                    flight.close();
                    return;
                }
                Err(error) => {
                    shared.fault(&error);
                }
            }
        }
    });
    renewing.abort_handle()
}

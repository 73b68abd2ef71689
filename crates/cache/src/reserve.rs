//! Reservations: leases on keys, held against other processes, that permit storing the answer of a run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cachalot_memory::{
    Answer, Enter, Entered, Error, Found, Label, Lease, Memory, Reserved, Stale, space,
};
use tokio::task::JoinHandle;

use crate::begin::Request;
use crate::engine::{Ask, Looked, Patience, Shared};
use crate::flight::Flight;
use crate::front::Fronted;
use crate::policy::{Join, Mode};
use crate::sync::{AbortHandle, Mutex, lock, sleep, spawn};
use crate::ticket::Ticket;
use crate::{Key, Reason};

/// The duration of a lease, which is renewed three times in that span while the run continues: a holder that
/// dies blocks other processes for no longer than this.
const HOLD: Duration = Duration::from_secs(4);

/// Maximum time to wait for a late lease in order to release it, and maximum time for the release.
pub(crate) const GIVE_BACK: Duration = Duration::from_secs(30);

/// A caller that waits longer than this for another process gets a message.
const TELL_OF_WAITING: Duration = Duration::from_secs(1);

/// The result of reserving the key of a flight.
pub(crate) enum Secured {
    Held,
    /// No reservation: the answer is not stored.
    Unsecured(Reason),
    /// Another process has stored an answer first.
    Answered {
        fronted: Arc<Fronted>,
        /// Set if the caller waited for it while that process was running the call.
        waited: bool,
    },
}

/// The reservation that a lookup returned.
pub(crate) enum Grant {
    Held(Unclaimed),
    /// Another call holds the key, for `left` if it does not renew.
    Busy {
        left: Duration,
    },
}

/// A lease that no flight holds yet. If it is dropped, it is released in the background.
pub(crate) struct Unclaimed {
    shared: Arc<Shared>,
    lease: Option<Lease>,
}

impl Unclaimed {
    /// Moves the lease to the flight, whose ticket releases it.
    pub(crate) fn claim(mut self, flight: &Flight) {
        if let Some(lease) = self.lease.take() {
            flight.hold(lease);
        }
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        let (Some(lease), Ok(_)) = (self.lease.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        spawn(async move { shared.release(lease, GIVE_BACK).await });
    }
}

/// A reservation to be made by a lookup.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) labels: &'a [Label],
    pub(crate) stale: Stale,
    /// Receives an answer that comes too late.
    pub(crate) late: &'a Late,
}

/// An answer to a lookup for which the caller has stopped waiting. Unless it is taken from here, its lease is
/// released, so that the key does not stay reserved for a call that is gone.
#[derive(Default)]
pub(crate) struct Late(Mutex<Option<JoinHandle<Option<Answered>>>>);

type Answered = (Found, Option<Grant>);

impl Late {
    /// Moves the pending answer into a new value.
    pub(crate) fn take(&self) -> Self {
        Self(Mutex::new(lock(&self.0).take()))
    }

    /// Waits for the answer; `None` if there is none, or it does not arrive in time.
    pub(crate) async fn wait(&self, time: &Patience) -> Option<Answered> {
        let answer = lock(&self.0).take()?;
        let asked = tokio::time::Instant::now();
        let answered = tokio::time::timeout(time.left(), answer).await;
        time.waited(asked.elapsed());
        answered.ok()?.ok()?
    }
}

/// The pending answer of the store to a lookup.
type Lookup = dyn Future<Output = Result<Entered, Error>> + Send;

/// A lookup in progress. If it is dropped before it is answered, it continues in the background.
struct Entering<'a> {
    shared: Arc<Shared>,
    late: &'a Late,
    /// Set when the request has been sent.
    asked: bool,
    /// `None` once the store has answered.
    answer: Option<Pin<Box<Lookup>>>,
}

impl Future for Entering<'_> {
    type Output = Result<Entered, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.asked = true;
        let Some(answer) = self.answer.as_mut() else {
            return Poll::Pending;
        };
        let answered = answer.as_mut().poll(context);
        if answered.is_ready() {
            self.answer = None;
        }
        answered
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        let answer = self.answer.take().filter(|_| self.asked);
        let (Some(answer), Ok(runtime)) = (answer, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        let waiting = runtime.spawn(async move {
            let entered = tokio::time::timeout(GIVE_BACK, answer).await;
            Some(shared.granted(entered.ok()?.ok()?))
        });
        *lock(&self.late.0) = Some(waiting);
    }
}

impl Shared {
    /// Looks a key up, and reserves it unless the record answers the call, in one round trip.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        memory: &Arc<dyn Memory>,
        key: &Key,
        counters: &[&str],
        wanted: Wanted<'_>,
        patience: &Patience,
    ) -> Result<Answered, Reason> {
        let asked = self.clock.now();
        let (memory, key) = (Arc::clone(memory), *key);
        let counters: Vec<String> = counters.iter().map(|&name| name.to_owned()).collect();
        let (labels, stale) = (wanted.labels.to_vec(), wanted.stale);
        let answer = Box::pin(async move {
            let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
            let enter = Enter {
                counters: &counters,
                labels: &labels,
                hold: HOLD,
                stale,
            };
            memory
                .enter(space::CACHE, &key.text(), enter)
                .settle()
                .await
        });
        let entering = Entering {
            shared: Arc::clone(self),
            late: wanted.late,
            asked: false,
            answer: Some(answer),
        };
        let entered = self.ask(Answer::later(entering), patience).await?;
        self.note_time(asked, entered.found.now);
        Ok(self.granted(entered))
    }

    fn granted(self: &Arc<Self>, entered: Entered) -> Answered {
        let grant = entered.reserved.map(|reserved| match reserved {
            Reserved::Held(lease) => Grant::Held(Unclaimed {
                shared: Arc::clone(self),
                lease: Some(lease),
            }),
            Reserved::Busy { left, .. } => Grant::Busy { left },
        });
        (entered.found, grant)
    }
}

impl Request<'_> {
    /// Reserves the key for the ticket's flight: takes the lease that the lookup returned, or waits for the
    /// process that holds it, for as long as the policy allows.
    pub(crate) async fn secure(
        &self,
        ticket: &Ticket,
        mut grant: Option<Grant>,
        mut revision: Option<u64>,
    ) -> Secured {
        let asked = tokio::time::Instant::now();
        let wait = match self.policy.join {
            Join::Fleet { wait } => wait,
            Join::Alone | Join::Process => Duration::ZERO,
        };
        let mut pause = Duration::from_millis(2);
        let (mut waited, mut told) = (false, false);
        loop {
            let left = match grant.take() {
                Some(Grant::Held(lease)) => {
                    lease.claim(&ticket.flight);
                    return Secured::Held;
                }
                Some(Grant::Busy { left }) => left,
                None => {
                    // The answer may have been stored since the last lookup.
                    let ask = Ask::Enter(self.wanted(&ticket.flight.labels, revision));
                    let missed = match self.look_up(ask).await {
                        Looked::Hit(fronted) => return Secured::Answered { fronted, waited },
                        Looked::Miss(missed) => missed,
                    };
                    if missed.grant.is_none()
                        && (missed.erased.is_none() || missed.revision == revision)
                    {
                        return Secured::Unsecured(missed.reason);
                    }
                    (grant, revision) = (missed.grant, missed.revision);
                    continue;
                }
            };
            waited = true;
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

    /// The reservation that the call needs: over any record if a fresh answer is requested, else over the
    /// record of this revision, which does not answer the call.
    pub(crate) fn wanted<'a>(&'a self, labels: &'a [Label], revision: Option<u64>) -> Wanted<'a> {
        let stale = match (self.policy.mode, revision) {
            (Mode::Refresh, _) => Stale::Any,
            (_, Some(revision)) => Stale::Revision(revision),
            (_, None) => Stale::None,
        };
        Wanted {
            labels,
            stale,
            late: &self.late,
        }
    }

    fn tell_of_waiting(&self) {
        let name = self.call.name;
        self.shared.say(&format!(
            "{name}: waiting for another process that is at work on the same call"
        ));
    }
}

/// Renews a reservation for as long as the flight holds it.
pub(crate) fn renew(
    shared: &Arc<Shared>,
    memory: &Arc<dyn Memory>,
    flight: &Arc<Flight>,
) -> AbortHandle {
    let (shared, memory, flight) = (
        Arc::clone(shared),
        Arc::clone(memory),
        Arc::downgrade(flight),
    );
    spawn(async move {
        loop {
            sleep(HOLD / 4).await;
            let Some((flight, lease)) = flight
                .upgrade()
                .and_then(|flight| flight.lease().map(|lease| (flight, lease)))
            else {
                return;
            };
            match memory.renew(&lease, HOLD).within(HOLD / 4).await {
                Ok(true) => {}
                Ok(false) => {
                    // Another process has revoked it, or it has expired. The answer will not be stored, and
                    // callers from now on may know of the write or erasure that revoked it, so they must not
                    // join.
                    flight.close();
                    return;
                }
                Err(error) => {
                    shared.fault(&error);
                }
            }
        }
    })
}

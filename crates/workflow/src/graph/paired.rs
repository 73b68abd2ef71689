//! Answers of memoized actions, told with the end of their node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::report::{Event, Memoized, Reporter};

/// A reporter that passes everything on, and puts what [`Event::Answered`] said of a node into the
/// [`Event::Finished`] of that node.
pub struct Paired {
    next: Arc<dyn Reporter>,
    answered: Mutex<HashMap<String, Memoized>>,
}

impl Paired {
    /// Passes on to `next`.
    #[must_use]
    pub fn new(next: Arc<dyn Reporter>) -> Self {
        Self {
            next,
            answered: Mutex::default(),
        }
    }
}

impl Reporter for Paired {
    fn report(&self, event: Event) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let event = match event {
            Event::Answered { node, memoized } => {
                answered.insert(node.clone(), memoized.clone());
                Event::Answered { node, memoized }
            }
            Event::Finished {
                node,
                time,
                memoized,
            } => {
                let memoized = memoized.or_else(|| answered.remove(&node));
                Event::Finished {
                    node,
                    time,
                    memoized,
                }
            }
            Event::Started { node } => {
                answered.remove(&node);
                Event::Started { node }
            }
            other => other,
        };
        drop(answered);
        self.next.report(event);
    }
}

//! Conversion of observations to and from [`Witnesses`], which results carry to what is built from them.

use std::sync::Arc;

use cachalot_core::Witnesses;

use super::{ObservationSet, Witness};

impl Witness {
    /// Returns the records so far, to be attached to the result of the work; unknown if the list is
    /// incomplete. Only the work itself knows if it depends on anything else.
    #[must_use]
    pub fn witnesses(&self) -> Witnesses {
        match self.incomplete() {
            Some(why) => Witnesses::unknown(&why),
            None => to_witnesses(&ObservationSet::new(self.observed())),
        }
    }

    /// Adds the witnesses of a result as they were recorded then: nothing is observed anew, so that every
    /// later change is detected. Unknown witnesses, and those that another crate recorded, make the list
    /// incomplete.
    pub fn adopt(&self, witnesses: &Witnesses) {
        let items = match witnesses.items() {
            Ok(items) => items,
            Err(why) => return self.mark_incomplete(why),
        };
        for item in items {
            match item.downcast_ref::<ObservationSet>() {
                Some(observations) => {
                    for observed in observations.current() {
                        self.note(Ok(observed));
                    }
                }
                None => self.mark_incomplete("it was built from something that cannot be checked"),
            }
        }
    }
}

/// Wraps observations as [`Witnesses`], which share the list.
pub(crate) fn to_witnesses(observations: &Arc<ObservationSet>) -> Witnesses {
    if observations.observed.is_empty() {
        Witnesses::default()
    } else {
        let observations: Arc<ObservationSet> = Arc::clone(observations);
        Witnesses::from_item(observations)
    }
}

//! What was observed, on its way to whatever is built from it.

use std::sync::Arc;

use cachalot_core::Witnesses;

use super::{Watched, Witness};

impl Witness {
    /// What has been noted so far, to travel on the result of the work; unknown if the list is not the
    /// whole truth. Only the work itself knows whether it depends on anything else.
    #[must_use]
    pub fn witnesses(&self) -> Witnesses {
        match self.spoilt() {
            Some(why) => Witnesses::unknown(&why),
            None => travelling(&Watched::new(self.observed())),
        }
    }

    /// Takes over what a result was built from, as it was observed then: nothing is looked at anew, so
    /// that whatever changed since is noticed. What is not known, or was noted by somebody else than
    /// this crate, spoils the list.
    pub fn adopt(&self, witnesses: &Witnesses) {
        let items = match witnesses.items() {
            Ok(items) => items,
            Err(why) => return self.spoil(why),
        };
        for item in items {
            match item.downcast_ref::<Watched>() {
                Some(watched) => {
                    for observed in watched.current() {
                        self.note(Ok(observed));
                    }
                }
                None => self.spoil("it was built from something that cannot be checked"),
            }
        }
    }
}

/// Observations as they travel; they share the list.
pub(crate) fn travelling(watched: &Arc<Watched>) -> Witnesses {
    if watched.observed.is_empty() {
        Witnesses::default()
    } else {
        let watched: Arc<Watched> = Arc::clone(watched);
        Witnesses::of(watched)
    }
}

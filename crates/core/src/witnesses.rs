//! Witnesses that results carry: opaque to all code that passes them on.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The witnesses of a result, in a form that only the code that records and checks them knows. Code that
/// passes a result on passes its witnesses on; code that combines results combines their witnesses with
/// [`Witnesses::join`].
#[derive(Clone)]
pub struct Witnesses(WitnessList);

#[derive(Clone)]
enum WitnessList {
    All(Vec<Arc<dyn Any + Send + Sync>>),
    Unknown(Arc<str>),
}

/// No witnesses: the result depends on nothing.
impl Default for Witnesses {
    fn default() -> Self {
        Self(WitnessList::All(Vec::new()))
    }
}

impl Witnesses {
    /// Creates the witnesses of a result whose inputs are unknown, with the reason.
    #[must_use]
    pub fn unknown(why: &str) -> Self {
        Self(WitnessList::Unknown(why.into()))
    }

    /// Creates the witnesses of a result that depends on `item` only.
    #[must_use]
    pub fn from_item(item: Arc<dyn Any + Send + Sync>) -> Self {
        Self(WitnessList::All(vec![item]))
    }

    /// Adds the witnesses of another input. Unknown witnesses stay unknown, with the first reason.
    pub fn join(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (WitnessList::All(own), WitnessList::All(others)) => own.extend(others.iter().cloned()),
            (WitnessList::All(_), WitnessList::Unknown(why)) => {
                self.0 = WitnessList::Unknown(Arc::clone(why))
            }
            (WitnessList::Unknown(_), _) => {}
        }
    }

    /// Returns the witnesses.
    ///
    /// # Errors
    /// The reason why they are unknown.
    pub fn items(&self) -> Result<&[Arc<dyn Any + Send + Sync>], &str> {
        match &self.0 {
            WitnessList::All(items) => Ok(items),
            WitnessList::Unknown(why) => Err(why),
        }
    }
}

impl fmt::Debug for Witnesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.items() {
            Ok(items) => write!(f, "Witnesses({})", items.len()),
            Err(why) => write!(f, "Witnesses(unknown: {why})"),
        }
    }
}

/// Compares by identity (`Arc::ptr_eq`), or by the reason if both are unknown.
impl PartialEq for Witnesses {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (WitnessList::All(own), WitnessList::All(others)) => {
                own.len() == others.len()
                    && own
                        .iter()
                        .zip(others)
                        .all(|(one, other)| Arc::ptr_eq(one, other))
            }
            (WitnessList::Unknown(own), WitnessList::Unknown(others)) => own == others,
            _ => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn join_keeps_all_items_and_unknown() {
        let mut joined = Witnesses::default();
        joined.join(&Witnesses::from_item(Arc::new(1_u8)));
        joined.join(&Witnesses::from_item(Arc::new(2_u8)));
        let numbers = |witnesses: &Witnesses| -> Vec<u8> {
            let items = witnesses.items().unwrap();
            items
                .iter()
                .filter_map(|item| item.downcast_ref().copied())
                .collect()
        };
        assert_eq!(numbers(&joined), [1, 2]);
        joined.join(&Witnesses::unknown("it ran a shell"));
        joined.join(&Witnesses::from_item(Arc::new(3_u8)));
        assert_eq!(joined.items().unwrap_err(), "it ran a shell");
    }
}

//! Witnesses that results carry: opaque to all code that passes them on.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The witnesses of a result, in a form that only the code that records and checks them knows. Code that
/// passes a result on passes its witnesses on; code that combines results combines their witnesses with
/// [`Witnesses::join`].
#[derive(Clone)]
pub struct Witnesses(Result<Vec<Item>, Arc<str>>);

type Item = Arc<dyn Any + Send + Sync>;

/// No witnesses: the result depends on nothing.
impl Default for Witnesses {
    fn default() -> Self {
        Self(Ok(Vec::new()))
    }
}

impl Witnesses {
    /// Creates the witnesses of a result whose inputs are unknown, with the reason.
    #[must_use]
    pub fn unknown(why: &str) -> Self {
        Self(Err(why.into()))
    }

    /// Creates the witnesses of a result that depends on `item` only.
    #[must_use]
    pub fn from_item(item: Arc<dyn Any + Send + Sync>) -> Self {
        Self(Ok(vec![item]))
    }

    /// Adds the witnesses of another input. Unknown witnesses stay unknown, with the first reason.
    pub fn join(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Ok(own), Ok(others)) => own.extend(others.iter().cloned()),
            (Ok(_), Err(why)) => self.0 = Err(Arc::clone(why)),
            (Err(_), _) => {}
        }
    }

    /// Returns the witnesses.
    ///
    /// # Errors
    /// The reason why they are unknown.
    pub fn items(&self) -> Result<&[Arc<dyn Any + Send + Sync>], &str> {
        self.0.as_deref().map_err(|why| &**why)
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
            (Ok(own), Ok(others)) => {
                own.len() == others.len()
                    && own
                        .iter()
                        .zip(others)
                        .all(|(one, other)| Arc::ptr_eq(one, other))
            }
            (Err(own), Err(others)) => own == others,
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

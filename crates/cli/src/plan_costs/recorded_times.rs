//! The times of a session's requests, which only the ledger has.

use cachalot_cache::LedgerRow;
use cachalot_core::Millis;

/// The requests of a session that were paid for, oldest first: the digests of what was sent, and the times.
#[derive(Debug, Default)]
pub(crate) struct RecordedTimes(Vec<(String, Millis)>);

impl RecordedTimes {
    /// Takes the rows of a session that exists since `created`, newest first: an earlier session may have had the same
    /// name.
    pub(crate) fn new(rows: Vec<LedgerRow>, created: Millis) -> Self {
        let rows = rows.into_iter().rev().filter(|row| row.at >= created);
        Self(rows.map(|row| (row.key, row.at)).collect())
    }

    /// Returns the times of the requests with these prefixes, in the order in which they were sent.
    ///
    /// A request is recognized by its prefix. The ledger has further ones: those of retracted messages, and those
    /// beside the conversation. For models whose keys are in another format than their requests, no prefix is recognized;
    /// the order is that of the ledger then, if it has as many requests.
    pub(super) fn of(&self, prefixes: &[String]) -> Vec<Option<Millis>> {
        let mut rest = self.0.as_slice();
        let times: Vec<Option<Millis>> = prefixes
            .iter()
            .map(|prefix| {
                let found = rest.iter().position(|(key, _)| key == prefix)?;
                let (_, at) = rest[found];
                rest = &rest[found + 1..];
                Some(at)
            })
            .collect();
        let is_recognized = times.iter().any(Option::is_some);
        if !is_recognized && self.0.len() == prefixes.len() {
            return self.0.iter().map(|(_, at)| Some(*at)).collect();
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(recorded: &[(&str, Millis)], prefixes: &[&str]) -> Vec<Option<Millis>> {
        let recorded = recorded.iter().map(|(key, at)| ((*key).to_owned(), *at));
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        RecordedTimes(recorded.collect()).of(&prefixes)
    }

    #[test]
    fn requests_are_recognized_by_their_prefixes() {
        // `x` was retracted; the first `b` was asked for again.
        let recorded = [("a", 1), ("x", 2), ("b", 3), ("b", 4), ("c", 9)];
        let all = times(&recorded, &["a", "b", "c"]);
        assert_eq!(all, [Some(1), Some(3), Some(9)]);
        let some = times(&recorded, &["a", "pruned", "c"]);
        assert_eq!(some, [Some(1), None, Some(9)]);
        assert_eq!(times(&[], &["a"]), [None]);
    }

    #[test]
    fn order_decides_if_no_prefix_is_recognized() {
        let recorded = [("a", 1), ("b", 7)];
        assert_eq!(times(&recorded, &["y", "z"]), [Some(1), Some(7)]);
        assert_eq!(times(&recorded, &["z"]), [None]);
        assert_eq!(times(&recorded, &["a", "z"]), [Some(1), None]);
    }
}

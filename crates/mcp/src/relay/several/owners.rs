//! The servers that have given identifiers, such as those of tasks, to clients.

use std::collections::HashMap;

/// Maximum number of identifiers that are remembered.
const MAX_IDENTIFIERS: usize = 4_096;

/// Identifiers by the servers that gave them. Each server makes its own, so that two may be equal.
#[derive(Default)]
pub(super) struct Owners {
    known: HashMap<String, Known>,
    /// The number of additions.
    additions: u64,
}

struct Known {
    servers: Vec<usize>,
    /// The number of the last addition.
    last: u64,
}

/// The server that an identifier is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    None,
    One(usize),
    /// More than one server has given it; these are two of them.
    Ambiguous(usize, usize),
}

impl Owners {
    /// Notes that a server has given an identifier. The one that was not given for longest is forgotten.
    pub(super) fn add(&mut self, identifier: String, server: usize) {
        self.additions += 1;
        if let Some(known) = self.known.get_mut(&identifier) {
            known.last = self.additions;
            if !known.servers.contains(&server) {
                known.servers.push(server);
            }
            return;
        }
        if self.known.len() >= MAX_IDENTIFIERS {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(identifier, _)| identifier.clone()) {
                self.known.remove(&oldest);
            }
        }
        let known = Known {
            servers: vec![server],
            last: self.additions,
        };
        self.known.insert(identifier, known);
    }

    /// Returns the server of an identifier.
    pub(super) fn of(&self, identifier: &str) -> Owner {
        let servers = self.known.get(identifier).map(|known| &known.servers[..]);
        match servers {
            None | Some([]) => Owner::None,
            Some([server]) => Owner::One(*server),
            Some([first, second, ..]) => Owner::Ambiguous(*first, *second),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn equal_identifiers_of_two_servers_are_ambiguous_and_the_oldest_is_forgotten() {
        let mut owners = Owners::default();
        for number in 0..MAX_IDENTIFIERS {
            owners.add(number.to_string(), 1);
        }
        owners.add("0".to_owned(), 2);
        owners.add("new".to_owned(), 2);
        assert_eq!(owners.of("0"), Owner::Ambiguous(1, 2));
        assert_eq!(owners.of("1"), Owner::None);
        assert_eq!(owners.of("2"), Owner::One(1));
        assert_eq!(owners.of("new"), Owner::One(2));
    }
}

//! Resolution of the nodes where parallel branches meet, and of implicit successors around branches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::agent::Target;
use super::flow::{Edge, Outgoing};

/// The connections between nodes that are needed to find where branches meet.
pub(super) struct Graph<'a> {
    outgoing: &'a [Outgoing],
    /// The first node of each branch, with the group of edges that contains the edge to it.
    heads: BTreeMap<usize, &'a [Edge]>,
}

/// The result of following a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    FanIn(usize),
    /// The order of the file leads to the first node of another branch, and thereby to the node where
    /// those branches meet.
    Wherever,
    Nothing,
}

impl<'a> Graph<'a> {
    pub(super) fn new(outgoing: &'a [Outgoing], starts: &'a [Edge]) -> Self {
        let groups = outgoing
            .iter()
            .map(|outgoing| outgoing.edges.as_slice())
            .chain([starts]);
        let heads = groups
            .flat_map(|group| heads(group).map(move |head| (head, group)))
            .collect();
        Self { outgoing, heads }
    }

    /// Returns the node where the branches that start after `node` meet.
    pub(super) fn meeting_after(&self, node: usize) -> Option<usize> {
        self.meeting_of(&self.outgoing[node].edges)
    }

    /// Returns the node where the branches of these edges meet: the `fan_in` of the edges, or the first
    /// node marked as `fan_in` that all branches reach.
    pub(super) fn meeting_of(&self, group: &[Edge]) -> Option<usize> {
        self.meeting(group, &mut BTreeSet::new())
    }

    fn meeting(&self, group: &[Edge], under_way: &mut BTreeSet<usize>) -> Option<usize> {
        let told: BTreeSet<usize> = group.iter().filter_map(|edge| edge.fan_in).collect();
        if !told.is_empty() {
            return told.first().copied().filter(|_| told.len() == 1);
        }
        let reached: BTreeSet<Reached> = heads(group)
            .map(|head| self.first_fan_in(head, under_way))
            .collect();
        let mut certain = reached
            .iter()
            .filter(|reached| **reached != Reached::Wherever);
        match (certain.next(), certain.next()) {
            (Some(Reached::FanIn(fan_in)), None) => Some(*fan_in),
            _ => None,
        }
    }

    /// Follows a branch from `head` to the first node marked as `fan_in`. Skips nodes where nested
    /// branches meet that start on the way.
    fn first_fan_in(&self, head: usize, under_way: &mut BTreeSet<usize>) -> Reached {
        let mut seen = BTreeSet::from([head]);
        let mut queue = VecDeque::from([head]);
        let mut reached = Reached::Nothing;
        while let Some(node) = queue.pop_front() {
            if self.outgoing[node].is_fan_in && node != head {
                return Reached::FanIn(node);
            }
            let successors = self.successors(node, under_way);
            if successors.is_empty() && self.heads.contains_key(&(node + 1)) {
                reached = Reached::Wherever;
            }
            queue.extend(successors.into_iter().filter(|next| seen.insert(*next)));
        }
        reached
    }

    fn successors(&self, node: usize, under_way: &mut BTreeSet<usize>) -> Vec<usize> {
        let outgoing = &self.outgoing[node];
        let targets: Vec<Target> = match &outgoing.goto {
            Some(rules) => rules.iter().map(|rule| rule.to).collect(),
            None => outgoing.edges.iter().map(|edge| edge.to).collect(),
        };
        let inner = match heads(&outgoing.edges).next() {
            Some(_) if outgoing.goto.is_none() && under_way.insert(node) => {
                let inner = self.meeting(&outgoing.edges, under_way);
                under_way.remove(&node);
                inner
            }
            Some(_) => None,
            None if targets.is_empty() => outgoing.meets,
            None => return targets.iter().filter_map(index).collect(),
        };
        match inner {
            Some(inner) if under_way.insert(inner) => {
                let after = self.successors(inner, under_way);
                under_way.remove(&inner);
                after
            }
            Some(_) => Vec::new(),
            None if targets.is_empty() => {
                let next = node + 1;
                let follows = next < self.outgoing.len() && !self.heads.contains_key(&next);
                follows.then_some(next).into_iter().collect()
            }
            None => Vec::new(),
        }
    }

    /// Returns the successor of a node without `goto` and without edges.
    pub(super) fn implicit(&self, node: usize) -> Target {
        let next = node + 1;
        if let Some(meets) = self.outgoing[node].meets {
            return Target::Node(meets);
        }
        let group = self.heads.get(&next);
        match group.map(|group| self.meeting_of(group)) {
            Some(Some(meeting)) if meeting != node => Target::Node(meeting),
            Some(_) => Target::End,
            None if next < self.outgoing.len() => Target::Node(next),
            None => Target::End,
        }
    }
}

fn index(target: &Target) -> Option<usize> {
    match target {
        Target::Node(node) => Some(*node),
        Target::End => None,
    }
}

fn heads(group: &[Edge]) -> impl Iterator<Item = usize> {
    group
        .iter()
        .filter(|edge| edge.is_parallel)
        .filter_map(|edge| index(&edge.to))
}

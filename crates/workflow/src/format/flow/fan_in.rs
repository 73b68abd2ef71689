//! Resolution of the nodes where parallel branches meet, and of implicit successors around branches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::agent::Target;
use super::{Edge, Outgoing};

/// The connections between nodes that are needed to find where branches meet.
pub(super) struct FanInGraph<'a> {
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
    OtherBranch,
    NoFanIn,
}

impl<'a> FanInGraph<'a> {
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
    pub(super) fn fan_in_after(&self, node: usize) -> Option<usize> {
        self.fan_in_of(&self.outgoing[node].edges)
    }

    /// Returns the node where the branches of these edges meet: the `fan_in` of the edges, or the first
    /// node marked as `fan_in` that all branches reach.
    pub(super) fn fan_in_of(&self, group: &[Edge]) -> Option<usize> {
        self.find_fan_in(group, &mut BTreeSet::new())
    }

    fn find_fan_in(&self, group: &[Edge], visiting: &mut BTreeSet<usize>) -> Option<usize> {
        let explicit: BTreeSet<usize> = group.iter().filter_map(|edge| edge.fan_in).collect();
        if !explicit.is_empty() {
            return explicit.first().copied().filter(|_| explicit.len() == 1);
        }
        let reached: BTreeSet<Reached> = heads(group)
            .map(|head| self.first_fan_in(head, visiting))
            .collect();
        let mut certain = reached
            .iter()
            .filter(|reached| **reached != Reached::OtherBranch);
        match (certain.next(), certain.next()) {
            (Some(Reached::FanIn(fan_in)), None) => Some(*fan_in),
            _ => None,
        }
    }

    /// Follows a branch from `head` to the first node marked as `fan_in`. Skips nodes where nested
    /// branches meet that start on the way.
    fn first_fan_in(&self, head: usize, visiting: &mut BTreeSet<usize>) -> Reached {
        let mut seen = BTreeSet::from([head]);
        let mut queue = VecDeque::from([head]);
        let mut reached = Reached::NoFanIn;
        while let Some(node) = queue.pop_front() {
            if self.outgoing[node].is_fan_in && node != head {
                return Reached::FanIn(node);
            }
            let successors = self.successors(node, visiting);
            if successors.is_empty() && self.heads.contains_key(&(node + 1)) {
                reached = Reached::OtherBranch;
            }
            queue.extend(successors.into_iter().filter(|next| seen.insert(*next)));
        }
        reached
    }

    fn successors(&self, node: usize, visiting: &mut BTreeSet<usize>) -> Vec<usize> {
        let outgoing = &self.outgoing[node];
        let targets: Vec<Target> = match &outgoing.goto {
            Some(rules) => rules.iter().map(|rule| rule.to).collect(),
            None => outgoing.edges.iter().map(|edge| edge.to).collect(),
        };
        let inner = match heads(&outgoing.edges).next() {
            Some(_) if outgoing.goto.is_none() && visiting.insert(node) => {
                let inner = self.find_fan_in(&outgoing.edges, visiting);
                visiting.remove(&node);
                inner
            }
            Some(_) => None,
            None if targets.is_empty() => outgoing.fan_in,
            None => return targets.iter().filter_map(index).collect(),
        };
        match inner {
            Some(inner) if visiting.insert(inner) => {
                let after = self.successors(inner, visiting);
                visiting.remove(&inner);
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
        if let Some(fan_in) = self.outgoing[node].fan_in {
            return Target::Node(fan_in);
        }
        let group = self.heads.get(&next);
        match group.map(|group| self.fan_in_of(group)) {
            Some(Some(fan_in)) if fan_in != node => Target::Node(fan_in),
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

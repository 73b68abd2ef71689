//! Steps of the model test.

use cachalot_core::Millis;
use cachalot_store::{
    Label, LabelMatch, Order, PageRequest, RecordFilter, Stale, ValuePart, space,
};
use proptest::prelude::*;

pub(super) const SPACES: [&str; 2] = [space::USER, space::CACHE];
pub(super) const KEYS: [&str; 7] = ["", "a", "a:1", "a:2", "a%", "b", "ä"];
pub(super) const TEXTS: [&str; 6] = ["", "x", "xy", "y", "x_", "日"];
pub(super) const PATTERNS: [&str; 6] = ["*", "x*", "*y", "x*y", "x", "*_*"];
pub(super) const NAMES: [&str; 2] = ["tag", "handle"];
pub(super) const START: Millis = 1_000_000;

#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) prefix: &'static str,
    pub(super) labels: Vec<LabelMatch<'static>>,
    pub(super) expired_before: Option<Millis>,
    pub(super) order: Order,
    pub(super) after: Option<&'static str>,
    pub(super) limit: u32,
    pub(super) labelled: bool,
    pub(super) values: bool,
}

impl Question {
    pub(super) fn filter(&self) -> RecordFilter<'_> {
        RecordFilter {
            prefix: self.prefix,
            labels: &self.labels,
            expired_before: self.expired_before,
            order: self.order,
        }
    }

    pub(super) fn page(&self) -> PageRequest<'_> {
        PageRequest {
            after: self.after.filter(|_| self.order == Order::Key),
            limit: self.limit,
            labels: self.labelled,
            values: if self.values {
                ValuePart::All
            } else {
                ValuePart::None
            },
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Put {
        space: &'static str,
        key: &'static str,
        value: Vec<u8>,
        labels: Vec<Label>,
        expires: Option<Millis>,
    },
    PutUnder {
        lease: prop::sample::Index,
        value: Vec<u8>,
    },
    Reserve {
        space: &'static str,
        key: &'static str,
        labels: Vec<Label>,
        hold: u64,
    },
    Enter {
        space: &'static str,
        key: &'static str,
        stale: Stale,
        hold: u64,
    },
    Renew {
        lease: prop::sample::Index,
        hold: u64,
    },
    Release {
        lease: prop::sample::Index,
    },
    Get {
        space: &'static str,
        key: &'static str,
        counters: Vec<&'static str>,
    },
    Find {
        space: &'static str,
        question: Question,
    },
    Erase {
        space: &'static str,
        question: Question,
    },
    Raise {
        space: &'static str,
        counter: &'static str,
    },
    Touch {
        space: &'static str,
        used: Vec<(&'static str, Millis)>,
    },
    Usage {
        space: &'static str,
    },
    Search {
        query: &'static str,
        labels: Vec<LabelMatch<'static>>,
    },
    Pass(u64),
    Reopen,
}

pub(super) fn one_of(from: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(from)
}

pub(super) fn labels() -> impl Strategy<Value = Vec<Label>> {
    prop::collection::vec(
        (one_of(&NAMES), one_of(&TEXTS)).prop_map(|(name, value)| Label::new(name, value)),
        0..4,
    )
}

pub(super) fn criteria() -> impl Strategy<Value = Vec<LabelMatch<'static>>> {
    let criterion = (0..3, one_of(&NAMES), one_of(&TEXTS), one_of(&PATTERNS)).prop_map(
        |(kind, name, text, pattern)| match kind {
            0 => LabelMatch::Is { name, value: text },
            1 => LabelMatch::Starts { name, prefix: text },
            _ => LabelMatch::Glob { name, pattern },
        },
    );
    prop::collection::vec(criterion, 0..3)
}

pub(super) fn stale() -> impl Strategy<Value = Stale> {
    prop::sample::select(vec![
        Stale::None,
        Stale::None,
        Stale::Revision(1),
        Stale::Revision(2),
        Stale::Any,
    ])
}

pub(super) fn moment() -> impl Strategy<Value = Millis> {
    START - 20..START + 200
}

pub(super) fn question() -> impl Strategy<Value = Question> {
    let orders = prop::sample::select(vec![
        Order::Key,
        Order::Key,
        Order::Newest,
        Order::LeastRecentlyUsed,
        Order::Expiry,
    ]);
    let after = prop::option::of(one_of(&KEYS));
    (
        one_of(&KEYS),
        criteria(),
        prop::option::weighted(0.3, moment()),
        orders,
        after,
        0u32..6,
        any::<(bool, bool)>(),
    )
        .prop_map(
            |(prefix, labels, expired_before, order, after, limit, (labelled, values))| Question {
                prefix,
                labels,
                expired_before,
                order,
                after,
                limit,
                labelled,
                values,
            },
        )
}

pub(super) fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        prop::sample::select(vec!["alpha beta", "beta", "alphabet", ""])
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let space = || one_of(&SPACES);
    let key = || one_of(&KEYS);
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => (space(), key(), value(), labels(), prop::option::of(moment()))
            .prop_map(|(space, key, value, labels, expires)| Step::Put { space, key, value, labels, expires }),
        4 => (index(), value()).prop_map(|(lease, value)| Step::PutUnder { lease, value }),
        5 => (space(), key(), labels(), 0u64..60)
            .prop_map(|(space, key, labels, hold)| Step::Reserve { space, key, labels, hold }),
        5 => (space(), key(), stale(), 0u64..60)
            .prop_map(|(space, key, stale, hold)| Step::Enter { space, key, stale, hold }),
        2 => (index(), 0u64..60).prop_map(|(lease, hold)| Step::Renew { lease, hold }),
        1 => index().prop_map(|lease| Step::Release { lease }),
        3 => (space(), key(), prop::collection::vec(key(), 0..6))
            .prop_map(|(space, key, counters)| Step::Get { space, key, counters }),
        6 => (space(), question()).prop_map(|(space, question)| Step::Find { space, question }),
        3 => (space(), question()).prop_map(|(space, question)| Step::Erase { space, question }),
        1 => (space(), key()).prop_map(|(space, counter)| Step::Raise { space, counter }),
        2 => (space(), prop::collection::vec((key(), moment()), 0..4))
            .prop_map(|(space, used)| Step::Touch { space, used }),
        1 => space().prop_map(|space| Step::Usage { space }),
        2 => (one_of(&["alpha", "beta alpha", "alph*", "x", "*", "a"]), criteria())
            .prop_map(|(query, labels)| Step::Search { query, labels }),
        3 => (0u64..40).prop_map(Step::Pass),
        1 => Just(Step::Reopen),
    ]
}

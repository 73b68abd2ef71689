//! Methods of stores that pass calls on to another store.

/// Implements the named methods of [`Store`](crate::Store) by those of a field of the store.
#[macro_export]
macro_rules! forward_to_store {
    (@about $field:ident) => {
        fn about(&self) -> &$crate::StoreInfo {
            self.$field.about()
        }
    };
    (@put $field:ident) => {
        fn put<'a>(
            &'a self,
            space: &'a str,
            record: $crate::Record,
            lease: Option<&'a $crate::Lease>,
            counters: &'a [(&'a str, u64)],
        ) -> $crate::StoreReply<'a, $crate::PutResult> {
            self.$field.put(space, record, lease, counters)
        }
    };
    (@put_all $field:ident) => {
        fn put_all<'a>(
            &'a self,
            condition: $crate::PutCondition<'a>,
            records: Vec<(&'a str, $crate::Record)>,
        ) -> $crate::StoreReply<'a, $crate::PutAllResult> {
            self.$field.put_all(condition, records)
        }
    };
    (@put_new $field:ident) => {
        fn put_new<'a>(
            &'a self,
            space: &'a str,
            records: Vec<$crate::Record>,
        ) -> $crate::StoreReply<'a, Vec<bool>> {
            self.$field.put_new(space, records)
        }
    };
    (@reserve $field:ident) => {
        fn reserve<'a>(
            &'a self,
            space: &'a str,
            key: &'a str,
            labels: &'a [$crate::Label],
            hold: ::std::time::Duration,
        ) -> $crate::StoreReply<'a, $crate::ReserveResult> {
            self.$field.reserve(space, key, labels, hold)
        }
    };
    (@renew $field:ident) => {
        fn renew<'a>(
            &'a self,
            lease: &'a $crate::Lease,
            hold: ::std::time::Duration,
        ) -> $crate::StoreReply<'a, bool> {
            self.$field.renew(lease, hold)
        }
    };
    (@release $field:ident) => {
        fn release(&self, lease: $crate::Lease) -> $crate::StoreReply<'_, ()> {
            self.$field.release(lease)
        }
    };
    (@find $field:ident) => {
        fn find<'a>(
            &'a self,
            space: &'a str,
            filter: &'a $crate::RecordFilter<'a>,
            page: $crate::PageRequest<'a>,
        ) -> $crate::StoreReply<'a, $crate::RecordPage> {
            self.$field.find(space, filter, page)
        }
    };
    (@erase $field:ident) => {
        fn erase<'a>(
            &'a self,
            space: &'a str,
            filter: &'a $crate::RecordFilter<'a>,
            page: $crate::PageRequest<'a>,
        ) -> $crate::StoreReply<'a, $crate::RecordPage> {
            self.$field.erase(space, filter, page)
        }
    };
    (@add $field:ident) => {
        fn add<'a>(
            &'a self,
            space: &'a str,
            additions: &'a [(&'a str, u64)],
        ) -> $crate::StoreReply<'a, Vec<u64>> {
            self.$field.add(space, additions)
        }
    };
    (@raise_to $field:ident) => {
        fn raise_to<'a>(
            &'a self,
            space: &'a str,
            counter: &'a str,
            value: u64,
        ) -> $crate::StoreReply<'a, u64> {
            self.$field.raise_to(space, counter, value)
        }
    };
    (@counters $field:ident) => {
        fn counters<'a>(
            &'a self,
            space: &'a str,
            prefix: &'a str,
            after: Option<&'a str>,
            limit: u32,
        ) -> $crate::StoreReply<'a, Vec<(String, u64)>> {
            self.$field.counters(space, prefix, after, limit)
        }
    };
    (@touch $field:ident) => {
        fn touch<'a>(
            &'a self,
            space: &'a str,
            used: &'a [(&'a str, $crate::Millis)],
        ) -> $crate::StoreReply<'a, ()> {
            self.$field.touch(space, used)
        }
    };
    (@amend $field:ident) => {
        fn amend<'a>(
            &'a self,
            space: &'a str,
            record: $crate::Record,
        ) -> $crate::StoreReply<'a, Option<u64>> {
            self.$field.amend(space, record)
        }
    };
    (@usage $field:ident) => {
        fn usage<'a>(&'a self, space: &'a str) -> $crate::StoreReply<'a, $crate::SpaceUsage> {
            self.$field.usage(space)
        }
    };
    (@stamps $field:ident) => {
        fn stamp(&self, space: &str, name: &str) -> Option<u64> {
            self.$field.stamp(space, name)
        }

        fn stamp_slot(&self, space: &str, name: &str) -> Option<usize> {
            self.$field.stamp_slot(space, name)
        }

        fn stamp_at(&self, slot: usize) -> Option<u64> {
            self.$field.stamp_at(slot)
        }
    };
    (@inspect $field:ident) => {
        fn inspect(&self) -> $crate::StoreReply<'_, Vec<$crate::Finding>> {
            self.$field.inspect()
        }
    };
    (@recall $field:ident) => {
        fn recall(&self) -> Option<&dyn $crate::Recall> {
            self.$field.recall()
        }
    };
    ($field:ident: $($method:ident)+) => {
        $($crate::forward_to_store!(@$method $field);)+
    };
}

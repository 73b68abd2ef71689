//! Methods of stores that are made from others. The signature of each method is written here once.

/// Implements the named methods of [`Store`](crate::Store) and [`Recall`](crate::Recall):
///
/// - `forward_to_store!(FIELD: …)`: by those of the store in a field;
/// - `forward_to_store!(later METHOD FIELD: …)`: by those of the store in a field of what an async method of this type
///   returns;
/// - `forward_to_store!(async: …)`: by async functions of this type with the same names and arguments;
/// - `forward_to_store!(checked: …)`: by such functions, once the request is [checked](crate::implementation::checks);
/// - `forward_to_store!(inline: …)`, `forward_to_store!(checked inline: …)`: likewise, begun by the call
///   ([`StoreReply::begun`](crate::StoreReply::begun));
/// - `forward_to_store!(now: …)`: by functions of this type that return the answer;
/// - `forward_to_store!(refuse ERROR: …)`: by an error that a method of this type returns;
/// - `forward_to_store!(intercept OPERATION: …)`: as `Interceptor` does.
#[macro_export]
macro_rules! forward_to_store {
    (@method [later $copy:ident $field:ident] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            $crate::StoreReply::later(async move {
                let copy = self.$copy().await?;
                copy.$field.$name($($argument),*).settle().await
            })
        }
    };
    (@method [async] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            $crate::StoreReply::later(Self::$name(self, $($argument),*))
        }
    };
    (@method [checked] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            $crate::StoreReply::later(async move {
                $crate::implementation::checks::$name(self.about(), $(&$argument),*)?;
                Self::$name(self, $($argument),*).await
            })
        }
    };
    (@method [now] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            $crate::StoreReply::Now(Self::$name(self, $($argument),*))
        }
    };
    (@method [inline] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            $crate::StoreReply::begun(Self::$name(self, $($argument),*))
        }
    };
    (@method [checked inline] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            $crate::StoreReply::begun(async move {
                $crate::implementation::checks::$name(self.about(), $(&$argument),*)?;
                Self::$name(self, $($argument),*).await
            })
        }
    };
    (@method [refuse $error:ident] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $(_: $kind),*) -> $crate::StoreReply<$a, $result> {
            $crate::StoreReply::Now(Err(self.$error()))
        }
    };
    (@method [intercept $operation:ident] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            let pass = move || self.inner().$name($($argument),*);
            self.intercept(StoreOperation::$operation, pass)
        }
    };
    (@method [$field:ident] $name:ident <$a:lifetime> ($($argument:ident: $kind:ty),*) -> $result:ty) => {
        fn $name<$a>(&$a self, $($argument: $kind),*) -> $crate::StoreReply<$a, $result> {
            self.$field.$name($($argument),*)
        }
    };
    (@get $how:tt) => { $crate::forward_to_store!(@method $how
        get<'a>(space: &'a str, key: &'a str, counters: &'a [&'a str]) -> $crate::GetResult); };
    (@get_or_reserve $how:tt) => { $crate::forward_to_store!(@method $how
        get_or_reserve<'a>(space: &'a str, key: &'a str, request: $crate::GetOrReserve<'a>)
            -> $crate::GetOrReserveResult); };
    (@put $how:tt) => { $crate::forward_to_store!(@method $how
        put<'a>(space: &'a str, record: $crate::Record, lease: Option<&'a $crate::Lease>, counters: &'a [(&'a str, u64)])
            -> $crate::PutResult); };
    (@put_all $how:tt) => { $crate::forward_to_store!(@method $how
        put_all<'a>(condition: $crate::PutCondition<'a>, records: Vec<(&'a str, $crate::Record)>)
            -> $crate::PutAllResult); };
    (@put_new $how:tt) => { $crate::forward_to_store!(@method $how
        put_new<'a>(space: &'a str, records: Vec<$crate::Record>) -> Vec<bool>); };
    (@reserve $how:tt) => { $crate::forward_to_store!(@method $how
        reserve<'a>(space: &'a str, key: &'a str, labels: &'a [$crate::Label], hold: ::std::time::Duration)
            -> $crate::ReserveResult); };
    (@renew $how:tt) => { $crate::forward_to_store!(@method $how
        renew<'a>(lease: &'a $crate::Lease, hold: ::std::time::Duration) -> bool); };
    (@release $how:tt) => { $crate::forward_to_store!(@method $how release<'a>(lease: $crate::Lease) -> ()); };
    (@find $how:tt) => { $crate::forward_to_store!(@method $how
        find<'a>(space: &'a str, filter: &'a $crate::RecordFilter<'a>, page: $crate::PageRequest<'a>)
            -> $crate::RecordPage); };
    (@erase $how:tt) => { $crate::forward_to_store!(@method $how
        erase<'a>(space: &'a str, filter: &'a $crate::RecordFilter<'a>, page: $crate::PageRequest<'a>)
            -> $crate::RecordPage); };
    (@add $how:tt) => { $crate::forward_to_store!(@method $how
        add<'a>(space: &'a str, additions: &'a [(&'a str, u64)]) -> Vec<u64>); };
    (@raise_to $how:tt) => { $crate::forward_to_store!(@method $how
        raise_to<'a>(space: &'a str, counter: &'a str, value: u64) -> u64); };
    (@counters $how:tt) => { $crate::forward_to_store!(@method $how
        counters<'a>(space: &'a str, prefix: &'a str, after: Option<&'a str>, limit: u32) -> Vec<(String, u64)>); };
    (@touch $how:tt) => { $crate::forward_to_store!(@method $how
        touch<'a>(space: &'a str, used: &'a [(&'a str, $crate::Millis)]) -> ()); };
    (@amend $how:tt) => { $crate::forward_to_store!(@method $how
        amend<'a>(space: &'a str, record: $crate::Record) -> Option<u64>); };
    (@usage $how:tt) => { $crate::forward_to_store!(@method $how usage<'a>(space: &'a str) -> $crate::SpaceUsage); };
    (@inspect $how:tt) => { $crate::forward_to_store!(@method $how inspect<'a>() -> Vec<$crate::Finding>); };
    (@search $how:tt) => { $crate::forward_to_store!(@method $how
        search<'a>(query: &'a str, labels: &'a [$crate::LabelMatch<'a>], limit: u32) -> Vec<$crate::RecallHit>); };
    (@about [$field:ident]) => {
        fn about(&self) -> &$crate::StoreInfo {
            self.$field.about()
        }
    };
    (@stamps [$field:ident]) => {
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
    (@recall [$field:ident]) => {
        fn recall(&self) -> Option<&dyn $crate::Recall> {
            self.$field.recall()
        }
    };
    (@each $how:tt $($method:ident)+) => {
        $($crate::forward_to_store!(@$method $how);)+
    };
    (async: $($method:ident)+) => { $crate::forward_to_store!(@each [async] $($method)+); };
    (now: $($method:ident)+) => { $crate::forward_to_store!(@each [now] $($method)+); };
    (inline: $($method:ident)+) => { $crate::forward_to_store!(@each [inline] $($method)+); };
    (checked inline: $($method:ident)+) => { $crate::forward_to_store!(@each [checked inline] $($method)+); };
    (refuse $error:ident: $($method:ident)+) => { $crate::forward_to_store!(@each [refuse $error] $($method)+); };
    (checked: $($method:ident)+) => { $crate::forward_to_store!(@each [checked] $($method)+); };
    (later $copy:ident $field:ident: $($method:ident)+) => {
        $crate::forward_to_store!(@each [later $copy $field] $($method)+);
    };
    (intercept $operation:ident: $($method:ident)+) => {
        $crate::forward_to_store!(@each [intercept $operation] $($method)+);
    };
    ($field:ident: $($method:ident)+) => { $crate::forward_to_store!(@each [$field] $($method)+); };
}

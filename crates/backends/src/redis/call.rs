//! The arguments of the script.

use cachalot_store::{LabelMatch, Order, PageRequest, RecordFilter, ValuePart};

use super::shard::Shard;

/// The arguments of an execution of the script, behind the `run_id` of the server process.
pub(super) struct Call {
    pub(super) shard: Shard,
    /// The birth of the shard that this client knows.
    pub(super) birth: Option<u64>,
    /// True if executing it twice has the effect of executing it once.
    pub(super) is_repeatable: bool,
    /// Those behind the birth.
    pub(super) arguments: Vec<Vec<u8>>,
}

impl Call {
    /// Keeps a call from being executed twice, unless this is harmless.
    pub(super) fn repeatable_if(self, is_repeatable: bool) -> Self {
        Self {
            is_repeatable,
            ..self
        }
    }

    pub(super) fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(super) fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }

    pub(super) fn number(self, number: impl std::fmt::Display) -> Self {
        self.arg(number.to_string())
    }

    /// Appends `1` and the text, or `0` and nothing.
    pub(super) fn optional(self, text: Option<&[u8]>) -> Self {
        self.arg(if text.is_some() { "1" } else { "0" })
            .arg(text.unwrap_or_default())
    }

    pub(super) fn filter(mut self, filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> Self {
        let bytes = match page.values {
            ValuePart::None => 0,
            ValuePart::First(bytes) => bytes,
            ValuePart::All => u32::MAX,
        };
        let expiry = filter.expired_before.map(|moment| moment.to_string());
        self = self
            .arg(filter.prefix)
            .arg(match filter.order {
                Order::Key => "key",
                Order::Newest => "newest",
                Order::LeastRecentlyUsed => "used",
                Order::Expiry => "expiry",
                Order::Any => "any",
            })
            .optional(expiry.as_deref().map(str::as_bytes))
            .optional(page.after.map(str::as_bytes))
            .number(page.limit)
            .number(bytes);
        for label in filter.labels {
            let (name, prefix) = label.range();
            let (kind, text) = match *label {
                LabelMatch::Is { value, .. } => ("is", value),
                LabelMatch::Starts { prefix, .. } => ("starts", prefix),
                LabelMatch::Glob { pattern, .. } => ("glob", pattern),
            };
            self = self.arg(kind).arg(name).arg(text).arg(prefix);
        }
        self
    }
}

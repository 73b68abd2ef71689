//! Cost of answers, split by what was paid for.

use cachalot_core::Cost;

/// The cost of an answer, or of several, by what was paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostByKind {
    /// Input that the provider neither read from nor wrote to its cache.
    pub input: Cost,
    /// Input that the provider read from its cache.
    pub cache_read: Cost,
    /// Input that the provider wrote to its cache.
    pub cache_write: Cost,
    /// Output.
    pub output: Cost,
    /// Tools of the provider, such as web searches.
    pub tools: Cost,
}

impl CostByKind {
    /// Returns the parts by their names in documents, in the order of reports.
    #[must_use]
    pub fn parts(self) -> [(&'static str, Cost); 5] {
        let Self {
            input,
            cache_read,
            cache_write,
            output,
            tools,
        } = self;
        [
            ("input", input),
            ("cache_read", cache_read),
            ("cache_write", cache_write),
            ("output", output),
            ("tools", tools),
        ]
    }

    /// Returns the sum.
    #[must_use]
    pub fn total(self) -> Cost {
        let mut total = Cost::default();
        self.parts().iter().for_each(|(_, part)| total += *part);
        total
    }
}

impl std::ops::AddAssign for CostByKind {
    fn add_assign(&mut self, other: Self) {
        let Self {
            input,
            cache_read,
            cache_write,
            output,
            tools,
        } = other;
        self.input += input;
        self.cache_read += cache_read;
        self.cache_write += cache_write;
        self.output += output;
        self.tools += tools;
    }
}

//! Numbers that look random and are the same every time.

/// SplitMix64.
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns true with a probability in thousandths.
    pub(super) fn permille(&mut self, times: usize) -> bool {
        self.below(1_000) < times
    }

    pub(super) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// Early ones far more often than late ones.
    pub(super) fn favour<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        let maximum = self.below(among.len()) + 1;
        &among[self.below(maximum)]
    }
}

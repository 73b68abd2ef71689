//! Random numbers of a run.

use std::sync::atomic::{AtomicU64, Ordering};

use cachalot_workflow::action::runtime::Random;

/// Random numbers that decide when a miss cleans up; nothing depends on their quality.
#[derive(Default)]
pub(crate) struct RandomNumbers(AtomicU64);

impl Random for RandomNumbers {
    fn unit(&self) -> f64 {
        let mut bytes = [0; 8];
        let bits = match getrandom::fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed),
        };
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

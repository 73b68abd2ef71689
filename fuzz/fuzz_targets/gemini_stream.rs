//! Answers of Gemini from any bytes: see `stream`.
//!
//! `cargo +nightly fuzz run gemini_stream`
#![no_main]

mod stream;

use cachalot_model::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stream::check(Format::Gemini, bytes));

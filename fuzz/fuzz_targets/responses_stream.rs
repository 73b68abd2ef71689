//! Answers of OpenAI Responses from any bytes: see `stream`.
//!
//! `cargo +nightly fuzz run responses_stream`
#![no_main]

mod stream;

use cachalot_model::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stream::check(Format::Responses, bytes));

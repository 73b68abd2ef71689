#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cachalot_fuzz::mcp_frame::check(bytes));

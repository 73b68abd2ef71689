//! Unit tests of `src/script/output_buffer.rs`.

use super::*;

#[test]
fn truncated_output_ends_at_a_character_boundary_with_a_note() {
    let mut printed = OutputBuffer::new(4);
    printed.push("aé");
    printed.push("é!");
    assert_eq!(
        printed.finish(),
        "aé\n[3 more bytes were printed and not kept]\n"
    );
}

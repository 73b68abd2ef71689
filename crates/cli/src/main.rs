//! The `cachalot` command.
fn main() {}

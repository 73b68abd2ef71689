//! Unit tests of `src/shell/programs.rs`.

use super::*;

#[test]
fn each_line_of_the_table_is_understood() {
    let mut seen = std::collections::HashSet::new();
    let text = TABLE;
    let mut last = None;
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.strip_prefix("  ") {
            Some(property) => {
                let program: &mut Program = last.as_mut().unwrap();
                assert!(program.set(property), "{line}");
                assert!(
                    program
                        .code
                        .is_none_or(|code| regex::Regex::new(code).is_ok()),
                    "{line}"
                );
            }
            None => {
                let program = Program::new(line).unwrap_or_else(|| panic!("{line}"));
                for name in program.names.split(", ") {
                    assert!(seen.insert(name), "{name} has two rows");
                }
                last = Some(program);
            }
        }
    }
    assert!(seen.len() > 300);
}

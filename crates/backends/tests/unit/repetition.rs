//! Unit tests of `src/repetition.rs`.

use cachalot_store::ErrorKind;

use super::*;

fn repeats(progress: &[Progress], is_repeatable: bool) -> usize {
    let mut repetition = Repetition::default();
    let failed = |progress: &&Progress| {
        let error = Error::new(ErrorKind::Unavailable, "ended");
        let repeated = repetition.after(error, **progress, is_repeatable);
        repeated.is_ok()
    };
    progress.iter().take_while(failed).count()
}

#[test]
fn call_that_may_have_been_executed_is_repeated_once_if_that_is_safe() {
    use Progress::{Answered, Lost, Unsent};
    assert_eq!(repeats(&[Lost, Lost], true), 1);
    assert_eq!(repeats(&[Lost, Lost], false), 0);
    assert_eq!(repeats(&[Unsent, Lost, Lost], true), 2);
    assert_eq!(repeats(&[Unsent, Lost], false), 1);
    assert_eq!(repeats(&[Unsent; 9], false), 2);
    assert_eq!(repeats(&[Answered], true), 0);
}

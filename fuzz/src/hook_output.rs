//! What handlers of hooks say, any bytes: an output or a fault, in every dialect, and no panic.
//!
//! The first byte picks the dialect, the second the event, the third the exit code.

use std::path::Path;

use cachalot_hooks::dialect::HandlerResponse;
use cachalot_hooks::{Dialect, Event, Input, source};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let [dialect, event, code, stdout @ ..] = bytes else {
        return;
    };
    let dialect = Dialect::ALL[usize::from(*dialect) % Dialect::ALL.len()];
    let events: Vec<Event> = Event::all().collect();
    let event = events[usize::from(*event) % events.len()];
    let Some(mut entry) = source::from_flag("fuzz", event, "true") else {
        return;
    };
    entry.dialect = dialect;
    entry.event_name = dialect.event_name(event).into();
    let input = Input {
        event,
        cwd: Path::new("/work").to_owned(),
        ..Input::default()
    };
    let ended = HandlerResponse {
        code: i32::from(*code % 4),
        stdout: stdout.to_vec(),
        stderr: Vec::new(),
        ..HandlerResponse::default()
    };
    // Strict or not, it says something or is at fault.
    for strict in [false, true] {
        entry.definition.strict_output = strict;
        let _ = dialect.read(&entry, &input, &ended);
    }
}

//! Status line on the terminal: shows an operation while the chat waits for it.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::render::cut;
use crate::render::style::Style;

/// Delay before the line is shown.
const STATUS_DELAY: Duration = Duration::from_millis(400);
const SPINNER_FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Assumed width of a terminal with unknown width, in characters.
const DEFAULT_WIDTH: usize = 80;

/// The status line.
pub(crate) struct Status {
    style: Style,
    waiting: Option<(String, Instant)>,
    drawn: bool,
}

impl Status {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            waiting: None,
            drawn: false,
        }
    }

    /// Starts to wait for `what`.
    pub(crate) fn wait_for(&mut self, what: &str) {
        self.clear();
        self.waiting = Some((what.to_owned(), Instant::now()));
    }

    /// Replaces the text, if an operation is waited for.
    pub(crate) fn update_text(&mut self, what: &str) {
        if let Some((waiting, _)) = &mut self.waiting {
            what.clone_into(waiting);
        }
    }

    /// Stops waiting.
    pub(crate) fn done(&mut self) {
        self.clear();
        self.waiting = None;
    }

    /// Erases the line, so that other output can be written there.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// Draws the line after the initial delay. The cursor must be on an empty line.
    pub(crate) fn draw(&mut self, width: Option<usize>) {
        let Some((what, since)) = &self.waiting else {
            return;
        };
        let elapsed = since.elapsed();
        if elapsed < STATUS_DELAY || !self.style.rewrites() {
            return;
        }
        let turned = (elapsed.as_millis() / 100) as usize % SPINNER_FRAMES.len();
        let room = width.unwrap_or(DEFAULT_WIDTH).saturating_sub(12);
        let line = format!(
            "{} {} {} s",
            SPINNER_FRAMES[turned],
            cut(what, room),
            elapsed.as_secs()
        );
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{}", self.style.dim(&line));
        let _ = stderr.flush();
        self.drawn = true;
    }
}

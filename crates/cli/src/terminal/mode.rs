//! Mode of the terminal: raw while the terminal is in use, restored on every way out.

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use super::screen::Size;
#[cfg(unix)]
use crate::disposition;

/// Reports pasted text as such, and when the terminal gets or loses the focus.
const ENTER: &str = "\x1b[?2004h\x1b[?1004h";
/// The same off, the cursor visible, and no open frame.
const LEAVE: &str = "\x1b[?1004l\x1b[?2004l\x1b[?25h\x1b[?2026l";
/// Assumed size of a terminal that does not report one.
const DEFAULT_SIZE: Size = Size {
    columns: 80,
    rows: 24,
};

/// Opens the terminal for writing: through stdout or stderr, or directly if both are redirected.
///
/// # Errors
/// There is no terminal.
pub(super) fn device() -> std::io::Result<Box<dyn Write + Send>> {
    if std::io::stdout().is_terminal() {
        return unbuffered(std::io::stdout());
    }
    if std::io::stderr().is_terminal() {
        return unbuffered(std::io::stderr());
    }
    let terminal = std::fs::File::options().write(true).open("/dev/tty")?;
    Ok(Box::new(terminal))
}

#[cfg(unix)]
fn unbuffered(stream: impl std::os::fd::AsFd) -> std::io::Result<Box<dyn Write + Send>> {
    let descriptor = stream.as_fd().try_clone_to_owned()?;
    Ok(Box::new(std::fs::File::from(descriptor)))
}

#[cfg(not(unix))]
fn unbuffered(stream: impl Write + Send + 'static) -> std::io::Result<Box<dyn Write + Send>> {
    Ok(Box::new(stream))
}

/// Returns the current size of the terminal.
pub(super) fn size() -> Size {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => Size {
            columns: columns.into(),
            rows: rows.into(),
        },
        _ => DEFAULT_SIZE,
    }
}

/// Returns false for terminals that are known not to wrap their rows anew after a resize: xterm, GNU screen and the
/// console of Linux.
pub(super) fn is_reflowing() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let is_console = std::env::var_os("TERM").is_some_and(|term| term == "linux");
    !(is_set("XTERM_VERSION") || is_set("STY") || is_console)
}

/// Raw mode of the terminal. Clones share it.
///
/// The lock is held while the mode is changed: a thread that panics leaves raw mode while another one paints, which
/// enters it again. Nothing that can panic is called under the lock, because the hook of panics takes it.
#[derive(Clone, Default)]
pub(super) struct Mode(Arc<Mutex<bool>>);

impl Mode {
    /// Enters raw mode, which a panic leaves.
    ///
    /// # Errors
    /// The terminal does not allow it.
    pub(super) fn new() -> std::io::Result<Self> {
        let mode = Self::default();
        mode.enter()?;
        let (on_panic, previous) = (mode.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            on_panic.leave();
            previous(panic);
        }));
        Ok(mode)
    }

    /// Enters raw mode, also if another process has changed the mode.
    ///
    /// # Errors
    /// The terminal does not allow it.
    pub(super) fn enter(&self) -> std::io::Result<()> {
        let mut is_raw = self.0.lock();
        // The library enters raw mode only once, even if another process has left it since.
        crossterm::terminal::disable_raw_mode()?;
        crossterm::terminal::enable_raw_mode()?;
        keep_line_ends();
        // Before the write: if that fails, `leave` still restores the mode.
        *is_raw = true;
        device()?.write_all(ENTER.as_bytes())
    }

    /// Restores the mode from before. Failures are ignored: a closed terminal needs no mode.
    pub(super) fn leave(&self) {
        let mut is_raw = self.0.lock();
        if std::mem::take(&mut *is_raw) {
            let _ = device().and_then(|mut device| device.write_all(LEAVE.as_bytes()));
            let _ = crossterm::terminal::disable_raw_mode();
        }
    }

    /// Returns true in raw mode; false after a panic.
    pub(super) fn is_raw(&self) -> bool {
        *self.0.lock()
    }
}

/// Lets the terminal still begin a new line at `\n`, for output that does not come from the screen.
#[cfg(unix)]
fn keep_line_ends() {
    use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};
    if let Ok(mut mode) = tcgetattr(std::io::stdin()) {
        mode.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &mode);
    }
}

#[cfg(not(unix))]
fn keep_line_ends() {}

/// The time in which a signal to this process takes effect: another thread may receive it.
#[cfg(unix)]
const DELIVERY: std::time::Duration = std::time::Duration::from_millis(100);

/// Stops the process, as Ctrl-Z does in a terminal that is not raw. Returns when it continues. A session
/// without a shell, which could not continue it, does not stop.
#[cfg(unix)]
pub(super) fn stop() {
    use rustix::process::{Signal, kill_current_process_group};
    let before = disposition::reset(libc::SIGTSTP);
    // The whole group, so that the shell sees a pipeline stop.
    let _ = kill_current_process_group(Signal::TSTP);
    std::thread::sleep(DELIVERY);
    before.restore(libc::SIGTSTP);
}

#[cfg(not(unix))]
pub(super) fn stop() {}

/// Ends the process as SIGQUIT does without a handler.
#[cfg(unix)]
pub(super) fn quit() -> ! {
    use rustix::process::{Signal, getpid, kill_process};
    disposition::reset(libc::SIGQUIT);
    loop {
        let _ = kill_process(getpid(), Signal::QUIT);
        std::thread::sleep(DELIVERY);
    }
}

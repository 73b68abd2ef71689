//! Dispositions of signals: their effect on this process.

use std::ptr::null;

use libc::c_int;

/// Effect of a signal on this process.
pub(crate) struct Disposition(libc::sigaction);

impl Disposition {
    /// Returns the current disposition of a signal.
    pub(crate) fn of(signal: c_int) -> Self {
        Self(exchange(signal, None))
    }

    /// Returns true if the signal has no effect.
    pub(crate) fn is_ignored(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_IGN
    }

    /// Gives a signal this effect again.
    pub(crate) fn restore(&self, signal: c_int) {
        exchange(signal, Some(&self.0));
    }
}

/// Gives a signal its default effect, unless it is ignored. Returns the disposition before.
pub(crate) fn reset(signal: c_int) -> Disposition {
    let before = Disposition::of(signal);
    if !before.is_ignored() {
        let mut default = before.0;
        default.sa_sigaction = libc::SIG_DFL;
        default.sa_flags = 0;
        exchange(signal, Some(&default));
    }
    before
}

/// Sets the disposition of a signal if one is given. Returns the one before.
fn exchange(signal: c_int, new: Option<&libc::sigaction>) -> libc::sigaction {
    let new = new.map_or(null(), std::ptr::from_ref);
    #[expect(
        unsafe_code,
        reason = "neither the standard library nor rustix sets dispositions"
    )]
    // SAFETY: the structure consists of numbers and null is a valid handler. Every `new` is a disposition that
    // the system returned, with the default handler at most in place of its own. A failure writes nothing.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, new, &raw mut before);
        before
    }
}

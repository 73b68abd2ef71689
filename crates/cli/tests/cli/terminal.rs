//! A terminal, and a command at it.
#![cfg(unix)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The time limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The output so far, and whether it can continue.
type Screen = Arc<(Mutex<(Vec<u8>, bool)>, Condvar)>;

/// A terminal with a command that runs at it.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Screen,
    child: Child,
    /// The length of the text that was matched.
    seen: usize,
}

impl Terminal {
    /// Starts the command at a terminal of its own, 100 characters wide. What of its input and output
    /// was led elsewhere by the command itself stays there.
    pub(crate) fn start(command: &mut Command) -> Self {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            File::from(rustix::fs::open(&name, flags, Mode::empty()).unwrap())
        };
        command
            .env("TERM", "xterm-256color")
            .stdin(open())
            .stdout(open())
            .stderr(open());
        #[expect(
            unsafe_code,
            reason = "a new session has to be made in the new process"
        )]
        // SAFETY: all are system calls that a new process may make before it becomes a program.
        unsafe {
            command.pre_exec(|| {
                // The tests may run under `nohup`.
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(std::io::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // Its ends of the terminal are closed with the command that has them.
        *command = Command::new("true");
        let screen = Screen::default();
        let mut output = File::from(controller.try_clone().unwrap());
        let written = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let read = output.read(&mut bytes).unwrap_or(0);
                let (text, changed) = &*written;
                let mut text = text.lock().unwrap();
                text.0.extend_from_slice(&bytes[..read]);
                text.1 |= read == 0;
                changed.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Self {
            keyboard: File::from(controller),
            screen,
            child,
            seen: 0,
        }
    }

    /// The output without control sequences.
    pub(crate) fn text(&self) -> String {
        plain(&self.raw())
    }

    /// The output, byte for byte.
    pub(crate) fn raw(&self) -> String {
        let text = self.screen.0.lock().unwrap();
        String::from_utf8_lossy(&text.0).into_owned()
    }

    /// Waits until this is written behind what was waited for last.
    #[track_caller]
    pub(crate) fn see(&mut self, expected: &str) -> &mut Self {
        let deadline = Instant::now() + TIMEOUT;
        let (text, changed) = &*self.screen;
        let mut written = text.lock().unwrap();
        loop {
            let shown = plain(&String::from_utf8_lossy(&written.0));
            if let Some(at) = shown[self.seen..].find(expected) {
                self.seen += at + expected.len();
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !written.1 && !left.is_zero(),
                "{expected:?} is not behind\n{}\n--- in\n{}",
                &shown[..self.seen],
                &shown[self.seen..]
            );
            written = changed.wait_timeout(written, left).unwrap().0;
        }
        drop(written);
        self
    }

    /// Waits until a line can be typed.
    #[track_caller]
    pub(crate) fn prompt(&mut self) -> &mut Self {
        self.see("> ")
    }

    /// Types a line.
    pub(crate) fn say(&mut self, line: &str) -> &mut Self {
        self.press(&format!("{line}\r"))
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) -> &mut Self {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Waits for the end of the command; its exit code.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(
                Instant::now() < deadline,
                "it does not end:\n{}\n--- threads\n{}",
                self.text(),
                self.threads()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The stacks of the command's threads, if the machine has a debugger.
    fn threads(&self) -> String {
        let id = self.child.id().to_string();
        let listed = Command::new("gdb")
            .args(["-p", &id, "-batch", "-ex", "thread apply all backtrace 24"])
            .output();
        listed.map_or_else(
            |error| format!("no debugger: {error}"),
            |listed| String::from_utf8_lossy(&listed.stdout).into_owned(),
        )
    }

    /// Ends the chat, which must end well; all that was written.
    #[track_caller]
    pub(crate) fn leave(&mut self) -> String {
        self.press(CTRL_D);
        assert_eq!(self.ended(), Some(0), "{}", self.text());
        let deadline = Instant::now() + TIMEOUT;
        let (text, changed) = &*self.screen;
        let mut written = text.lock().unwrap();
        while !written.1 && Instant::now() < deadline {
            written = changed
                .wait_timeout(written, Duration::from_millis(50))
                .unwrap()
                .0;
        }
        plain(&String::from_utf8_lossy(&written.0))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const UP: &str = "\u{1b}[A";

/// The text without escape sequences and carriage returns.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            // ESC [ parameters, up to a letter.
            '\u{1b}' if signs.as_str().starts_with('[') => {
                signs.next();
                signs.by_ref().find(|sign| ('@'..='~').contains(sign));
            }
            '\r' => {}
            sign => plain.push(sign),
        }
    }
    plain
}

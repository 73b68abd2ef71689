//! A terminal, and a command at it.
#![cfg(unix)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Pid, Winsize, tcgetattr, tcgetpgrp, tcsetwinsize};

/// The time limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The output so far.
struct Output {
    bytes: Vec<u8>,
    /// The start of a character that is not complete.
    incomplete: Vec<u8>,
    /// The terminal that shows it.
    shown: avt::Terminal,
    has_ended: bool,
}

type Screen = Arc<(Mutex<Output>, Condvar)>;

impl Output {
    fn new(columns: usize, rows: usize) -> Self {
        Self {
            bytes: Vec::new(),
            incomplete: Vec::new(),
            shown: avt::Terminal::with_scrollback(columns, rows, None).unwrap(),
            has_ended: false,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.incomplete.extend_from_slice(bytes);
        let length = match std::str::from_utf8(&self.incomplete) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.incomplete.split_off(length);
        let text = String::from_utf8(std::mem::replace(&mut self.incomplete, rest)).unwrap();
        self.shown.feed(text.as_str());
    }

    /// What the terminal shows, with the scrollback.
    fn text(&self) -> String {
        let text = self.shown.screen().text().join("\n");
        text.trim_end().to_owned() + "\n"
    }

    /// True unless a frame has begun and not ended.
    fn is_complete(&self) -> bool {
        let raw = String::from_utf8_lossy(&self.bytes);
        raw.rfind("\u{1b}[?2026h") <= raw.rfind("\u{1b}[?2026l")
    }

    /// The rows of the screen.
    fn view(&self) -> String {
        joined(self.shown.screen().visible_lines())
    }

    /// The rows of the scrollback and the screen.
    fn rows(&self) -> String {
        joined(self.shown.screen().all_lines())
    }
}

fn joined<'a>(rows: impl Iterator<Item = &'a avt::Line>) -> String {
    let rows: Vec<String> = rows.map(|row| row.text().trim_end().to_owned()).collect();
    rows.join("\n").trim_end().to_owned() + "\n"
}

/// A terminal with a command that runs at it.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Screen,
    child: Child,
    /// The length of the text that was matched.
    seen: usize,
    /// Set when keys were pressed since the last prompt.
    pressed: bool,
}

impl Terminal {
    /// Starts the command at a terminal of its own, 100 characters wide and 40 high. What of its input and output
    /// was led elsewhere by the command itself stays there.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::sized(command, 100, 40)
    }

    /// The same at a terminal of this size.
    pub(crate) fn sized(command: &mut Command, columns: u16, rows: u16) -> Self {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        tcsetwinsize(&controller, winsize(columns, rows)).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            File::from(rustix::fs::open(&name, flags, Mode::empty()).unwrap())
        };
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        command.stdin(open()).stdout(open()).stderr(open());
        #[expect(
            unsafe_code,
            reason = "a new session has to be made in the new process"
        )]
        // SAFETY: all are system calls that a new process may make before it becomes a program.
        unsafe {
            command.pre_exec(|| {
                // Ignored where the tests run under `nohup`, or in the background of a script.
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                let none = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(std::io::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // Its ends of the terminal are closed with the command that has them.
        *command = Command::new("true");
        let output = Output::new(columns.into(), rows.into());
        let screen: Screen = Arc::new((Mutex::new(output), Condvar::new()));
        let mut output = File::from(controller.try_clone().unwrap());
        let written = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let read = output.read(&mut bytes).unwrap_or(0);
                let (text, changed) = &*written;
                let mut text = text.lock().unwrap();
                text.add(&bytes[..read]);
                text.has_ended |= read == 0;
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
            pressed: false,
        }
    }

    /// What the terminal shows, with the scrollback.
    pub(crate) fn text(&self) -> String {
        self.screen.0.lock().unwrap().text()
    }

    /// The rows of the screen, as the terminal breaks them.
    pub(crate) fn view(&self) -> String {
        self.screen.0.lock().unwrap().view()
    }

    /// Writes on the terminal as another program would.
    pub(crate) fn scribble(&self, text: &str) {
        self.screen.0.lock().unwrap().shown.feed(text);
    }

    /// Waits until the bell has rung this often.
    #[track_caller]
    pub(crate) fn hears_bells(&mut self, count: usize) -> &mut Self {
        self.waits(|output| output.bytes.iter().filter(|byte| **byte == 7).count() == count)
    }

    /// Waits until the rows of the screen are as expected, and returns them.
    #[track_caller]
    pub(crate) fn view_when(&mut self, expected: impl Fn(&str) -> bool) -> String {
        self.taken_when(Output::view, expected)
    }

    /// The same with the rows of the scrollback: where the screen begins depends on the times of frames.
    #[track_caller]
    pub(crate) fn rows_when(&mut self, expected: impl Fn(&str) -> bool) -> String {
        self.taken_when(Output::rows, expected)
    }

    #[track_caller]
    fn taken_when(
        &mut self,
        take: impl Fn(&Output) -> String,
        expected: impl Fn(&str) -> bool,
    ) -> String {
        let taken = std::cell::RefCell::new(String::new());
        self.waits(|output| {
            taken.replace(take(output));
            output.is_complete() && expected(&taken.borrow())
        });
        taken.into_inner()
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        let mut output = self.screen.0.lock().unwrap();
        output.shown.resize(columns.into(), rows.into());
        tcsetwinsize(&self.keyboard, winsize(columns, rows)).unwrap();
        drop(output);
        self
    }

    /// Waits until the terminal shows what is expected.
    #[track_caller]
    pub(crate) fn shows(&mut self, expected: impl Fn(&str) -> bool) -> &mut Self {
        self.waits(|output| expected(&output.text()))
    }

    #[track_caller]
    fn waits(&mut self, expected: impl Fn(&Output) -> bool) -> &mut Self {
        let deadline = Instant::now() + TIMEOUT;
        let (text, changed) = &*self.screen;
        let mut written = text.lock().unwrap();
        while !expected(&written) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !written.has_ended && !left.is_zero(),
                "it is not shown:\n{}",
                written.text()
            );
            written = changed.wait_timeout(written, left).unwrap().0;
        }
        drop(written);
        self
    }

    /// Waits until the terminal shows what is expected, which may be after the end of the command.
    #[track_caller]
    pub(crate) fn shows_at_end(&self, expected: impl Fn(&str) -> bool) {
        let text = self.written_to_end().text();
        assert!(expected(&text), "it is not shown:\n{text}");
    }

    /// The output, byte for byte.
    pub(crate) fn raw(&self) -> String {
        let text = self.screen.0.lock().unwrap();
        String::from_utf8_lossy(&text.bytes).into_owned()
    }

    /// Waits until this is written behind what was waited for last.
    #[track_caller]
    pub(crate) fn see(&mut self, expected: &str) -> &mut Self {
        let deadline = Instant::now() + TIMEOUT;
        let (text, changed) = &*self.screen;
        let mut written = text.lock().unwrap();
        loop {
            let shown = plain(&String::from_utf8_lossy(&written.bytes));
            if let Some(at) = shown[self.seen..].find(expected) {
                self.seen += at + expected.len();
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !written.has_ended && !left.is_zero(),
                "{expected:?} is not behind\n{}\n--- in\n{}",
                &shown[..self.seen],
                &shown[self.seen..]
            );
            written = changed.wait_timeout(written, left).unwrap().0;
        }
        drop(written);
        self
    }

    /// Waits until the chat waits for a message.
    #[track_caller]
    pub(crate) fn prompt(&mut self) -> &mut Self {
        let deadline = Instant::now() + TIMEOUT;
        let (text, changed) = &*self.screen;
        let mut written = text.lock().unwrap();
        loop {
            let shown = plain(&String::from_utf8_lossy(&written.bytes));
            let mut at = 0;
            let ends = shown.split_inclusive(FRAME_END).filter_map(|frame| {
                at += frame.len();
                (frame.ends_with(FRAME_END) && is_idle(frame)).then_some(at)
            });
            let seen = self.seen;
            let is_new = |end: &usize| *end > seen || (*end == seen && !self.pressed);
            if let Some(end) = ends.last().filter(is_new) {
                self.seen = end;
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !written.has_ended && !left.is_zero(),
                "there is no prompt behind\n{}\n--- in\n{}",
                &shown[..self.seen],
                &shown[self.seen..]
            );
            written = changed.wait_timeout(written, left).unwrap().0;
        }
        drop(written);
        self.pressed = false;
        self
    }

    /// Answers a question with a key.
    pub(crate) fn answer(&mut self, key: &str) -> &mut Self {
        self.press("\t").press(key)
    }

    /// Types a line.
    pub(crate) fn say(&mut self, line: &str) -> &mut Self {
        self.press(&format!("{line}\r"))
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) -> &mut Self {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.pressed = true;
        self
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// The process group in the foreground of the terminal: that of the job that a shell runs.
    pub(crate) fn foreground(&self) -> Pid {
        tcgetpgrp(&self.keyboard).unwrap()
    }

    /// True if every key reaches the command at once, and is not echoed.
    pub(crate) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.keyboard).unwrap().local_modes;
        !modes.intersects(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Asserts that the terminal is as it was before the command.
    #[track_caller]
    pub(crate) fn is_restored(&mut self) -> &mut Self {
        let usual = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        let modes = tcgetattr(&self.keyboard).unwrap().local_modes;
        assert!(modes.contains(usual), "{modes:?}: {}", self.text());
        let raw = self.raw();
        let is_last = |on: &str, off: &str| raw.rfind(off) > raw.rfind(on);
        assert!(is_last("\u{1b}[?2004h", "\u{1b}[?2004l"), "pastes: {raw:?}");
        assert!(is_last("\u{1b}[?1004h", "\u{1b}[?1004l"), "focus: {raw:?}");
        assert!(is_last("\u{1b}[?2026h", "\u{1b}[?2026l"), "frame: {raw:?}");
        assert!(is_last("\u{1b}[?25l", "\u{1b}[?25h"), "cursor: {raw:?}");
        self
    }

    /// Waits for the end of the command; its exit code.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.end().code()
    }

    /// Waits until the output has ended; a process that is left behind may keep the terminal open.
    fn written_to_end(&self) -> MutexGuard<'_, Output> {
        let deadline = Instant::now() + TIMEOUT;
        let (text, changed) = &*self.screen;
        let mut written = text.lock().unwrap();
        while !written.has_ended && Instant::now() < deadline {
            written = changed
                .wait_timeout(written, Duration::from_millis(50))
                .unwrap()
                .0;
        }
        written
    }

    /// Waits for the end of the command and of its output.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let status = self.status();
        drop(self.written_to_end());
        status
    }

    #[track_caller]
    fn status(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
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
        self.text()
    }
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Stands for the end of a frame in plain text.
const FRAME_END: char = '\u{e000}';

/// Returns true if the chat waits for a message in a frame, and none is being typed.
fn is_idle(frame: &str) -> bool {
    let is_empty = |line: &str| line.trim_end_matches(FRAME_END) == "> ";
    frame.lines().any(is_empty) && !frame.contains("Esc interrupts")
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_R: &str = "\u{12}";
pub(crate) const BACK_TAB: &str = "\u{1b}[Z";
pub(crate) const CTRL_Z: &str = "\u{1a}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const ESCAPE: &str = "\u{1b}";
pub(crate) const UP: &str = "\u{1b}[A";
pub(crate) const DOWN: &str = "\u{1b}[B";

/// The text without escape sequences and carriage returns.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            // ESC [ parameters, up to a letter.
            '\u{1b}' if characters.as_str().starts_with('[') => {
                characters.next();
                let rest = characters.as_str();
                characters
                    .by_ref()
                    .find(|character| ('@'..='~').contains(character));
                if rest.starts_with("?2026l") {
                    plain.push(FRAME_END);
                }
            }
            '\r' => {}
            character => plain.push(character),
        }
    }
    plain
}

//! The mode of the terminal: `cachalot chat` restores it on every way out, and takes it over again when it
//! continues.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use rustix::process::{Signal, kill_process, kill_process_group};

use crate::provider::{Provider, SHELL};
use crate::support::Home;
use crate::terminal::{CTRL_D, CTRL_Z, Terminal};

fn home() -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("agent.yaml", SHELL);
    (home, provider)
}

fn chat(home: &Home, provider: &Provider) -> Terminal {
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    Terminal::start(&mut command)
}

/// A shell with job control, in which the chat is the job in the foreground.
pub(crate) fn chat_in_shell(home: &Home, provider: &Provider) -> Terminal {
    let mut variables = home.command(&[]);
    provider.known_to(&mut variables);
    let variables = variables
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let mut shell = Command::new("sh");
    shell
        .arg("-i")
        .current_dir(home.path())
        .env_clear()
        .envs(variables)
        .env("PS1", "shell$ ");
    let mut terminal = Terminal::start(&mut shell);
    let binary = env!("CARGO_BIN_EXE_cachalot");
    terminal
        .see("shell$ ")
        .say(&format!("'{binary}' chat --sandbox=ask agent.yaml"))
        .prompt();
    terminal
}

#[test]
fn stopping_restores_the_terminal_until_the_chat_continues() {
    let (home, provider) = home();
    for how in ["a key", "a signal to the process", "a signal to the job"] {
        let mut terminal = chat_in_shell(&home, &provider);
        assert!(terminal.is_raw(), "{how}");
        terminal.press("half").see("> half");
        let job = terminal.foreground();
        match how {
            "a key" => {
                terminal.press(CTRL_Z);
            }
            "a signal to the process" => kill_process(job, Signal::TSTP).unwrap(),
            _ => kill_process_group(job, Signal::TSTP).unwrap(),
        }
        terminal.see("shell$ ").is_restored();
        // In the background, it leaves the terminal to the shell.
        kill_process(job, Signal::CONT).unwrap();
        terminal.say("stty -a").see("\nisig icanon").see("shell$ ");
        terminal.is_restored().say("fg").see("> half");
        assert!(terminal.is_raw(), "{how}");
        // Once is enough: no second stop comes from the first signal.
        terminal.press(" a line\r").see("> half a line");
        terminal.prompt().press(CTRL_D).see("to continue: ");
        terminal.see("shell$ ").is_restored();
        terminal.say("exit").ended();
    }
}

#[test]
fn signals_that_end_the_chat_restore_the_terminal() {
    let (home, provider) = home();
    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mut terminal = chat(&home, &provider);
        terminal.prompt().press("half").see("> half");
        assert!(terminal.is_raw());
        kill_process(terminal.id(), signal).unwrap();
        let end = terminal.end();
        match signal {
            // Its usual effect, which a supervisor recognizes.
            Signal::QUIT => assert_eq!(end.signal(), Some(libc::SIGQUIT), "{end}"),
            _ => assert_eq!(end.code(), Some(0), "{end}"),
        }
        terminal.is_restored();
        // The input line is no part of what is left.
        assert!(!terminal.text().contains("> half"), "{}", terminal.text());
    }
}

#[test]
fn stop_signal_has_no_effect_where_nothing_could_continue_the_chat() {
    let (home, provider) = home();
    // The leader of a session without a shell.
    let mut terminal = chat(&home, &provider);
    terminal.prompt();
    kill_process(terminal.id(), Signal::TSTP).unwrap();
    terminal.say("hello").see("> hello").prompt();
    assert!(terminal.is_raw());
    terminal.leave();
    terminal.is_restored();
}

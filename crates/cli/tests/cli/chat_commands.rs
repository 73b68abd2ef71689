//! Commands of a chat, on a terminal and through a pipe.

use serde_json::Value;

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};

/// An agent with file tools and a shell, whose edits need no approval.
const FILES: &str = "providers: {openai: {format: chat}}
tools: {cacheToolResults: true}
agents:
  root:
    model: openai/gpt-4o
    toolsets: [{type: filesystem}, {type: shell}]
permissions:
  allow: [write_file]
  ask: ['shell:command=git *']
  deny: ['read_file:path=.env*']
";

/// A model that writes what it is told into a file, and reads files.
const WRITER: &str = r#"
rules:
  - user: 'write (\S+) to (\S+)'
    tools: [write_file]
    steps:
      - tool_calls: [{name: write_file, arguments: {path: '{{2}}', content: '{{1}}'}}]
      - text: 'It is written.'
  - user: 'read (\S+)'
    tools: [read_file]
    steps:
      - tool_calls: [{name: read_file, arguments: {path: '{{1}}'}}]
      - text: 'It says: {{last_result}}'
otherwise: {text: 'I was told: {{user}}'}
"#;

fn with(model: &str, agent: &str) -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(model));
    home.write("agent.yaml", agent);
    (home, provider)
}

fn command(home: &Home, provider: &Provider, arguments: &[&str]) -> CommandOutput {
    home.ask(provider, &[&["agent.yaml"], arguments].concat(), "")
}

#[test]
fn names_of_files_are_no_prompts() {
    let (home, provider) = with(SCRIPTED_MODEL, SHELL);
    home.write("other.yaml", SHELL);
    home.write("README.md", "text");
    std::fs::create_dir(home.join("src")).unwrap();
    for (arguments, what) in [
        (&["agent.yaml", "other.yaml"][..], "`other.yaml` is a file"),
        (&["agent.yaml", "-p", "README.md"], "`README.md` is a file"),
        (&["agent.yaml", "src"], "`src` is a directory"),
        (&["src"], "`src` is a directory"),
        (
            &["agent.yaml", "gone.yml"],
            "`gone.yml` is the name of a file",
        ),
        (&["notes.md"], "`notes.md` is the name of a file"),
        (&["./notes"], "`./notes` is the name of a file"),
    ] {
        let ran = home.ask(&provider, arguments, "").fails(2);
        let message = format!("{what}, and would be sent as the prompt");
        assert!(ran.stderr.contains(&message), "{arguments:?}: {ran}");
        assert!(ran.unwrapped().contains("@"), "{ran}");
    }
    assert!(provider.received().is_empty());
    for prompt in [" README.md", "README.md?", "hello"] {
        let ran = command(&home, &provider, &[prompt]).ok();
        assert_eq!(ran.stdout, format!("I was told: {prompt}\n"), "{ran}");
    }
}

#[test]
fn commands_work_through_a_pipe_or_say_why_not() {
    let (home, provider) = with(WRITER, FILES);
    for (line, expected) in [
        ("/help", "!COMMAND runs a command line"),
        ("/tools", "read_file"),
        ("/agent", "* root"),
        ("/mcp", "there are no MCP servers"),
        (
            "/permissions",
            "others are refused, because no user is present",
        ),
    ] {
        // As an argument, and on stdin.
        let ran = command(&home, &provider, &["-p", line]).ok();
        assert!(ran.stdout.contains(expected), "{line}: {ran}");
        let ran = home.ask(&provider, &["agent.yaml"], &format!("{line}\n"));
        assert!(ran.ok().stdout.contains(expected), "{line}");
    }
    for (line, why) in [
        ("!ls", "here, your shell runs it"),
        ("/new", "ends after its answer"),
        ("/model openai/gpt-4o", "`--model` chooses the model"),
        ("/rewind", "`/retract` takes back the last message"),
        ("/btw how?", "needs a chat on a terminal"),
        ("/tool", "did you mean `/tools`"),
        ("/export", "the conversation is empty"),
        ("/fork", "the conversation is empty"),
    ] {
        let ran = command(&home, &provider, &["-p", line]);
        assert_ne!(ran.code, Some(0), "{line}: {ran}");
        assert!(ran.unwrapped().contains(why), "{line}: {ran}");
    }
    assert!(provider.received().is_empty());
    assert_eq!(home.run(&["sessions", "ls"]).stdout.lines().count(), 0);
    // A message.
    let ran = command(&home, &provider, &["-p", " /help"]).ok();
    assert_eq!(ran.stdout, "I was told:  /help\n");
    let ran = home.ask(&provider, &["agent.yaml"], "/help\nis what?").ok();
    assert_eq!(ran.stdout, "I was told: /help\nis what?\n");
    let ran = command(&home, &provider, &["--json", "-p", "/agent"]).ok();
    assert_eq!(ran.json()["answer"], "* root", "{ran}");
}

#[test]
fn sessions_are_exported_forked_and_retracted_through_a_pipe() {
    let (home, provider) = with(WRITER, FILES);
    let ran = command(&home, &provider, &["-p", "write <b>deep</b> to a.txt"]).ok();
    let id = session(&ran);
    let resumed = |line: &str| command(&home, &provider, &["--resume", &id, "-p", line]);
    let ran = resumed("/export out.md").ok();
    assert!(ran.stdout.contains("exported 4 messages to "), "{ran}");
    let text = std::fs::read_to_string(home.join("out.md")).unwrap();
    for expected in [
        "# Chat with root\n",
        "\n## User\n\n> write \\<b>deep\\</b> to a.txt\n",
        "\n## Assistant\n\ncall of write_file:\n\n```text\n",
        "\n> It is written.\n",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    resumed("/export page.html").ok();
    let page = std::fs::read_to_string(home.join("page.html")).unwrap();
    assert!(page.contains("write &lt;b&gt;deep&lt;/b&gt;"), "{page}");
    assert!(page.contains("default-src 'none'"), "{page}");
    for (file, why) in [
        ("out.md", "`out.md` exists, and is not overwritten"),
        ("out.txt", "end the name with .md"),
        ("none/out.md", "`none/out.md` cannot be written"),
    ] {
        let ran = resumed(&format!("/export {file}")).fails(1);
        assert!(ran.stderr.contains(why), "{ran}");
    }
    assert_eq!(std::fs::read_to_string(home.join("out.md")).unwrap(), text);
    let requests = provider.received().len();
    let fork = resumed("/fork").ok().stdout.trim().to_owned();
    assert_ne!(fork, id);
    let ran = resumed("/retract").ok();
    assert!(ran.stdout.contains("taken back: \"write <b>"), "{ran}");
    assert_eq!(provider.received().len(), requests);
    // The fork has the conversation, byte for byte: the provider checks that.
    command(&home, &provider, &["--resume", &fork, "-p", "read a.txt"]).ok();
    let asked = provider.received().last().unwrap().json();
    let messages = asked["messages"].as_array().unwrap();
    let first = messages.iter().find(|message| message["role"] == "user");
    let text = |message: Option<&Value>| message.unwrap()["content"].to_string();
    assert!(text(first).contains("deep"), "{asked}");
    let listed = home.run(&["sessions", "ls"]).ok().stdout;
    // A session without its only message is still there: its name is known to the user.
    for id in [&fork, &id] {
        assert!(listed.contains(id.as_str()), "{listed}");
    }
    resumed("And now?").ok();
}

#[cfg(unix)]
#[test]
fn signals_end_commands_through_a_pipe() {
    use std::process::{Child, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use crate::support::wait_until;

    let (home, provider) = with(SCRIPTED_MODEL, SHELL);
    let id = session(&command(&home, &provider, &["-p", "hello"]).ok());
    let begin = |arguments: &[&str], url: &str| {
        let mut command = home.command(&[&["chat", "agent.yaml"], arguments].concat());
        command.env("OPENAI_BASE_URL", url);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let interrupt = |child: Child, why: &str| {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let child = std::cell::RefCell::new(child);
        wait_until(|| child.borrow_mut().try_wait().unwrap().is_some());
        let ran: CommandOutput = child.into_inner().wait_with_output().unwrap().into();
        let ran = ran.fails(130);
        assert!(ran.unwrapped().contains(why), "{ran}");
    };
    // A provider that does not answer.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let child = begin(&["--resume", &id, "-p", "/compact"], &url);
    let request = silent.accept().unwrap();
    let why = format!("interrupted: to continue, cachalot chat agent.yaml --resume {id}");
    interrupt(child, &why);
    drop(request);
    // A tool call of a command of the agent, before its message.
    let commands = r#"commands: {mk: '${shell({cmd: "touch begun; sleep 300"})}'}"#;
    home.write("agent.yaml", format!("{SHELL}    {commands}\n"));
    let child = begin(&["--yes", "--sandbox=off", "-p", "/mk"], &url);
    wait_until(|| home.join("begun").exists());
    interrupt(child, "interrupted: nothing of it is kept");
}

#[cfg(unix)]
mod at_a_terminal {
    use super::*;
    use crate::terminal::{CTRL_C, Terminal};

    fn chat(home: &Home, provider: &Provider, arguments: &[&str]) -> Terminal {
        let mut command = home.command(&[&["chat", "agent.yaml"], arguments].concat());
        provider.known_to(&mut command);
        Terminal::start(&mut command)
    }

    fn read(home: &Home, path: &str) -> String {
        std::fs::read_to_string(home.join(path)).unwrap()
    }

    #[test]
    fn commands_of_the_user_run_and_their_output_is_sent() {
        let (home, provider) = with(WRITER, FILES);
        home.write("notes.md", "first");
        let mut terminal = chat(&home, &provider, &[]);
        terminal.prompt().say("read notes.md").see("It says: ");
        terminal.prompt().say("read notes.md").see("hit");
        // It may have changed anything.
        terminal.see("It says: ").prompt().say("!true").prompt();
        terminal.say("read notes.md").see("ran").see("It says: ");
        // The question about it is for agents, and nothing is sent now.
        terminal
            .prompt()
            .say("!seq 1 20 && echo second > notes.md && git --version >&2")
            .see("    1\n    2\n    3\n    4\n    5\n    6\n    7\n")
            .see("    20\n")
            .see("    git version");
        terminal.prompt().say("!exit 3").see("    [exit status 3]");
        assert_eq!(read(&home, "notes.md"), "second\n");
        let asked = provider.received().len();
        assert_eq!(asked, 6);
        terminal.prompt().say("hello").see("I was told: hello");
        let message = provider.received()[asked].json()["messages"].to_string();
        for expected in [
            "hello\\n\\n<ran command=",
            "\\n19\\n20\\n",
            "[exit status 3]\\n</ran>",
        ] {
            assert!(message.contains(expected), "{expected}: {message}");
        }
        // Sent once, and a result from before the command is not served.
        terminal.prompt().say("read notes.md").see("second");
        let last = provider.received().last().unwrap().json();
        let users = last["messages"].as_array().unwrap().iter();
        let users = users.filter(|message| message["role"] == "user");
        let with_output = users.filter(|user| user.to_string().contains("exit status 3"));
        assert_eq!(with_output.count(), 1);
        terminal
            .prompt()
            .say("!sleep 100")
            .see("shell sleep 100")
            .press(CTRL_C)
            .see("interrupted");
        terminal.prompt().say("!").see("! takes a command line");
        terminal.prompt().say("!touch gone").see("exit status 0");
        terminal.prompt().say("/new").see("session ");
        terminal
            .prompt()
            .say("hello again")
            .see("I was told: hello again");
        let last = provider.received().last().unwrap().json().to_string();
        assert!(!last.contains("<ran command"), "{last}");
        terminal.prompt().leave();
    }

    #[test]
    fn first_message_of_the_command_line_may_be_a_command() {
        let (home, provider) = with(WRITER, FILES);
        let mut terminal = chat(&home, &provider, &["/tools"]);
        terminal.see("read_file").prompt().leave();
        assert!(provider.received().is_empty());
    }

    #[test]
    fn rules_are_listed_in_their_order_with_their_places() {
        let (home, provider) = with(SCRIPTED_MODEL, FILES);
        let configuration = home.join("configuration");
        home.write(
            "configuration/cachalot/permissions.yaml",
            "allow: ['shell:command=ls *']\n",
        );
        let mut command = home.command(&["chat", "agent.yaml"]);
        provider.known_to(&mut command);
        command.env("XDG_CONFIG_HOME", &configuration);
        let mut terminal = Terminal::start(&mut command);
        terminal
            .prompt()
            .say("run echo one")
            .see("allow it?")
            .answer("a")
            .see("It said: one");
        terminal.prompt().say("/permissions");
        for expected in [
            "the first rule that matches a call decides:",
            "deny  read_file:path=.env*",
            "agent.yaml:10:10",
            "ask   shell:command=git *",
            "agent.yaml:9:9",
            "allow write_file",
            "allow shell:command=ls *",
            "permissions.yaml:1:9",
            "allow shell:command=echo *",
            "your answer in this chat, for root",
            "without a rule: tools that only read run; others are asked about",
        ] {
            terminal.see(expected);
        }
        terminal.prompt().press("\u{1b}[Z").see("accept edits");
        terminal.say("/permissions").see("edits of files run");
        terminal.prompt().leave();
    }

    #[test]
    fn rewind_takes_back_messages_and_files_of_tools() {
        let (home, provider) = with(WRITER, FILES);
        // A request after `/rewind` does not continue the one before it.
        let provider = provider.accepting_anything();
        home.write("a.txt", "zero");
        let mut terminal = chat(&home, &provider, &[]);
        terminal
            .prompt()
            .say("/rewind")
            .see("there is no turn to take back here");
        for word in ["one", "two"] {
            for file in ["a.txt", "new.txt"] {
                terminal
                    .prompt()
                    .say(&format!("write {word} to {file}"))
                    .see("It is written.");
            }
        }
        terminal
            .prompt()
            .say("/rewind")
            .see("taken back: \"write two to new.txt\" and 3 messages behind it")
            .see("brought back: new.txt");
        assert_eq!(read(&home, "new.txt"), "one");
        // Somebody else has written to the file since.
        home.write("a.txt", "theirs");
        terminal
            .prompt()
            .say("/rewind")
            .see("taken back: \"write two to a.txt\"")
            .see("not brought back: `a.txt`: it was changed by something else since");
        assert_eq!(read(&home, "a.txt"), "theirs");
        // Tried once more, and then the turn before.
        home.write("a.txt", "two");
        terminal
            .prompt()
            .say("/rewind")
            .see("no message had to be taken back")
            .see("brought back: a.txt");
        assert_eq!(read(&home, "a.txt"), "one");
        terminal
            .prompt()
            .say("/rewind")
            .see("taken back: \"write one to new.txt\"")
            .see("removed, because it was new: new.txt");
        assert!(!home.join("new.txt").exists());
        terminal.prompt().say("hello").see("I was told: hello");
        let last = provider.received().last().unwrap().json();
        let users = last["messages"].as_array().unwrap().iter();
        let users = users.filter(|message| message["role"] == "user");
        assert_eq!(users.count(), 2, "{last}");
        // What belongs to another conversation stays.
        terminal.prompt().say("/new").see("session ");
        terminal
            .prompt()
            .say("/rewind")
            .see("there is no turn to take back here");
        assert_eq!(read(&home, "a.txt"), "one");
        terminal.prompt().leave();
    }

    #[test]
    fn a_command_of_the_agent_is_one_turn() {
        let agent = FILES.replace(
            "    toolsets:",
            "    commands: {mk: 'Say it ${write_file({path: \"made.txt\", content: \"x\"})}'}\n    toolsets:",
        );
        let (home, provider) = with(WRITER, &agent);
        let mut terminal = chat(&home, &provider, &[]);
        terminal.prompt().say("/mk").see("I was told: Say it");
        assert_eq!(read(&home, "made.txt"), "x");
        terminal
            .prompt()
            .say("/rewind")
            .see("taken back: \"Say it")
            .see("removed, because it was new: made.txt");
        assert!(!home.join("made.txt").exists());
        terminal
            .prompt()
            .say("/rewind")
            .see("there is no turn to take back here");
        terminal.prompt().leave();
    }

    #[test]
    fn a_fork_continues_and_the_session_stays() {
        let (home, provider) = with(WRITER, FILES);
        let mut terminal = chat(&home, &provider, &[]);
        terminal
            .prompt()
            .say("/fork")
            .see("the conversation is empty");
        terminal.prompt().say("one").see("I was told: one");
        terminal.prompt().say("/session").see("-");
        terminal
            .prompt()
            .say("/fork")
            .see(" returns to the one before");
        terminal.prompt().say("two").see("I was told: two");
        let requests = provider.received();
        let bodies: Vec<String> = requests
            .iter()
            .map(|request| String::from_utf8_lossy(&request.body).into_owned())
            .collect();
        let end = bodies[0].find("one").unwrap() + "one".len();
        assert_eq!(bodies[0][..end], bodies[1][..end]);
        terminal.prompt().leave();
        let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
        let sessions = listed.as_array().unwrap();
        let mut messages: Vec<u64> = sessions
            .iter()
            .map(|session| session["messages"].as_u64().unwrap())
            .collect();
        messages.sort_unstable();
        assert_eq!(messages, [2, 4], "{listed}");
    }
}

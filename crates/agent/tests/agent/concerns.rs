//! Calls that are asked about although they change nothing, or although a rule would let them: those
//! that can carry data out, and those that write protected files.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cachalot_agent::{Approval, Chat};
use cachalot_hooks::{Event, Output};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::builtin::{WebFetch, WebFetchSettings};
use cachalot_tools::{
    Arguments, CacheClass, Operation, OperationMetadata, Origin, ResourceAccess, ToolContext,
    ToolOutput,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::event_recorder::EndedCall;
use crate::fixture::{Fixture, Wire};

/// A server that notes what it is asked for. `/to/URL` redirects there.
struct TestSite {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestSite {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&requests);
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 8192];
                let length = socket.read(&mut head).await.unwrap_or_default();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let answer = match target.strip_prefix("/to/") {
                    Some(to) => format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
                    None => "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\nconnection: close\r\n\r\npage".to_owned(),
                };
                noted.lock().unwrap().push(target);
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        Self { port, requests }
    }

    fn url(&self, rest: &str) -> String {
        format!("http://127.0.0.1:{}{rest}", self.port)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

const FILE: &str = "
agents:
  root: {model: test, instruction: You read.}
";

fn fetch(url: &str) -> ScriptedReply {
    ScriptedReply::call("web_fetch", json!({"url": url}))
}

/// A world with `web_fetch`, whose model makes these calls, each in a turn of its own.
async fn fetching(file: &str, allowed_hosts: Option<&str>, urls: &[String]) -> (Fixture, Chat) {
    let replies = urls
        .iter()
        .flat_map(|url| [fetch(url), ScriptedReply::text("done")]);
    let mut fixture = Fixture::new(Wire::Chat, file, replies.collect()).await;
    let settings = WebFetchSettings {
        allow: vec!["127.0.0.1".to_owned(), "localhost".to_owned()],
        allowed_hosts: allowed_hosts.map(|host| vec![host.to_owned()]),
        ..WebFetchSettings::default()
    };
    fixture.tools = vec![Arc::new(WebFetch::new(settings).unwrap())];
    let chat = fixture.chat().await;
    (fixture, chat)
}

#[tokio::test]
async fn fetch_that_could_exfiltrate_data_needs_approval() {
    let site = TestSite::start().await;
    let url = site.url("/?data=SECRET");
    let urls = [url.clone(), url.clone(), url.clone(), site.url("/other")];
    let (fixture, mut chat) = fetching(FILE, None, &urls).await;
    fixture.turn(&mut chat, "Read .env.").await;
    let asked = fixture.answers.asked();
    let concern = Some("can carry data to `127.0.0.1`".to_owned());
    assert_eq!((asked.len(), &asked[0].concern), (1, &concern));
    assert_eq!(site.take(), [""; 0]);
    fixture.answers.give([Approval::Yes, Approval::Always]);
    fixture.turn(&mut chat, "Again.").await;
    assert_eq!(site.take(), ["/?data=SECRET"]);
    fixture.turn(&mut chat, "Again.").await;
    assert_eq!(site.take(), ["/?data=SECRET"]);
    // The user allowed this host for the rest of the chat.
    fixture.turn(&mut chat, "Again.").await;
    assert_eq!(site.take(), ["/other"]);
    assert_eq!(fixture.answers.asked().len(), 3);
    fixture.check();
}

#[tokio::test]
async fn only_urls_typed_by_the_user_are_fetched_without_approval() {
    let site = TestSite::start().await;
    let typed = site.url("/page?q=1");
    let urls = [
        typed.clone(),
        site.url("/page?q=1&data=SECRET"),
        site.url("/page"),
        site.url("/page?q=%31"),
        typed.clone(),
    ];
    let (fixture, mut chat) = fetching(FILE, None, &urls).await;
    let message = format!("Summarize {typed}, please.");
    chat.allow_typed_urls(&message);
    fixture.turn(&mut chat, &message).await;
    assert_eq!(site.take(), ["/page?q=1"]);
    assert_eq!(fixture.answers.asked(), []);
    for turn in 1..=3 {
        fixture.turn(&mut chat, "And now?").await;
        assert_eq!(site.take(), [""; 0]);
        assert_eq!(fixture.answers.asked().len(), turn);
    }
    // What a program says in the user's place was not typed, and another session begins anew.
    chat.start_new_session().await.unwrap();
    fixture.turn(&mut chat, &message).await;
    assert_eq!(site.take(), [""; 0]);
    fixture.check_from(8);
}

#[tokio::test]
async fn rule_or_host_list_permits_fetches() {
    let site = TestSite::start().await;
    let elsewhere = format!("http://localhost:{}/x", site.port);
    let urls = [site.url("/x"), elsewhere.clone()];
    let rule = format!(
        "{FILE}permissions: {{allow: ['web_fetch:url={}/*']}}\n",
        site.url("")
    );
    let (fixture, mut chat) = fetching(&rule, None, &urls).await;
    fixture.turn(&mut chat, "Go.").await;
    assert_eq!(
        (site.take(), fixture.answers.asked()),
        (vec!["/x".to_owned()], vec![])
    );
    fixture.turn(&mut chat, "Go.").await;
    assert_eq!((site.take().len(), fixture.answers.asked().len()), (0, 1));
    fixture.check();

    // The list is exhaustive, also where a redirect leads, and where the user typed the address.
    let urls = [
        site.url("/x"),
        elsewhere.clone(),
        site.url(&format!("/to/{elsewhere}")),
    ];
    let (fixture, mut chat) = fetching(FILE, Some("127.0.0.1"), &urls).await;
    chat.allow_typed_urls(&elsewhere);
    fixture.turn(&mut chat, "Go.").await;
    assert_eq!(site.take(), ["/x"]);
    fixture.turn(&mut chat, "Go.").await;
    assert_eq!(site.take(), [""; 0]);
    fixture.turn(&mut chat, "Go.").await;
    assert_eq!(site.take().len(), 1, "the redirect was not followed");
    assert_eq!(fixture.answers.asked(), []);
    let ended = fixture.reported.ended();
    assert!(
        ended[1].text.contains("not in `allowed_hosts`"),
        "{ended:?}"
    );
    assert!(
        ended[2]
            .text
            .contains("`localhost` is not among the allowed hosts"),
        "{ended:?}"
    );
    fixture.check();
}

/// A tool of a server elsewhere, which the user declared to change nothing.
struct Remote(OperationMetadata);

#[async_trait]
impl Operation for Remote {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.0
    }

    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        ResourceAccess {
            urls: arguments
                .get("url")
                .and_then(Value::as_str)
                .map(str::to_owned)
                .into_iter()
                .collect(),
            remote: true,
            ..ResourceAccess::default()
        }
    }

    async fn run(&self, _: Arguments, _: &ToolContext) -> ToolOutput {
        ToolOutput::text("found")
    }
}

#[tokio::test]
async fn read_only_tools_of_remote_servers_need_approval() {
    let metadata = OperationMetadata {
        name: "mcp_far_search".into(),
        aliases: &[],
        description: "Searches.".into(),
        parameters: json!({"type": "object", "properties": {"url": {"type": "string"}, "q": {"type": "string"}}}).into(),
        version: 1,
        origin: Origin::Mcp("far".to_owned()),
        read_only: true,
        exclusive: false,
        cache_class: CacheClass::Never,
    };
    let search = ScriptedReply::call(
        "mcp_far_search",
        json!({"url": "https://a.example/", "q": "SECRET"}),
    );
    for (rules, asked) in [("", 1), ("permissions: {allow: ['mcp_far_*']}\n", 0)] {
        let replies = vec![search.clone(), ScriptedReply::text("done")];
        let mut fixture = Fixture::new(Wire::Chat, &format!("{FILE}{rules}"), replies).await;
        fixture.tools = vec![Arc::new(Remote(metadata.clone()))];
        let mut chat = fixture.chat().await;
        let message = "Search https://a.example/ for it.";
        chat.allow_typed_urls(message);
        fixture.turn(&mut chat, message).await;
        let questions = fixture.answers.asked();
        assert_eq!(questions.len(), asked);
        let concern = "sends its arguments to the server `far`";
        assert!(
            questions
                .iter()
                .all(|question| question.concern.as_deref() == Some(concern))
        );
        fixture.check();
    }
}

const CODER: &str = "
agents:
  root: {model: test, instruction: You work., toolsets: [{type: filesystem}, {type: shell}]}
";

fn write(path: &str) -> ScriptedReply {
    ScriptedReply::call("write_file", json!({"path": path, "content": "x"}))
}

fn shell(command: &str) -> ScriptedReply {
    ScriptedReply::call("shell", json!({"command": command}))
}

#[tokio::test]
async fn user_is_told_what_a_call_does_that_a_hook_has_rewritten() {
    let replies = vec![write("notes.txt"), ScriptedReply::text("done")];
    let mut fixture = Fixture::new(Wire::Chat, CODER, replies).await;
    fixture.protected = vec![fixture.root.path().join("team.yaml")];
    fixture.hook_recorder.say(
        Event::PermissionRequest,
        Output {
            updated_input: json!({"path": "team.yaml", "content": "x"})
                .as_object()
                .cloned(),
            ..Output::default()
        },
    );
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    let asked = fixture.answers.asked();
    assert_eq!(asked.len(), 1);
    let concern = asked[0].concern.as_deref().unwrap_or_default();
    assert!(concern.contains("`team.yaml`"), "{concern}");
    fixture.check();
}

/// Makes the calls, each in a turn of its own, and returns which of them were asked about as writes of
/// protected files.
async fn concerned(rules: &str, calls: Vec<ScriptedReply>) -> (Vec<bool>, Vec<EndedCall>) {
    let count = calls.len();
    let replies = calls
        .into_iter()
        .flat_map(|call| [call, ScriptedReply::text("done")]);
    let mut fixture = Fixture::new(Wire::Chat, &format!("{CODER}{rules}"), replies.collect()).await;
    let root = fixture.root.path();
    std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
    std::fs::create_dir_all(root.join("src")).unwrap();
    fixture.write("team.yaml", "agents: {}");
    std::fs::create_dir_all(root.join("present")).unwrap();
    fixture.protected = ["team.yaml", "skills", "present"]
        .map(|name| root.join(name))
        .to_vec();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(".git", root.join("innocent")).unwrap();
        std::os::unix::fs::symlink("team.yaml", root.join("notes.txt")).unwrap();
        std::os::unix::fs::symlink("../.mcp.json", root.join("src/new.txt")).unwrap();
        std::os::unix::fs::symlink("../.git/hooks", root.join("src/deep")).unwrap();
        let through_innocent = "../innocent/hooks/post-merge";
        std::os::unix::fs::symlink(through_innocent, root.join("src/newer.txt")).unwrap();
    }
    let mut chat = fixture.chat().await;
    let mut concerned = Vec::new();
    for _ in 0..count {
        let before = fixture.answers.asked().len();
        fixture.turn(&mut chat, "Go.").await;
        let asked = fixture.answers.asked();
        let is_concerned = |concern: &str| concern.contains("decides what agents, hooks or git do");
        let new = asked[before..].iter();
        concerned.push(
            new.filter_map(|asked| asked.concern.as_deref())
                .any(is_concerned),
        );
    }
    let ended = fixture.reported.ended();
    fixture.check();
    (concerned, ended)
}

#[tokio::test]
async fn writes_of_protected_files_need_approval_despite_broad_rules() {
    let patch = |path: &str| {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
        ScriptedReply::call("apply_patch", json!({"patch": patch}))
    };
    let mut calls = vec![
        write(".git/config"),
        write("./src/../.GIT/hooks/pre-commit"),
        write(".cachalot/x.yaml"),
        write(".mcp.json"),
        write(".claude/settings.json"),
        write("TEAM.yaml"),
        patch(".git/hooks/post-checkout"),
        shell("echo x > .git/config"),
        shell("tee \".git\"/hooks/pre-push < a"),
        shell("sh -c 'cp a .gi?/config'"),
        shell("sed -i s/a/b/ team.yaml"),
        shell("cp a te*.yaml"),
        shell("cp a $PWD/team.yaml"),
        shell("cd src; echo x >> ../team.yaml"),
        shell("cp -t.git/hooks a"),
        shell("sort a -o.git/hooks/x"),
        shell("curl -so.git/hooks/x file:///x"),
        shell("cp a $(git rev-parse --git-dir)/hooks/x"),
        shell("x=git; echo x > .$x/hooks/x"),
        shell("git config core.hooksPath x"),
        shell("git config alias.zz '!x'"),
        shell("git remote add other ext::x"),
        shell("cp a docs/HEAD"),
        write("docs/HEAD"),
        shell("cp a HEAD"),
        shell("echo x > HEAD"),
        shell("git mv a HEAD"),
        shell("git diff HEAD > HEAD"),
        shell("git diff HEAD; cp a HEAD"),
        shell("git checkout b HEAD"),
        shell("git restore --source=b HEAD"),
        shell("git diff --output=HEAD"),
        shell("git diff --output team.yaml"),
        shell("git diff HEAD > team.yaml"),
        shell("git push --dry-run origin HEAD:.git/config && sed -n 1p team.yaml"),
        shell("diff team.yaml b.yaml > team.yaml"),
        shell("sed -n 'w team.yaml' a"),
        shell("sed -n 1p -i team.yaml"),
        shell("sed -n 'p;wc team.yaml' src/a"),
        shell("git -C 'w log' mv team.yaml b.yaml"),
        shell("git switch present"),
        shell("git switch skills; mkdir skills"),
        shell("git switch skills > skills"),
        shell("git clone x skills"),
        shell("cp -r src skills"),
        shell("touch skills/x"),
        shell("git init --template=t"),
        shell("cp src/team.yaml ."),
    ];
    #[cfg(unix)]
    calls.extend([
        write("innocent/config"),
        write("notes.txt"),
        write("src/new.txt"),
        write("src/newer.txt"),
        shell("echo x > src/newer.txt"),
        shell("echo x > src/deep/../config"),
        shell("echo x >> notes.txt"),
        shell("cd innocent; echo x > config"),
    ]);
    let count = calls.len();
    let rules =
        "permissions: {allow: ['write_file', 'apply_patch', 'write_file:path=**', 'shell', '*']}\n";
    let (concerned, ended) = concerned(rules, calls).await;
    assert_eq!(concerned, vec![true; count]);
    assert!(ended.iter().all(|ended| ended.is_error), "{ended:?}");
}

#[tokio::test]
async fn unprotected_files_and_rules_that_name_a_file_need_no_approval() {
    let calls = vec![
        write("src/a"),
        write(".gitignore"),
        shell("echo x > src/b"),
        shell("ls src"),
        shell("grep -r x --exclude-dir=.git . | head -3"),
        ScriptedReply::call("read_file", json!({"path": ".git/config"})),
        shell("cp src/a src/y; ls $HOME"),
        shell("wc -l *.md > all.txt"),
        shell("git diff HEAD"),
        shell("git show HEAD"),
        shell("git push --dry-run origin HEAD"),
        shell("git push --dry-run origin HEAD:main; git merge-base HEAD~1 origin/HEAD > log.txt"),
        shell("cd src && timeout 60 git push --dry-run origin HEAD"),
        shell("diff team.yaml b.yaml"),
        shell("sed -n 1p team.yaml"),
        shell("git diff HEAD -- team.yaml"),
        shell("git switch skills 2>&1 | tail -1"),
        shell("cat team.yaml 2>/dev/null | sort"),
        shell("git add team.yaml && git commit --dry-run -m \"update (team.yaml)\" 2>&1"),
    ];
    let rules = "permissions: {allow: ['write_file', 'shell']}\n";
    let (others, _) = concerned(rules, calls).await;
    assert_eq!(others, [false; 19]);
    let calls = vec![
        write(".git/hooks/pre-commit"),
        write("team.yaml"),
        shell("echo x > .mcp.json"),
        write(".git/config"),
    ];
    let rules = "permissions: {allow: ['write_file:path=.git/hooks/*', 'write_file:path=Team.yaml', 'write_file:path=team.yaml', 'shell:command=echo x > .mcp.json']}\n";
    let (named, ended) = concerned(rules, calls).await;
    assert_eq!(named, [false, false, false, true]);
    let failed: Vec<bool> = ended.iter().map(|ended| ended.is_error).collect();
    assert_eq!(failed, [false, false, false, true], "{ended:?}");
}

#[tokio::test]
async fn always_approval_does_not_cover_protected_files() {
    let calls = [
        write("a"),
        write(".git/config"),
        write("b"),
        write(".git/config"),
    ];
    let replies = calls
        .into_iter()
        .flat_map(|call| [call, ScriptedReply::text("done")]);
    let fixture = Fixture::new(Wire::Chat, CODER, replies.collect()).await;
    std::fs::create_dir(fixture.root.path().join(".git")).unwrap();
    fixture.answers.give([Approval::Always, Approval::Always]);
    let mut chat = fixture.chat().await;
    let mut asked = Vec::new();
    for _ in 0..4 {
        fixture.turn(&mut chat, "Go.").await;
        asked.push(fixture.answers.asked().len());
    }
    // "Always" for `a` is neither for `b` nor for the protected file.
    assert_eq!(asked, [1, 2, 3, 3]);
    fixture.check();
}

#[tokio::test]
async fn a_redirect_is_followed_only_where_rules_and_approval_cover_it() {
    let site = TestSite::start().await;
    let port = site.port;
    let elsewhere = format!("http://localhost:{port}/page?q=DATA");
    let redirect = site.url(&format!("/to/{elsewhere}"));
    for (permissions, asked, why) in [
        (
            "deny: ['*:host=localhost'], allow: [web_fetch]",
            0,
            "denied by the rule `*:host=localhost`",
        ),
        (
            "deny: ['web_fetch:url=http://localhost*'], allow: [web_fetch]",
            0,
            "denied by the rule `web_fetch:url=http://localhost*`",
        ),
        (
            "ask: ['web_fetch:host=localhost'], allow: [web_fetch]",
            0,
            "the rule `web_fetch:host=localhost` wants the user to be asked",
        ),
        (
            "allow: ['web_fetch:host=127.0.0.1']",
            0,
            "only the address before was approved",
        ),
        (
            "allow: ['web_fetch:url=http://127.0.0.1:*/to/*']",
            0,
            "only the address before was approved",
        ),
        ("ask: []", 1, "only the address before was approved"),
    ] {
        let file = format!("{FILE}permissions: {{{permissions}}}\n");
        let (fixture, mut chat) = fetching(&file, None, std::slice::from_ref(&redirect)).await;
        fixture.answers.give([Approval::Yes]);
        fixture.turn(&mut chat, "Go.").await;
        assert_eq!(site.take().len(), 1, "{permissions}: it was followed");
        assert_eq!(fixture.answers.asked().len(), asked, "{permissions}");
        let ended = fixture.reported.ended();
        assert!(ended[0].text.contains(why), "{permissions}: {ended:?}");
        assert!(ended[0].text.contains(&elsewhere), "{ended:?}");
        fixture.check();
    }
    // Within the host that was approved, and where a rule covers both.
    let same = site.url(&format!("/to/{}", site.url("/page")));
    for (permissions, url) in [
        ("ask: []", &same),
        ("ask: ['web_fetch:host=127.0.0.1']", &same),
        ("allow: ['web_fetch:host=127.0.0.1']", &same),
        ("allow: [web_fetch]", &redirect),
    ] {
        let file = format!("{FILE}permissions: {{{permissions}}}\n");
        let (fixture, mut chat) = fetching(&file, None, std::slice::from_ref(url)).await;
        fixture.answers.give([Approval::Yes]);
        fixture.turn(&mut chat, "Go.").await;
        assert_eq!(site.take().len(), 2, "{permissions}");
        fixture.check();
    }
}

#[tokio::test]
async fn an_ipv4_address_is_one_host_however_it_is_written() {
    let site = TestSite::start().await;
    for host in [
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "2130706433",
        "127.1",
    ] {
        let url = format!("http://{host}:{}/x", site.port);
        for rule in ["*:host=127.0.0.1", "web_fetch:url=http://127.0.0.1*"] {
            let file = format!("{FILE}permissions: {{deny: ['{rule}'], allow: [web_fetch]}}\n");
            let (fixture, mut chat) = fetching(&file, None, std::slice::from_ref(&url)).await;
            fixture.turn(&mut chat, "Go.").await;
            assert_eq!(site.take(), [""; 0], "{host} {rule}");
            let ended = fixture.reported.ended();
            assert!(ended[0].text.contains("denied by the rule"), "{ended:?}");
            fixture.check();
        }
    }
}

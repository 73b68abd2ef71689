use super::*;

const ROOT: &str = "http://127.0.0.1:9/x/s";

/// A home with files, and a working directory.
struct Place {
    home: TempDir,
    environment: BTreeMap<String, String>,
}

impl Place {
    fn new(variables: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let pairs = variables.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut environment: BTreeMap<_, _> = pairs.collect();
        let path = home.path().to_str().unwrap().to_owned();
        environment.insert("HOME".to_owned(), path);
        Self { home, environment }
    }

    fn with(self, file: &str, content: &str) -> Self {
        let path = self.home.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    fn servers<'a>(&self, client: Option<RecognizedClient<'a>>) -> Result<Servers<'a>> {
        let directory = self.home.path().join("work");
        Servers::find(client, &self.environment, &directory)
    }

    /// The upstreams of a command, as `name=url`.
    fn upstreams(&self, command: &str) -> Vec<String> {
        let servers = self.servers(recognized(command)).ok().unwrap();
        let upstreams = servers.upstreams.iter();
        let shown = upstreams.map(|upstream| format!("{}={}", upstream.name(), upstream.base()));
        shown.collect()
    }

    fn prepare(&self, command: &str, is_replay: bool) -> Setup {
        let client = recognized(command);
        let circumstances = Circumstances {
            client,
            root: ROOT,
            is_replay,
            environment: &self.environment,
            directory: &self.home.path().join("work"),
            data: &self.home.path().join("data"),
        };
        let servers = self.servers(client).ok().unwrap();
        circumstances.prepare(&words(command), &servers).unwrap()
    }
}

fn words(command: &str) -> Vec<OsString> {
    command.split(' ').map(OsString::from).collect()
}

fn recognized(command: &str) -> Option<RecognizedClient<'static>> {
    client(None, &words(command)).ok().unwrap()
}

fn recognized_name(command: &str) -> Option<&'static str> {
    recognized(command).map(|client| client.name)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn options_of_a_client_are_inserted_behind_its_program() {
    let place = Place::new(&[]);
    let setup = place.prepare("npx -y @openai/codex exec hello", false);
    let option = format!(r#"openai_base_url="{ROOT}/v1""#);
    let expected = ["npx", "-y", "@openai/codex", "-c", &option, "exec", "hello"];
    assert_eq!(setup.words, expected);
    assert_eq!(place.prepare("sh -c codex", false).words.len(), 3);
}

#[test]
fn a_client_is_recognized_behind_wrappers() {
    let recognized = [
        "codex",
        "/opt/bin/codex exec hello",
        "timeout 20 codex",
        "env A=1 B=2 timeout -k 5 20 nice -n 5 codex",
        "time nohup codex",
        "sudo -E codex",
        "npx @openai/codex@latest",
        "timeout 20 npx -y @openai/codex@0.50.0 exec",
        "npx -p @openai/codex codex",
    ];
    for command in recognized {
        let client = recognized_name(command);
        assert_eq!(client, Some("codex"), "{command}");
    }
    // Another machine does not reach this gateway, and an option that is not known may have a value.
    for command in [
        "ssh host codex",
        "timeout --new codex",
        "echo codex",
        "timeout 20",
        "env",
    ] {
        assert_eq!(recognized_name(command), None, "{command}");
    }
}

#[test]
fn every_command_gets_the_base_urls() {
    let place = Place::new(&[("OPENAI_BASE_URL", "https://a.example")]);
    for command in ["make test", "claude -p hi"] {
        let setup = place.prepare(command, false);
        for (name, value) in [
            ("OPENAI_BASE_URL", format!("{ROOT}/v1")),
            ("ANTHROPIC_BASE_URL", ROOT.to_owned()),
            ("GOOGLE_GEMINI_BASE_URL", ROOT.to_owned()),
            ("GEMINI_API_BASE", format!("{ROOT}/v1beta")),
        ] {
            assert_eq!(setup.variables[name], value, "{command}");
        }
        assert!(!setup.variables.contains_key("ANTHROPIC_API_KEY"));
        assert!(setup._files.is_none());
    }
}

#[test]
fn keys_that_are_missing_in_a_replay_get_a_value() {
    let set = |command: &str, variables: &[(&str, &str)]| {
        let setup = Place::new(variables).prepare(command, true);
        let names = setup.variables.into_iter();
        let keys = names.filter(|(name, _)| name.ends_with("_KEY") || name.ends_with("_TOKEN"));
        keys.map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    let token = ["ANTHROPIC_AUTH_TOKEN=placeholder"];
    assert_eq!(set("claude", &[]), token);
    assert_eq!(set("claude", &[("ANTHROPIC_API_KEY", "")]), token);
    let none = [""; 0];
    assert_eq!(set("claude", &[("ANTHROPIC_API_KEY", "own")]), none);
    assert_eq!(set("claude", &[("ANTHROPIC_AUTH_TOKEN", "own")]), none);
    assert_eq!(set("codex", &[]), none);
    let all = set("make test", &[("OPENAI_API_KEY", "own")]);
    assert_eq!(
        all,
        [
            "ANTHROPIC_API_KEY=sk-ant-placeholder",
            "GEMINI_API_KEY=AIza-placeholder",
            "GOOGLE_GENERATIVE_AI_API_KEY=AIza-placeholder"
        ]
    );
    // A key would take the place of the login with which the run was recorded.
    let login = |place: Place| {
        let setup = place.with(".claude/.credentials.json", "{}");
        let setup = setup.prepare("claude", true);
        setup.variables.contains_key("ANTHROPIC_AUTH_TOKEN")
    };
    assert!(!login(Place::new(&[])));
    assert!(login(Place::new(&[("CLAUDE_CONFIG_DIR", "/nowhere")])));
}

#[test]
fn gateway_is_reached_without_a_proxy() {
    let of = |variables: &[(&str, &str)]| {
        let setup = Place::new(variables).prepare("claude", false);
        NO_PROXY.map(|name| setup.variables.get(name).cloned().unwrap_or_default())
    };
    let proxy = ("HTTP_PROXY", "http://proxy.example");
    assert_eq!(of(&[]), ["", ""]);
    assert_eq!(of(&[proxy]), [HOST, HOST]);
    let both = "a.example,127.0.0.1";
    assert_eq!(of(&[proxy, ("NO_PROXY", "a.example")]), [both, both]);
    let listed = "127.0.0.1, a.example";
    assert_eq!(of(&[proxy, ("no_proxy", listed)]), [listed, listed]);
    assert_eq!(of(&[proxy, ("no_proxy", "*")]), ["*", "*"]);
}

#[test]
fn base_urls_of_the_environment_are_the_upstreams() {
    let found = |variables: &[(&str, &str)]| Place::new(variables).upstreams("make");
    assert!(found(&[("OPENAI_BASE_URL", " ")]).is_empty());
    let set = [
        ("OPENAI_API_BASE", "http://b.example/v1"),
        ("OPENAI_BASE_URL", "http://a.example/v1/"),
        ("ANTHROPIC_API_BASE", "http://c.example"),
    ];
    let expected = ["openai=http://a.example/v1", "anthropic=http://c.example"];
    assert_eq!(found(&set), expected);
    let wrong = Place::new(&[("OPENAI_BASE_URL", "http://user:password@a.example")]);
    let Err(CommandError::Usage { problems, .. }) = wrong.servers(None) else {
        panic!("it is used");
    };
    let message = problems[0].to_string();
    assert!(message.contains("OPENAI_BASE_URL") && !message.contains("password@"));
}

#[test]
fn settings_of_the_client_that_win_over_the_environment_are_overridden() {
    let place = Place::new(&[("ANTHROPIC_BASE_URL", "http://environment.example")]);
    let expected = ["anthropic=http://environment.example"];
    assert_eq!(place.upstreams("claude"), expected);
    let settings = r#"{"env": {"ANTHROPIC_BASE_URL": "http://settings.example"}}"#;
    let place = place.with(".claude/settings.json", settings);
    assert_eq!(
        place.upstreams("claude -p hi"),
        ["anthropic=http://settings.example"]
    );
    // Another client does not read them.
    assert_eq!(place.upstreams("aider"), expected);
    let setup = place.prepare("claude -p hi", false);
    let [program, option, file, rest @ ..] = &setup.words[..] else {
        panic!("{setup:?}");
    };
    assert_eq!(
        (program.to_str(), option.to_str()),
        (Some("claude"), Some("--settings"))
    );
    assert_eq!(rest, words("-p hi"));
    let written = json(&std::fs::read_to_string(file).unwrap());
    assert_eq!(written["env"]["ANTHROPIC_BASE_URL"], ROOT);
    let file = file.clone();
    drop(setup);
    assert!(!Path::new(&file).exists());
    // Those of the project come first.
    let settings = settings.replace("settings.example", "project.example");
    let place = place.with("work/.claude/settings.json", &settings);
    assert_eq!(
        place.upstreams("claude"),
        ["anthropic=http://project.example"]
    );
}

#[test]
fn login_of_codex_has_a_server_of_its_own() {
    let token = r#"{"OPENAI_API_KEY": null, "tokens": {"access_token": "secret"}}"#;
    let login = Place::new(&[]).with(".codex/auth.json", token);
    let expected = ["openai=https://chatgpt.com/backend-api/codex"];
    assert_eq!(login.upstreams("codex exec hi"), expected);
    assert!(login.upstreams("make").is_empty());
    let key = r#"{"OPENAI_API_KEY": "sk-own", "tokens": {"access_token": "secret"}}"#;
    let login = Place::new(&[]).with(".codex/auth.json", key);
    assert!(login.upstreams("codex exec hi").is_empty());
}

#[test]
fn configuration_in_a_variable_is_merged() {
    let own = r#"{"theme": "dark", "provider": {"anthropic": {"options": {"baseURL": "http://a.example", "timeout": 1}}}}"#;
    let setup = Place::new(&[("OPENCODE_CONFIG_CONTENT", own)]).prepare("opencode", false);
    let merged = json(&setup.variables["OPENCODE_CONFIG_CONTENT"]);
    assert_eq!(merged["theme"], "dark");
    let options = &merged["provider"]["anthropic"]["options"];
    assert_eq!(options["timeout"], 1);
    assert_eq!(options["baseURL"], format!("{ROOT}/v1"));
    let google = &merged["provider"]["google"]["options"]["baseURL"];
    assert_eq!(google, &format!("{ROOT}/v1beta"));
}

#[test]
fn providers_of_a_file_are_changed_in_a_private_copy() {
    let variable = "CLINE_PROVIDER_SETTINGS_PATH";
    let none = Place::new(&[]).prepare("cline hi", false);
    assert!(!none.variables.contains_key(variable));
    let providers = r#"{"providers": {"anthropic": {"settings": {"apiKey": "secret"}}, "other": {"settings": {}}}}"#;
    let place = Place::new(&[]).with(".cline/data/settings/providers.json", providers);
    let setup = place.prepare("cline hi", false);
    let copy = Path::new(&setup.variables[variable]);
    let text = std::fs::read_to_string(copy).unwrap();
    let expected = r#"{"providers": {"anthropic": {"settings": {"apiKey": "secret", "baseUrl": "URL"}}, "other": {"settings": {}}}}"#;
    assert_eq!(
        json(&text),
        json(&expected.replace("URL", &format!("{ROOT}/v1")))
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = std::fs::metadata(copy.parent().unwrap()).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn provider_of_copilot_is_replaced_only_if_there_is_one() {
    let variable = "COPILOT_PROVIDER_BASE_URL";
    let none = Place::new(&[]).prepare("copilot -p hi", false);
    assert!(!none.variables.contains_key(variable));
    let url = (variable, "http://a.example/v1");
    let place = Place::new(&[url]);
    assert_eq!(place.upstreams("copilot"), ["openai=http://a.example/v1"]);
    let setup = place.prepare("copilot", false);
    assert_eq!(setup.variables[variable], format!("{ROOT}/v1"));
    let place = Place::new(&[url, ("COPILOT_PROVIDER_TYPE", "anthropic")]);
    assert_eq!(
        place.upstreams("copilot"),
        ["anthropic=http://a.example/v1"]
    );
    assert_eq!(place.prepare("copilot", false).variables[variable], ROOT);
}

#[test]
fn unknown_client_is_named_with_the_known_ones() {
    let Err(CommandError::Usage { problems, .. }) = client(Some("codx"), &words("x")) else {
        panic!("it is known");
    };
    let help = problems[0].help.clone().unwrap_or_default();
    assert!(
        help.contains("`codex`") && help.contains("claude-code, "),
        "{help}"
    );
}

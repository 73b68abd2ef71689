//! nanobot's providers, and the choice of the one that serves a model.

use cachalot_core::config::Values;

/// A provider of nanobot 0.3.0 (`nanobot/providers/registry.py`, 2026-08-23).
#[derive(Debug)]
pub(super) struct Provider {
    /// The name under `providers`.
    pub(super) name: &'static str,
    /// Parts of the names of its models.
    keywords: &'static [&'static str],
    pub(super) server: Server,
    role: Role,
    /// The part of the name of a model that is not sent.
    prefix: Prefix,
}

/// The server of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// That of the provider of this name here.
    Known(&'static str),
    /// One with an API of a known format.
    Compatible {
        base_url: &'static str,
        /// The environment variable with its key.
        key: &'static str,
        /// The format: `chat` or `messages`.
        format: &'static str,
    },
    /// One that `apiBase` of the file names.
    Own,
    /// None that can be used, with the remedy.
    Unsupported(&'static str),
}

/// The use of a provider for models that no name assigns to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It serves its own models.
    Standard,
    /// It serves models of others, and needs a key.
    Gateway,
    /// It serves models of others from this address, which contains the text.
    Local(&'static str),
    /// It is used without a key.
    Direct,
}

/// The part of the name of a model that is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    /// Nothing.
    Sent,
    /// The name of the provider, before a slash.
    Own,
    /// Everything up to the last slash.
    All,
}

const SIGNS_IN: &str = "a program cannot sign in there: use a provider with a key";

#[rustfmt::skip]
static PROVIDERS: [Provider; 46] = [
    provider("custom", &[], Server::Own, Role::Direct, Prefix::Sent),
    provider("azure_openai", &["azure", "azure-openai"], Server::Known("azure"), Role::Direct, Prefix::Sent),
    provider("bedrock", &["bedrock", "anthropic.claude", "amazon.nova", "meta.", "mistral.", "cohere.", "qwen.", "deepseek.", "openai.gpt-oss", "ai21.", "moonshot.", "writer.", "zai."], Server::Known("bedrock"), Role::Direct, Prefix::Own),
    provider("openrouter", &["openrouter"], Server::Known("openrouter"), Role::Gateway, Prefix::Sent),
    provider("orcarouter", &["orcarouter"], chat("https://api.orcarouter.ai/v1", "ORCAROUTER_API_KEY"), Role::Gateway, Prefix::Sent),
    provider("edenai", &["edenai"], chat("https://api.edenai.run/v3", "EDENAI_API_KEY"), Role::Gateway, Prefix::Sent),
    provider("opencode", &["opencode/", "opencode", "opencode-zen"], Server::Known("opencode-zen"), Role::Gateway, Prefix::Own),
    provider("opencode_zen", &["opencode/", "opencode-zen"], Server::Known("opencode-zen"), Role::Gateway, Prefix::Own),
    provider("opencode_go", &["opencode-go"], Server::Known("opencode-go"), Role::Gateway, Prefix::Own),
    provider("huggingface", &["huggingface", "hugging-face"], Server::Known("huggingface"), Role::Gateway, Prefix::Sent),
    provider("skywork", &["skywork", "skyclaw", "apifree"], chat("https://api.apifree.ai/agent/v1", "SKYWORK_API_KEY"), Role::Gateway, Prefix::Sent),
    provider("aihubmix", &["aihubmix"], chat("https://aihubmix.com/v1", ""), Role::Gateway, Prefix::All),
    provider("siliconflow", &["siliconflow"], chat("https://api.siliconflow.cn/v1", ""), Role::Gateway, Prefix::Sent),
    provider("novita", &["novita"], chat("https://api.novita.ai/openai", "NOVITA_API_KEY"), Role::Gateway, Prefix::Sent),
    provider("volcengine", &["volcengine", "volces", "ark"], chat("https://ark.cn-beijing.volces.com/api/v3", ""), Role::Gateway, Prefix::Sent),
    provider("volcengine_coding_plan", &["volcengine-plan"], chat("https://ark.cn-beijing.volces.com/api/coding/v3", ""), Role::Gateway, Prefix::All),
    provider("byteplus", &["byteplus"], chat("https://ark.ap-southeast.bytepluses.com/api/v3", ""), Role::Gateway, Prefix::All),
    provider("byteplus_coding_plan", &["byteplus-plan"], chat("https://ark.ap-southeast.bytepluses.com/api/coding/v3", ""), Role::Gateway, Prefix::All),
    provider("anthropic", &["anthropic", "claude"], Server::Known("anthropic"), Role::Standard, Prefix::Own),
    provider("openai", &["openai", "gpt"], Server::Known("openai"), Role::Standard, Prefix::Own),
    provider("openai_codex", &["openai-codex"], Server::Unsupported(SIGNS_IN), Role::Direct, Prefix::Own),
    provider("xai_grok", &["xai-grok"], Server::Unsupported(SIGNS_IN), Role::Direct, Prefix::Own),
    provider("github_copilot", &["github_copilot", "copilot"], Server::Unsupported(SIGNS_IN), Role::Direct, Prefix::All),
    provider("deepseek", &["deepseek"], Server::Known("deepseek"), Role::Standard, Prefix::Own),
    provider("gemini", &["gemini", "gemma"], Server::Known("google"), Role::Standard, Prefix::Own),
    provider("zhipu", &["zhipu", "glm", "zai"], chat("https://open.bigmodel.cn/api/paas/v4", "ZAI_API_KEY"), Role::Standard, Prefix::Own),
    provider("dashscope", &["qwen", "dashscope"], chat("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"), Role::Standard, Prefix::Own),
    provider("modelscope", &["modelscope"], chat("https://api-inference.modelscope.cn/v1", "MODELSCOPE_API_KEY"), Role::Gateway, Prefix::Own),
    provider("moonshot", &["moonshot", "kimi"], Server::Known("moonshot"), Role::Standard, Prefix::Own),
    provider("kimi_coding", &["kimi-coding", "kimi-for-coding"], Server::Unsupported("it serves only programs that it knows: use `moonshot`"), Role::Standard, Prefix::Own),
    provider("minimax", &["minimax"], Server::Known("minimax"), Role::Standard, Prefix::Own),
    provider("minimax_anthropic", &["minimax_anthropic"], Server::Compatible { base_url: "https://api.minimax.io/anthropic", key: "MINIMAX_API_KEY", format: "messages" }, Role::Standard, Prefix::Own),
    provider("mistral", &["mistral", "magistral", "ministral", "codestral", "devstral"], Server::Known("mistral"), Role::Standard, Prefix::Own),
    provider("stepfun", &["stepfun", "step"], chat("https://api.stepfun.com/v1", "STEPFUN_API_KEY"), Role::Standard, Prefix::Own),
    provider("xiaomi_mimo", &["xiaomi_mimo", "mimo"], chat("https://api.xiaomimimo.com/v1", "XIAOMIMIMO_API_KEY"), Role::Standard, Prefix::Own),
    provider("longcat", &["longcat"], chat("https://api.longcat.chat/openai/v1", "LONGCAT_API_KEY"), Role::Standard, Prefix::Own),
    provider("ant_ling", &["ant_ling", "ling-", "ring-"], chat("https://api.ant-ling.com/v1", "ANT_LING_API_KEY"), Role::Standard, Prefix::Own),
    provider("vllm", &["vllm"], Server::Known("vllm"), Role::Local(""), Prefix::Own),
    provider("ollama", &["ollama", "nemotron"], Server::Known("ollama"), Role::Local("11434"), Prefix::Own),
    provider("lm_studio", &["lm-studio", "lmstudio"], Server::Known("lmstudio"), Role::Local("1234"), Prefix::Own),
    provider("atomic_chat", &["atomic-chat", "atomicchat"], chat("http://localhost:1337/v1", "ATOMIC_CHAT_API_KEY"), Role::Local("1337"), Prefix::Own),
    provider("ovms", &["openvino", "ovms"], chat("http://localhost:8000/v3", ""), Role::Local(""), Prefix::Own),
    provider("nvidia", &["nvidia", "nemotron", "nvapi"], Server::Known("nvidia"), Role::Standard, Prefix::Sent),
    provider("groq", &["groq"], Server::Known("groq"), Role::Standard, Prefix::Sent),
    provider("assemblyai", &[], Server::Unsupported("it transcribes audio only"), Role::Standard, Prefix::Sent),
    provider("qianfan", &["qianfan", "ernie"], chat("https://qianfan.baidubce.com/v2", "QIANFAN_API_KEY"), Role::Standard, Prefix::Sent),
];

const fn provider(
    name: &'static str,
    keywords: &'static [&'static str],
    server: Server,
    role: Role,
    prefix: Prefix,
) -> Provider {
    Provider {
        name,
        keywords,
        server,
        role,
        prefix,
    }
}

const fn chat(base_url: &'static str, key: &'static str) -> Server {
    Server::Compatible {
        base_url,
        key,
        format: "chat",
    }
}

/// The provider of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    /// The provider; `None` for one that only the file names.
    pub(super) provider: Option<&'static Provider>,
    /// Its name in the file, or in nanobot.
    pub(super) name: &'a str,
    /// Its entry under `providers`.
    pub(super) written: Option<Values<'a>>,
}

impl Choice<'_> {
    /// Returns the server.
    pub(super) fn server(&self) -> Server {
        self.provider
            .map_or(Server::Own, |provider| provider.server)
    }

    /// True for a server that is used without a key.
    pub(super) fn needs_no_key(&self) -> bool {
        let role = self.provider.map(|provider| provider.role);
        matches!(role, None | Some(Role::Local(_) | Role::Direct))
    }

    /// Returns the name of a model as the provider knows it.
    pub(super) fn model<'b>(&self, model: &'b str) -> &'b str {
        let Some((prefix, rest)) = model.split_once('/') else {
            return model;
        };
        match self
            .provider
            .map_or(Prefix::Own, |provider| provider.prefix)
        {
            Prefix::All => model.rsplit('/').next().unwrap_or(model),
            Prefix::Own if is_same(prefix, self.name) => rest,
            Prefix::Own
                if self
                    .provider
                    .is_some_and(|known| is_same(prefix, known.name)) =>
            {
                rest
            }
            Prefix::Own | Prefix::Sent => model,
        }
    }
}

/// Returns the provider that serves a model: the `wanted` one, or with `auto` the one that nanobot would choose. If no
/// entry of `providers` serves it, a provider of the model's name is chosen, whose key may be in the environment.
pub(super) fn choose<'a>(
    model: &str,
    wanted: &'a str,
    providers: &[(&'a str, Values<'a>)],
) -> Option<Choice<'a>> {
    let written = |known: &Provider| {
        let mut entries = providers.iter();
        let entry = entries.find(|(name, _)| is_same(name, known.name));
        entry.map(|(_, values)| *values)
    };
    let known = |provider: &'static Provider| Choice {
        provider: Some(provider),
        name: provider.name,
        written: written(provider),
    };
    let own = |(name, values): (&'a str, Values<'a>)| Choice {
        provider: None,
        name,
        written: Some(values),
    };
    let by_name = |name: &str| {
        let provider = PROVIDERS
            .iter()
            .find(|provider| is_same(provider.name, name));
        let entry = providers.iter().find(|(entry, _)| is_same(entry, name));
        let provider = provider.map(known);
        provider.or_else(|| entry.copied().map(own))
    };
    if wanted != "auto" {
        return by_name(wanted);
    }
    let has = |provider: &&'static Provider, key: &str| {
        written(provider).is_some_and(|values| values.text(key).is_some())
    };
    let is_usable = |provider: &&'static Provider| match provider.role {
        Role::Direct => written(provider).is_some(),
        Role::Local(_) => has(provider, "apiBase"),
        Role::Standard | Role::Gateway => has(provider, "apiKey"),
    };
    let prefixed = model
        .split_once('/')
        .and_then(|(prefix, _)| by_name(prefix));
    // A local provider is meant by its prefix without an entry, too.
    let is_meant = |choice: &Choice<'_>| {
        let provider = choice.provider;
        provider
            .is_none_or(|provider| matches!(provider.role, Role::Local(_)) || is_usable(&provider))
    };
    if let Some(choice) = prefixed.filter(is_meant) {
        return Some(choice);
    }
    let lower = model.to_lowercase();
    let has_keyword = |provider: &&'static Provider| {
        let mut keywords = provider.keywords.iter();
        keywords.any(|word| {
            lower.contains(word) || lower.replace('-', "_").contains(&word.replace('-', "_"))
        })
    };
    let of_prefix = prefixed.and_then(|choice| choice.provider);
    let is_foreign = |provider: &&'static Provider| {
        matches!(provider.role, Role::Local(_))
            && of_prefix.is_some_and(|prefixed| prefixed.name != provider.name)
    };
    let all = || PROVIDERS.iter();
    let usable = || all().filter(is_usable);
    let is_at_its_port = |provider: &&'static Provider| match provider.role {
        Role::Local(port) if !port.is_empty() => {
            let address = written(provider).and_then(|values| values.text("apiBase"));
            address.is_some_and(|address| address.contains(port))
        }
        _ => false,
    };
    let is_local = |provider: &&'static Provider| matches!(provider.role, Role::Local(_));
    let locals = || usable().filter(is_local).filter(|_| prefixed.is_none());
    let found = usable()
        .filter(has_keyword)
        .find(|provider| !is_foreign(provider))
        .or_else(|| locals().find(is_at_its_port))
        .or_else(|| locals().next())
        .or_else(|| usable().find(|provider| has(provider, "apiKey")));
    let is_own = |(name, values): &&(&'a str, Values<'a>)| {
        !all().any(|provider| is_same(provider.name, name)) && values.text("apiBase").is_some()
    };
    found
        .map(known)
        .or_else(|| providers.iter().find(is_own).copied().map(own))
        .or(prefixed)
        .or_else(|| {
            let standard = all().filter(|provider| provider.role == Role::Standard);
            standard.into_iter().find(has_keyword).map(known)
        })
}

/// True for two spellings of a provider's name: `lmStudio`, `lm_studio`, `lm-studio`.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let letters = |name: &'_ str| -> String {
        let letters = name.chars().filter(|letter| letter.is_ascii_alphanumeric());
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    letters(one) == letters(other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::tree::parse;

    use super::super::keys::CONFIG;
    use super::super::tree::normalized;
    use super::*;

    /// The chosen provider and the name of the model there, with these providers in the file.
    fn chosen(model: &str, wanted: &str, providers: &str) -> Option<(String, String)> {
        let text = format!("{{providers: {{{providers}}}}}");
        let root = normalized(&parse("config.json", &text).unwrap());
        let values = CONFIG.values(&root).unwrap();
        let entries: Vec<(&str, Values<'_>)> = values.tables("providers").collect();
        let choice = choose(model, wanted, &entries)?;
        Some((choice.name.to_owned(), choice.model(model).to_owned()))
    }

    #[test]
    fn provider_is_chosen_as_by_nanobot() {
        let file = "anthropic: {apiKey: a}, openrouter: {api_key: b}, deepseek: {apiKey: null}, companyProxy: {apiBase: 'https://p.example'}";
        let local = "lmStudio: {apiBase: 'http://localhost:9/v1'}, ollama: {apiBase: 'http://localhost:11434/v1'}";
        for (model, wanted, providers, name, sent) in [
            (
                "anthropic/claude-opus-4-5",
                "auto",
                file,
                "anthropic",
                "claude-opus-4-5",
            ),
            (
                "claude-opus-4-5",
                "auto",
                file,
                "anthropic",
                "claude-opus-4-5",
            ),
            (
                "anthropic/claude-opus-4-5",
                "openrouter",
                file,
                "openrouter",
                "anthropic/claude-opus-4-5",
            ),
            // Without its key, a gateway with a key serves the model.
            (
                "deepseek/deepseek-chat",
                "auto",
                file,
                "openrouter",
                "deepseek/deepseek-chat",
            ),
            (
                "deepseek/deepseek-chat",
                "auto",
                "",
                "deepseek",
                "deepseek-chat",
            ),
            (
                "company-proxy/gpt-4o",
                "auto",
                file,
                "companyProxy",
                "gpt-4o",
            ),
            ("x/y", "company_proxy", file, "companyProxy", "x/y"),
            (
                "unknown",
                "auto",
                "mine: {apiBase: 'https://p.example'}",
                "mine",
                "unknown",
            ),
            ("llama3.2", "auto", local, "ollama", "llama3.2"),
            ("ollama/llama3.2", "auto", "", "ollama", "llama3.2"),
            (
                "nvidia/nemotron-3",
                "auto",
                &format!("{file}, {local}"),
                "openrouter",
                "nvidia/nemotron-3",
            ),
            (
                "moonshotai/kimi-k2",
                "auto",
                "moonshot: {apiKey: a}",
                "moonshot",
                "moonshotai/kimi-k2",
            ),
            ("openai/gpt-4o", "aihubmix", "", "aihubmix", "gpt-4o"),
            ("gpt-4o", "auto", "", "openai", "gpt-4o"),
        ] {
            let expected = Some((name.to_owned(), sent.to_owned()));
            assert_eq!(
                chosen(model, wanted, providers),
                expected,
                "{model} {wanted} {providers}"
            );
        }
        assert_eq!(chosen("x", "nowhere", file), None);
        assert_eq!(chosen("x", "auto", ""), None);
    }
}

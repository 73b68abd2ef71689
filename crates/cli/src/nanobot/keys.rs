//! The keys of nanobot's `config.json` (version 0.3.0, `nanobot/config/schema.py`), and those of its pull request 3305
//! for cached tool results. Names are in camel case: see [`super::tree::normalized`].

use cachalot_core::config::{
    Literal, Parameter, ParameterKind as Kind, Table, key, no_effect, required,
};

/// The model without `model` in the file.
const DEFAULT_MODEL: Literal = Literal::Text("anthropic/claude-opus-4-5");

const POSITIVE: Kind = Kind::IntegerIn(1, u64::MAX);

/// The whole file.
pub(super) static CONFIG: Table = Table::new(
    "`config.json`",
    "",
    &[&[
        key("agents", Kind::Table(&AGENTS), ""),
        key("providers", Kind::Tables(&PROVIDER), ""),
        key("modelPresets", Kind::Tables(&PRESET), ""),
        key("tools", Kind::Table(&TOOLS), ""),
        no_effect(
            "channels",
            "the chat is on the terminal; for other programs, run `cachalot chat --print`",
        ),
        no_effect("transcription", "the chat has no audio"),
        no_effect("api", "`cachalot serve` answers clients of model APIs"),
        no_effect(
            "gateway",
            "start `cachalot chat` by the scheduler of the system, with the message on stdin",
        ),
    ]],
);

static AGENTS: Table = Table::new(
    "`agents`",
    "",
    &[&[key("defaults", Kind::Table(&DEFAULTS), "")]],
);

/// `agents.defaults`.
#[rustfmt::skip]
pub(super) static DEFAULTS: Table = Table::new(
    "`agents.defaults`",
    "",
    &[
        MODEL,
        &[
            key("model", Kind::Text, "").default(DEFAULT_MODEL),
            key("modelPreset", Kind::Text, ""),
            key("fallbackModels", Kind::List, ""),
            key("maxToolIterations", POSITIVE, "").default(Literal::Integer(200)),
            key("botName", Kind::Text, "").default(Literal::Text("nanobot")),
            key("workspace", Kind::Text, ""),
            no_effect("contextBlockLimit", "conversations that are nearly too long are summarized"),
            no_effect("maxConcurrentSubagents", "the agent has no sub-agents"),
            no_effect("failOnToolError", "the model reads the failure of a tool, and continues"),
            no_effect("maxToolResultChars", "each tool has a limit of its own"),
            no_effect("providerRetryMode", "failed requests are retried twice, and then the fallbacks are asked"),
            no_effect("toolHintMaxLength", "the terminal decides about the length"),
            no_effect("timezone", "the agent knows the date of this machine"),
            no_effect("timezoneMode", "the agent knows the date of this machine"),
            no_effect("botIcon", "the chat shows the name of the agent"),
            no_effect("unifiedSession", "`cachalot chat --continue` resumes a session"),
            no_effect("disabledSkills", "remove the folder of the skill from `skills` of the workspace"),
            no_effect("idleCompactAfterMinutes", "a conversation is summarized when it is nearly too long, or by `/compact`"),
            no_effect("sessionTtlMinutes", "a conversation is summarized when it is nearly too long, or by `/compact`"),
            no_effect("idleCompactCheckIntervalSeconds", "a conversation is summarized when it is nearly too long, or by `/compact`"),
            no_effect("consolidationRatio", "a conversation is summarized when it is nearly too long, or by `/compact`"),
            no_effect("dream", "memory is not rewritten in the background"),
        ],
    ],
);

/// An entry of `modelPresets`.
pub(super) static PRESET: Table = Table::new(
    "a model preset",
    "",
    &[MODEL, &[required("model", Kind::Text, "")]],
);

/// The keys of a model, besides its name.
const MODEL: &[Parameter] = &[
    key("provider", Kind::Text, "").default(Literal::Text("auto")),
    key("maxTokens", POSITIVE, ""),
    key("contextWindowTokens", POSITIVE, ""),
    key("temperature", Kind::NumberIn(0.0, 10.0), ""),
    key("reasoningEffort", Kind::Text, ""),
];

/// An entry of `providers`.
#[rustfmt::skip]
pub(super) static PROVIDER: Table = Table::new(
    "a provider",
    "",
    &[&[
        key("apiKey", Kind::Text, ""),
        key("apiBase", Kind::Text, ""),
        key("apiType", Kind::Word(&["auto", "chat_completions", "responses"]), ""),
        key("extraHeaders", Kind::Scalars { null: true }, ""),
        key("extraBody", Kind::Object, ""),
        key("extraQuery", Kind::Scalars { null: true }, ""),
        no_effect("displayName", "the key of the provider is its name"),
        no_effect("proxy", "set `HTTPS_PROXY`"),
        no_effect("thinkingStyle", "write the parameters of the server into `extraBody`"),
        no_effect("region", "set `AWS_REGION`"),
        no_effect("profile", "set `AWS_PROFILE`"),
    ]],
);

/// `tools`.
#[rustfmt::skip]
static TOOLS: Table = Table::new(
    "`tools`",
    "",
    &[&[
        key("web", Kind::Table(&WEB), ""),
        key("exec", Kind::Table(&EXEC), ""),
        key("file", Kind::Table(&FILE), ""),
        key("restrictToWorkspace", Kind::Boolean, ""),
        key("ssrfWhitelist", Kind::Texts, ""),
        key("mcpServers", Kind::Tables(&SERVER), ""),
        key("cacheToolResults", Kind::Boolean, ""),
        key("cacheToolResultsMaxSize", POSITIVE, ""),
        no_effect("cliApps", "the agent runs programs with the tool `shell`"),
        no_effect("my", "`/status` and `/model` of the chat show and change what the agent works with"),
        no_effect("myEnabled", "`/status` and `/model` of the chat show and change what the agent works with"),
        no_effect("mySet", "`/status` and `/model` of the chat show and change what the agent works with"),
        no_effect("imageGeneration", "name an MCP server that generates images"),
        no_effect("maxSessionMessagesPerMinute", "the agent sends no messages of its own"),
        no_effect("webuiAllowLocalServiceAccess", "there is no web interface"),
        no_effect("allowLocalPreviewAccess", "there is no web interface"),
        no_effect("webuiAllowRemotePackageInstall", "there is no web interface"),
        no_effect("mcpLazyLoad", "the model is shown all tools, which the provider keeps in its cache"),
        no_effect("compactSchemas", "the model is shown whole schemas, which the provider keeps in its cache"),
        no_effect("compactSchemasMaxDescLength", "the model is shown whole schemas, which the provider keeps in its cache"),
    ]],
);

#[rustfmt::skip]
static WEB: Table = Table::new(
    "`tools.web`",
    "",
    &[&[
        key("enable", Kind::Boolean, "").default(Literal::Boolean(true)),
        no_effect("proxy", "set `HTTPS_PROXY`"),
        no_effect("userAgent", "requests name Cachalot"),
        no_effect("search", "there is no tool `web_search`: name an MCP server that searches the web"),
        no_effect("fetch", "pages are fetched from their own servers, and converted here"),
    ]],
);

#[rustfmt::skip]
static EXEC: Table = Table::new(
    "`tools.exec`",
    "",
    &[&[
        key("enable", Kind::Boolean, "").default(Literal::Boolean(true)),
        key("timeout", Kind::IntegerIn(0, u32::MAX as u64), "").default(Literal::Integer(60)),
        key("pathPrepend", Kind::Text, ""),
        key("pathAppend", Kind::Text, ""),
        key("sandbox", Kind::Text, ""),
        key("allowedEnvKeys", Kind::Texts, ""),
        key("allowPatterns", Kind::Texts, ""),
        key("denyPatterns", Kind::Texts, ""),
        key("restrictToWorkspace", Kind::Boolean, ""),
        no_effect("sandboxRoBinds", "`--sandbox` shows commands the whole file system, read-only"),
        no_effect("sandboxRwBinds", "`--sandbox-write DIR` lets commands write there"),
    ]],
);

static FILE: Table = Table::new(
    "`tools.file`",
    "",
    &[&[key("enable", Kind::Boolean, "").default(Literal::Boolean(true))]],
);

/// An entry of `tools.mcpServers`. The reader of agent files checks the values.
#[rustfmt::skip]
static SERVER: Table = Table::new(
    "an MCP server",
    "",
    &[&[
        key("type", Kind::Any, ""),
        key("command", Kind::Any, ""),
        key("args", Kind::Any, ""),
        key("env", Kind::Any, ""),
        key("cwd", Kind::Any, ""),
        key("url", Kind::Any, ""),
        key("headers", Kind::Any, ""),
        key("toolTimeout", Kind::Any, ""),
        key("enabledTools", Kind::Texts, ""),
        no_effect("auth", "log in once with `cachalot mcp login URL`, or give the server a token in `headers`"),
    ]],
);

#include "cli/agent_table.h"

const struct agent agents[] = {
	{.name = "aider", .n = 4, .parts = {
		{.kind = AGENT_DIRECTORY, .path = ".aider",
		 .show = {"caches"}, .mask = {"oauth-keys.env"}},
		{.kind = AGENT_FILE, .path = ".aider.conf.yml"},
		{.kind = AGENT_FILE, .path = ".aider.model.settings.yml"},
		{.kind = AGENT_FILE, .path = ".aider.model.metadata.json"}}},
	{.name = "claude-code", .n = 2, .parts = {
		{.kind = AGENT_DIRECTORY, .path = ".claude",
		 .show = {"CLAUDE.md", "agents", "commands", "hooks",
			  "keybindings.json", "output-styles", "plugins",
			  "rules", "settings.json", "skills", "themes",
			  "workflows"},
		 .scan = {"settings.json"},
		 .mask = {".credentials.json", "ide", "projects",
			  "history.jsonl", "shell-snapshots"}},
		{.kind = AGENT_CLAUDE, .path = ".claude.json"}}},
	{.name = "codex", .n = 1, .parts = {
		{.kind = AGENT_DIRECTORY, .path = ".codex",
		 .show = {"AGENTS.md", "AGENTS.override.md", "agents",
			  "config.toml", "prompts", "rules", "skills",
			  "themes"},
		 .scan = {"config.toml"},
		 .mask = {"auth.json", ".credentials.json", "history.jsonl",
			  "sessions", "log"}}}},
	{.name = "gemini-cli", .n = 1, .parts = {
		{.kind = AGENT_DIRECTORY, .path = ".gemini",
		 .show = {"GEMINI.md", "agents", "commands", "extensions",
			  "policies", "settings.json", "skills", "themes",
			  "trustedFolders.json"},
		 .scan = {"settings.json"},
		 .mask = {"oauth_creds.json", "google_accounts.json", ".env",
			  "mcp-oauth-tokens.json", "gemini-credentials.json",
			  "extensions/*/.env", "tmp", "history"}}}},
	{.name = "opencode", .n = 1, .parts = {
		{.kind = AGENT_DIRECTORY, .path = ".config/opencode",
		 .show = {"AGENTS.md", "agent", "agents", "bun.lock",
			  "command", "commands", "config.json", "modes",
			  "node_modules", "opencode.json", "opencode.jsonc",
			  "package.json", "plugin", "plugins", "skills",
			  "themes", "tools", "tui.json"},
		 .scan = {"config.json", "opencode.json", "opencode.jsonc"},
		 .mask = {".env"}}}},
};

const size_t n_agents = sizeof(agents) / sizeof(*agents);

/*
 * The table of protected paths. A row is here if a program that people run in a
 * tree without reading it first would execute, or be told what to execute by,
 * what lies there. Rows are matched at any depth: programs look into the
 * directory they are started in. What only runs when it is asked for by name
 * (a Makefile, a package's scripts) and CI files are a policy's to add.
 */
#include "workspace/protect.h"

#include "base/cleanup.h"

#define HOOKS PROTECT_HOOKS
#define GIT "git obeys it on the host"
#define BARE "a bare repository, which is not taken over file by file"
#define EDITOR "editors run or obey it when the directory is opened"
#define AGENT "coding agents run or obey it when they start here"
#define SHELL "shells run it when the directory is entered or a shell starts"
#define TOOL "tools run or obey it when they start here"

const struct protect_row protect_rows[] = {
	/* git, and what runs from its hooks */
	{".gitattributes", GIT},
	{".gitconfig", GIT},
	{".gitmodules", GIT},
	{".githooks", HOOKS},
	{".husky", HOOKS},
	{".lefthook", HOOKS},
	{".lefthook.yaml", HOOKS},
	{".lefthook.yml", HOOKS},
	{".overcommit.yml", HOOKS},
	{".pre-commit-config.yaml", HOOKS},
	{".pre-commit-config.yml", HOOKS},
	{".simple-git-hooks.cjs", HOOKS},
	{".simple-git-hooks.js", HOOKS},
	{".simple-git-hooks.json", HOOKS},
	{"lefthook.yaml", HOOKS},
	{"lefthook.yml", HOOKS},
	/* editors */
	{".devcontainer", EDITOR},
	{".devcontainer.json", EDITOR},
	{".dir-locals-2.el", EDITOR},
	{".dir-locals.el", EDITOR},
	{".emacs", EDITOR},
	{".emacs.d", EDITOR},
	{".exrc", EDITOR},
	{".fleet", EDITOR},
	{".helix", EDITOR},
	{".idea", EDITOR},
	{".kakrc", EDITOR},
	{".lvimrc", EDITOR},
	{".nvim.lua", EDITOR},
	{".nvimrc", EDITOR},
	{".vim", EDITOR},
	{".vimrc", EDITOR},
	{".vscode", EDITOR},
	{".vscode-server", EDITOR},
	{".zed", EDITOR},
	{"*.code-workspace", EDITOR},
	{"*.sublime-project", EDITOR},
	/* agents */
	{".agents", AGENT},
	{".aider.conf.yml", AGENT},
	{".amazonq", AGENT},
	{".augment", AGENT},
	{".claude", AGENT},
	{".claude.json", AGENT},
	{".cline", AGENT},
	{".codex", AGENT},
	{".continue", AGENT},
	{".copilot", AGENT},
	{".crush", AGENT},
	{".crush.json", AGENT},
	{".cursor", AGENT},
	{".factory", AGENT},
	{".gemini", AGENT},
	{".goose", AGENT},
	{".junie", AGENT},
	{".kilocode", AGENT},
	{".kiro", AGENT},
	{".mcp.json", AGENT},
	{".opencode", AGENT},
	{".qwen", AGENT},
	{".roo", AGENT},
	{".trae", AGENT},
	{".windsurf", AGENT},
	{"crush.json", AGENT},
	{"opencode.json", AGENT},
	{"opencode.jsonc", AGENT},
	/* shells */
	{".autoenv", SHELL},
	{".autoenv.zsh", SHELL},
	{".bash_aliases", SHELL},
	{".bash_login", SHELL},
	{".bash_logout", SHELL},
	{".bash_profile", SHELL},
	{".bashrc", SHELL},
	{".config/autostart", SHELL},
	{".config/direnv", SHELL},
	{".config/environment.d", SHELL},
	{".config/fish", SHELL},
	{".config/git", GIT},
	{".config/mise", SHELL},
	{".config/mise.toml", SHELL},
	{".config/systemd", SHELL},
	{".cshrc", SHELL},
	{".direnv", SHELL},
	{".envrc", SHELL},
	{".inputrc", SHELL},
	{".kshrc", SHELL},
	{".login", SHELL},
	{".mise", SHELL},
	{".mise.local.toml", SHELL},
	{".mise.toml", SHELL},
	{".profile", SHELL},
	{".ssh", SHELL},
	{".tcshrc", SHELL},
	{".tmux.conf", SHELL},
	{".xinitrc", SHELL},
	{".xprofile", SHELL},
	{".zlogin", SHELL},
	{".zprofile", SHELL},
	{".zshenv", SHELL},
	{".zshrc", SHELL},
	{"mise.local.toml", SHELL},
	{"mise.toml", SHELL},
	/* settings that name programs to other tools */
	{".bazelrc", TOOL},
	{".bundle/config", TOOL},
	{".cargo/config", TOOL},
	{".cargo/config.toml", TOOL},
	{".gdbinit", TOOL},
	{".irbrc", TOOL},
	{".lldbinit", TOOL},
	{".mvn", TOOL},
	{".npmrc", TOOL},
	{".pnpmfile.cjs", TOOL},
	{".pryrc", TOOL},
	{".Rprofile", TOOL},
	{".watchmanconfig", TOOL},
	{".yarnrc", TOOL},
	{".yarnrc.yml", TOOL},
};

const size_t n_protect_rows = ARRAY_SIZE(protect_rows);

const struct protect_row protect_git_rows[] = {
	{"branches", GIT},
	{"commondir", "it says where git finds the repository"},
	{"config", GIT},
	{"config.worktree", GIT},
	{"gitdir", "it says where git finds the repository"},
	{"hooks", HOOKS},
	{"info", GIT},
	{"modules", "a submodule's own repository"},
	{"objects/info/alternates", "git reads objects from where it says"},
	{"objects/info/http-alternates",
	 "git reads objects from where it says"},
	{"rebase-apply", "git runs what it lists"},
	{"rebase-merge", "git runs what it lists"},
	{"remotes", GIT},
	{"sequencer", "git runs what it lists"},
	{"worktrees", "it says where git finds the repository"},
};

const size_t n_protect_git_rows = ARRAY_SIZE(protect_git_rows);

const struct protect_row protect_bare_rows[] = {
	{"logs", BARE},
	{"objects", BARE},
	{"packed-refs", BARE},
	{"refs", BARE},
};

const size_t n_protect_bare_rows = ARRAY_SIZE(protect_bare_rows);

const char *const protect_hooks[] = {
	"applypatch-msg", "commit-msg", "fsmonitor-watchman",
	"fsmonitor-watchmanv2", "post-applypatch", "post-checkout",
	"post-commit", "post-index-change", "post-merge", "post-receive",
	"post-rewrite", "post-update", "pre-applypatch", "pre-auto-gc",
	"pre-commit", "pre-merge-commit", "pre-push", "pre-rebase",
	"pre-receive", "prepare-commit-msg", "proc-receive",
	"push-to-checkout", "query-watchman", "reference-transaction",
	"sendemail-validate", "update", NULL,
};

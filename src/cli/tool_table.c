/*
 * The tool chains and package caches that are found without being named. What
 * is not listed is not there: a row shows directories of a tool's own root, and
 * none that tools keep tokens in.
 */
#include "cli/tool_table.h"

#include <stddef.h>

/* Places of an interpreter's settings, which may hold tokens of registries. */
#define PIP "pip.conf", "versions/*/pip.conf", "envs/*/pip.conf"
#define NPM "etc/npmrc", "versions/*/etc/npmrc", "versions/node/*/etc/npmrc"
#define CONDA                                                                  \
	".condarc", "condarc", "condarc.d", "conda-meta/state", "pkgs",        \
		"envs/*/.condarc", "envs/*/conda-meta/state",                  \
		"envs/*/etc/npmrc"

const struct tool tools[] = {
	{.name = "cargo", .variable = "CARGO_HOME", .place = ".cargo",
	 .show = {"bin"}, .caches = {"registry"}, .with = {"rustup"}},
	{.name = "rustup", .variable = "RUSTUP_HOME", .place = ".rustup",
	 .marker = "toolchains", .show = {"."}, .passed = true},
	{.name = "pyenv", .variable = "PYENV_ROOT", .place = ".pyenv",
	 .marker = "bin/pyenv", .show = {"."}, .mask = {PIP, NPM},
	 .passed = true},
	{.name = "nvm", .variable = "NVM_DIR", .place = ".nvm",
	 .marker = "nvm.sh", .show = {"."}, .mask = {".npmrc", ".cache", NPM},
	 .passed = true},
	{.name = "conda", .variable = "CONDA_PREFIX", .place = "miniconda3",
	 .marker = "conda-meta", .show = {"."}, .mask = {PIP, NPM, CONDA},
	 .passed = true},
	{.name = "conda", .place = "miniforge3", .marker = "conda-meta",
	 .show = {"."}, .mask = {PIP, NPM, CONDA}},
	{.name = "conda", .place = "anaconda3", .marker = "conda-meta",
	 .show = {"."}, .mask = {PIP, NPM, CONDA}},
	{.name = "virtual environment", .variable = "VIRTUAL_ENV",
	 .marker = "pyvenv.cfg", .show = {"."}, .mask = {PIP, NPM},
	 .passed = true},
	{.name = "go", .variable = "GOROOT", .marker = "bin/go",
	 .show = {"."}, .passed = true},
	{.name = "go", .variable = "GOPATH", .place = "go", .show = {"bin"},
	 .caches = {"pkg/mod"}, .mask = {"pkg/mod/cache/vcs"}},
	{.name = "go", .variable = "GOCACHE", .place = "@cache/go-build",
	 .caches = {"."}},
	{.name = "java", .variable = "JAVA_HOME", .marker = "bin/java",
	 .show = {"."}, .passed = true},
	{.name = "sdkman", .variable = "SDKMAN_DIR", .place = ".sdkman",
	 .marker = "candidates", .show = {"bin", "candidates", "src"},
	 .mask = {"candidates/maven/*/conf/settings.xml"}, .passed = true},
	{.name = "maven", .place = ".m2", .caches = {"repository"}},
	{.name = "gradle", .variable = "GRADLE_USER_HOME", .place = ".gradle",
	 .caches = {"caches", "wrapper"}},
	{.name = "bun", .variable = "BUN_INSTALL", .place = ".bun",
	 .show = {"bin", "install/global"}, .caches = {"install/cache"},
	 .mask = {"install/global/.npmrc"}},
	{.name = "deno", .variable = "DENO_INSTALL", .place = ".deno",
	 .show = {"bin"}},
	{.name = "deno", .variable = "DENO_DIR", .place = "@cache/deno",
	 .caches = {"."}},
	{.name = "pnpm", .variable = "PNPM_HOME", .place = "@data/pnpm",
	 .show = {"."}, .caches = {"store"},
	 .mask = {".npmrc", "global/*/.npmrc", "nodejs/*/etc/npmrc"}},
	{.name = "pnpm", .place = "@cache/pnpm", .caches = {"."}},
	{.name = "npm", .variable = "NPM_CONFIG_PREFIX",
	 .place = ".npm-global", .show = {"bin", "lib"}},
	{.name = "npm", .variable = "npm_config_cache", .place = ".npm",
	 .caches = {"_cacache"}},
	{.name = "yarn", .variable = "YARN_CACHE_FOLDER",
	 .place = "@cache/yarn", .caches = {"."}},
	{.name = "pip", .variable = "PIP_CACHE_DIR", .place = "@cache/pip",
	 .caches = {"."}},
	{.name = "uv", .variable = "UV_CACHE_DIR", .place = "@cache/uv",
	 .caches = {"."}, .mask = {"git-v0"}},
	{.name = "~/.local", .place = ".local", .show = {"bin", "lib"},
	 .with = {"pipx", "uv", "claude"}},
	{.name = "pipx", .variable = "PIPX_HOME", .place = "@data/pipx",
	 .show = {"venvs"},
	 .mask = {"venvs/*/pipx_metadata.json", "venvs/*/pip.conf"}},
	{.name = "uv", .place = "@data/uv", .show = {"python", "tools"},
	 .mask = {"tools/*/uv-receipt.toml", "tools/*/pip.conf",
		  "python/*/pip.conf"}},
	{.name = "claude", .place = "@data/claude", .show = {"versions"}},
	{.name = "/opt", .above = "/opt", .show = {"."},
	 .mask = {PIP, NPM, CONDA, ".npmrc", ".env"}},
	{.name = "nix", .above = "/nix/store", .whole = true, .show = {"."}},
};

const size_t n_tools = sizeof(tools) / sizeof(*tools);

#include "cli/foreign.h"

#include "base/cleanup.h"

#include <stddef.h>
#include <string.h>

typedef const char *const pair[2];

static pair missing[] = {
	{"--network", "there is no --network: this version has none to give"},
	{"--net", "there is no --net: this version has no network to give"},
	{"--rm", "there is no --rm: a sandbox always ends with its command"},
	{"-it", "there is no -it: standard input is always given, and -t gives "
		"a terminal"},
	{"-i", "there is no -i: standard input is always given"},
};

#define ENV "--env NAME=VALUE"
#define BOTH "--read PATH and --write DIR"
#define WORKDIR "--workdir DIR"

static pair same[] = {
	{"-e", ENV}, {"--setenv", ENV},
	{"-v", BOTH}, {"--volume", BOTH}, {"--bind", BOTH}, {"--mount", BOTH},
	{"--ro-bind", "--read PATH"}, {"--allow-read", "--read PATH"},
	{"--allow-write", "--write DIR"},
	{"-w", WORKDIR}, {"-C", WORKDIR}, {"--chdir", WORKDIR},
	{"--cwd", WORKDIR},
	{"--name", "--label name=NAME"},
	{"-m", "--limit memory=SIZE"}, {"--memory", "--limit memory=SIZE"},
	{"--cpus", "--limit cpus=NUMBER"},
	{"--pids-limit", "--limit processes=NUMBER"},
	{"-d", "pinfold start"}, {"--detach", "pinfold start"},
	{"-V", "--version"}, {"version", "--version"},
	{"status", "pinfold ps -a"}, {"list", "pinfold ps -a"},
	{"ls", "pinfold ps"}, {"inspect", "pinfold ps TASK"},
	{"shell", "pinfold run -t -- bash"}, {"attach", "pinfold exec"},
	{"show", "pinfold diff"}, {"apply", "pinfold promote"},
	{"accept", "pinfold promote"}, {"commit", "pinfold promote"},
	{"merge", "pinfold promote"}, {"revert", "pinfold undo"},
	{"rollback", "pinfold undo"}, {"reset", "pinfold discard"},
	{"drop", "pinfold discard"}, {"reject", "pinfold discard"},
	{"prune", "pinfold rm --all"}, {"clean", "pinfold rm --all"},
};

static const char *find(pair *pairs, size_t n, const char *word)
{
	size_t len = strcspn(word, "=");

	for (size_t i = 0; i < n; i++) {
		if (strlen(pairs[i][0]) == len &&
		    !memcmp(pairs[i][0], word, len))
			return pairs[i][1];
	}
	return NULL;
}

const char *foreign_missing(const char *word)
{
	return find(missing, ARRAY_SIZE(missing), word);
}

const char *foreign_same(const char *word)
{
	return find(same, ARRAY_SIZE(same), word);
}

#include "confine/cgroup.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define NONE UINT64_MAX
#define CPU_PERIOD_US 100000u
#define ROOT "/sys/fs/cgroup"
/* The most that one request may have missed the limit by. */
#define HUGE_PAGE (2u << 20)

static const char *const controllers[CGROUP_UNIFIED] = {
	[CGROUP_MEMORY] = "memory",
	[CGROUP_PIDS] = "pids",
	[CGROUP_CPU] = "cpu",
};

static void init(struct cgroup *c, const char *id)
{
	for (int i = 0; i < CGROUP_COUNT; i++)
		c->parent[i] = c->dir[i] = c->tasks[i] = -1;
	c->v2 = false;
	snprintf(c->name, sizeof(c->name), "pinfold-%s", id);
}

static bool has_word(const char *list, const char *word, char separator)
{
	size_t n = strlen(word);

	for (const char *p = strstr(list, word); p; p = strstr(p + 1, word)) {
		bool starts = p == list || p[-1] == separator;

		if (starts && (p[n] == separator || p[n] == '\0' ||
			       p[n] == '\n'))
			return true;
	}
	return false;
}

static int open_dir(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* One line of /proc/self/cgroup for a version 1 hierarchy. */
static void take_v1(struct cgroup *c, const char *list, const char *path)
{
	char full[PATH_MAX];

	for (int i = 0; i < CGROUP_UNIFIED; i++) {
		if (!has_word(list, controllers[i], ','))
			continue;
		if (snprintf(full, sizeof(full), ROOT "/%s%s", list,
			     path) < (int)sizeof(full))
			c->parent[i] = open_dir(full);
	}
}

/* The line "0::PATH", of which the first n bytes are meant. */
static void take_v2(struct cgroup *c, const char *path, int n)
{
	char full[PATH_MAX];

	if (snprintf(full, sizeof(full), ROOT "/unified%.*s", n, path) >=
	    (int)sizeof(full))
		return;
	c->parent[CGROUP_UNIFIED] = open_dir(full);
	if (c->parent[CGROUP_UNIFIED] >= 0)
		return;
	snprintf(full, sizeof(full), ROOT "%.*s", n, path);
	if (access(ROOT "/cgroup.controllers", F_OK) == 0)
		c->parent[CGROUP_UNIFIED] = open_dir(full);
}

/* Beside the caller's group, so that rules for inner nodes hold; its parent may
 * be the root of the hierarchy itself. */
static int beside(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash > path ? (int)(slash - path) : 0;
}

static void find_parents(struct cgroup *c)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);
	char *at, *line;

	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", &b) < 0 || !b.data)
		return;
	at = b.data;
	while ((line = strsep(&at, "\n"))) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		list++;
		if (*list)
			take_v1(c, list, path);
		else
			take_v2(c, path, beside(path));
	}
}

/* A version 2 controller serves where the parent hands it to its children. */
static bool is_handed_down(const struct cgroup *c, enum cgroup_controller k)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	int parent = c->parent[CGROUP_UNIFIED];

	return parent >= 0 &&
	       io_read_file(parent, "cgroup.subtree_control", &b) == 0 &&
	       has_word(buf_str(&b), controllers[k], ' ');
}

static void choose_v2(struct cgroup *c)
{
	c->v2 = is_handed_down(c, CGROUP_MEMORY) &&
		is_handed_down(c, CGROUP_PIDS);
}

static bool can_make(const struct cgroup *c, enum cgroup_controller k)
{
	int parent = c->parent[c->v2 ? CGROUP_UNIFIED : k];

	return parent >= 0 && faccessat(parent, ".", W_OK, 0) == 0 &&
	       (!c->v2 || is_handed_down(c, k));
}

bool cgroup_at_hand(const struct cgroup_limits *l)
{
	struct cgroup c;
	bool all;

	init(&c, "");
	find_parents(&c);
	choose_v2(&c);
	all = (l->memory == NONE || can_make(&c, CGROUP_MEMORY)) &&
	      (l->processes == NONE || can_make(&c, CGROUP_PIDS)) &&
	      (l->cpus_milli == NONE || can_make(&c, CGROUP_CPU));
	cgroup_remove(&c);
	return all;
}

static int write_limit(struct cgroup *c, enum cgroup_controller k,
		       const char *file, const char *text, struct error *err)
{
	int r = io_write_file(c->dir[k], file, text, strlen(text));

	if (r < 0)
		return error_set(err, r, "cannot set %s of the task's cgroup "
				 "to %s: %s", file, text, strerror(-r));
	return 0;
}

static int set_v1(struct cgroup *c, const struct cgroup_limits *l,
		  struct error *err)
{
	char text[32];
	int r = 0;

	if (c->dir[CGROUP_MEMORY] >= 0 && l->memory != NONE) {
		snprintf(text, sizeof(text), "%ju", (uintmax_t)l->memory);
		r = write_limit(c, CGROUP_MEMORY, "memory.limit_in_bytes",
				text, err);
		/* Swap is counted where the kernel does so; else it is not. */
		if (r == 0)
			io_write_file(c->dir[CGROUP_MEMORY],
				      "memory.memsw.limit_in_bytes", text,
				      strlen(text));
	}
	if (r == 0 && c->dir[CGROUP_PIDS] >= 0 && l->processes != NONE) {
		snprintf(text, sizeof(text), "%ju", (uintmax_t)l->processes);
		r = write_limit(c, CGROUP_PIDS, "pids.max", text, err);
	}
	if (r == 0 && c->dir[CGROUP_CPU] >= 0 && l->cpus_milli != NONE) {
		snprintf(text, sizeof(text), "%ju",
			 (uintmax_t)(l->cpus_milli * CPU_PERIOD_US / 1000));
		r = write_limit(c, CGROUP_CPU, "cpu.cfs_quota_us", text, err);
	}
	return r;
}

static int set_v2(struct cgroup *c, const struct cgroup_limits *l,
		  struct error *err)
{
	char text[64];
	int r = 0;

	if (l->memory != NONE) {
		snprintf(text, sizeof(text), "%ju", (uintmax_t)l->memory);
		r = write_limit(c, CGROUP_UNIFIED, "memory.max", text, err);
		if (r == 0)
			io_write_file(c->dir[CGROUP_UNIFIED],
				      "memory.swap.max", "0", 1);
		if (r == 0)
			io_write_file(c->dir[CGROUP_UNIFIED],
				      "memory.oom.group", "1", 1);
	}
	if (r == 0 && l->processes != NONE) {
		snprintf(text, sizeof(text), "%ju", (uintmax_t)l->processes);
		r = write_limit(c, CGROUP_UNIFIED, "pids.max", text, err);
	}
	if (r == 0 && l->cpus_milli != NONE &&
	    faccessat(c->dir[CGROUP_UNIFIED], "cpu.max", F_OK, 0) == 0) {
		snprintf(text, sizeof(text), "%ju %u",
			 (uintmax_t)(l->cpus_milli * CPU_PERIOD_US / 1000),
			 CPU_PERIOD_US);
		r = write_limit(c, CGROUP_UNIFIED, "cpu.max", text, err);
	}
	return r;
}

/* Makes our directory below its parent, if that lets us. */
static void make_dir(struct cgroup *c, int k, const char *file)
{
	if (c->parent[k] < 0 || c->dir[k] >= 0 ||
	    mkdirat(c->parent[k], c->name, 0755) < 0)
		return;
	c->dir[k] = openat(c->parent[k], c->name,
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->dir[k] >= 0 && file)
		c->tasks[k] = openat(c->dir[k], file, O_WRONLY | O_CLOEXEC);
	/* A group that nothing can be put into is none. */
	if (c->dir[k] < 0 || (file && c->tasks[k] < 0)) {
		close_fd(c->dir[k]);
		c->dir[k] = -1;
		unlinkat(c->parent[k], c->name, AT_REMOVEDIR);
	}
}

void cgroup_make(struct cgroup *c, const char *id)
{
	init(c, id);
	find_parents(c);
	choose_v2(c);
	if (c->v2 || !can_make(c, CGROUP_PIDS))
		make_dir(c, CGROUP_UNIFIED, NULL);
	if (c->v2 && c->dir[CGROUP_UNIFIED] < 0)
		c->v2 = false;
}

int cgroup_limit(struct cgroup *c, const struct cgroup_limits *limits,
		 struct error *err)
{
	if (c->v2)
		return set_v2(c, limits, err);
	make_dir(c, CGROUP_MEMORY, "tasks");
	make_dir(c, CGROUP_PIDS, "tasks");
	if (limits->cpus_milli != NONE)
		make_dir(c, CGROUP_CPU, "tasks");
	if (limits->count_cpu)
		make_dir(c, CGROUP_UNIFIED, "cgroup.procs");
	return set_v1(c, limits, err);
}

size_t cgroup_files(const struct cgroup *c, int ret[CGROUP_COUNT])
{
	size_t n = 0;

	for (int i = 0; i < CGROUP_COUNT; i++) {
		if (c->tasks[i] >= 0)
			ret[n++] = c->tasks[i];
	}
	return n;
}

/* Our own group, where its line is the version 2 one. */
static int find_own(struct cgroup *c)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);
	char *at;

	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", &b) < 0 || !b.data)
		return -ENOENT;
	at = strstr(b.data, "0::");
	if (!at || (at > b.data && at[-1] != '\n'))
		return -ENOENT;
	at += strlen("0::");
	take_v2(c, at, (int)strcspn(at, "\n"));
	return c->parent[CGROUP_UNIFIED] < 0 ? -ENOENT : 0;
}

/* A group with processes hands nothing down: ours go to a child of it. */
static int divide(int own, struct error *err)
{
	int r = 0;

	if (mkdirat(own, "keeper", 0755) < 0)
		return error_errno(err, "cannot divide the delegated cgroup");
	r = io_write_file(own, "keeper/cgroup.procs", "0", 1);
	if (r < 0)
		return error_set(err, r, "cannot enter a cgroup of our own: %s",
				 strerror(-r));
	for (int i = 0; i < CGROUP_UNIFIED; i++) {
		char text[16];

		snprintf(text, sizeof(text), "+%s", controllers[i]);
		r = io_write_file(own, "cgroup.subtree_control", text,
				  strlen(text));
		/* Without this one CPUs are held by affinity. */
		if (r < 0 && i != CGROUP_CPU)
			return error_set(err, r, "the %s controller is not "
					 "delegated: %s", controllers[i],
					 strerror(-r));
	}
	return 0;
}

int cgroup_make_delegated(struct cgroup *c, const char *id, struct error *err)
{
	int r;

	init(c, id);
	r = find_own(c);
	if (r < 0)
		return error_set(err, r, "the delegated cgroup is not below "
				 ROOT);
	c->v2 = true;
	r = divide(c->parent[CGROUP_UNIFIED], err);
	if (r == 0) {
		make_dir(c, CGROUP_UNIFIED, NULL);
		if (c->dir[CGROUP_UNIFIED] < 0)
			r = error_set(err, -EACCES, "cannot make a group in "
				      "the delegated cgroup");
	}
	if (r < 0)
		cgroup_remove(c);
	return r;
}

const char *cgroup_mechanism(const struct cgroup *c, enum cgroup_controller k)
{
	if (c->v2) {
		if (k == CGROUP_CPU &&
		    faccessat(c->dir[CGROUP_UNIFIED], "cpu.max", F_OK, 0) < 0)
			return NULL;
		return "cgroup v2";
	}
	return c->dir[k] >= 0 ? "cgroup v1" : NULL;
}

int cgroup_unified(const struct cgroup *c)
{
	return c->dir[CGROUP_UNIFIED];
}

/* The number behind "key " in a flat-keyed file; 0 when it is not there. */
static uint64_t read_key(int dir, const char *file, const char *key)
{
	AUTO_BUF struct buf b = BUF_INIT(8192);
	const char *at;
	uint64_t v = 0;

	if (dir < 0 || io_read_file(dir, file, &b) < 0 || !b.data)
		return 0;
	at = *key ? strstr(b.data, key) : b.data;
	if (!at)
		return 0;
	at += strlen(key);
	b.data[(size_t)(at - b.data) + strcspn(at, "\n")] = '\0';
	return num_parse_u64(at, &v) < 0 ? 0 : v;
}

/*
 * Could a group above have refused a fork before ours had limit processes?
 * Before Linux 6.12 pids.events counts both (cgroup-v2.rst, pids_localevents).
 */
static bool is_narrower_above(int parent, uint64_t limit, uint64_t ours)
{
	int at = parent;
	bool narrower = false;

	for (int depth = 0; depth < 32 && at >= 0 && !narrower; depth++) {
		uint64_t max = read_key(at, "pids.max", "");
		uint64_t current = read_key(at, "pids.current", "");
		int above = openat(at, "..",
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		/* "max" and a file that is not there are no number. */
		narrower = max > 0 && current - ours + limit > max;
		if (at != parent)
			close_fd(at);
		at = above;
	}
	if (at != parent)
		close_fd(at);
	return narrower;
}

/* The count of refused forks alone does not tell whose limit it was. */
static bool are_processes_ours(const struct cgroup *c, uint64_t limit,
			       uint64_t seen)
{
	enum cgroup_controller k = c->v2 ? CGROUP_UNIFIED : CGROUP_PIDS;
	uint64_t peak = read_key(c->dir[k], "pids.peak", "");
	uint64_t current = read_key(c->dir[k], "pids.current", "");

	if (limit == NONE || read_key(c->dir[k], "pids.events", "max ") == 0)
		return false;
	if (peak > 0)
		return peak >= limit;
	return seen >= limit || current >= limit ||
	       !is_narrower_above(c->parent[k], limit, current);
}

static bool is_memory_ours(const struct cgroup *c)
{
	int dir = c->dir[c->v2 ? CGROUP_UNIFIED : CGROUP_MEMORY];

	if (c->v2)
		return read_key(dir, "memory.events", "oom_kill ") > 0 &&
		       read_key(dir, "memory.events", "oom ") > 0;
	/* The counts of failures miss those of memory with swap. */
	return read_key(dir, "memory.oom_control", "oom_kill ") > 0 &&
	       read_key(dir, "memory.max_usage_in_bytes", "") + HUGE_PAGE >=
		       read_key(dir, "memory.limit_in_bytes", "");
}

const char *cgroup_limit_hit(const struct cgroup *c, uint64_t processes,
			     uint64_t seen)
{
	if (is_memory_ours(c))
		return "memory";
	if (are_processes_ours(c, processes, seen))
		return "processes";
	return NULL;
}

uint64_t cgroup_memory_peak(const struct cgroup *c)
{
	if (c->v2)
		return read_key(c->dir[CGROUP_UNIFIED], "memory.peak", "");
	return read_key(c->dir[CGROUP_MEMORY], "memory.max_usage_in_bytes", "");
}

uint64_t cgroup_processes_peak(const struct cgroup *c)
{
	int dir = c->dir[c->v2 ? CGROUP_UNIFIED : CGROUP_PIDS];
	uint64_t peak = read_key(dir, "pids.peak", "");

	/* Older kernels keep no peak. */
	return peak ? peak : read_key(dir, "pids.current", "");
}

uint64_t cgroup_cpu_us(const struct cgroup *c)
{
	return read_key(c->dir[CGROUP_UNIFIED], "cpu.stat", "usage_usec ");
}

void cgroup_kill(const struct cgroup *c)
{
	/* Who cannot fork cannot outrun being killed. */
	if (c->dir[CGROUP_PIDS] >= 0)
		io_write_file(c->dir[CGROUP_PIDS], "pids.max", "0", 1);
	if (c->dir[CGROUP_UNIFIED] >= 0)
		io_write_file(c->dir[CGROUP_UNIFIED], "cgroup.kill", "1", 1);
}

int cgroup_remove(struct cgroup *c)
{
	int r = 0;

	for (int i = 0; i < CGROUP_COUNT; i++) {
		if (c->dir[i] >= 0) {
			if (unlinkat(c->parent[i], c->name, AT_REMOVEDIR) < 0 &&
			    errno != ENOENT)
				r = -errno;
			close(c->dir[i]);
		}
		close_fd(c->parent[i]);
		close_fd(c->tasks[i]);
		c->dir[i] = c->parent[i] = c->tasks[i] = -1;
	}
	return r;
}

void cgroup_remove_stale(const char *id)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	struct cgroup c;

	init(&c, id);
	find_parents(&c);
	for (int i = 0; i < CGROUP_COUNT; i++) {
		if (c.parent[i] >= 0)
			c.dir[i] = openat(c.parent[i], c.name,
					  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	cgroup_kill(&c);
	for (int i = 0; i < CGROUP_COUNT; i++) {
		if (c.dir[i] < 0)
			continue;
		for (int tries = 0; tries < 100; tries++) {
			if (unlinkat(c.parent[i], c.name, AT_REMOVEDIR) == 0 ||
			    errno != EBUSY)
				break;
			nanosleep(&pause, NULL);
		}
	}
	cgroup_remove(&c);
}

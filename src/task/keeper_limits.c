/*
 * Theory of operation: what the kernel can hold it holds (control groups, a
 * resource limit, the size of a tmpfs); the keeper looks every TICK_US whether
 * such a limit was hit, and stops the task then. Where the kernel offers
 * nothing hard, the same tick measures: memory, processes and CPU time from the
 * sandbox's own /proc, disk and files first by the file system's free space,
 * which costs one call, and by walking the upper layer only when that says
 * that the limit may be near.
 */
#include "task/keeper.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/time.h"
#include "confine/landlock.h"
#include "task/state.h"
#include "workspace/changes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define TICK_US 50000u
#define FAST_TICK_US 10000u
#define SAMPLE_MAX_US 200000u
/* A walk or a scan of /proc takes at most a tenth of the time. */
#define REST_FACTOR 10u
/* Others on the same file system may free what the task takes. */
#define WALK_EVERY_US 250000u
/*
 * Processes come and go between a failed fork and the next look: so near to the
 * limit counts as having hit it. Two, or one in fifty; of a limit of few, less.
 */
static bool is_near(uint64_t processes, uint64_t limit)
{
	uint64_t most = limit / 50 > 2 ? limit / 50 : 2;
	uint64_t slack = limit / 8 < most ? limit / 8 : most;

	return limit != LIMIT_NONE && processes + slack >= limit &&
	       /* The command beside pid 1 is what every limit permits. */
	       processes > 2;
}

static void enforced(struct keeper *k, const char *what, const char *mechanism,
		     bool hard)
{
	record_add_enforced(&k->record, what, mechanism, hard);
}

/* One limit: by its group where there is one, else by what is said here. */
static int choose(struct keeper *k, uint64_t value, const char *what,
		  enum cgroup_controller controller, const char *otherwise,
		  bool otherwise_hard, struct error *err)
{
	const char *group = controller < CGROUP_COUNT
				    ? cgroup_mechanism(&k->cgroup, controller)
				    : NULL;

	if (value == LIMIT_NONE)
		return 0;
	enforced(k, what, group ? group : otherwise, group || otherwise_hard);
	if (k->plan.spec.limits.enforce == ENFORCE_HARD && !group &&
	    !otherwise_hard)
		return error_set(err, -EOPNOTSUPP,
				 "limits.enforce: hard, but this machine has "
				 "nothing hard for %s (%s is what there is); "
				 "see `pinfold doctor`",
				 what, otherwise);
	return 0;
}

/* What the files' second wall covers depends on the kernel's Landlock. */
static void tell_landlock(struct keeper *k)
{
	int abi = landlock_abi();

	if (k->plan.spec.nesting)
		enforced(k, "files", "mounts (nesting: no Landlock)", true);
	else
		enforced(k, "files",
			 abi >= 5   ? "mounts, Landlock"
			 : abi >= 3 ? "mounts, Landlock without device ioctls"
			 : abi == 2 ? "mounts, Landlock without truncation and "
				      "device ioctls"
				    : "mounts, Landlock without renames between "
				      "directories, truncation, device ioctls",
			 true);
}

/* Where a group came from, or why there is none, when it was not at hand. */
static void tell_group(struct keeper *k)
{
	if (k->plan.delegated)
		enforced(k, "cgroup", "a scope that systemd delegated", true);
	else if (k->plan.no_group)
		/* As long as the plan, which stays. */
		enforced(k, "cgroup", k->plan.no_group, false);
}

int keeper_limits_choose(struct keeper *k, struct error *err)
{
	const struct policy_limits *l = &k->plan.spec.limits;
	int r;

	tell_landlock(k);
	tell_group(k);
	r = choose(k, l->memory, "memory", CGROUP_MEMORY,
		   "watchdog over /proc", false, err);
	if (r == 0)
		r = choose(k, l->processes, "processes", CGROUP_PIDS,
			   "RLIMIT_NPROC of the user namespace", true, err);
	if (r == 0)
		r = choose(k, l->cpus_milli, "cpus", CGROUP_CPU,
			   "CPU affinity", l->cpus_milli % 1000 == 0, err);
	if (r == 0)
		r = choose(k, l->disk, "disk", CGROUP_COUNT,
			   "watchdog over the layer, RLIMIT_FSIZE for one file",
			   false, err);
	if (r == 0)
		r = choose(k, l->inodes, "inodes", CGROUP_COUNT,
			   "watchdog over the layer", false, err);
	if (r == 0)
		r = choose(k, l->open_files, "open_files", CGROUP_COUNT,
			   "RLIMIT_NOFILE", true, err);
	if (r == 0)
		r = choose(k, l->output, "output", CGROUP_COUNT, "relay", true,
			   err);
	if (r == 0)
		/* Without a group, short-lived children that nobody waits for
		 * escape it. */
		r = choose(k, l->cpu_time_ms, "cpu_time", CGROUP_COUNT,
			   "watchdog over /proc",
			   cgroup_unified(&k->cgroup) >= 0, err);
	if (r == 0)
		r = choose(k, l->wall_ms, "wall", CGROUP_COUNT, "timer", true,
			   err);
	if (r == 0)
		r = choose(k, l->idle_ms, "idle", CGROUP_COUNT, "timer", true,
			   err);
	return r;
}

static void support_usage(const struct keeper *k, uint64_t *bytes,
			  uint64_t *inodes);

void keeper_limits_init(struct keeper *k)
{
	struct keeper_limits *l = &k->limits;
	const struct policy_limits *want = &k->plan.spec.limits;
	struct statvfs fs;
	uint64_t now = time_mono_us();

	support_usage(k, &k->own_bytes, &k->own_inodes);
	l->started_us = l->last_activity_us = now;
	l->next_tick_us = now + TICK_US;
	l->next_walk_us = now;
	l->by_walking = (want->memory != LIMIT_NONE &&
			 !cgroup_mechanism(&k->cgroup, CGROUP_MEMORY)) ||
			(want->processes != LIMIT_NONE &&
			 !cgroup_mechanism(&k->cgroup, CGROUP_PIDS)) ||
			want->cpu_time_ms != LIMIT_NONE;
	if (l->by_walking)
		keeper_open_init(k);
	if (k->source_fd >= 0)
		changes_usage(k->source_fd, NULL, UINT64_MAX, UINT64_MAX,
			      &l->source_bytes, &l->source_inodes);
	if (fstatvfs(k->task_fd, &fs) == 0) {
		l->free_blocks = fs.f_bfree * fs.f_frsize;
		l->free_inodes = fs.f_ffree;
	}
}

/* ---- disk and files ---- */

static uint64_t used(uint64_t before, uint64_t now)
{
	return before > now ? before - now : 0;
}

/* Our own computing: a bomb that keeps us waiting earns no rest by it. */
static uint64_t busy_us(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) < 0)
		return time_mono_us();
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* What the one tmpfs of the sandbox holds, our own part included. */
static void support_usage(const struct keeper *k, uint64_t *bytes,
			  uint64_t *inodes)
{
	struct statvfs fs;

	*bytes = *inodes = 0;
	if (fstatvfs(k->box.support, &fs) < 0)
		return;
	*bytes = used(fs.f_blocks, fs.f_bfree) * fs.f_frsize;
	*inodes = used(fs.f_files, fs.f_ffree);
}

/* What home, /tmp and /dev/shm hold; our own part taken off. */
static void scratch_usage(const struct keeper *k, uint64_t *bytes,
			  uint64_t *inodes)
{
	support_usage(k, bytes, inodes);
	*bytes = used(*bytes, k->own_bytes);
	*inodes = used(*inodes, k->own_inodes);
}

/* What a source that is written directly has grown by. */
static void source_usage(const struct keeper *k, uint64_t bytes_left,
			 uint64_t inodes_left, uint64_t *bytes,
			 uint64_t *inodes)
{
	const struct keeper_limits *l = &k->limits;
	uint64_t most_bytes = bytes_left + l->source_bytes;
	uint64_t most_inodes = inodes_left + l->source_inodes;

	changes_usage(k->source_fd, NULL,
		      most_bytes < bytes_left ? UINT64_MAX : most_bytes,
		      most_inodes < inodes_left ? UINT64_MAX : most_inodes,
		      bytes, inodes);
	*bytes = used(*bytes, l->source_bytes);
	*inodes = used(*inodes, l->source_inodes);
}

static void walk(struct keeper *k, uint64_t bytes_left, uint64_t inodes_left,
		 const struct statvfs *fs)
{
	struct keeper_limits *l = &k->limits;
	uint64_t start = time_mono_us(), busy = busy_us(), took;
	uint64_t bytes = 0, inodes = 0, all_bytes = 0, all_inodes = 0;
	char name[40];

	keeper_open_begin(k, l->free_blocks, l->disk_bytes);
	if (changes_usage(k->task_fd, "upper", bytes_left, inodes_left, &bytes,
			  &inodes) == 0) {
		all_bytes = bytes;
		all_inodes = inodes;
	}
	if (k->source_fd >= 0) {
		source_usage(k, bytes_left, inodes_left, &bytes, &inodes);
		all_bytes += bytes;
		all_inodes += inodes;
	}
	for (size_t i = 0; i < k->plan.spec.write.n; i++) {
		snprintf(name, sizeof(name), "write.%zu/upper", i);
		if (changes_usage(k->task_fd, name, bytes_left, inodes_left,
				  &bytes, &inodes) == 0) {
			all_bytes += bytes;
			all_inodes += inodes;
		}
	}
	/* Half of what went is not here: some file may have no name. */
	if (used(l->free_blocks, fs->f_bfree * fs->f_frsize) / 2 >
	    used(all_bytes, l->disk_bytes))
		k->open.disk_is_odd = true;
	l->disk_bytes = all_bytes;
	l->disk_inodes = all_inodes;
	l->free_blocks = fs->f_bfree * fs->f_frsize;
	l->free_inodes = fs->f_ffree;
	keeper_open_note(k, l->free_blocks, l->disk_bytes);
	took = busy_us() - busy;
	l->next_walk_us = start + took * REST_FACTOR;
	l->due_walk_us = start + took * 2 * REST_FACTOR + WALK_EVERY_US;
}

static const char *disk_hit(struct keeper *k, uint64_t now_us)
{
	const struct policy_limits *want = &k->plan.spec.limits;
	struct keeper_limits *l = &k->limits;
	uint64_t bytes, inodes, more_bytes, more_inodes;
	struct statvfs fs;
	bool near;

	if (want->disk == LIMIT_NONE && want->inodes == LIMIT_NONE)
		return NULL;
	scratch_usage(k, &bytes, &inodes);
	bytes += k->open.sum.disk_bytes;
	inodes += k->open.sum.disk_inodes;
	if (fstatvfs(k->task_fd, &fs) < 0)
		return NULL;
	bytes += keeper_open_hidden(k);
	more_bytes = used(l->free_blocks, fs.f_bfree * fs.f_frsize);
	more_inodes = used(l->free_inodes, fs.f_ffree);
	near = bytes + l->disk_bytes + more_bytes >= want->disk ||
	       inodes + l->disk_inodes + more_inodes >= want->inodes ||
	       now_us >= l->due_walk_us;
	if (near && now_us >= l->next_walk_us)
		walk(k, want->disk, want->inodes, &fs);
	if (bytes + l->disk_bytes >= want->disk)
		return "disk";
	if (inodes + l->disk_inodes >= want->inodes)
		return "inodes";
	return NULL;
}

/* ---- processes, memory and CPU time from /proc ---- */

struct sample {
	uint64_t processes, memory, shared;
};

static uint64_t status_kib(const char *status, const char *key)
{
	const char *at = strstr(status, key);
	uintmax_t kib = 0;

	if (at)
		sscanf(at + strlen(key), "%ju", &kib);
	return kib;
}

static void sample_one(struct keeper *k, uint64_t number, const char *pid,
		       struct sample *s)
{
	AUTO_BUF struct buf b = BUF_INIT(8192);
	struct cpu_seen cpu = {.pid = number};
	uintmax_t v[4] = {0}, threads = 0, born = 0;
	char path[32];
	const char *at;
	uint64_t shared;

	snprintf(path, sizeof(path), "%.16s/stat", pid);
	if (io_read_file(k->proc_fd, path, &b) < 0)
		return;
	at = strrchr(buf_str(&b), ')');
	/* utime, stime, cutime, cstime, num_threads and starttime of
	 * proc_pid_stat(5). */
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
			      "%ju %ju %ju %ju %*d %*d %ju %*d %ju",
			  &v[0], &v[1], &v[2], &v[3], &threads, &born) != 6)
		return;
	s->processes += threads;
	cpu.born = born;
	cpu.self = v[0] + v[1];
	cpu.waited = v[2] + v[3];
	keeper_cpu_add(&k->limits.cpu, &cpu);
	buf_reset(&b);
	snprintf(path, sizeof(path), "%.16s/status", pid);
	if (io_read_file(k->proc_fd, path, &b) < 0)
		return;
	s->memory += status_kib(buf_str(&b), "RssAnon:") * 1024;
	s->memory += status_kib(buf_str(&b), "VmSwap:") * 1024;
	/* Shared memory is counted where most of it is seen at once. */
	shared = status_kib(buf_str(&b), "RssShmem:") * 1024;
	if (shared > s->shared)
		s->shared = shared;
}

static int sample_all(struct keeper *k, struct sample *s)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *entry;
	uint64_t until = time_mono_us() + SAMPLE_MAX_US;
	uint64_t inodes;
	uint64_t scratch;
	int r = io_open_dir(k->proc_fd, ".", &dir);

	if (r < 0)
		return r;
	/* Under a bomb a look may take seconds: what was seen up to then is
	 * less than there is, and the count of processes comes first again. */
	while ((entry = readdir(dir))) {
		uint64_t pid;

		if (num_parse_u64(entry->d_name, &pid) == 0)
			sample_one(k, pid, entry->d_name, s);
		if (time_mono_us() >= until) {
			k->limits.cpu.partial = true;
			break;
		}
	}
	scratch_usage(k, &scratch, &inodes);
	/* Maps of files in our tmpfs are in both sums. */
	s->memory += s->shared > scratch ? s->shared : scratch;
	s->memory += k->open.sum.memory_bytes;
	return 0;
}

static const char *sample_over(const struct keeper *k, const struct sample *s)
{
	const struct policy_limits *want = &k->plan.spec.limits;

	if (want->cpu_time_ms != LIMIT_NONE &&
	    k->limits.cpu_us >= want->cpu_time_ms * 1000u)
		return "cpu_time";
	if (!cgroup_mechanism(&k->cgroup, CGROUP_MEMORY) &&
	    s->memory >= want->memory)
		return "memory";
	if (!cgroup_mechanism(&k->cgroup, CGROUP_PIDS) &&
	    is_near(s->processes, want->processes))
		return "processes";
	return NULL;
}

/* Names alone, for they cost little: how many processes there are. */
static uint64_t count_processes(const struct keeper *k)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *entry;
	uint64_t n = 0, pid;

	io_open_dir(k->proc_fd, ".", &dir);
	while (dir && (entry = readdir(dir)))
		n += num_parse_u64(entry->d_name, &pid) == 0;
	return n;
}

/*
 * Where RLIMIT_NPROC holds, a bomb may come and go between two samples, or
 * leave us no time for one: it is counted, and often once there are many.
 */
static const char *processes_hit(struct keeper *k, uint64_t now_us)
{
	uint64_t most = k->plan.spec.limits.processes, busy = busy_us();
	struct keeper_limits *l = &k->limits;
	uint64_t n;

	if (k->proc_fd < 0 || most == LIMIT_NONE ||
	    cgroup_mechanism(&k->cgroup, CGROUP_PIDS))
		return NULL;
	n = count_processes(k);
	if (n > l->processes_peak)
		l->processes_peak = n;
	if (is_near(n, most))
		return "processes";
	if (n > most / 8)
		l->next_tick_us = now_us + FAST_TICK_US +
				  (busy_us() - busy) * REST_FACTOR;
	return NULL;
}

static const char *sample_hit(struct keeper *k)
{
	const struct policy_limits *want = &k->plan.spec.limits;
	struct keeper_limits *l = &k->limits;
	uint64_t start = time_mono_us(), busy = busy_us(), cpu_us;
	struct sample s = {0};

	if (k->proc_fd < 0 || sample_all(k, &s) < 0)
		return NULL;
	l->next_sample_us =
		start + TICK_US + (busy_us() - busy) * REST_FACTOR;
	cpu_us = keeper_cpu_end(&l->cpu) *
		 (1000000u / (uint64_t)sysconf(_SC_CLK_TCK));
	/* A group counts those that we never saw, too. */
	if (cgroup_cpu_us(&k->cgroup) > cpu_us)
		cpu_us = cgroup_cpu_us(&k->cgroup);
	if (cpu_us > l->cpu_us)
		l->cpu_us = cpu_us;
	if (s.memory > l->memory_peak)
		l->memory_peak = s.memory;
	if (s.processes > l->processes_peak)
		l->processes_peak = s.processes;
	/* Memory that grows fast is looked at more often. */
	if (s.memory > want->memory / 2)
		l->next_sample_us -= TICK_US - FAST_TICK_US;
	if (l->next_sample_us < l->next_tick_us)
		l->next_tick_us = l->next_sample_us;
	return sample_over(k, &s);
}

/* ---- all together ---- */

static const char *timer_hit(const struct keeper *k, uint64_t now_us)
{
	const struct policy_limits *want = &k->plan.spec.limits;
	const struct keeper_limits *l = &k->limits;

	if (l->output_over)
		return "output";
	if (want->wall_ms != LIMIT_NONE &&
	    now_us >= l->started_us + want->wall_ms * 1000u)
		return "wall";
	if (want->idle_ms != LIMIT_NONE &&
	    now_us >= l->last_activity_us + want->idle_ms * 1000u)
		return "idle";
	return NULL;
}

static const char *group_hit(const struct keeper *k)
{
	return cgroup_limit_hit(&k->cgroup, k->plan.spec.limits.processes,
				k->limits.processes_peak);
}

const char *keeper_limits_failed(struct keeper *k)
{
	return processes_hit(k, time_mono_us());
}

const char *keeper_limits_final(struct keeper *k, const struct rusage *ru)
{
	const struct policy_limits *want = &k->plan.spec.limits;
	const char *hit = group_hit(k);

	/* What came and went between two ticks. */
	if (!hit && !cgroup_mechanism(&k->cgroup, CGROUP_MEMORY) &&
	    (uint64_t)ru->ru_maxrss * 1024u >= want->memory)
		hit = "memory";
	if (!hit && want->cpu_time_ms != LIMIT_NONE &&
	    time_rusage_us(ru) >= want->cpu_time_ms * 1000u)
		hit = "cpu_time";
	if (hit)
		return hit;
	k->limits.next_walk_us = k->limits.due_walk_us = 0;
	/* Without changes there is nothing to walk, only scratch to look at. */
	if (!state_task_has_changes(k->task_fd))
		k->limits.next_walk_us = UINT64_MAX;
	return disk_hit(k, 1);
}

const char *keeper_limits_tick(struct keeper *k, uint64_t now_us)
{
	struct keeper_limits *l = &k->limits;
	const char *hit = timer_hit(k, now_us);
	uint64_t processes;

	if (hit || now_us < l->next_tick_us)
		return hit;
	l->next_tick_us = now_us + TICK_US;
	processes = cgroup_processes_peak(&k->cgroup);
	if (processes > l->processes_peak)
		l->processes_peak = processes;
	keeper_open_tick(k, now_us);
	hit = group_hit(k);
	if (!hit)
		hit = disk_hit(k, now_us);
	if (!hit && l->by_walking)
		hit = processes_hit(k, now_us);
	if (!hit && l->by_walking && now_us >= l->next_sample_us)
		hit = sample_hit(k);
	return hit;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t keeper_limits_next(const struct keeper *k)
{
	const struct policy_limits *want = &k->plan.spec.limits;
	const struct keeper_limits *l = &k->limits;
	uint64_t next = l->next_tick_us;

	if (want->wall_ms != LIMIT_NONE)
		next = earlier(next, l->started_us + want->wall_ms * 1000u);
	if (want->idle_ms != LIMIT_NONE)
		next = earlier(next,
			       l->last_activity_us + want->idle_ms * 1000u);
	return next;
}

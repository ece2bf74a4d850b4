/*
 * Files that were deleted while they are open, and memory files, hold space that
 * no walk of a directory finds. Init may look at the descriptors of the
 * processes below it, which the keeper, confined, may not. Best effort: the look
 * is bounded. What only a mapping holds is known by its length, not by its
 * blocks, and what lies in a message that nobody has received yet not at all:
 * both are told as what may be hidden. Detached System V segments are counted
 * with what is open.
 */
#include "task/init.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/time.h"
#include "confine/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define FILES_MAX 8192u
#define LOOK_MAX_US 200000u
#define COUNTED UINT64_MAX
/* Of the text of one process's mappings. */
#define MAPS_MAX (1u << 20)

struct look {
	struct open_files sum;
	dev_t scratch; /* home and /tmp: counted by their file system */
	uint64_t until_us;
	struct file {
		dev_t dev;
		ino_t ino;
		uint64_t mapped; /* up to here; COUNTED: its blocks are known */
	} seen[FILES_MAX];
	bool in_flight;
};

/* What is known of a file; NULL when there are too many to remember. */
static struct file *file_of(struct look *l, dev_t dev, ino_t ino)
{
	unsigned at = (unsigned)(ino * 2654435761u + dev) % FILES_MAX;

	for (unsigned i = 0; i < 16; i++, at = (at + 1) % FILES_MAX) {
		struct file *f = &l->seen[at];

		if (f->ino == ino && f->dev == dev)
			return f;
		if (f->ino != 0)
			continue;
		f->ino = ino;
		f->dev = dev;
		return f;
	}
	return NULL;
}

/* True the first time that a descriptor of it is seen. */
static bool is_new(struct look *l, const struct stat *st)
{
	struct file *f = file_of(l, st->st_dev, st->st_ino);

	if (!f || f->mapped == COUNTED)
		return false;
	l->sum.hidden_bytes -= f->mapped;
	f->mapped = COUNTED;
	return true;
}

static bool is_in_memory(int fds, const char *name)
{
	char target[64];
	ssize_t n = readlinkat(fds, name, target, sizeof(target));

	return n >= 7 && !memcmp(target, "/memfd:", 7);
}

/* True when it is a socket, which may hold more. */
static bool look_at(struct look *l, int fds, const char *name)
{
	uint64_t bytes;
	struct stat st;

	if (fstatat(fds, name, &st, 0) < 0)
		return false;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 0 ||
	    st.st_dev == l->scratch || !is_new(l, &st))
		return S_ISSOCK(st.st_mode);
	bytes = (uint64_t)st.st_blocks * 512u;
	if (is_in_memory(fds, name)) {
		l->sum.memory_bytes += bytes;
	} else {
		l->sum.disk_bytes += bytes;
		l->sum.disk_inodes++;
	}
	return false;
}

/*
 * System V segments that nobody has attached; attached ones are in the memory
 * of processes. Columns of proc_sysvipc_shm(5).
 */
static uint64_t detached_segments(void)
{
	AUTO_BUF struct buf b = BUF_INIT(1u << 20);
	uint64_t sum = 0;
	char *at, *line;

	if (io_read_file(AT_FDCWD, "/proc/sysvipc/shm", &b) < 0)
		return 0;
	at = b.data;
	while ((line = strsep(&at, "\n"))) {
		uintmax_t attached, rss, swap;

		if (sscanf(line, "%*d %*d %*o %*u %*u %*u %ju %*u %*u %*u %*u "
				 "%*u %*u %*u %ju %ju",
			   &attached, &rss, &swap) == 3 &&
		    attached == 0)
			sum += rss + swap;
	}
	return sum;
}

/* Does a message that carries descriptors wait in this socket? unix(7). */
static bool has_descriptors_in_flight(int fdinfo, const char *name)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	unsigned long n = 0;
	const char *at;

	if (io_read_file(fdinfo, name, &b) < 0)
		return false;
	at = strstr(buf_str(&b), "scm_fds:");
	return at && sscanf(at, "scm_fds: %lu", &n) == 1 && n > 0;
}

/*
 * A line of proc_pid_maps(5): of a deleted file, as much may be hidden as any
 * process maps.
 */
static void look_at_mapping(struct look *l, const char *line)
{
	static const char deleted[] = " (deleted)";
	const char *path = strchr(line, '/');
	unsigned long from, to, offset, ino;
	unsigned major, minor;
	size_t n = strlen(line);
	struct file *f;

	if (!path || n < sizeof(deleted) ||
	    strcmp(line + n - (sizeof(deleted) - 1), deleted) != 0)
		return;
	/* Those are memory, and counted as such. */
	if (!strncmp(path, "/memfd:", 7) || !strncmp(path, "/SYSV", 5) ||
	    !strncmp(path, "/dev/zero", 9))
		return;
	if (sscanf(line, "%lx-%lx %*s %lx %x:%x %lu", &from, &to, &offset,
		   &major, &minor, &ino) != 6 ||
	    makedev(major, minor) == l->scratch)
		return;
	f = file_of(l, makedev(major, minor), ino);
	to = to - from + offset;
	if (!f || f->mapped >= to)
		return;
	l->sum.hidden_bytes += to - f->mapped;
	f->mapped = to;
}

static void look_at_maps(struct look *l, int proc, const char *pid)
{
	AUTO_BUF struct buf b = BUF_INIT(MAPS_MAX);
	char name[32], *at, *line;

	snprintf(name, sizeof(name), "%.16s/maps", pid);
	if (io_read_file(proc, name, &b) < 0)
		return;
	at = b.data;
	while ((line = strsep(&at, "\n")))
		look_at_mapping(l, line);
}

static void look_at_one(struct look *l, int fds, int info, const char *name)
{
	if (look_at(l, fds, name) && has_descriptors_in_flight(info, name))
		l->in_flight = true;
}

/* How many descriptors a process may have: its table's size. */
static unsigned table_size(int proc, const char *pid)
{
	AUTO_BUF struct buf b = BUF_INIT(8192);
	char name[32];
	unsigned n = 0;
	const char *at;

	snprintf(name, sizeof(name), "%.16s/status", pid);
	if (io_read_file(proc, name, &b) < 0)
		return 0;
	at = strstr(buf_str(&b), "FDSize:");
	return at && sscanf(at, "FDSize: %u", &n) == 1 ? n : 0;
}

/*
 * A process that made itself undumpable hides its descriptors' directory. Each
 * is taken, looked at among our own, and let go.
 */
static void look_by_number(struct look *l, int proc, const char *pid)
{
	static const struct linger off;
	AUTO_CLOSE int fds = openat(proc, "self/fd",
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int info = openat(proc, "self/fdinfo",
				     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int process = sys_pidfd_open(atoi(pid));
	unsigned n = table_size(proc, pid);
	char name[16];

	for (unsigned i = 0; i < n && time_mono_us() < l->until_us; i++) {
		int fd = sys_pidfd_getfd(process, (int)i);

		if (fd < 0)
			continue;
		snprintf(name, sizeof(name), "%d", fd);
		look_at_one(l, fds, info, name);
		/* If it is ours alone by now, closing it must not wait. */
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
		close(fd);
	}
}

static void look_at_process(struct look *l, int proc, const char *pid)
{
	char name[32];
	AUTO_DIR DIR *dir = NULL;
	AUTO_CLOSE int info = -1;
	struct dirent *e;

	snprintf(name, sizeof(name), "%.16s/fdinfo", pid);
	info = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(name, sizeof(name), "%.16s/fd", pid);
	if (io_open_dir(proc, name, &dir) < 0)
		look_by_number(l, proc, pid);
	while (dir && time_mono_us() < l->until_us && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			look_at_one(l, dirfd(dir), info, e->d_name);
	}
	look_at_maps(l, proc, pid);
}

static void look_at_all(struct look *l)
{
	AUTO_DIR DIR *proc = NULL;
	struct dirent *e;
	struct stat st;

	io_open_dir(AT_FDCWD, "/proc", &proc);
	l->until_us = time_mono_us() + LOOK_MAX_US;
	if (stat("/tmp", &st) == 0)
		l->scratch = st.st_dev;
	while (proc && time_mono_us() < l->until_us && (e = readdir(proc))) {
		uint64_t pid;

		if (num_parse_u64(e->d_name, &pid) == 0 && pid > 1)
			look_at_process(l, dirfd(proc), e->d_name);
	}
}

void init_open_count(const struct init *in)
{
	struct open_files sum = {0};
	/* Given back at once: a sandbox waits most of its life. */
	struct look *l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (l != MAP_FAILED) {
		look_at_all(l);
		sum = l->sum;
		if (l->in_flight)
			sum.hidden_bytes = UINT64_MAX;
		munmap(l, sizeof(*l));
	}
	sum.memory_bytes += detached_segments();
	if (channel_send(in->channel, INIT_OPEN_FILES, &sum, sizeof(sum), NULL,
			 0) < 0)
		_exit(125);
}

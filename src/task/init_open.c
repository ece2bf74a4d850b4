/*
 * Files that were deleted while they are open, and memory files, hold space that
 * no walk of a directory finds. Init may look at the descriptors of the
 * processes below it, which the keeper, confined, may not. Best effort: the look
 * is bounded, and a file that only a mapping holds, or a message that nobody has
 * received yet, is not seen. Detached System V segments are counted with them.
 */
#include "task/init.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/time.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FILES_MAX 8192u
#define LOOK_MAX_US 200000u

struct look {
	struct open_files sum;
	dev_t scratch; /* home and /tmp: counted by their file system */
	uint64_t until_us;
	struct {
		dev_t dev;
		ino_t ino;
	} seen[FILES_MAX];
	unsigned n;
};

/* True the first time; also when there are too many to remember. */
static bool is_new(struct look *l, const struct stat *st)
{
	unsigned at = (unsigned)(st->st_ino * 2654435761u + st->st_dev) %
		      FILES_MAX;

	for (unsigned i = 0; i < 16; i++, at = (at + 1) % FILES_MAX) {
		if (l->seen[at].ino == st->st_ino &&
		    l->seen[at].dev == st->st_dev)
			return false;
		if (l->seen[at].ino != 0)
			continue;
		l->seen[at].ino = st->st_ino;
		l->seen[at].dev = st->st_dev;
		return true;
	}
	return false;
}

static bool is_in_memory(int fds, const char *name)
{
	char target[64];
	ssize_t n = readlinkat(fds, name, target, sizeof(target));

	return n >= 7 && !memcmp(target, "/memfd:", 7);
}

static void look_at(struct look *l, int fds, const char *name)
{
	uint64_t bytes;
	struct stat st;

	if (fstatat(fds, name, &st, 0) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_nlink != 0 || st.st_dev == l->scratch || !is_new(l, &st))
		return;
	bytes = (uint64_t)st.st_blocks * 512u;
	if (is_in_memory(fds, name)) {
		l->sum.memory_bytes += bytes;
	} else {
		l->sum.disk_bytes += bytes;
		l->sum.disk_inodes++;
	}
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

static DIR *open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir)
		close_fd(fd);
	return dir;
}

static void look_at_process(struct look *l, int proc, const char *pid)
{
	char name[32];
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;

	snprintf(name, sizeof(name), "%.16s/fd", pid);
	dir = open_dir(proc, name);
	while (dir && time_mono_us() < l->until_us && (e = readdir(dir))) {
		if (e->d_name[0] != '.')
			look_at(l, dirfd(dir), e->d_name);
	}
}

static void look_at_all(struct look *l)
{
	AUTO_DIR DIR *proc = open_dir(AT_FDCWD, "/proc");
	struct dirent *e;
	struct stat st;

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
		munmap(l, sizeof(*l));
	}
	sum.memory_bytes += detached_segments();
	if (channel_send(in->channel, INIT_OPEN_FILES, &sum, sizeof(sum), NULL,
			 0) < 0)
		_exit(125);
}

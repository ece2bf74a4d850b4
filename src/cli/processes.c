/*
 * Reads /proc once. The keeper is the process that holds the task's lock file
 * at the descriptor where every keeper has it; what descends from its children
 * is the sandbox. Processes come and go meanwhile: what is gone is left out.
 */
#include "cli/processes.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "task/plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROCESSES_MAX 65536
#define NONE (-1)

struct list {
	struct process *items;
	size_t n, cap;
};

/* "PID (COMM) STATE PPID ...": COMM may hold anything, also ") S 1". */
static bool parse_stat(char *text, struct process *ret)
{
	char *open = strchr(text, '('), *close = strrchr(text, ')');
	int parent;
	char state;

	if (!open || !close || close < open ||
	    sscanf(close + 1, " %c %d", &state, &parent) != 2)
		return false;
	*close = '\0';
	snprintf(ret->comm, sizeof(ret->comm), "%s", open + 1);
	ret->state = state;
	ret->parent = parent;
	ret->depth = NONE;
	return true;
}

static int add(struct list *l, const struct process *p)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 256;
		struct process *items =
			reallocarray(l->items, cap, sizeof(*items));

		if (!items)
			return -ENOMEM;
		l->items = items;
		l->cap = cap;
	}
	l->items[l->n++] = *p;
	return 0;
}

static bool is_keeper(int proc_fd, const struct process *p,
		      const struct stat *lock)
{
	char path[64];
	struct stat st;

	/* A comm is cut after 15 characters. */
	if (!str_eq(p->comm, "pinfold-keeper"))
		return false;
	snprintf(path, sizeof(path), "%d/fd/%d", (int)p->pid, KEEPER_FD_LOCK);
	return fstatat(proc_fd, path, &st, 0) == 0 &&
	       st.st_dev == lock->st_dev && st.st_ino == lock->st_ino;
}

static int read_all(DIR *proc, const struct stat *lock, struct list *l)
{
	struct dirent *e;

	while ((e = readdir(proc)) && l->n < PROCESSES_MAX) {
		AUTO_BUF struct buf text = BUF_INIT(4096);
		struct process p = {0};
		char path[300];
		uint64_t pid;
		int r;

		if (num_parse_u64(e->d_name, &pid) < 0 || pid > INT32_MAX)
			continue;
		snprintf(path, sizeof(path), "%s/stat", e->d_name);
		p.pid = (pid_t)pid;
		r = io_read_file(dirfd(proc), path, &text);
		if (r == -ENOMEM)
			return r;
		if (r < 0 || !text.data || !parse_stat(text.data, &p))
			continue;
		if (is_keeper(dirfd(proc), &p, lock))
			p.depth = 0;
		if (add(l, &p) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int depth_of(const struct list *l, pid_t pid)
{
	const struct process key = {.pid = pid};
	const struct process *found =
		bsearch(&key, l->items, l->n, sizeof(key), by_pid);

	return found ? found->depth : NONE;
}

/* Gives each descendant of the keeper its depth, level by level. */
static void find_descendants(struct list *l)
{
	bool found = l->n > 0;

	if (found)
		qsort(l->items, l->n, sizeof(*l->items), by_pid);
	for (int level = 1; found; level++) {
		found = false;
		for (size_t i = 0; i < l->n; i++) {
			struct process *p = &l->items[i];

			if (p->depth == NONE &&
			    depth_of(l, p->parent) == level - 1) {
				p->depth = level;
				found = true;
			}
		}
	}
}

int processes_of(int task_fd, struct process **ret, size_t *ret_n,
		 struct error *err)
{
	AUTO_DIR DIR *proc = opendir("/proc");
	struct list l = {0};
	struct stat lock;
	size_t kept = 0;

	*ret = NULL;
	*ret_n = 0;
	if (!proc || fstatat(task_fd, "lock", &lock, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, "cannot look for the processes");
	if (read_all(proc, &lock, &l) < 0) {
		free(l.items);
		return error_set(err, -ENOMEM, "out of memory");
	}
	find_descendants(&l);
	for (size_t i = 0; i < l.n; i++) {
		if (l.items[i].depth > 1)
			l.items[kept++] = l.items[i];
	}
	*ret = l.items;
	*ret_n = kept;
	return 0;
}

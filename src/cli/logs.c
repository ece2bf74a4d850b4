/*
 * pinfold logs: what a command of a sandbox has written. On a terminal control
 * sequences other than colours are shown instead of obeyed; elsewhere the
 * bytes are those of the command.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "cli/pick.h"
#include "cli/report.h"
#include "cli/screen.h"
#include "schema/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEMA "pinfold-logs-1"
#define JSON_OUTPUT_MAX (8u << 20)
/* How long an end may stay unnoticed if no event tells of it. */
#define LOOK_MS 1000

struct log {
	struct pick task;
	uint64_t number; /* of out.N; 0: the last there is */
	int fd;		 /* of out.N; -1: not there (yet) */
	bool follow;
	bool terminal;
	struct screen screen;
};

static void log_done(struct log *l)
{
	pick_done(&l->task);
	close_fd(l->fd);
}

#define AUTO_LOG __attribute__((cleanup(log_done)))

/* The highest N of out.N, 0 if there is none. */
static uint64_t last_number(int task_fd)
{
	AUTO_DIR DIR *dir = NULL;
	uint64_t n, last = 0;
	struct dirent *e;

	if (io_open_dir(task_fd, ".", &dir) < 0)
		return 0;
	while ((e = readdir(dir))) {
		if (str_starts(e->d_name, "out.") &&
		    num_parse_u64(e->d_name + 4, &n) == 0 && n > last)
			last = n;
	}
	return last;
}

/* Opens out.N if it is there. 1, 0 or negative. */
static int open_log(struct log *l, struct error *err)
{
	uint64_t n = l->number ? l->number : last_number(l->task.fd);
	char name[32];

	if (l->fd >= 0)
		return 1;
	if (n == 0)
		return 0;
	snprintf(name, sizeof(name), "out.%llu", (unsigned long long)n);
	l->fd = openat(l->task.fd, name,
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (l->fd < 0 && errno == ENOENT)
		return 0;
	if (l->fd < 0)
		return error_errno(err, "cannot open %s of %s", name,
				   l->task.id);
	l->number = n;
	return 1;
}

static int print(struct log *l, const char *data, size_t len, bool last)
{
	AUTO_BUF struct buf out = BUF_INIT(4 * REPORT_PIECE + 512);

	if (!l->terminal)
		return io_write_all(STDOUT_FILENO, data, len);
	screen_add(&l->screen, data, len, last, &out);
	return io_write_all(STDOUT_FILENO, buf_str(&out), out.len);
}

/* Prints what has come since the last time. 0 or negative. */
static int print_new(struct log *l, bool last)
{
	char chunk[REPORT_PIECE];
	ssize_t n = 1;
	int r = 0;

	while (l->fd >= 0 && r == 0 && n != 0) {
		n = read(l->fd, chunk, sizeof(chunk));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			r = print(l, chunk, (size_t)n, false);
	}
	return r == 0 && last ? print(l, "", 0, true) : r;
}

/*
 * Is somebody still writing it? A read lease is only given on a file that
 * nobody has open for writing. Where there are no leases, the task's life
 * decides.
 */
static bool is_written(int fd)
{
	if (fd < 0)
		return true;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
		fcntl(fd, F_SETLEASE, F_UNLCK);
		return false;
	}
	return true;
}

static int watch(const struct log *l, struct error *err)
{
	AUTO_CLOSE int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", l->task.fd);
	if (fd < 0 || inotify_add_watch(fd, path,
					IN_MODIFY | IN_CREATE | IN_CLOSE_WRITE |
						IN_MOVED_TO | IN_DELETE) < 0)
		return error_errno(err, "cannot watch %s", l->task.id);
	return steal_fd(&fd);
}

static int follow(struct log *l, struct error *err)
{
	AUTO_CLOSE int events = watch(l, err);
	struct pollfd p = {.fd = events, .events = POLLIN};
	bool over;
	int r;

	if (events < 0)
		return events;
	do {
		char drop[4096];

		/* Asked before reading: what was written before is read. */
		over = !state_task_alive(l->task.fd);
		r = open_log(l, err);
		if (r < 0)
			return r;
		over = over || !is_written(l->fd);
		r = print_new(l, over);
		if (r < 0)
			return error_set(err, r, "cannot print the output: %s",
					 strerror(-r));
		if (!over)
			poll(&p, 1, LOOK_MS);
		while (read(events, drop, sizeof(drop)) > 0)
			;
	} while (!over);
	return 0;
}

/* Output as JSON text: bytes that are not UTF-8 as \xNN. */
static int put_output(struct json_writer *w, const struct buf *raw)
{
	AUTO_BUF struct buf text = BUF_INIT(4 * JSON_OUTPUT_MAX);

	for (size_t i = 0; i < raw->len;) {
		size_t n = 1;

		while (n <= 4 && i + n <= raw->len &&
		       !str_is_utf8(raw->data + i, n))
			n++;
		if (n <= 4 && i + n <= raw->len) {
			buf_add(&text, raw->data + i, n);
			i += n;
		} else {
			buf_addf(&text, "\\x%02x",
				 (unsigned char)raw->data[i++]);
		}
	}
	if (text.failed)
		return text.failed;
	json_key(w, "output");
	json_string_bytes(w, buf_str(&text), text.len);
	return 0;
}

static int print_json(struct log *l, struct report *report, struct error *err)
{
	AUTO_BUF struct buf raw = BUF_INIT(JSON_OUTPUT_MAX);
	struct json_writer w;
	char chunk[REPORT_PIECE];
	bool cut = false;
	ssize_t n = 0;
	int r;

	while (l->fd >= 0 && (n = read(l->fd, chunk, sizeof(chunk))) > 0) {
		if (raw.len + (size_t)n > JSON_OUTPUT_MAX) {
			cut = true;
			break;
		}
		buf_add(&raw, chunk, (size_t)n);
	}
	if (n < 0 || raw.failed)
		return error_set(err, n < 0 ? -errno : raw.failed,
				 "cannot read the output of %s", l->task.id);
	json_begin(&w, &report->out);
	json_object(&w);
	json_put_bool(&w, "cut", cut);
	json_put_string(&w, "id", l->task.id);
	json_put_uint(&w, "number", l->number);
	r = put_output(&w, &raw);
	json_put_string(&w, "schema", SCHEMA);
	json_object_end(&w);
	if (r == 0)
		r = json_finish(&w);
	buf_add_char(&report->out, '\n');
	return r < 0 ? error_set(err, r, "cannot write the report: %s",
				 strerror(-r))
		     : 0;
}

static int choose(struct log *l, const struct options *o, struct error *err)
{
	AUTO_STATE struct state state = STATE_INIT;
	int r = state_open(&state, err);

	if (r == 0)
		r = pick_task(&state, o->n_rest ? o->rest[0] : NULL, &l->task,
			      err);
	if (r < 0)
		return r;
	if (o->n_rest > 1 &&
	    (num_parse_u64(o->rest[1], &l->number) < 0 || l->number == 0)) {
		AUTO_BUF struct buf quoted = BUF_INIT(512);

		str_quote(&quoted, o->rest[1], 60);
		return error_set(err, -EINVAL, "%s is no number of a command",
				 buf_str(&quoted));
	}
	r = open_log(l, err);
	if (r < 0)
		return r;
	if (r == 0 && l->number && !l->follow)
		return error_set(err, -ENOENT,
				 "%s has no output of a command %llu",
				 l->task.id, (unsigned long long)l->number);
	return 0;
}

int verb_logs(const struct options *o)
{
	AUTO_LOG struct log l = {.task = PICK_INIT, .fd = -1};
	AUTO_REPORT struct report report = {0};
	struct error err = {0};
	int r;

	l.follow = options_has(o, OPT_FOLLOW);
	l.terminal = isatty(STDOUT_FILENO);
	if (l.follow && options_has(o, OPT_JSON))
		return report_refuse("--follow and --json exclude each other");
	if (choose(&l, o, &err) < 0)
		return report_refuse(err.text);
	if (options_has(o, OPT_JSON)) {
		r = report_init(&report, o);
		if (r != 0)
			return r;
		if (print_json(&l, &report, &err) < 0)
			return report_refuse(err.text);
		return report_end(&report);
	}
	r = l.follow ? follow(&l, &err) : print_new(&l, true);
	if (r == -EPIPE)
		return STATUS_REFUSED;
	if (r < 0)
		return report_refuse(err.text[0] ? err.text
						 : "cannot print the output");
	return 0;
}

/*
 * The record of a task in memory and on disk. Its text is record_json.c's.
 */
#include "audit/record.h"

#include "base/cleanup.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void record_init(struct record *r)
{
	*r = (struct record){.exit_status = -1};
}

static void refusal_done(struct record_refusal *f)
{
	free(f->action);
	free(f->object);
	free(f->rule);
	free(f->comm);
}

void record_done(struct record *r)
{
	free(r->name);
	free(r->limit);
	free(r->error);
	strlist_done(&r->argv);
	strlist_done(&r->labels);
	strlist_done(&r->tools);
	strlist_done(&r->carried);
	strlist_done(&r->tool_env);
	strlist_done(&r->sockets);
	free(r->source);
	free(r->workdir);
	free(r->home);
	free(r->workspace);
	free(r->tier);
	free(r->identity);
	free(r->kernel);
	free(r->policy_name);
	free(r->enforced);
	strlist_done(&r->enforced_text);
	for (size_t i = 0; i < r->n_refusals; i++)
		refusal_done(&r->refusals[i]);
	free(r->refusals);
	record_init(r);
}

static const char *text(const char *s)
{
	return s ? s : "";
}

static bool is_same(const struct record_refusal *a,
		    const struct record_refusal *b)
{
	return str_eq(text(a->action), text(b->action)) &&
	       str_eq(text(a->object), text(b->object)) &&
	       str_eq(text(a->rule), text(b->rule)) &&
	       str_eq(text(a->comm), text(b->comm));
}

int record_add_refusal(struct record *r, const struct record_refusal *refusal)
{
	uint64_t count = refusal->count ? refusal->count : 1;
	struct record_refusal *list;
	struct record_refusal f = *refusal;

	for (size_t i = 0; i < r->n_refusals; i++) {
		if (is_same(&r->refusals[i], refusal)) {
			r->refusals[i].count += count;
			return 0;
		}
	}
	if (r->n_refusals == RECORD_REFUSALS_MAX) {
		r->refusals_dropped += count;
		return 0;
	}
	list = reallocarray(r->refusals, r->n_refusals + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	r->refusals = list;
	f.action = strdup(text(refusal->action));
	f.object = strdup(text(refusal->object));
	f.rule = strdup(text(refusal->rule));
	f.comm = strdup(text(refusal->comm));
	f.count = count;
	if (!f.action || !f.object || !f.rule || !f.comm) {
		refusal_done(&f);
		return -ENOMEM;
	}
	list[r->n_refusals++] = f;
	return 0;
}

int record_add_enforced(struct record *r, const char *what,
			const char *mechanism, bool hard)
{
	struct record_enforced *list = reallocarray(
		r->enforced, r->n_enforced + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	r->enforced = list;
	list[r->n_enforced++] = (struct record_enforced){
		.what = what,
		.mechanism = mechanism,
		.hard = hard,
	};
	return 0;
}

int record_begin(int lock_fd, const struct record *r, struct error *err)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	struct stat st;
	size_t done = 0;
	int e = record_to_json(r, &json);

	if (e < 0)
		return error_set(err, e, "cannot write the task's record: %s",
				 strerror(-e));
	while (done < json.len) {
		ssize_t n = pwrite(lock_fd, json.data + done, json.len - done,
				   (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err,
					   "cannot write the task's record");
		done += (size_t)n;
	}
	if (fstat(lock_fd, &st) < 0 ||
	    (st.st_size > (off_t)json.len &&
	     ftruncate(lock_fd, (off_t)json.len) < 0))
		return error_errno(err, "cannot write the task's record");
	return 0;
}

int record_write(int task_fd, const struct record *r, struct error *err)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	int e = record_to_json(r, &json);

	if (e == 0)
		e = io_replace_file(task_fd, "task.json", json.data, json.len,
				    0600);
	if (e < 0)
		return error_set(err, e, "cannot write task.json: %s",
				 strerror(-e));
	return 0;
}

int record_read(int task_fd, struct record *r, struct error *err)
{
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	const char *name = "task.json";
	int e = io_read_file(task_fd, name, &json);

	if (e == -ENOENT) {
		name = "lock";
		e = io_read_file(task_fd, name, &json);
	}
	if (e < 0)
		return error_set(err, e, "cannot read the task's record: %s",
				 strerror(-e));
	if (json.len == 0)
		return error_set(err, -ENODATA, "the task has no record yet");
	e = record_from_json(json.data, json.len, r, err);
	if (e < 0)
		error_prefix(err, "the task's record (%s)", name);
	return e;
}

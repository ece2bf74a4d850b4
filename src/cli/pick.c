#include "cli/pick.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "cli/report.h"
#include "policy/policy.h"
#include "workspace/source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void pick_done(struct pick *p)
{
	close_fd(p->fd);
	record_done(&p->record);
	strlist_done(&p->write);
	strlist_done(&p->protect);
	strlist_done(&p->deny);
	hidden_done(&p->hidden);
	*p = (struct pick)PICK_INIT;
}

int pick_policy(struct pick *p, struct error *err)
{
	AUTO_BUF struct buf json = BUF_INIT(POLICY_TEXT_MAX);
	struct policy policy;
	int r = io_read_file(p->fd, "policy.json", &json);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(err, r, "cannot read policy.json of %s: %s",
				 p->id, strerror(-r));
	r = policy_from_json(buf_str(&json), json.len, &policy, err);
	if (r < 0)
		return error_prefix(err, "policy.json of %s", p->id);
	p->write = policy.write;
	p->protect = policy.protect;
	p->deny = policy.deny;
	policy.write = policy.protect = policy.deny = (struct strlist){0};
	policy_done(&policy);
	hidden_read(&p->hidden, p->fd, p->record.hidden_digest);
	return 0;
}

/* Takes fd. A task that has no record (yet) is shown with an empty one. */
static int fill(const char *id, int fd, struct pick *ret)
{
	memcpy(ret->id, id, STATE_ID_SIZE);
	ret->fd = fd;
	ret->alive = state_task_alive(fd);
	ret->no_record = record_read(fd, &ret->record, NULL) < 0;
	if (ret->no_record) {
		record_init(&ret->record);
		memcpy(ret->record.id, id, STATE_ID_SIZE);
	}
	/* The record of its end is written last: who holds the lock then is a
	 * command at work on what the task left. */
	if (ret->record.state == RECORD_ENDED)
		ret->alive = false;
	return 0;
}

int pick_open(const struct state *s, const char *id, struct pick *ret,
	      struct error *err)
{
	char found[STATE_ID_SIZE];
	int fd, r = state_task_open(s, id, NULL, found, &fd, err);

	return r < 0 ? r : fill(found, fd, ret);
}

int pick_need_record(const struct pick *p, struct error *err)
{
	if (!p->no_record || !state_task_has_changes(p->fd))
		return 0;
	return error_set(err, -EBADMSG,
			 "the record of %s (task.json) is missing or damaged: "
			 "where its changes belong is not known; they lie in "
			 "its directory of the state, below upper",
			 p->id);
}

int pick_task(const struct state *s, const char *want, struct pick *ret,
	      struct error *err)
{
	struct source source = {.fd = -1};
	char id[STATE_ID_SIZE];
	int fd, r;

	if (want)
		return pick_open(s, want, ret, err);
	r = source_find(NULL, NULL, getenv("HOME"), getuid(), &source, NULL);
	if (r < 0)
		return error_set(err, r, "no task is named and the working "
					 "directory is no source: pinfold ps -a "
					 "shows all tasks");
	r = state_task_open(s, NULL, source.path, id, &fd, err);
	source_done(&source);
	if (r < 0)
		return r;
	ret->unnamed = true;
	return fill(id, fd, ret);
}

void pick_say_other(const struct state *s, const struct pick *p)
{
	AUTO_BUF struct buf text = BUF_INIT(512);
	char id[STATE_ID_SIZE];

	if (!p->unnamed || !p->record.source ||
	    state_newest_pending(s, p->record.source, p->id, id) < 0)
		return;
	buf_addf(&text, "another task of the same source holds changes: "
			"pinfold diff %s", id);
	report_note(buf_str(&text));
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Turns \xNN into the byte, in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		int high = s[0] == '\\' && s[1] == 'x' ? digit(s[2]) : -1;
		int low = high >= 0 ? digit(s[3]) : -1;

		if (low >= 0 && (high > 0 || low > 0)) {
			*to++ = (char)(high << 4 | low);
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/*
 * The path had no link in it when the task began. One that has come since leads
 * to what the task did not work on.
 */
static int open_as_it_was(const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int pick_open_below(const char *recorded, struct error *err)
{
	AUTO_FREE char *path = strdup(recorded);
	AUTO_BUF struct buf quoted = BUF_INIT(8192);
	int fd;

	if (!path)
		return error_set(err, -ENOMEM, "out of memory");
	fd = open_as_it_was(path);
	if (fd == -ENOENT && strstr(path, "\\x")) {
		unescape(path);
		fd = open_as_it_was(path);
	}
	if (fd >= 0)
		return fd;
	str_quote(&quoted, recorded, 500);
	if (fd == -ELOOP)
		return error_set(err, fd,
				 "cannot open %s, which the task worked on: a "
				 "link stands in this path now, and leads "
				 "elsewhere; put the directory back",
				 buf_str(&quoted));
	return error_set(err, fd, "cannot open %s, which the task worked on: "
				  "%s",
			 buf_str(&quoted), strerror(-fd));
}

int pick_busy(const struct pick *p, struct error *err)
{
	if (p->alive)
		return error_set(err, -EBUSY,
				 "%s is running: pinfold stop %s first", p->id,
				 p->id);
	return error_set(err, -EBUSY,
			 "another pinfold command is at work on %s: try again "
			 "when it has ended",
			 p->id);
}

int pick_claim(const struct pick *p, struct error *err)
{
	int lock = state_task_claim(p->fd);

	if (lock == -EBUSY)
		return pick_busy(p, err);
	if (lock < 0 && lock != -ENOENT)
		return error_set(err, lock, "cannot lock %s: %s", p->id,
				 strerror(-lock));
	return lock;
}

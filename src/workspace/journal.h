/*
 * The journal of one promotion: what is to be done to each path, written whole
 * before anything is done, so that whoever comes after a crash can finish it or
 * take it back. It lies in the directory of the promotion, LAYER/held/N, where
 * no sandbox ever sees it, beside one entry for each number in it: first what
 * goes into the source, then, its place exchanged, what was there before.
 *
 * The journal's name tells how far the promotion is:
 *
 *	new	being prepared; the source is as it was
 *	go	to be finished
 *	back	to be taken back
 *	done	finished; the originals are kept for an undo
 *	undone	taken back
 *
 * Numbers are of the machine that wrote them. A path's state in the file is a
 * note alone: what is true is what the file system has (inode numbers).
 */
#ifndef PINFOLD_WORKSPACE_JOURNAL_H
#define PINFOLD_WORKSPACE_JOURNAL_H

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define JOURNAL_MAGIC "pinfoldJ"
#define JOURNAL_LAYOUT 2
#define JOURNAL_STAGE_SIZE 40

enum journal_phase {
	JOURNAL_NEW,
	JOURNAL_GO,
	JOURNAL_BACK,
	JOURNAL_DONE,
	JOURNAL_UNDONE,
	JOURNAL_NONE, /* there is no journal */
};

struct journal_head {
	char magic[8];
	uint64_t layout; /* JOURNAL_LAYOUT: another is another version's */
	uint64_t n; /* entries; written last */
	uint64_t undo; /* of a finished one, by the user's word */
	uint64_t source_dev, source_ino;
	/* Where the numbered entries lie: a path in the source where that is on
	 * another mount than the state directory; else "". */
	char stage[JOURNAL_STAGE_SIZE];
	char source[PATH_MAX]; /* to find it without the task's record */
};

enum journal_act {
	ACT_ADD,     /* the numbered entry comes where nothing is */
	ACT_REPLACE, /* it changes its place with what is there */
	ACT_DELETE,  /* what is there becomes the numbered entry */
	ACT_MODE,    /* a directory gets other permissions */
	ACT_LEAVE,   /* nothing is done; reason says why */
	ACT_LOCK,    /* it is there while the promotion is at work */
	ACT_CHECK,   /* nothing is done, but it must be as it was */
};

/* What an entry is of a repository that is taken over. */
enum journal_part {
	PART_NOT,
	PART_REF,   /* a reference, or HEAD; reason: OLD NEW AHEAD BEHIND */
	PART_PACK,  /* objects, which stay for good */
	PART_LOG,
	PART_INDEX, /* reason: the commits it was made from and for */
	PART_DIR,   /* made for one of the others */
	PART_OTHER,
};

enum journal_state {
	STATE_PLANNED,
	STATE_PLACED,
	STATE_SKIPPED,	/* not done after all; see reason in journal_skip */
	STATE_RESTORED, /* taken back */
	STATE_OVER,	/* taken back, and that is on the disk */
};

/* Why a path is left: what could be done about it. */
enum journal_class {
	LEAVE_HELD,	/* protected: may be named */
	LEAVE_CONFLICT, /* changed on the host: may be named */
	LEAVE_REFUSED,	/* cannot be promoted */
	LEAVE_GIT,	/* in a git directory */
	LEAVE_GIT_HELD, /* likewise, and protected */
	LEAVE_CLASSES
};

struct journal_entry {
	uint32_t size; /* of all of it, a multiple of 8 */
	uint32_t path_len;
	uint8_t act;
	uint8_t kind;  /* enum change_kind */
	uint8_t state; /* enum journal_state */
	uint8_t class; /* of a path that is left */
	uint8_t linked : 1; /* the new file has several links */
	uint8_t merged : 1; /* it holds what both sides changed */
	uint8_t over_host : 1; /* the host had changed it since the task began */
	uint8_t why;	/* enum journal_skip */
	uint8_t fresh;	/* what holds it comes with this promotion */
	uint8_t part;	/* enum journal_part */
	uint32_t mode; /* of what comes; of what goes, if it is deleted */
	uint32_t old_mode;
	uint32_t new_uid, new_gid; /* as it was staged */
	uint32_t old_uid, old_gid; /* as who planned saw them */
	uint64_t number;
	uint64_t new_ino, new_size;
	int64_t mtime_ns; /* of what comes */
	uint64_t old_ino, old_size;
	int64_t old_mtime_ns;
	/* After it was placed, or restored: the change time in the source. */
	int64_t ctime_ns;
	/* A NUL behind it; then why it is left, or where a link leads, and a
	 * NUL. */
	char path[];
};

/* Why a planned path was skipped. */
enum journal_skip {
	SKIP_NOT,
	SKIP_CHANGED,	/* the host changed it meanwhile */
	SKIP_PARENT,	/* its directory is gone or was replaced */
	SKIP_CLOSED,	/* its directory cannot be written */
	SKIP_READ_ONLY, /* a directory that cannot be written itself */
	SKIP_OWNER,	/* another user's, and would not stay that */
	SKIP_GROUP,	/* of a group that the caller cannot give */
	SKIP_NOT_EMPTY, /* undo: holds files that did not come from here */
};

/* Is it a change that a user knows of, or a step towards one? */
static inline bool journal_is_shown(const struct journal_entry *e)
{
	return e->part <= PART_REF;
}

const char *journal_skip_text(uint8_t why);
const char *journal_reason(const struct journal_entry *e);

struct journal {
	int dir_fd; /* of held/N */
	int fd;
	enum journal_phase phase;
	/* While it is written. */
	char *buf;
	size_t used;
	uint64_t n;
	/* Once it is read: mapped, shared. */
	char *data;
	size_t len;
};

#define JOURNAL_INIT {.dir_fd = -1, .fd = -1, .phase = JOURNAL_NONE}
#define AUTO_JOURNAL __attribute__((cleanup(journal_done)))

/* Makes the journal in dir_fd, which it takes, replacing a new one. */
int journal_create(struct journal *j, int dir_fd,
		   const struct journal_head *head);
/*
 * Appends; path and reason are copied. Of what comes reason is a link's target,
 * or "". 0 or negative.
 */
int journal_add(struct journal *j, const struct journal_entry *e,
		const char *path, const char *reason);
/* Writes what is left, and the head, and maps it. */
int journal_finish(struct journal *j);

/*
 * Opens the journal in dir_fd, which it takes, whatever its phase. Of one
 * that is new only the head is to be believed. -ENOENT; -EBADMSG: a new one that
 * is none, by which nothing was done yet; -EUCLEAN: another one that is not whole
 * (not as many entries as its head says, or another version's); or another
 * negative errno.
 */
int journal_open(struct journal *j, int dir_fd);
/* -EUCLEAN, with a text that names the promotion. */
int journal_damaged(unsigned number, struct error *err);
/* As journal_open for one that another process has finished writing. */
int journal_open_new(struct journal *j, int dir_fd);
void journal_done(struct journal *j);

/*
 * Renames it, after what it says is on the disk (synced: it is already); then
 * that is, too.
 */
int journal_enter(struct journal *j, enum journal_phase phase, bool synced);

struct journal_head *journal_head(const struct journal *j);
/* The entry behind e (NULL: the first), NULL at the end. */
struct journal_entry *journal_next(const struct journal *j,
				   const struct journal_entry *e);
/*
 * The offsets of all entries, for going backwards. *ret is the caller's to
 * free; 0 or -ENOMEM.
 */
int journal_index(const struct journal *j, size_t **ret, size_t *ret_n);
/* All entries in the order of their paths; likewise. */
int journal_sorted(const struct journal *j, struct journal_entry ***ret,
		   size_t *ret_n);
struct journal_entry *journal_at(const struct journal *j, size_t offset);

#endif

#include "workspace/git_packed.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/git_name.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

void git_packed_done(struct git_packed *p)
{
	buf_done(&p->text);
	buf_done(&p->names);
	free(p->refs);
	*p = (struct git_packed)GIT_PACKED_INIT;
}

static int compare(const void *a, const void *b)
{
	const struct git_packed_ref *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int add(struct git_packed *p, size_t *cap, struct git_packed_ref ref)
{
	struct git_packed_ref *grown;

	if (p->n == *cap) {
		*cap = *cap ? *cap * 2 : 64;
		grown = reallocarray(p->refs, *cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		p->refs = grown;
	}
	p->refs[p->n++] = ref;
	return 0;
}

/* A line "ID NAME", whose end is cut off in names. */
static int add_line(struct git_packed *p, size_t *cap, char *line, size_t len,
		    size_t id_len)
{
	if (len < id_len + 2 || line[id_len] != ' ')
		return -EBADMSG;
	line[id_len] = line[len] = '\0';
	if (!git_is_id(line, id_len) || strlen(line + id_len + 1) !=
						len - id_len - 1)
		return -EBADMSG;
	return add(p, cap,
		   (struct git_packed_ref){
			   .name = line + id_len + 1,
			   .id = line,
			   .at = (size_t)(line - p->names.data),
			   .len = len + 1,
		   });
}

static int parse(struct git_packed *p, size_t id_len)
{
	char *at = p->names.data, *end = at + p->names.len;
	size_t cap = 0;
	int r = 0;

	while (at < end && r == 0) {
		char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = newline ? (size_t)(newline - at) : 0;

		if (!newline)
			return -EBADMSG;
		/* What a tag leads to belongs to the line above. */
		if (at[0] == '^' && p->n > 0)
			p->refs[p->n - 1].len += len + 1;
		else if (at[0] != '#')
			r = add_line(p, &cap, at, len, id_len);
		at = newline + 1;
	}
	if (r == 0 && p->n > 1)
		qsort(p->refs, p->n, sizeof(*p->refs), compare);
	return r;
}

int git_packed_read(struct git_packed *p, int dir_fd, const char *name,
		    size_t id_len)
{
	AUTO_CLOSE int fd = walk_open_at(dir_fd, name,
					 O_RDONLY | O_NONBLOCK | O_NOCTTY);
	int r;

	*p = (struct git_packed)GIT_PACKED_INIT;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (fstat(fd, &p->st) < 0)
		return -errno;
	if (!S_ISREG(p->st.st_mode))
		return -EBADMSG;
	r = io_read_all(fd, &p->text);
	if (r == 0 && p->text.len > 0)
		r = buf_add(&p->names, p->text.data, p->text.len);
	return r == 0 && p->names.len > 0 ? parse(p, id_len) : r;
}

const char *git_packed_find(const struct git_packed *p, const char *name)
{
	const struct git_packed_ref key = {.name = name}, *found = NULL;

	if (p->n > 0)
		found = bsearch(&key, p->refs, p->n, sizeof(key), compare);
	return found ? found->id : NULL;
}

static int by_place(const void *a, const void *b)
{
	const struct git_packed_ref *const *x = a, *const *y = b;

	return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

int git_packed_without(const struct git_packed *p, const struct strlist *names,
		       struct buf *out)
{
	AUTO_FREE const struct git_packed_ref **cut =
		calloc(names->n + 1, sizeof(*cut));
	size_t n = 0, at = 0;

	if (!cut)
		return -ENOMEM;
	for (size_t i = 0; i < names->n; i++) {
		const struct git_packed_ref key = {.name = names->items[i]};

		cut[n] = p->n ? bsearch(&key, p->refs, p->n, sizeof(key),
					compare)
			      : NULL;
		n += cut[n] != NULL;
	}
	if (n > 1)
		qsort(cut, n, sizeof(struct git_packed_ref *), by_place);
	for (size_t i = 0; i < n; i++) {
		buf_add(out, p->text.data + at, cut[i]->at - at);
		at = cut[i]->at + cut[i]->len;
	}
	if (p->text.len > at)
		buf_add(out, p->text.data + at, p->text.len - at);
	return out->failed;
}

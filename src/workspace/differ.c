#include "workspace/differ.h"

#include "base/cleanup.h"
#include "ipc/channel.h"
#include "ipc/codec.h"
#include "workspace/patch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum type { ASK = 1, TEXT, END };

/* One state: a question, then its text, then its end. */
enum state { ASKING = 1, ANSWERING = 2 };

static const struct message_rule rules[] = {
	{ASK, ASKING, 1, CHANNEL_DATA_MAX, 0, 2},
	{TEXT, ANSWERING, 1, CHANNEL_DATA_MAX, 0, 0},
	{END, ANSWERING, sizeof(int32_t), sizeof(int32_t), 0, 0},
};

/* ---- asking ---- */

static bool is_short(const char *name)
{
	return !name || strlen(name) <= DIFFER_NAME_MAX;
}

static void put_side(struct buf *b, const struct differ_side *s)
{
	codec_put_u32(b, s->mode);
	codec_put_u64(b, s->size);
	codec_put_u32(b, s->fd >= 0);
	codec_put_str(b, s->target);
	codec_put_str(b, s->omitted);
}

int differ_send(int fd, const struct differ_ask *ask)
{
	AUTO_BUF struct buf b = BUF_INIT(CHANNEL_DATA_MAX);
	int fds[2];
	size_t n = 0;

	if (!is_short(ask->path) || !is_short(ask->path_before) ||
	    !is_short(ask->before.target) || !is_short(ask->after.target))
		return -ENAMETOOLONG;
	codec_put_str(&b, ask->path);
	codec_put_str(&b, ask->path_before);
	codec_put_str(&b, ask->held);
	put_side(&b, &ask->before);
	put_side(&b, &ask->after);
	if (b.failed)
		return b.failed == -EFBIG ? -ENAMETOOLONG : b.failed;
	if (ask->before.fd >= 0)
		fds[n++] = ask->before.fd;
	if (ask->after.fd >= 0)
		fds[n++] = ask->after.fd;
	return channel_send(fd, ASK, b.data, b.len, fds, n);
}

int differ_recv(int fd, struct buf *out)
{
	struct message m;
	int32_t code;
	int r = channel_recv(fd, &m);

	if (r <= 0)
		return r == 0 ? -EPIPE : r;
	r = message_check(&m, rules, ARRAY_SIZE(rules), ANSWERING, NULL);
	message_done(&m);
	if (r < 0)
		return r;
	if (m.type == TEXT) {
		r = buf_add(out, m.data, m.len);
		return r < 0 ? r : 1;
	}
	memcpy(&code, m.data, sizeof(code));
	return code > 0 ? -EPROTO : code;
}

/* ---- answering ---- */

struct question {
	struct patch_change change;
	struct buf content[2];
};

static void question_done(struct question *q)
{
	buf_done(&q->content[0]);
	buf_done(&q->content[1]);
}

#define AUTO_QUESTION __attribute__((cleanup(question_done)))

/* The whole file, unless it is too large or cannot be read. */
static int read_content(int fd, struct buf *content, struct patch_side *side)
{
	for (;;) {
		char *to = buf_reserve(content, 65536);
		ssize_t n;

		if (!to && content->failed == -EFBIG) {
			side->omitted = "too large to be compared";
			return 0;
		}
		if (!to)
			return content->failed;
		n = read(fd, to, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			side->omitted = "it cannot be read";
			return 0;
		}
		if (n == 0)
			break;
		buf_commit(content, (size_t)n);
	}
	side->data = buf_str(content);
	side->len = content->len;
	return 0;
}

/* What stands for the content where no file came along. */
static void set_content(struct patch_side *side, const char *target)
{
	if (S_ISLNK(side->mode))
		side->data = target;
	else if (!S_ISREG(side->mode))
		side->data = "";
	side->len = side->data ? strlen(side->data) : 0;
	if (!side->data && !side->omitted)
		side->omitted = "it cannot be read";
}

static int get_side(struct codec_reader *c, struct message *m, size_t *at,
		    struct buf *content, struct patch_side *side)
{
	const char *target;
	bool has_fd;
	AUTO_CLOSE int fd = -1;

	side->mode = codec_get_u32(c);
	side->size = codec_get_u64(c);
	has_fd = codec_get_u32(c) != 0;
	target = codec_get_str(c);
	side->omitted = codec_get_str(c);
	if (has_fd)
		fd = message_take_fd(m, (*at)++);
	if (has_fd && fd < 0)
		return -EPROTO;
	if (S_ISREG(side->mode) && fd >= 0)
		return read_content(fd, content, side);
	set_content(side, target);
	return 0;
}

static int read_question(struct message *m, struct question *q)
{
	struct codec_reader c = {.data = (const char *)m->data, .len = m->len};
	struct patch_change *p = &q->change;
	size_t at = 0;
	int r;

	buf_init(&q->content[0], PATCH_FILE_MAX + 65536);
	buf_init(&q->content[1], PATCH_FILE_MAX + 65536);
	p->path = codec_get_str(&c);
	p->path_before = codec_get_str(&c);
	p->held = codec_get_str(&c);
	r = get_side(&c, m, &at, &q->content[0], &p->before);
	if (r == 0)
		r = get_side(&c, m, &at, &q->content[1], &p->after);
	if (r == 0)
		r = codec_end(&c);
	return r == 0 && !p->path ? -EPROTO : r;
}

static int send_text(int fd, const struct buf *text)
{
	size_t at = 0;
	int r = 0;

	while (at < text->len && r == 0) {
		size_t n = text->len - at;

		if (n > CHANNEL_DATA_MAX)
			n = CHANNEL_DATA_MAX;
		r = channel_send(fd, TEXT, text->data + at, n, NULL, 0);
		at += n;
	}
	return r;
}

static int answer(int fd, struct message *m)
{
	AUTO_QUESTION struct question q = {0};
	AUTO_BUF struct buf text = BUF_INIT(DIFFER_TEXT_MAX);
	int r = read_question(m, &q);
	int32_t code;

	if (r == -EPROTO)
		return r;
	if (r == 0)
		r = patch_write(&text, &q.change);
	code = r;
	if (r == 0)
		r = send_text(fd, &text);
	else
		r = 0;
	return r < 0 ? r : channel_send(fd, END, &code, sizeof(code), NULL, 0);
}

int differ_serve(int fd)
{
	struct message m;
	int r;

	for (;;) {
		r = channel_recv(fd, &m);
		if (r <= 0)
			return r;
		r = message_check(&m, rules, ARRAY_SIZE(rules), ASKING, NULL);
		if (r == 0)
			r = answer(fd, &m);
		message_done(&m);
		if (r < 0)
			return r;
	}
}

/*
 * What pinfold's processes read from each other; the first byte chooses. No
 * fault; what was accepted is packed again and read back the same; a refusal
 * has a text where somebody is to be told; no descriptor is lost.
 *
 *	p  plan			e  arguments of an exec
 *	i  configuration of init	c  calls of the codec
 *	m  a datagram for every rule table
 *	w  a record of pinfold-watch	b  what a bus says
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "ipc/bus_reply.h"
#include "ipc/codec.h"
#include "task/exec_args.h"
#include "task/init.h"
#include "task/keeper.h"
#include "task/plan.h"
#include "task/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void must_equal(const struct buf *a, const struct buf *b)
{
	if (a->failed || b->failed || a->len != b->len ||
	    memcmp(a->data, b->data, a->len) != 0)
		abort();
}

static void read_plan(const char *data, size_t len)
{
	AUTO_BUF struct buf once = BUF_INIT(PLAN_MAX);
	AUTO_BUF struct buf twice = BUF_INIT(PLAN_MAX);
	struct error err = {0};
	struct task_plan p;

	if (plan_unpack(data, len, &p, &err) < 0) {
		if (!err.text[0])
			abort();
		return;
	}
	if (strchr(p.spec.id, '/') || plan_pack(&p, &once) < 0)
		abort();
	plan_done(&p);
	if (plan_unpack(once.data, once.len, &p, NULL) < 0 ||
	    plan_pack(&p, &twice) < 0)
		abort();
	plan_done(&p);
	must_equal(&once, &twice);
}

static void read_config(const char *data, size_t len)
{
	AUTO_BUF struct buf once = BUF_INIT(PLAN_MAX);
	AUTO_BUF struct buf twice = BUF_INIT(PLAN_MAX);
	struct init_config c;

	if (init_config_unpack(data, len, &c) < 0)
		return;
	if (init_config_pack(&c, &once) < 0)
		abort();
	init_config_done(&c);
	if (init_config_unpack(once.data, once.len, &c) < 0 ||
	    init_config_pack(&c, &twice) < 0)
		abort();
	init_config_done(&c);
	must_equal(&once, &twice);
}

static void read_arguments(const char *data, size_t len)
{
	AUTO_CLOSE int fd = io_sealed_memfd("fuzz", data, len);
	AUTO_CLOSE int again = -1;
	struct error err = {0};
	struct exec_args a;

	if (fd < 0)
		return;
	if (exec_args_map(fd, &a, &err) < 0) {
		if (!err.text[0])
			abort();
		return;
	}
	if (!a.argv[0])
		abort();
	again = exec_args_pack(a.workdir, a.argv, a.envp, &err);
	if (again >= 0) {
		char copy[65536];
		ssize_t n = pread(again, copy, sizeof(copy), 0);

		if (len <= sizeof(copy) &&
		    (n != (ssize_t)len || memcmp(copy, data, len) != 0))
			abort();
	}
	exec_args_done(&a);
}

/* Every byte of the input is a call, and what it reads. */
static void read_codec(const char *data, size_t len)
{
	struct codec_reader r = {.data = data, .len = len};
	AUTO_STRLIST struct strlist list = {0};

	for (size_t i = 0; i < len; i++) {
		const char *s;

		switch (data[i] & 3) {
		case 0:
			codec_get_u32(&r);
			break;
		case 1:
			codec_get_u64(&r);
			break;
		case 2:
			s = codec_get_str(&r);
			if (s && (s < data || s + strlen(s) >= data + len))
				abort();
			break;
		default:
			codec_get_list(&r, 1000, &list);
		}
		if (r.at > r.len)
			abort();
	}
	if (codec_end(&r) == 0 && (r.failed || r.at != r.len))
		abort();
}

static size_t open_descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void check_tables(const struct message *m)
{
	const struct {
		const struct message_rule *rules;
		size_t n;
	} tables[] = {
		{keeper_from_front, n_keeper_from_front},
		{keeper_from_init, n_keeper_from_init},
		{keeper_from_watch, n_keeper_from_watch},
		{front_from_keeper, n_front_from_keeper},
		{init_from_keeper, n_init_from_keeper},
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		for (unsigned bit = 0; bit < 6; bit++) {
			struct error err = {0};
			int r = message_check(m, tables[i].rules, tables[i].n,
					      1u << bit, &err);

			if (r < 0 ? !err.text[0] : err.text[0] != '\0')
				abort();
			/* What a permitted message is copied into. */
			if (r == 0 && m->len > sizeof(m->data))
				abort();
		}
	}
}

/* The first byte says how many descriptors go along. */
static void receive(const char *data, size_t len)
{
	static struct message m;
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(sizeof(int) * 32)] = {0};
	struct iovec iov = {(void *)(uintptr_t)(data + 1), len - 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	size_t n = (unsigned char)data[0] % 20u;
	size_t before = open_descriptors();
	int pair[2], fds[20] = {0};

	if (channel_pair(pair) < 0)
		return;
	if (n > 0) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
	}
	if (sendmsg(pair[0], &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
		int r = channel_recv(pair[1], &m);

		if (r == 1)
			check_tables(&m);
		if (r == 1 && (m.n_fds != n || m.len != len - 1 - 8))
			abort();
		message_done(&m);
	}
	close(pair[0]);
	close(pair[1]);
	if (open_descriptors() != before)
		abort();
}

static void watch_record(const char *data, size_t len)
{
	static struct keeper k;
	AUTO_BUF struct buf json = BUF_INIT(RECORD_MAX);
	struct watch_record w = {0};
	int pair[2];

	memcpy(&w, data, len < sizeof(w) ? len : sizeof(w));
	if (channel_pair(pair) < 0)
		return;
	memset(&k, 0, sizeof(k));
	k.watch_channel = pair[1];
	k.state = KEEPER_RUNNING;
	k.watch_pidfd = k.init_pidfd = k.front = -1;
	record_init(&k.record);
	memcpy(k.record.id, "t-aaaaaaaaaaaaaaaa", 19);
	if (channel_send(pair[0], WATCH_RECORD, &w, sizeof(w), NULL, 0) == 0)
		keeper_watch_message(&k);
	if (k.ending || record_to_json(&k.record, &json) < 0)
		abort();
	record_done(&k.record);
	close(pair[0]);
	close(pair[1]);
}

static int hear(struct bus_reply *b, const char *data, size_t len)
{
	struct error err = {0};
	int r = bus_reply_read(b, data, len, &err);

	if (b->at > len || (r < 0 && !err.text[0]))
		abort();
	return r;
}

/* However it arrives, it comes to the same. */
static void hear_bus(const char *data, size_t len)
{
	struct bus_reply whole = {.wanted = 2}, parts = {.wanted = 2};
	int r = hear(&whole, data, len), r2 = 0;

	for (size_t n = 1; n <= len && r2 == 0; n += 1 + n / 4)
		r2 = hear(&parts, data, n);
	if (r2 == 0)
		r2 = hear(&parts, data, len);
	if (r != r2 || whole.state != parts.state)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (size < 2)
		return 0;
	switch (data[0]) {
	case 'p':
		read_plan(text, size - 1);
		break;
	case 'e':
		read_arguments(text, size - 1);
		break;
	case 'i':
		read_config(text, size - 1);
		break;
	case 'c':
		read_codec(text, size - 1);
		break;
	case 'm':
		receive(text, size - 1);
		break;
	case 'w':
		watch_record(text, size - 1);
		break;
	case 'b':
		hear_bus(text, size - 1);
		break;
	}
	return 0;
}

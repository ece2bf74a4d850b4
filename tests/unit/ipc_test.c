/* Channels and the codec: what is sent arrives whole, or is refused. */
#include "unit.h"

#include "base/cleanup.h"
#include "ipc/channel.h"
#include "ipc/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct message m;

static int make_pair(void **state)
{
	static int pair[2];

	*state = pair;
	return channel_pair(pair);
}

static int close_pair(void **state)
{
	int *pair = *state;

	close_fd(pair[0]);
	close_fd(pair[1]);
	return 0;
}

static void a_message_arrives_with_its_descriptors(void **state)
{
	int *pair = *state;
	int fds[2] = {0, 1};

	assert_int_equal(channel_send2(pair[0], 7, "ab", 2, "cde", 3, fds, 2),
			 0);
	assert_int_equal(channel_recv(pair[1], &m), 1);
	assert_int_equal(m.type, 7);
	assert_int_equal(m.len, 5);
	assert_memory_equal(m.data, "abcde", 5);
	assert_int_equal(m.n_fds, 2);
	assert_true(fcntl(m.fds[0], F_GETFD) & FD_CLOEXEC);
	message_done(&m);
	assert_int_equal(m.n_fds, 0);
}

static void a_descriptor_that_was_taken_stays_open(void **state)
{
	int *pair = *state;
	int fd = 0, taken;

	assert_int_equal(channel_send(pair[0], 7, NULL, 0, &fd, 1), 0);
	assert_int_equal(channel_recv(pair[1], &m), 1);
	taken = message_take_fd(&m, 0);
	assert_int_equal(message_take_fd(&m, 0), -1);
	assert_int_equal(message_take_fd(&m, 1), -1);
	message_done(&m);
	assert_true(fcntl(taken, F_GETFD) >= 0);
	close(taken);
}

static void the_largest_message_passes_and_a_larger_one_is_refused(void **state)
{
	static char data[CHANNEL_DATA_MAX + 1];
	int *pair = *state;
	int fds[CHANNEL_FDS_MAX + 1] = {0};

	assert_int_equal(channel_send(pair[0], 7, data, CHANNEL_DATA_MAX, fds,
				      CHANNEL_FDS_MAX), 0);
	assert_int_equal(channel_recv(pair[1], &m), 1);
	assert_int_equal(m.len, CHANNEL_DATA_MAX);
	assert_int_equal(m.n_fds, CHANNEL_FDS_MAX);
	message_done(&m);
	assert_int_equal(channel_send(pair[0], 7, data, sizeof(data), NULL, 0),
			 -EMSGSIZE);
	assert_int_equal(channel_send(pair[0], 7, NULL, 0, fds,
				      CHANNEL_FDS_MAX + 1), -EMSGSIZE);
	assert_int_equal(channel_send2(pair[0], 7, data, CHANNEL_DATA_MAX, data,
				       1, NULL, 0), -EMSGSIZE);
}

static void the_end_of_the_peer_is_told(void **state)
{
	int *pair = *state;

	close(pair[0]);
	pair[0] = -1;
	assert_int_equal(channel_recv(pair[1], &m), 0);
	assert_int_equal(channel_send(pair[1], 7, NULL, 0, NULL, 0), -EPIPE);
}

static void a_datagram_that_is_no_frame_is_refused(void **state)
{
	/* type, descriptors, length (little-endian), payload */
	static const unsigned char wrong[][12] = {
		{7, 0, 0, 0, 5, 0, 0, 0, 1, 2, 3, 4}, /* too short */
		{7, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 4}, /* too long */
		{7, 0, 1, 0, 4, 0, 0, 0, 1, 2, 3, 4}, /* no descriptor came */
	};
	int *pair = *state;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(send(pair[0], wrong[i], 12, 0), 12);
		assert_int_equal(channel_recv(pair[1], &m), -EPROTO);
	}
	assert_int_equal(send(pair[0], wrong[0], 3, 0), 3);
	assert_int_equal(channel_recv(pair[1], &m), -EPROTO);
}

static void an_empty_datagram_with_descriptors_is_no_end(void **state)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	struct iovec iov = {NULL, 0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	int *pair = *state;
	int before = dup(0);

	close(before);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	assert_int_equal(sendmsg(pair[0], &msg, 0), 0);
	assert_int_equal(channel_recv(pair[1], &m), -EPROTO);
	/* It was closed: its number is free again. */
	assert_int_equal(fcntl(before, F_GETFD), -1);
}

static void a_table_permits_by_type_state_and_shape(void **state)
{
	static const struct message_rule rules[] = {
		{7, 1, 2, 4, 0, 0},
		{7, 2, 0, 0, 1, 1},
	};
	struct error err = {0};

	(void)state;
	m.type = 7;
	m.len = 3;
	m.n_fds = 0;
	assert_int_equal(message_check(&m, rules, 2, 1, &err), 0);
	assert_int_equal(message_check(&m, rules, 2, 2, &err), -EPROTO);
	assert_int_equal(message_check(&m, rules, 2, 4, &err), -EPROTO);
	m.len = 5;
	assert_int_equal(message_check(&m, rules, 2, 1, &err), -EPROTO);
	assert_non_null(strstr(err.text, "message 7"));
	m.len = 1;
	assert_int_equal(message_check(&m, rules, 2, 1, &err), -EPROTO);
	m.type = 8;
	assert_int_equal(message_check(&m, rules, 2, 1, &err), -EPROTO);
}

static void what_was_packed_is_read_in_order(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1000);
	AUTO_STRLIST struct strlist list = {0};
	AUTO_STRLIST struct strlist again = {0};
	struct codec_reader r;

	(void)state;
	strlist_add(&list, "one");
	strlist_add(&list, "");
	codec_put_u32(&b, 1);
	codec_put_u64(&b, UINT64_MAX);
	codec_put_str(&b, NULL);
	codec_put_str(&b, "");
	assert_int_equal(codec_put_list(&b, &list), 0);
	r = (struct codec_reader){.data = b.data, .len = b.len};
	assert_int_equal(codec_get_u32(&r), 1);
	assert_true(codec_get_u64(&r) == UINT64_MAX);
	assert_null(codec_get_str(&r));
	assert_string_equal(codec_get_str(&r), "");
	assert_int_equal(codec_end(&r), -EPROTO);
	codec_get_list(&r, 2, &again);
	assert_int_equal(codec_end(&r), 0);
	assert_int_equal(again.n, 2);
	assert_string_equal(again.items[0], "one");
}

static void every_beginning_of_what_was_packed_is_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1000);

	(void)state;
	codec_put_str(&b, "text");
	codec_put_u64(&b, 5);
	for (size_t len = 0; len < b.len; len++) {
		struct codec_reader r = {.data = b.data, .len = len};

		codec_get_str(&r);
		codec_get_u64(&r);
		assert_int_equal(codec_end(&r), -EPROTO);
		/* A reader that failed once yields zeros from then on. */
		assert_int_equal(codec_get_u32(&r), 0);
		assert_null(codec_get_str(&r));
	}
}

static void a_string_with_a_zero_inside_is_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1000);
	struct codec_reader r;

	(void)state;
	codec_put_u32(&b, 3);
	buf_add(&b, "a\0c\0", 4);
	r = (struct codec_reader){.data = b.data, .len = b.len};
	assert_null(codec_get_str(&r));
	assert_int_equal(codec_end(&r), -EPROTO);
}

static void a_list_beyond_its_maximum_is_refused(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1000);
	AUTO_STRLIST struct strlist list = {0};
	struct codec_reader r;

	(void)state;
	codec_put_u32(&b, UINT32_MAX);
	r = (struct codec_reader){.data = b.data, .len = b.len};
	codec_get_list(&r, 10, &list);
	assert_int_equal(codec_end(&r), -EPROTO);
	assert_int_equal(list.n, 0);
}

#define ON_PAIR(test)                                                          \
	cmocka_unit_test_setup_teardown(test, make_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_PAIR(a_message_arrives_with_its_descriptors),
		ON_PAIR(a_descriptor_that_was_taken_stays_open),
		ON_PAIR(the_largest_message_passes_and_a_larger_one_is_refused),
		ON_PAIR(the_end_of_the_peer_is_told),
		ON_PAIR(a_datagram_that_is_no_frame_is_refused),
		ON_PAIR(an_empty_datagram_with_descriptors_is_no_end),
		cmocka_unit_test(a_table_permits_by_type_state_and_shape),
		cmocka_unit_test(what_was_packed_is_read_in_order),
		cmocka_unit_test(every_beginning_of_what_was_packed_is_refused),
		cmocka_unit_test(a_string_with_a_zero_inside_is_refused),
		cmocka_unit_test(a_list_beyond_its_maximum_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

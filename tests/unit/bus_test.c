/*
 * The D-Bus client: what it sends is what the specification and a real
 * dbus-daemon understand, and whatever comes back it ends in time, with bounds.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "base/time.h"
#include "ipc/bus.h"
#include "ipc/bus_reply.h"
#include "task/delegate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND_US 1000000u

static struct bus_call hello_call(void)
{
	return (struct bus_call){
		.destination = "org.freedesktop.DBus",
		.path = "/org/freedesktop/DBus",
		.interface = "org.freedesktop.DBus",
		.member = "Hello",
		.signature = "",
	};
}

static void a_call_has_the_bytes_of_the_specification(void **state)
{
	static const char bytes[] =
		"l\1\0\1\0\0\0\0\7\0\0\0\x6d\0\0\0"
		"\1\1o\0\x15\0\0\0/org/freedesktop/DBus\0\0\0"
		"\2\1s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0"
		"\3\1s\0\5\0\0\0Hello\0\0\0"
		"\6\1s\0\x14\0\0\0org.freedesktop.DBus\0\0\0";
	AUTO_BUF struct buf b = BUF_INIT(4096);
	struct bus_call call = hello_call();

	(void)state;
	if (BUS_ENDIAN != 'l')
		skip();
	assert_int_equal(bus_pack(&call, 7, &b), 0);
	/* The string's own end closes the last padding. */
	assert_int_equal(b.len, sizeof(bytes));
	assert_memory_equal(b.data, bytes, b.len);
}

static void arguments_are_padded_to_their_alignment(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	const char bytes[] = "\2\0\0\0ab\0\0\x18\0\0\0\0\0\0\0"
			     "\1\0\0\0x\0\1t\0\0\0\0\0\0\0\0"
			     "\5\0\0\0\0\0\0";
	size_t place;

	(void)state;
	if (BUS_ENDIAN != 'l')
		skip();
	bus_put_str(&b, "ab");
	place = bus_array_begin(&b, 8);
	bus_put_struct(&b);
	bus_put_str(&b, "x");
	bus_put_signature(&b, "t");
	bus_put_u64(&b, 5);
	bus_array_end(&b, place, 8);
	assert_int_equal(b.failed, 0);
	assert_int_equal(b.len, sizeof(bytes));
	assert_memory_equal(b.data, bytes, sizeof(bytes));
}

static void arguments_beyond_their_maximum_are_refused(void **state)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct bus_call call = hello_call();
	char text[BUS_CALL_MAX + 1] = {0};

	(void)state;
	buf_init(&call.args, BUS_CALL_MAX);
	memset(text, 'x', BUS_CALL_MAX);
	bus_put_str(&call.args, text);
	assert_int_equal(bus_pack(&call, 1, &out), -EFBIG);
	buf_done(&call.args);
}

/* ---- what comes back ---- */

#define GREETING "DATA\r\nOK 0123456789abcdef\r\n"

/* A message of a bus, as bus_reply_read takes it. */
static void put_message(struct buf *b, int type, uint32_t reply_to,
			const char *error_name, const char *text)
{
	AUTO_BUF struct buf m = BUF_INIT(65536), body = BUF_INIT(65536);
	const char start[4] = {BUS_ENDIAN, (char)type, 0, 1};
	size_t fields;

	if (text)
		bus_put_str(&body, text);
	buf_add(&m, start, 4);
	bus_put_u32(&m, (uint32_t)body.len);
	bus_put_u32(&m, 9);
	fields = bus_array_begin(&m, 8);
	buf_add_char(&m, BUS_FIELD_REPLY_SERIAL);
	bus_put_signature(&m, "u");
	bus_put_u32(&m, reply_to);
	if (error_name) {
		bus_put_struct(&m);
		buf_add_char(&m, BUS_FIELD_ERROR_NAME);
		bus_put_signature(&m, "s");
		bus_put_str(&m, error_name);
	}
	if (text) {
		bus_put_struct(&m);
		buf_add_char(&m, BUS_FIELD_SIGNATURE);
		bus_put_signature(&m, "g");
		bus_put_signature(&m, "s");
	}
	bus_array_end(&m, fields, 8);
	bus_put_struct(&m);
	buf_add(b, m.data, m.len);
	if (body.len)
		buf_add(b, body.data, body.len);
	assert_int_equal(b->failed, 0);
}

static void an_answer_in_pieces_is_understood(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);
	struct bus_reply reply = {.wanted = 2};
	struct error err;

	(void)state;
	buf_add_str(&b, GREETING);
	put_message(&b, 2, 1, NULL, ":1.7");
	put_message(&b, 4, 0, NULL, "a signal");
	put_message(&b, 2, 2, NULL, "/job/1");
	for (size_t n = 0; n < b.len; n++) {
		/* Exactly so much, that a look beyond it is found. */
		char *part = malloc(n ? n : 1);

		memcpy(part, b.data, n);
		assert_int_equal(bus_reply_read(&reply, part, n, &err), 0);
		assert_int_not_equal(reply.state, BUS_ANSWERED);
		free(part);
	}
	assert_int_equal(bus_reply_read(&reply, b.data, b.len, &err), 0);
	assert_int_equal(reply.state, BUS_ANSWERED);
}

static void an_error_is_told_by_name_and_text(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);
	struct bus_reply reply = {.wanted = 2};
	struct error err;

	(void)state;
	buf_add_str(&b, GREETING);
	put_message(&b, 3, 2, "org.x.No", "Unit exists");
	assert_int_equal(bus_reply_read(&reply, b.data, b.len, &err),
			 -EREMOTEIO);
	assert_string_equal(err.text, "org.x.No: Unit exists");
}

static void read_all(const char *data, size_t len, int wanted)
{
	struct bus_reply reply = {.wanted = 2};
	struct error err;

	assert_int_equal(bus_reply_read(&reply, data, len, &err), wanted);
}

static void a_refusal_and_what_is_no_dbus_are_errors(void **state)
{
	static const char other[] = "l\2\0\1";
	AUTO_BUF struct buf b = BUF_INIT(65536);
	char noise[2000];

	(void)state;
	memset(noise, 'x', sizeof(noise));
	read_all("REJECTED EXTERNAL\r\n", 19, -EPERM);
	read_all(noise, sizeof(noise), -EPROTO);
	buf_add_str(&b, GREETING);
	buf_add(&b, noise, 100);
	read_all(b.data, b.len, -EPROTO);
	buf_reset(&b);
	buf_add_str(&b, GREETING);
	buf_add(&b, other, 4);
	buf_add(&b, "\xff\xff\xff\x7f\1\0\0\0\0\0\0\0", 12);
	read_all(b.data, b.len, -EFBIG);
}

/* No byte of a message that is another may lead beyond its end. */
static void any_changed_byte_is_survived(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(65536);
	size_t from = strlen(GREETING);

	(void)state;
	buf_add_str(&b, GREETING);
	put_message(&b, 3, 2, "org.x.No", "Unit exists");
	for (size_t i = from; i < b.len; i++) {
		for (int v = 0; v < 256; v += 5) {
			struct bus_reply reply = {.wanted = 2};
			char *copy = malloc(b.len);
			struct error err;

			memcpy(copy, b.data, b.len);
			copy[i] = (char)v;
			bus_reply_read(&reply, copy, b.len, &err);
			free(copy);
		}
	}
}

static void silence_ends_in_time(void **state)
{
	AUTO_CLOSE int ours = -1, theirs = -1;
	struct bus_call call = hello_call();
	uint64_t began = time_mono_us();
	struct error err;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
				    pair), 0);
	ours = pair[0];
	theirs = pair[1];
	assert_int_equal(bus_ask(ours, &call, began + 200000, &err),
			 -ETIMEDOUT);
	assert_non_null(strstr(err.text, "no answer"));
	assert_true(time_mono_us() - began < 10 * SECOND_US);
	close(steal_fd(&theirs));
	assert_true(bus_ask(ours, &call, time_mono_us() + SECOND_US, &err) < 0);
}

static void messages_without_end_are_not_read_for_ever(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1 << 20);
	AUTO_CLOSE int ours = -1, theirs = -1;
	struct bus_call call = hello_call();
	const int size = 1 << 20;
	struct error err;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
				    pair), 0);
	ours = pair[0];
	theirs = pair[1];
	setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	buf_add_str(&b, GREETING);
	while (b.len < 2 * BUS_TOTAL_MAX)
		put_message(&b, 4, 0, NULL, "a signal");
	assert_true(send(theirs, b.data, b.len, 0) > (ssize_t)BUS_TOTAL_MAX);
	assert_int_equal(bus_ask(ours, &call, time_mono_us() + 10 * SECOND_US,
				 &err), -EFBIG);
}

static void a_bus_of_another_user_is_refused(void **state)
{
	char dir[] = "/tmp/pinfold-bus.XXXXXX";
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct error err;
	int ready[2], fd, status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(dir));
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/bus", dir);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int s = socket(AF_UNIX, SOCK_STREAM, 0);

		if (setuid(65534) < 0 ||
		    bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		    listen(s, 1) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &status, 1), 1);
	close(ready[0]);
	fd = bus_connect(a.sun_path, &err);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	unlink(a.sun_path);
	rmdir(dir);
	assert_int_equal(fd, -EPERM);
	assert_non_null(strstr(err.text, "another user"));
}

/* ---- a real bus ---- */

static const char config[] =
	"<auth>EXTERNAL</auth><policy context=\"default\">"
	"<allow send_destination=\"*\" eavesdrop=\"true\"/>"
	"<allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>";

struct real_bus {
	char dir[32], path[48];
	pid_t daemon;
};

static pid_t spawn(const char *const argv[], const char *output)
{
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		dup2(fd, 1);
		dup2(fd, 2);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid;
}

static bool has_program(const char *name)
{
	AUTO_FREE char *path = str_format("/usr/bin/%s", name);

	return access(path, X_OK) == 0;
}

static int end_process(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid ? 0 : -1;
}

static int start_bus(void **state)
{
	static struct real_bus bus;
	AUTO_FREE char *file = NULL, *option = NULL, *log = NULL;
	AUTO_FILE FILE *f = NULL;
	const struct timespec pause = {.tv_nsec = 10000000};

	*state = NULL;
	if (!has_program("dbus-daemon") || !has_program("dbus-monitor"))
		return 0;
	strcpy(bus.dir, "/tmp/pinfold-bus.XXXXXX");
	if (!mkdtemp(bus.dir))
		return -1;
	snprintf(bus.path, sizeof(bus.path), "%s/bus", bus.dir);
	file = str_format("%s/config", bus.dir);
	log = str_format("%s/log", bus.dir);
	option = str_format("--config-file=%s", file);
	f = fopen(file, "we");
	if (!f || fprintf(f, "<busconfig><type>session</type><listen>unix:"
			  "path=%s/bus</listen>%s", bus.dir, config) < 0 || fflush(f) != 0)
		return -1;
	bus.daemon = spawn((const char *const[]){"dbus-daemon", option,
						 "--nofork", NULL}, log);
	for (int i = 0; i < 1000 && access(bus.path, F_OK) < 0; i++)
		nanosleep(&pause, NULL);
	*state = &bus;
	return access(bus.path, F_OK);
}

static int stop_bus(void **state)
{
	static const char *const names[] = {"bus", "config", "log", "monitor"};
	struct real_bus *bus = *state;

	if (!bus)
		return 0;
	end_process(bus->daemon);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *path = str_format("%s/%s", bus->dir, names[i]);

		unlink(path);
	}
	return rmdir(bus->dir);
}

static int ask(const struct real_bus *bus, struct bus_call *call,
	       struct error *err)
{
	AUTO_CLOSE int fd = bus_connect(bus->path, err);
	int r = fd < 0 ? fd : bus_ask(fd, call, time_mono_us() + 20 * SECOND_US,
				      err);

	buf_done(&call->args);
	return r;
}

static void a_real_bus_answers_a_call(void **state)
{
	struct bus_call call = hello_call();
	struct error err = {0};

	if (!*state)
		skip();
	call.member = "RequestName";
	call.signature = "su";
	buf_init(&call.args, BUS_CALL_MAX);
	bus_put_str(&call.args, "org.pinfold.Test");
	bus_put_u32(&call.args, 4);
	assert_int_equal(ask(*state, &call, &err), 0);
}

static void a_real_bus_tells_its_error(void **state)
{
	struct bus_call call = hello_call();
	struct error err = {0};

	if (!*state)
		skip();
	call.member = "NoSuchMethod";
	assert_int_equal(ask(*state, &call, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "UnknownMethod"));
	assert_non_null(strstr(err.text, "NoSuchMethod"));
}

/* Waits until the file holds the text; how often it is there. */
static bool shows(const char *path, const char *text)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	for (int i = 0; i < 2000; i++) {
		AUTO_BUF struct buf b = BUF_INIT(1 << 20);

		if (io_read_file(AT_FDCWD, path, &b) == 0 &&
		    strstr(buf_str(&b), text))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* dbus-monitor says what arrived of the call that asks for a scope. */
static void a_real_bus_understands_the_call_for_a_scope(void **state)
{
	static const char *const seen[] = {
		"member=StartTransientUnit", "string \"pinfold-t-x.scope\"",
		"string \"fail\"", "string \"PIDs\"", "uint32 4242",
		"string \"Delegate\"", "boolean true", "string \"TasksMax\"",
		"uint64 18446744073709551615", "string \"inactive-or-failed\"",
	};
	struct real_bus *bus = *state;
	struct bus_call call = {
		.destination = "org.freedesktop.systemd1",
		.path = "/org/freedesktop/systemd1",
		.interface = "org.freedesktop.systemd1.Manager",
		.member = "StartTransientUnit",
		.signature = DELEGATE_SIGNATURE,
		.args = BUF_INIT(BUS_CALL_MAX),
	};
	AUTO_FREE char *address = NULL, *output = NULL;
	struct error err = {0};
	pid_t monitor;

	if (!bus)
		skip();
	address = str_format("unix:path=%s", bus->path);
	output = str_format("%s/monitor", bus->dir);
	monitor = spawn((const char *const[]){"stdbuf", "-oL", "dbus-monitor",
					      "--address", address, NULL},
			output);
	/* It becomes deaf to us, and shows us all that comes then. */
	assert_true(shows(output, "NameLost"));
	delegate_arguments(&call.args, "pinfold-t-x.scope", 4242);
	assert_int_equal(ask(bus, &call, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "ServiceUnknown"));
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		if (!shows(output, seen[i]))
			fail_msg("%s did not arrive", seen[i]);
	}
	end_process(monitor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_has_the_bytes_of_the_specification),
		cmocka_unit_test(arguments_are_padded_to_their_alignment),
		cmocka_unit_test(arguments_beyond_their_maximum_are_refused),
		cmocka_unit_test(an_answer_in_pieces_is_understood),
		cmocka_unit_test(an_error_is_told_by_name_and_text),
		cmocka_unit_test(a_refusal_and_what_is_no_dbus_are_errors),
		cmocka_unit_test(any_changed_byte_is_survived),
		cmocka_unit_test(silence_ends_in_time),
		cmocka_unit_test(messages_without_end_are_not_read_for_ever),
		cmocka_unit_test(a_bus_of_another_user_is_refused),
		cmocka_unit_test(a_real_bus_answers_a_call),
		cmocka_unit_test(a_real_bus_tells_its_error),
		cmocka_unit_test(a_real_bus_understands_the_call_for_a_scope),
	};

	return cmocka_run_group_tests(tests, start_bus, stop_bus);
}

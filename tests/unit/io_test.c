#include "unit.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir_path[] = "/tmp/pinfold-io-test.XXXXXX";
static int dir = -1;

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir_path))
		return -1;
	dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlinkat(dir, "file", 0);
	unlinkat(dir, "fifo", 0);
	unlinkat(dir, "link", 0);
	close(dir);
	return rmdir(dir_path);
}

static void a_replaced_file_has_its_content_and_mode(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(100);
	struct stat st;

	(void)state;
	assert_int_equal(io_replace_file(dir, "file", "old", 3, 0644), 0);
	assert_int_equal(io_replace_file(dir, "file", "new!", 4, 0600), 0);
	assert_int_equal(io_read_file(dir, "file", &b), 0);
	assert_string_equal(buf_str(&b), "new!");
	assert_int_equal(fstatat(dir, "file", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(faccessat(dir, ".file.new", F_OK, 0), -1);
}

static void a_link_at_the_temporary_name_is_not_followed(void **state)
{
	(void)state;
	assert_int_equal(symlinkat("elsewhere", dir, ".file.new"), 0);
	assert_int_equal(io_replace_file(dir, "file", "x", 1, 0600), -ELOOP);
	assert_int_equal(faccessat(dir, "elsewhere", F_OK, 0), -1);
	unlinkat(dir, ".file.new", 0);
}

static void a_file_up_to_the_maximum_is_read(void **state)
{
	AUTO_BUF struct buf fits = BUF_INIT(5);
	AUTO_BUF struct buf small = BUF_INIT(4);

	(void)state;
	io_replace_file(dir, "file", "12345", 5, 0600);
	assert_int_equal(io_read_file(dir, "file", &fits), 0);
	assert_string_equal(buf_str(&fits), "12345");
	assert_int_equal(io_read_file(dir, "file", &small), -EFBIG);
}

static void what_is_no_regular_file_is_refused_at_once(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(100);

	(void)state;
	assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
	assert_int_equal(io_read_file(dir, "fifo", &b), -EINVAL);
	assert_int_equal(io_read_file(dir, ".", &b), -EISDIR);
	assert_int_equal(io_read_file(AT_FDCWD, "/dev/zero", &b), -EINVAL);
	assert_int_equal(io_read_file(dir, "missing", &b), -ENOENT);
	assert_int_equal(b.len, 0);
}

static void a_kernel_file_is_read_to_its_end(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(1 << 20);

	(void)state;
	assert_int_equal(io_read_file(AT_FDCWD, "/proc/self/status", &b), 0);
	assert_true(str_starts(buf_str(&b), "Name:"));
}

static void writing_needs_a_file_that_exists(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(100);

	(void)state;
	assert_int_equal(io_write_file(dir, "missing", "x", 1), -ENOENT);
	io_replace_file(dir, "file", "abc", 3, 0600);
	assert_int_equal(io_write_file(dir, "file", "X", 1), 0);
	io_read_file(dir, "file", &b);
	assert_string_equal(buf_str(&b), "Xbc");
	assert_int_equal(io_write_file(AT_FDCWD, "/dev/full", "x", 1),
			 -ENOSPC);
}

static char big[1 << 20];

/* The reader: 0 if all of big came through the pipe. */
static int read_slowly(int fd)
{
	AUTO_BUF struct buf b = BUF_INIT(sizeof(big));

	usleep(20000);
	return io_read_all(fd, &b) < 0 || b.len != sizeof(big);
}

static void more_than_a_pipe_holds_is_written_whole(void **state)
{
	int ends[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[1]);
		_exit(read_slowly(ends[0]));
	}
	close(ends[0]);
	assert_int_equal(io_write_all(ends[1], big, sizeof(big)), 0);
	close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_pipe_without_a_reader_is_an_error(void **state)
{
	int ends[2];

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	assert_int_equal(io_write_all(ends[1], "x", 1), -EPIPE);
	close(ends[1]);
}

static void sealed_memory_cannot_be_changed_and_is_mapped(void **state)
{
	AUTO_CLOSE int fd = io_sealed_memfd("test", "content", 7);
	const char *data;
	size_t len;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "X", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(io_map_sealed(fd, 7, &data, &len), 0);
	assert_int_equal(len, 7);
	assert_memory_equal(data, "content", 7);
	munmap((void *)data, len);
	assert_int_equal(io_map_sealed(fd, 6, &data, &len), -EFBIG);
}

static void memory_that_lacks_a_seal_is_not_mapped(void **state)
{
	AUTO_CLOSE int fd = memfd_create("test", MFD_ALLOW_SEALING);
	AUTO_CLOSE int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const char *data;
	size_t len;

	(void)state;
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(io_map_sealed(fd, 10, &data, &len), -EPERM);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
			       F_SEAL_WRITE), 0);
	assert_int_equal(io_map_sealed(fd, 10, &data, &len), -EPERM);
	assert_int_equal(io_map_sealed(file, 10, &data, &len), -EPERM);
	assert_int_equal(io_map_sealed(-1, 10, &data, &len), -EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_replaced_file_has_its_content_and_mode),
		cmocka_unit_test(a_link_at_the_temporary_name_is_not_followed),
		cmocka_unit_test(a_file_up_to_the_maximum_is_read),
		cmocka_unit_test(what_is_no_regular_file_is_refused_at_once),
		cmocka_unit_test(a_kernel_file_is_read_to_its_end),
		cmocka_unit_test(writing_needs_a_file_that_exists),
		cmocka_unit_test(more_than_a_pipe_holds_is_written_whole),
		cmocka_unit_test(a_pipe_without_a_reader_is_an_error),
		cmocka_unit_test(sealed_memory_cannot_be_changed_and_is_mapped),
		cmocka_unit_test(memory_that_lacks_a_seal_is_not_mapped),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

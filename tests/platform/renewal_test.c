/*
 * What an overlay shows of a lower layer that is changed while it is mounted,
 * before and after it is made to forget what it has looked up. The kernel calls
 * the first undefined; pinfold refresh rests on the second. Each fact is tried
 * over the file system of TMPDIR and over a tmpfs.
 */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

/* The C library's, which the kernel's header does not go along with. */
int mount(const char *source, const char *target, const char *type,
	  unsigned long flags, const void *data);

#define NEEDS_USERNS "no user namespaces here"

static char place[2][600];

/* name below the fact's directory; two at a time. */
static const char *at(const char *name)
{
	static int turn;
	char *text = place[turn = !turn];

	snprintf(text, sizeof(place[0]), "%s/%s", fact_directory(), name);
	return text;
}

static bool put(const char *name, const char *text)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	bool done = fd >= 0 && write(fd, text, strlen(text)) ==
				       (ssize_t)strlen(text);

	close(fd);
	return done;
}

/* As an editor saves. */
static bool save(const char *name, const char *text)
{
	char aside[64];

	snprintf(aside, sizeof(aside), "%s~", name);
	return put(aside, text) && rename(at(aside), at(name)) == 0;
}

/* The file's content; "-": there is none, "/": it is a directory. */
static const char *see(const char *name)
{
	static char text[2][64];
	static int turn;
	char *to = text[turn = !turn];
	int fd = open(at(name), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, sizeof(text[0]) - 1);

	strcpy(n < 0 ? to : to + n, n >= 0	      ? ""
				    : errno == EISDIR ? "/"
				    : errno == ENOENT ? "-"
						      : "?");
	close(fd);
	return to;
}

static bool sees(const char *name, const char *text)
{
	return strcmp(see(name), text) == 0;
}

/* What the product does: nothing is asked of the reconfiguration. */
static long renew_as(const char *name, const char *flag)
{
	int dir = open(at(name), O_PATH | O_CLOEXEC);
	int fs = (int)syscall(SYS_fspick, dir, "",
			      FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	long r = fs < 0 ? -1 : 0;

	close(dir);
	if (r == 0 && flag)
		r = syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, flag, NULL, 0);
	if (r == 0)
		r = syscall(SYS_fsconfig, fs, FSCONFIG_CMD_RECONFIGURE, NULL,
			    NULL, 0);
	close(fs);
	return r;
}

static bool renew(void)
{
	return renew_as("m", NULL) == 0;
}

/* A lower layer with something in it, all of which the overlay has seen. */
static bool make_lower(const char *type)
{
	static const char *const dirs[] = {"l", "h", "u", "w", "m"};

	if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0)
		return false;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		mkdir(at(dirs[i]), 0755);
	if (type && mount("none", at("l"), type, 0, NULL) < 0)
		return false;
	mkdir(at("l/d"), 0755);
	mkdir(at("l/d/e"), 0755);
	return put("l/f", "old") && put("l/d/f", "old") &&
	       put("l/d/e/f", "old");
}

static bool make_layers(const char *type)
{
	char text[2500];

	if (!make_lower(type))
		return false;
	snprintf(text, sizeof(text),
		 "lowerdir=%s/h:%s/l,upperdir=%s/u,workdir=%s/w,userxattr,"
		 "volatile",
		 fact_directory(), fact_directory(), fact_directory(),
		 fact_directory());
	return mount("none", at("m"), "overlay", 0, text) == 0 &&
	       sees("m/f", "old") && sees("m/d/f", "old") &&
	       sees("m/d/e/f", "old") && sees("m/n", "-") && sees("m/d/n", "-");
}

#define TRY(condition)                                                         \
	do {                                                                   \
		if (!(condition))                                              \
			return fact_is(false, "%s: not so: %s", name,          \
				       #condition);                            \
	} while (0)

static int a_name_keeps_its_file(const char *name)
{
	TRY(save("l/f", "new") && save("l/d/f", "new"));
	TRY(sees("m/f", "old") && sees("m/d/f", "old"));
	TRY(renew());
	TRY(sees("m/f", "new") && sees("m/d/f", "new"));
	return FACT_HOLDS;
}

static int an_edit_in_place_is_seen(const char *name)
{
	TRY(put("l/f", "new") && sees("m/f", "new"));
	return FACT_HOLDS;
}

static int absence_is_kept(const char *name)
{
	TRY(put("l/n", "new") && put("l/d/n", "new"));
	TRY(sees("m/n", "-") && sees("m/d/n", "-"));
	TRY(renew());
	TRY(sees("m/n", "new") && sees("m/d/n", "new"));
	return FACT_HOLDS;
}

static int what_is_gone_goes(const char *name)
{
	TRY(unlink(at("l/f")) == 0 && unlink(at("l/d/e/f")) == 0 &&
	    rmdir(at("l/d/e")) == 0);
	TRY(renew());
	TRY(sees("m/f", "-") && sees("m/d/e", "-") && sees("m/d/f", "old"));
	return FACT_HOLDS;
}

static int kinds_change(const char *name)
{
	TRY(unlink(at("l/f")) == 0 && mkdir(at("l/f"), 0755) == 0 &&
	    put("l/f/in", "new"));
	TRY(unlink(at("l/d/e/f")) == 0 && rmdir(at("l/d/e")) == 0 &&
	    put("l/d/e", "new"));
	TRY(renew());
	TRY(sees("m/f", "/") && sees("m/f/in", "new") && sees("m/d/e", "new"));
	return FACT_HOLDS;
}

static int a_directory_is_replaced(const char *name)
{
	TRY(put("m/d/task", "task"));
	TRY(rename(at("l/d"), at("l/d2")) == 0 && mkdir(at("l/d"), 0755) == 0 &&
	    put("l/d/f", "new"));
	TRY(renew());
	TRY(sees("m/d/f", "new") && sees("m/d/e", "-"));
	TRY(sees("m/d/task", "task") && sees("m/d2/e/f", "old"));
	return FACT_HOLDS;
}

static int the_upper_layer_stays(const char *name)
{
	TRY(put("m/f", "task") && unlink(at("m/d/f")) == 0);
	TRY(unlink(at("m/d/e/f")) == 0 && rmdir(at("m/d/e")) == 0 &&
	    mkdir(at("m/d/e"), 0755) == 0 && put("m/d/e/g", "task"));
	TRY(save("l/f", "new") && save("l/d/f", "new") &&
	    put("l/d/e/n", "new"));
	TRY(renew());
	TRY(sees("m/f", "task") && sees("m/d/f", "-"));
	TRY(sees("m/d/e/g", "task") && sees("m/d/e/n", "-") &&
	    sees("m/d/e/f", "-"));
	return FACT_HOLDS;
}

static int a_copy_up_takes_the_new(const char *name)
{
	int fd;

	TRY(save("l/f", "new") && renew());
	fd = open(at("m/f"), O_WRONLY | O_APPEND | O_CLOEXEC);
	TRY(fd >= 0 && write(fd, "+", 1) == 1 && close(fd) == 0);
	TRY(sees("m/f", "new+") && sees("u/f", "new+") && sees("l/f", "new"));
	return FACT_HOLDS;
}

static int what_is_held_stays_for_all(const char *name)
{
	int held = open(at("m/d/e/f"), O_RDONLY | O_CLOEXEC);

	TRY(held >= 0 && save("l/d/e/f", "new") && save("l/f", "new"));
	TRY(renew());
	TRY(sees("m/d/e/f", "old") && sees("m/f", "new"));
	TRY(close(held) == 0 && renew() && sees("m/d/e/f", "new"));
	return FACT_HOLDS;
}

static int a_working_directory_holds(const char *name)
{
	TRY(chdir(at("m/d/e")) == 0);
	TRY(rename(at("l/d"), at("l/d2")) == 0 && mkdir(at("l/d"), 0755) == 0 &&
	    put("l/d/f", "new"));
	TRY(renew() && sees("m/d/f", "old"));
	TRY(chdir("/") == 0 && renew() && sees("m/d/f", "new"));
	return FACT_HOLDS;
}

static int the_middle_layer_changes_too(const char *name)
{
	TRY(mknod(at("h/f"), S_IFCHR, makedev(0, 0)) == 0);
	TRY(renew() && sees("m/f", "-"));
	TRY(unlink(at("h/f")) == 0 && renew() && sees("m/f", "old"));
	return FACT_HOLDS;
}

static int a_volatile_one_goes_on(const char *name)
{
	TRY(renew() && renew() && put("m/task", "task"));
	TRY(renew() && sees("m/task", "task") && sees("u/task", "task"));
	return FACT_HOLDS;
}

typedef int look_fn(const char *name);

/* In a process of its own: 0 if it holds, and else the text was given. */
static int over(const char *type, look_fn *look)
{
	const char *name = type ? type : "the disk";
	pid_t pid = fork();

	if (pid != 0)
		return fact_wait(pid);
	_exit(make_layers(type) ? look(name)
				: fact_is(false, "%s: no layers: errno %d", name,
					  errno));
}

static int over_both(look_fn *look)
{
	static const char *const used[] = {"l", "h", "u", "w"};

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (over(NULL, look) != FACT_HOLDS)
		return FACT_DIFFERS;
	/* The second begins with directories of its own. */
	for (int i = 0; i < 4; i++) {
		char aside[600];

		snprintf(aside, sizeof(aside), "%s", at("first-"));
		strcat(aside, used[i]);
		if (rename(at(used[i]), aside) < 0)
			return fact_works(-1, "rename");
	}
	return over("tmpfs", look) == FACT_HOLDS ? FACT_HOLDS : FACT_DIFFERS;
}

#define BOTH(look)                                                             \
	static int look##_over_both(void)                                      \
	{                                                                      \
		return over_both(look);                                        \
	}

BOTH(a_name_keeps_its_file)
BOTH(an_edit_in_place_is_seen)
BOTH(absence_is_kept)
BOTH(what_is_gone_goes)
BOTH(kinds_change)
BOTH(a_directory_is_replaced)
BOTH(the_upper_layer_stays)
BOTH(a_copy_up_takes_the_new)
BOTH(what_is_held_stays_for_all)
BOTH(a_working_directory_holds)
BOTH(the_middle_layer_changes_too)
BOTH(a_volatile_one_goes_on)

static int read_only_asks_for_ro(void)
{
	char text[2500];

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (!make_layers(NULL))
		return fact_is(false, "no layers: errno %d", errno);
	mkdir(at("r"), 0755);
	snprintf(text, sizeof(text), "lowerdir=%s/h:%s/l,userxattr",
		 fact_directory(), fact_directory());
	if (mount("none", at("r"), "overlay", 0, text) < 0 ||
	    !sees("r/f", "old") || !save("l/f", "new"))
		return fact_works(-1, "mount");
	if (renew_as("r", "ro") < 0)
		return fact_works(-1, "renewal with ro");
	if (!sees("r/f", "new"))
		return fact_is(false, "it shows the old file");
	return fact_fails(renew_as("r", NULL), EROFS, "renewal without ro");
}

/* The overlay belongs to the namespace that it was made in. */
static int a_further_namespace_may_not(void)
{
	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (!make_layers(NULL))
		return fact_is(false, "no layers: errno %d", errno);
	if (fact_enter_userns(CLONE_NEWNS, geteuid()) < 0)
		return fact_works(-1, "unshare");
	return fact_fails(renew_as("m", NULL), EPERM, "renewal");
}

/* Who made a user namespace may enter it, and the mounts of one inside it. */
static _Noreturn void be_inside(int up, int in)
{
	char one;

	if (!make_layers(NULL) || write(up, "x", 1) != 1 ||
	    read(in, &one, 1) != 1)
		_exit(1);
	_exit(sees("m/f", "new") ? 0 : 2);
}

static int enter_and_renew(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0 || setns(fd, CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return fact_works(-1, "setns");
	if (!save("l/f", "new") || !sees("m/f", "old"))
		return fact_is(false, "it shows the new file before");
	return renew() ? FACT_HOLDS : fact_works(-1, "renewal");
}

static int its_maker_may_enter(void)
{
	int up[2], in[2], r;
	char one = 0;
	pid_t pid;

	if (!fact_has_userns())
		return fact_skip(NEEDS_USERNS);
	if (pipe(up) < 0 || pipe(in) < 0)
		return fact_works(-1, "pipe");
	pid = fork();
	if (pid == 0)
		be_inside(up[1], in[0]);
	close(up[1]);
	if (read(up[0], &one, 1) != 1)
		return fact_is(false, "no layers");
	r = enter_and_renew(pid);
	if (r != FACT_HOLDS || write(in[1], "x", 1) != 1)
		return r;
	return fact_is(fact_wait(pid) == 0, "the other one sees the old file");
}

static const struct fact table[] = {
	{"an overlay keeps the file of a name that it has looked up, until it "
	 "is reconfigured", a_name_keeps_its_file_over_both},
	{"a file that is changed in its place is seen at once",
	 an_edit_in_place_is_seen_over_both},
	{"that a name is not there is kept as well", absence_is_kept_over_both},
	{"files and directories that are gone below go",
	 what_is_gone_goes_over_both},
	{"a file and a directory that took each other's place are seen so",
	 kinds_change_over_both},
	{"a directory that was replaced below merges with the upper one",
	 a_directory_is_replaced_over_both},
	{"files, whiteouts and opaque directories of the upper layer stay",
	 the_upper_layer_stays_over_both},
	{"a copy-up afterwards takes the new file", a_copy_up_takes_the_new_over_both},
	{"a file that is held open stays the old one for everybody",
	 what_is_held_stays_for_all_over_both},
	{"a working directory holds the directories above it",
	 a_working_directory_holds_over_both},
	{"whiteouts that come to a middle layer hide, and show when they go",
	 the_middle_layer_changes_too_over_both},
	{"an overlay that is volatile is reconfigured as often as one likes",
	 a_volatile_one_goes_on_over_both},
	{"an overlay without an upper layer wants to be told that it is "
	 "read-only", read_only_asks_for_ro},
	{"a further user namespace may not reconfigure it",
	 a_further_namespace_may_not},
	{"who made its user namespace may enter and reconfigure it",
	 its_maker_may_enter},
};

int main(void)
{
	return fact_main(FACTS(table));
}

/*
 * What this machine offers to a sandbox, found out by trying it, with what each
 * missing piece costs and the command that brings it.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "cli/launch.h"
#include "cli/report.h"
#include "confine/cgroup.h"
#include "confine/ids.h"
#include "confine/landlock.h"
#include "confine/mount.h"
#include "confine/sys.h"
#include "schema/json.h"
#include "task/delegate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum health {
	HEALTH_OK,
	HEALTH_LESS,  /* works, with less */
	HEALTH_FATAL, /* nothing can run */
	HEALTH_UNUSED, /* not there, and nothing in this version uses it */
	HEALTH_UNKNOWN, /* could not be tried */
};

struct finding {
	enum health health;
	char what[ERROR_TEXT_MAX];
	const char *costs; /* what is lost without it; NULL when it is there */
	const char *fix;   /* the command; NULL: none */
};

/* What was tried inside new namespaces, by a child. */
struct trial {
	int userns, maps, proc, overlay, idmap;
};

static void say(struct finding *f, enum health health, const char *costs,
		const char *fix, const char *what)
{
	f->health = health;
	f->costs = costs;
	f->fix = fix;
	snprintf(f->what, sizeof(f->what), "%s", what);
}

static bool sysctl_is(const char *path, const char *value)
{
	AUTO_BUF struct buf b = BUF_INIT(256);

	return io_read_file(AT_FDCWD, path, &b) == 0 && b.len > 0 &&
	       !strncmp(b.data, value, strlen(value)) &&
	       (b.data[strlen(value)] == '\n' || b.data[strlen(value)] == 0);
}

/* An overlay over two directories of a tmpfs, as the keeper makes them. */
static int try_overlay(void)
{
	struct error err;
	AUTO_CLOSE int fs = mount_tmpfs(0, 0, 0755, 0, &err);
	AUTO_CLOSE int upper = -1;
	AUTO_CLOSE int work = -1;
	AUTO_CLOSE int mount = -1;
	struct mount_layer lower = {.fd = fs, .path = "lower"};

	if (fs < 0)
		return fs;
	/* Kernels before 6.15 take only attached mounts as layers. */
	if (sys_move_mount(fs, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) <
	    0)
		return -errno;
	if (mkdirat(fs, "lower", 0755) < 0 || mkdirat(fs, "upper", 0755) < 0 ||
	    mkdirat(fs, "work", 0755) < 0)
		return -errno;
	upper = openat(fs, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
	work = openat(fs, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
	mount = mount_overlay(&lower, 1, upper, work, 0, &err);
	return mount < 0 ? mount : 0;
}

/* In a grandchild: the pid namespace is only for those born into it. */
static int try_proc(void)
{
	struct error err;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int fd = mount_new("proc", NULL, MOUNT_NOSUID, &err);

		_exit(fd < 0 ? -err.code & 0x7f : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static void try_inside(struct trial *t, uid_t uid, gid_t gid)
{
	struct id_extent u = {uid, uid, 1}, g = {gid, gid, 1};
	struct error err;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
		    CLONE_NEWNET) < 0) {
		t->userns = -errno;
		return;
	}
	t->maps = ids_write_maps(0, true, &u, 1, &g, 1, &err);
	if (t->maps < 0)
		return;
	t->proc = try_proc();
	t->overlay = try_overlay();
}

static struct trial try_namespaces(void)
{
	struct trial t = {-EIO, 0, -EIO, -EIO, 0};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return t;
	pid = fork();
	if (pid == 0) {
		t = (struct trial){0};
		try_inside(&t, uid, gid);
		_exit(io_write_all(p[1], &t, sizeof(t)) < 0);
	}
	close(p[1]);
	if (pid > 0) {
		if (read(p[0], &t, sizeof(t)) != (ssize_t)sizeof(t))
			t.userns = -EIO;
		waitpid(pid, NULL, 0);
	}
	close(p[0]);
	return t;
}

static void check_userns(struct finding *f, const struct trial *t)
{
	const char *costs = "no sandbox can be made";

	if (t->userns == 0 && t->maps == 0)
		say(f, HEALTH_OK, NULL, NULL, "user namespaces can be made");
	else if (sysctl_is("/proc/sys/kernel/"
			   "apparmor_restrict_unprivileged_userns", "1"))
		say(f, HEALTH_FATAL, costs,
		    "sudo apparmor_parser -r /etc/apparmor.d/pinfold (after "
		    "make install)",
		    "AppArmor forbids user namespaces to programs without a "
		    "profile");
	else if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
		say(f, HEALTH_FATAL, costs,
		    "sudo sysctl kernel.unprivileged_userns_clone=1",
		    "kernel.unprivileged_userns_clone is 0");
	else if (ids_in_chroot(t->userns ? t->userns : t->maps))
		say(f, HEALTH_FATAL, costs, IDS_CHROOT_FIX,
		    "this is a chroot, where the kernel makes no user "
		    "namespaces");
	else if (getenv("PINFOLD_TASK"))
		say(f, HEALTH_FATAL, costs, "run pinfold outside of it",
		    "this is a sandbox of pinfold, which makes none in itself");
	else if (sysctl_is("/proc/sys/user/max_user_namespaces", "0"))
		say(f, HEALTH_FATAL, costs,
		    "sudo sysctl user.max_user_namespaces=10000",
		    "user.max_user_namespaces is 0");
	else {
		say(f, HEALTH_FATAL, costs,
		    "run pinfold outside of this container, or allow unshare "
		    "and clone there (docker: --security-opt "
		    "seccomp=unconfined)", "");
		snprintf(f->what, sizeof(f->what),
			 "user namespaces are blocked here: %s",
			 strerror(t->userns ? -t->userns : -t->maps));
	}
}

/* Without a user namespace nothing else was tried. */
static bool untried(struct finding *f, const struct trial *t)
{
	if (t->userns == 0 && t->maps == 0)
		return false;
	say(f, HEALTH_UNKNOWN, NULL, NULL,
	    "not tried: that takes a user namespace");
	return true;
}

static void check_proc(struct finding *f, const struct trial *t)
{
	if (untried(f, t))
		return;
	if (t->proc == 0)
		say(f, HEALTH_OK, NULL, NULL, "a sandbox can have its own /proc");
	else
		say(f, HEALTH_FATAL, "no sandbox can be made",
		    "make /proc unmasked (docker: --security-opt "
		    "systempaths=unconfined)",
		    "/proc is masked: a new one cannot be mounted");
}

static void check_overlay(struct finding *f, const struct trial *t)
{
	if (untried(f, t))
		return;
	if (t->overlay == 0)
		say(f, HEALTH_OK, NULL, NULL,
		    "overlays can be mounted in a user namespace");
	else
		say(f, HEALTH_FATAL,
		    "the sandbox's /etc and the workspace are overlays",
		    "sudo modprobe overlay (Linux 5.11 or newer)",
		    "no overlay can be mounted in a user namespace");
}

static void check_landlock(struct finding *f, const struct trial *t)
{
	int abi = landlock_abi();

	(void)t;
	if (abi < 1) {
		say(f, HEALTH_FATAL,
		    "the layer that closes leaked descriptors is missing",
		    "boot with lsm=landlock,... and CONFIG_SECURITY_LANDLOCK",
		    "the kernel has no Landlock");
		return;
	}
	say(f, abi < 5 ? HEALTH_LESS : HEALTH_OK,
	    abi < 3   ? "truncation and device ioctls are not covered"
	    : abi < 5 ? "device ioctls are not covered"
		      : NULL,
	    abi < 5 ? "use Linux 6.10 or newer" : NULL, "");
	snprintf(f->what, sizeof(f->what), "Landlock ABI %d", abi);
}

static void check_seccomp(struct finding *f, const struct trial *t)
{
	uint32_t action = SECCOMP_RET_USER_NOTIF;

	(void)t;
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
		say(f, HEALTH_OK, NULL, NULL,
		    "system call filters with notification");
	else
		say(f, HEALTH_FATAL, "no sandbox can be made",
		    "use Linux 5.0 or newer with CONFIG_SECCOMP_FILTER",
		    "no system call notification");
}

static const struct cgroup_limits tried_limits = {
	.memory = 1u << 30,
	.processes = 1024,
	.cpus_milli = UINT64_MAX,
};

/* In a child that systemd has put into a scope, as a keeper would be. */
static int divide_scope(const char *id)
{
	struct cgroup c;
	struct error err;

	int r = cgroup_make_delegated(&c, id, &err);

	if (r == 0)
		r = cgroup_limit(&c, &tried_limits, &err);
	cgroup_remove(&c);
	return -r & 0x7f;
}

static int divided(int status, struct error *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return error_set(err, -EACCES, "the scope that systemd gives cannot be "
			 "divided: %s", strerror(WEXITSTATUS(status)));
}

/* Whether systemd delegates a group to a process of ours. */
static int try_delegation(struct error *err)
{
	char id[24], byte = 0;
	int go[2], status = 0, r;
	pid_t pid;

	snprintf(id, sizeof(id), "doctor-%d", (int)getpid());
	if (pipe2(go, O_CLOEXEC) < 0)
		return error_errno(err, "cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		_exit(read(go[0], &byte, 1) == 1 ? divide_scope(id) : 0);
	}
	close(go[0]);
	r = pid < 0 ? error_errno(err, "cannot fork")
		    : delegate_scope(pid, id, err);
	if (r == 0 && write(go[1], &byte, 1) != 1)
		r = error_errno(err, "cannot reach our child");
	close(go[1]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return r < 0 ? r : divided(status, err);
}

static const char *own_name(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw ? pw->pw_name : "";
}

static const char *fix_for_cgroup(int error)
{
	bool systemd = access("/run/systemd/system", F_OK) == 0;

	if (geteuid() == 0)
		return systemd ? "run pinfold outside of this container, or "
				 "delegate a cgroup to it"
			       : "mount a cgroup hierarchy with the memory and "
				 "pids controllers";
	if (!systemd)
		return "let root make a control group that is yours, and "
		       "start pinfold in it";
	if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) < 0)
		return "boot with systemd.unified_cgroup_hierarchy=1";
	if (error == -ETIMEDOUT)
		return "once more: systemd has five seconds; then "
		       "systemctl --user status";
	return "sudo apt install dbus-user-session; then log in anew, or "
	       "sudo loginctl enable-linger $USER and set XDG_RUNTIME_DIR";
}

static void check_cgroup(struct finding *f, const struct trial *t)
{
	struct cgroup c;
	struct error err;

	(void)t;
	if (cgroup_at_hand(&tried_limits)) {
		const char *memory = NULL;
		bool both;

		cgroup_make(&c, "doctor");
		if (cgroup_limit(&c, &tried_limits, &err) == 0)
			memory = cgroup_mechanism(&c, CGROUP_MEMORY);
		both = memory && cgroup_mechanism(&c, CGROUP_PIDS);
		cgroup_remove(&c);
		if (both) {
			say(f, HEALTH_OK, NULL, NULL, memory);
			return;
		}
	}
	if (try_delegation(&err) == 0) {
		bool lasts = delegate_lasts(own_name(), &err) == 0;

		say(f, lasts ? HEALTH_OK : HEALTH_LESS,
		    lasts ? NULL : "the memory of sandboxes that stay (start) "
				   "is watched, not held",
		    lasts ? NULL : "loginctl enable-linger",
		    "cgroup v2, in a scope that systemd delegates to a task");
		return;
	}
	say(f, HEALTH_LESS,
	    "memory is watched, not held; processes by RLIMIT_NPROC",
	    fix_for_cgroup(err.code), "");
	snprintf(f->what, sizeof(f->what),
		 "no control group of our own, and none from systemd: %.*s",
		 ERROR_TEXT_MAX - 64, err.text);
}

static void check_nft(struct finding *f, const struct trial *t)
{
	AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
				   NETLINK_NETFILTER);

	(void)t;
	if (fd >= 0)
		say(f, HEALTH_OK, NULL, NULL, "nf_tables (for network rules)");
	else
		say(f, HEALTH_UNUSED, NULL, NULL,
		    "no nf_tables; this version has no network rules");
}

static void check_kvm(struct finding *f, const struct trial *t)
{
	(void)t;
	if (access("/dev/kvm", R_OK | W_OK) == 0)
		say(f, HEALTH_OK, NULL, NULL, "KVM (for the microvm tier)");
	else
		say(f, HEALTH_UNUSED, NULL, NULL,
		    "no KVM; this version has no microvm tier");
}

static void check_ids(struct finding *f, const struct trial *t)
{
	struct id_extent e;
	struct error err;
	const char *user = getenv("USER");

	(void)t;
	if (geteuid() == 0)
		user = "pinfold";
	if (ids_subordinate("/etc/subuid", user ? user : "",
			    geteuid() == 0 ? (uid_t)-1 : getuid(), &e,
			    &err) == 0)
		say(f, HEALTH_OK, NULL, NULL,
		    "subordinate ids (for identity: range)");
	else
		say(f, HEALTH_LESS, "identity: range is refused",
		    geteuid() == 0
			    ? "echo pinfold:100000:65536 | tee -a /etc/subuid "
			      "/etc/subgid"
			    : "sudo usermod --add-subuids 100000-165535 "
			      "--add-subgids 100000-165535 $USER",
		    "no subordinate ids");
}

static void check_programs(struct finding *f, const struct trial *t)
{
	AUTO_FREE char *dir = launch_programs();

	(void)t;
	if (dir)
		say(f, HEALTH_OK, NULL, NULL, dir);
	else
		say(f, HEALTH_FATAL, "no sandbox can be made",
		    "make install", "pinfold-keeper is not beside pinfold");
}

static const struct {
	const char *name;
	void (*check)(struct finding *f, const struct trial *t);
} checks[] = {
	{"programs", check_programs},
	{"user namespaces", check_userns},
	{"proc", check_proc},
	{"overlay", check_overlay},
	{"landlock", check_landlock},
	{"seccomp", check_seccomp},
	{"cgroup", check_cgroup},
	{"subordinate ids", check_ids},
	{"nft", check_nft},
	{"kvm", check_kvm},
};

static const char *health_name(enum health h)
{
	static const char *const names[] = {
		[HEALTH_OK] = "ok",	    [HEALTH_LESS] = "less",
		[HEALTH_FATAL] = "missing", [HEALTH_UNUSED] = "unused",
		[HEALTH_UNKNOWN] = "unknown",
	};

	return names[h];
}

static void print_text(struct report *r, const char *name,
		       const struct finding *f)
{
	buf_addf(&r->out, "%-8s%-17s%s\n", health_name(f->health), name,
		 f->what);
	if (f->costs)
		buf_addf(&r->out, "        %-17scosts: %s\n", "", f->costs);
	if (f->fix)
		buf_addf(&r->out, "        %-17sfix: %s\n", "", f->fix);
}

static void print_json(struct json_writer *w, const char *name,
		       const struct finding *f)
{
	json_object(w);
	if (f->costs) {
		json_put_string(w, "costs", f->costs);
	}
	if (f->fix) {
		json_put_string(w, "fix", f->fix);
	}
	json_put_string(w, "health", health_name(f->health));
	json_put_string(w, "name", name);
	json_put_string(w, "what", f->what);
	json_object_end(w);
}

/* Operands: whether these variables are set, and never to what. */
static void print_variables(struct report *r, struct json_writer *w,
			    const struct options *o)
{
	if (r->json) {
		json_key(w, "variables");
		json_array(w);
	}
	for (size_t i = 0; i < o->n_rest; i++) {
		bool set = getenv(o->rest[i]) != NULL;

		if (r->json) {
			json_object(w);
			json_put_text(w, "name", o->rest[i]);
			json_put_bool(w, "set", set);
			json_object_end(w);
			continue;
		}
		report_path(&r->out, o->rest[i]);
		buf_addf(&r->out, ": %s\n", set ? "set" : "not set");
	}
	if (r->json)
		json_array_end(w);
}

int verb_doctor(const struct options *o)
{
	AUTO_REPORT struct report r = {0};
	struct trial t = try_namespaces();
	struct json_writer w;
	bool fatal = false;
	int status = report_init(&r, o);

	if (status != 0)
		return status;
	json_begin(&w, &r.out);
	if (r.json) {
		json_object(&w);
		json_key(&w, "checks");
		json_array(&w);
	}
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct finding f = {0};

		checks[i].check(&f, &t);
		fatal |= f.health == HEALTH_FATAL;
		if (r.json)
			print_json(&w, checks[i].name, &f);
		else
			print_text(&r, checks[i].name, &f);
	}
	if (r.json) {
		json_array_end(&w);
		json_put_string(&w, "schema", "pinfold-doctor-1");
	}
	print_variables(&r, &w, o);
	if (r.json) {
		json_object_end(&w);
		json_finish(&w);
		buf_add_char(&r.out, '\n');
	}
	status = report_end(&r);
	return status ? status : fatal ? STATUS_REFUSED : 0;
}

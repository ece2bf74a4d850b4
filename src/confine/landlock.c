#include "confine/landlock.h"

#include "base/cleanup.h"
#include "confine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/* Rights newer than Debian 12's header; numbers from the kernel's ABI. */
#define FS_REFER (1ull << 13)     /* ABI 2 */
#define FS_TRUNCATE (1ull << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ull << 15) /* ABI 5 */

#define RIGHTS_READ                                                            \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_WRITE                                                           \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |       \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |       \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |           \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |         \
	 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM |         \
	 FS_REFER | FS_TRUNCATE)
/* What makes sense for something that is not a directory. */
#define RIGHTS_FILE                                                            \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |          \
	 LANDLOCK_ACCESS_FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
			   LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static uint64_t rights_known(int abi)
{
	uint64_t rights = LANDLOCK_ACCESS_FS_EXECUTE | RIGHTS_READ |
			  RIGHTS_WRITE | FS_IOCTL_DEV;

	if (abi < 2)
		rights &= ~FS_REFER;
	if (abi < 3)
		rights &= ~FS_TRUNCATE;
	if (abi < 5)
		rights &= ~FS_IOCTL_DEV;
	return rights;
}

static uint64_t rights_of(unsigned access)
{
	return (access & PATH_READ ? RIGHTS_READ : 0u) |
	       (access & PATH_EXEC ? LANDLOCK_ACCESS_FS_EXECUTE : 0u) |
	       (access & PATH_WRITE ? RIGHTS_WRITE : 0u) |
	       (access & PATH_IOCTL ? FS_IOCTL_DEV : 0u);
}

static int add_grant(int ruleset, const struct path_grant *grant, int abi,
		     struct error *err)
{
	AUTO_CLOSE int fd = open(grant->path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr attr = {
		.allowed_access = rights_of(grant->access) & rights_known(abi),
		.parent_fd = fd,
	};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, "cannot open granted path %s",
				   grant->path);
	if (!S_ISDIR(st.st_mode))
		attr.allowed_access &= RIGHTS_FILE;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH,
		    &attr, 0) < 0)
		return error_errno(err, "cannot grant %s by Landlock",
				   grant->path);
	return 0;
}

int landlock_ruleset(const struct path_grant *grants, size_t n_grants,
		     int abi_min, struct error *err)
{
	int abi = landlock_abi();
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = rights_known(abi),
	};
	AUTO_CLOSE int ruleset = -1;
	int r;

	if (abi < 1 || abi < abi_min)
		return error_set(err, -EOPNOTSUPP,
				 "Landlock ABI %d needed, kernel has %d",
				 abi_min < 1 ? 1 : abi_min, abi);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr,
			       sizeof(attr), 0);
	if (ruleset < 0)
		return error_errno(err, "cannot create a Landlock ruleset");
	for (size_t i = 0; i < n_grants; i++) {
		r = add_grant(ruleset, &grants[i], abi, err);
		if (r < 0)
			return r;
	}
	return steal_fd(&ruleset);
}

int landlock_enter(int ruleset_fd)
{
	return (int)sys_raw(SYS_landlock_restrict_self, ruleset_fd, 0, 0, 0, 0);
}

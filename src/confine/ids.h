/*
 * Identity maps of user namespaces, and the ids that a task runs as.
 */
#ifndef PINFOLD_CONFINE_IDS_H
#define PINFOLD_CONFINE_IDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One line of a uid_map or gid_map. */
struct id_extent {
	uint32_t inner, outer, count;
};

/*
 * Writes both maps of process pid ("self" for 0), and "deny" to setgroups
 * first where the caller has no CAP_SETGID over the parent namespace
 * (deny_setgroups). Maps hold at most 340 extents. The text names the file.
 */
int ids_write_maps(pid_t pid, bool deny_setgroups,
		   const struct id_extent *uids, size_t n_uids,
		   const struct id_extent *gids, size_t n_gids,
		   struct error *err);

/*
 * The map of an idmapped mount that swaps id a on disk with id b as seen, and
 * leaves every other id as it is. Fills at most 5 extents; returns how many.
 */
size_t ids_swap(uint32_t a, uint32_t b, struct id_extent ret[5]);

/*
 * A descriptor of a user namespace with these maps, for MOUNT_ATTR_IDMAP. Needs
 * CAP_SETUID and CAP_SETGID here. Descriptor or negative.
 */
int ids_userns_fd(const struct id_extent *uids, size_t n_uids,
		  const struct id_extent *gids, size_t n_gids,
		  struct error *err);

/*
 * Adds to the text of an error of making a user namespace what forbids it here
 * and the way out. Returns r, the error.
 */
int ids_userns_blocked(int r, struct error *err);

/*
 * The range that /etc/subuid (or subgid) gives to name or to the number id.
 * 0, or -ENOENT with the line to add.
 */
int ids_subordinate(const char *file, const char *name, uid_t id,
		    struct id_extent *ret, struct error *err);

/*
 * Are we in a chroot, where the kernel refuses user namespaces to everybody?
 * Certain where "/" is no mount, or is another than process 1 has; where
 * neither can be seen, taken from what is left: it was refused (r is the
 * -EPERM of that) though no filter of system calls is over us.
 */
bool ids_in_chroot(int r);

#define IDS_CHROOT_FIX                                                         \
	"run pinfold outside of it, or enter it with systemd-nspawn -D DIR in "\
	"place of chroot"

#endif

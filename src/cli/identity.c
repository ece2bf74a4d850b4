#include "cli/identity.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Host ids of commands that root starts: a range that distributions leave
 * unused (systemd's UIDS-GIDS.md: 1879048192 to 2147483647), one id a task.
 */
#define ROOT_UID_FIRST 0x70000000u
#define ROOT_UID_COUNT 0x0ff00000u
#define ROOT_INNER_ID 1000u
#define ROOT_USER "agent"
#define SUBID_NAME "pinfold"
#define RANGE_COUNT 65536u

static const struct passwd *passwd_entry(void)
{
	static struct passwd *entry;
	static bool asked;

	if (!asked)
		entry = getpwuid(getuid());
	asked = true;
	return entry;
}

const char *launch_home(void)
{
	static char resolved[PATH_MAX];
	const char *home = getenv("HOME");

	if (resolved[0])
		return resolved;
	if ((!home || home[0] != '/') && passwd_entry())
		home = passwd_entry()->pw_dir;
	if (!home || !realpath(home, resolved))
		snprintf(resolved, sizeof(resolved), "/nonexistent");
	return resolved;
}

static uint32_t id_of_task(const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return ROOT_UID_FIRST + h % ROOT_UID_COUNT;
}

static struct id_map one(uint32_t inner, uint32_t outer, uint32_t count)
{
	return (struct id_map){.n = 1, .extent = {{inner, outer, count}}};
}

static int root_ids(struct sandbox_spec *s, const char *id, struct error *err)
{
	struct id_extent u, g;
	int r;

	s->root_caller = true;
	s->inner_uid = s->inner_gid = ROOT_INNER_ID;
	if (s->identity == IDENTITY_SINGLE) {
		s->outer_uid = s->outer_gid = id_of_task(id);
		s->uids = one(s->inner_uid, s->outer_uid, 1);
		s->gids = one(s->inner_gid, s->outer_gid, 1);
		return 0;
	}
	r = ids_subordinate("/etc/subuid", SUBID_NAME, (uid_t)-1, &u, err);
	if (r == 0)
		r = ids_subordinate("/etc/subgid", SUBID_NAME, (uid_t)-1, &g,
				    err);
	if (r < 0)
		return r;
	s->outer_uid = u.outer + s->inner_uid;
	s->outer_gid = g.outer + s->inner_gid;
	s->uids = one(0, u.outer, RANGE_COUNT);
	s->gids = one(0, g.outer, RANGE_COUNT);
	return 0;
}

/* Inner ids 0 to 65535 from the subordinate ones, the caller's as inner. */
static void range_maps(struct id_map *keeper, struct id_map *box,
		       uint32_t inner, uint32_t caller,
		       const struct id_extent *sub)
{
	uint32_t rest = inner < RANGE_COUNT ? RANGE_COUNT - inner - 1 : 0;
	struct id_map k = {0};

	if (inner > 0)
		k.extent[k.n++] = (struct id_extent){
			0, sub->outer, inner < RANGE_COUNT ? inner : RANGE_COUNT};
	k.extent[k.n++] = (struct id_extent){inner, caller, 1};
	if (rest > 0)
		k.extent[k.n++] = (struct id_extent){
			inner + 1, sub->outer + inner + 1, rest};
	*keeper = k;
	*box = k;
	for (uint32_t i = 0; i < k.n; i++)
		box->extent[i].outer = k.extent[i].inner;
}

/*
 * A caller who maps itself alone. The outer ids are the keeper's view, which is
 * the inner one. Nobody is 0 inside, the "root" of a user namespace included.
 */
static int user_ids(struct sandbox_spec *s, struct error *err)
{
	const struct passwd *pw = passwd_entry();
	const char *name = pw ? pw->pw_name : "";
	uint32_t uid = getuid(), gid = getgid();
	struct id_extent u, g;
	int r;

	s->inner_uid = s->outer_uid = uid ? uid : ROOT_INNER_ID;
	s->inner_gid = s->outer_gid = gid ? gid : ROOT_INNER_ID;
	if (s->identity == IDENTITY_SINGLE) {
		s->keeper_uids = one(s->inner_uid, uid, 1);
		s->keeper_gids = one(s->inner_gid, gid, 1);
		s->uids = one(s->inner_uid, s->outer_uid, 1);
		s->gids = one(s->inner_gid, s->outer_gid, 1);
		return 0;
	}
	r = ids_subordinate("/etc/subuid", name, uid, &u, err);
	if (r == 0)
		r = ids_subordinate("/etc/subgid", name, uid, &g, err);
	if (r < 0)
		return r;
	range_maps(&s->keeper_uids, &s->uids, s->inner_uid, uid, &u);
	range_maps(&s->keeper_gids, &s->gids, s->inner_gid, gid, &g);
	return 0;
}

/* Are all ids of this namespace ours to map? True for real root alone. */
static bool maps_every_id(void)
{
	AUTO_BUF struct buf b = BUF_INIT(4096);
	unsigned long long inner, outer, count;

	if (geteuid() != 0 ||
	    io_read_file(AT_FDCWD, "/proc/self/uid_map", &b) < 0)
		return false;
	return sscanf(buf_str(&b), "%llu %llu %llu", &inner, &outer, &count) ==
		       3 &&
	       inner == 0 && count >= UINT32_MAX - 1u;
}

/* May the sandbox's home be at the same path as the caller's? */
static bool home_is_usable(const char *home)
{
	return !str_eq(home, "/") && !path_is_below(home, "/usr") &&
	       !str_eq(home, "/nonexistent");
}

int identity_names(struct sandbox_spec *s, struct error *err)
{
	bool root = getuid() == 0;
	const struct passwd *pw = root ? NULL : passwd_entry();
	const char *home = root ? "/" : launch_home();

	s->user = strdup(root ? ROOT_USER : pw ? pw->pw_name : "user");
	if (s->user && (root || !home_is_usable(home)))
		s->home = str_format("/home/%s", s->user);
	else
		s->home = strdup(home);
	if (!s->user || !s->home)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

int identity_fill(struct sandbox_spec *s, enum policy_identity identity,
		  const char *id, struct error *err)
{
	int r;

	s->identity = identity;
	if (maps_every_id())
		r = root_ids(s, id, err);
	else
		r = user_ids(s, err);
	return r < 0 ? r : identity_names(s, err);
}

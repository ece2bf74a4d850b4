/*
 * What one sandbox is to be: the part of a task's plan that a tier builds from.
 * Everything is resolved: absolute normal paths without symbolic links, numbers
 * instead of names. It travels from the command line to the keeper as one
 * packed block.
 */
#ifndef PINFOLD_TIER_SPEC_H
#define PINFOLD_TIER_SPEC_H

#include "base/buf.h"
#include "base/error.h"
#include "confine/ids.h"
#include "ipc/codec.h"
#include "policy/policy.h"
#include "workspace/hide.h"

#include <stdbool.h>
#include <stdint.h>

#define SPEC_MAPS_MAX 4

struct id_map {
	struct id_extent extent[SPEC_MAPS_MAX];
	uint32_t n;
};

struct sandbox_spec {
	char *id; /* task id, and the sandbox's host name */
	enum policy_tier tier;
	enum policy_identity identity;
	/* Overlay, copy or direct; WORKSPACE_AUTO when there is no source. */
	enum policy_workspace workspace;
	bool nesting;
	bool root_caller; /* the keeper starts with every id */
	/* Ids the command has inside, and as the host sees it. */
	uint32_t inner_uid, inner_gid, outer_uid, outer_gid;
	/* The source's owner on disk: shown as the command's ids. */
	uint32_t owner_uid, owner_gid;
	/*
	 * Maps of the keeper's namespace (outer: host) and of the sandbox's
	 * (outer: keeper). The keeper's are empty where it writes the full map
	 * itself (root).
	 */
	struct id_map keeper_uids, keeper_gids, uids, gids;
	char *user; /* name inside */
	char *home;
	char *git_name, *git_email; /* NULL: none; for ~/.gitconfig */
	char *source; /* NULL: none */
	uint64_t source_dev, source_ino;
	struct strlist read, write; /* host paths, placed at the same path */
	/* Directories of the host that are shown read-only, as tool chains. */
	struct strlist tools;
	/*
	 * Directories of the host that are carried in, and where: what is
	 * written to them is thrown away. Lists of equal length.
	 */
	struct strlist carried, carried_at;
	struct strlist masked; /* host paths below these that are not shown */
	struct strlist sockets; /* of the host, at their own path */
	/* Files in the home at the start: names below it, and contents. */
	struct strlist seeds, seed_texts;
	struct strlist tool_env; /* NAME=value, for the tool chains */
	struct hide hide; /* what of the source is not seen; .. */
	char *hide_path;  /* .. the layer of it that was made already, which
			   * goes to the keeper instead; NULL: none */
	/*
	 * Of a source that is written directly, absolute: what is mounted over
	 * itself read-only, what is covered by something empty, and the
	 * directories above, which become mounts so that nobody renames them.
	 */
	struct strlist pinned, covered, anchors;
	struct policy_limits limits; /* LIMIT_HALF resolved */
};

void spec_done(struct sandbox_spec *s);
int spec_put(struct buf *b, const struct sandbox_spec *s);
/* Checks ranges too. 0, -EPROTO or -ENOMEM; then spec_done all the same. */
int spec_get(struct codec_reader *r, struct sandbox_spec *s);

#endif

#include "tier/spec.h"

#include "workspace/direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void spec_done(struct sandbox_spec *s)
{
	free(s->id);
	free(s->user);
	free(s->home);
	free(s->git_name);
	free(s->git_email);
	free(s->source);
	strlist_done(&s->read);
	strlist_done(&s->write);
	strlist_done(&s->tools);
	strlist_done(&s->carried);
	strlist_done(&s->carried_at);
	strlist_done(&s->masked);
	strlist_done(&s->sockets);
	strlist_done(&s->seeds);
	strlist_done(&s->seed_texts);
	strlist_done(&s->tool_env);
	hide_done(&s->hide);
	free(s->hide_path);
	strlist_done(&s->pinned);
	strlist_done(&s->covered);
	strlist_done(&s->anchors);
	*s = (struct sandbox_spec){0};
}

static void put_map(struct buf *b, const struct id_map *m)
{
	codec_put_u32(b, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		codec_put_u32(b, m->extent[i].inner);
		codec_put_u32(b, m->extent[i].outer);
		codec_put_u32(b, m->extent[i].count);
	}
}

static void get_map(struct codec_reader *r, struct id_map *m)
{
	m->n = codec_get_u32(r);
	if (m->n > SPEC_MAPS_MAX) {
		r->failed = -EPROTO;
		m->n = 0;
	}
	for (uint32_t i = 0; i < m->n; i++) {
		m->extent[i].inner = codec_get_u32(r);
		m->extent[i].outer = codec_get_u32(r);
		m->extent[i].count = codec_get_u32(r);
	}
}

static void put_limits(struct buf *b, const struct policy_limits *l)
{
	const uint64_t v[] = {l->cpus_milli,  l->memory,    l->disk,
			      l->inodes,      l->processes, l->open_files,
			      l->output,      l->cpu_time_ms, l->wall_ms,
			      l->idle_ms,     l->enforce};

	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++)
		codec_put_u64(b, v[i]);
}

static void get_limits(struct codec_reader *r, struct policy_limits *l)
{
	uint64_t enforce;

	l->cpus_milli = codec_get_u64(r);
	l->memory = codec_get_u64(r);
	l->disk = codec_get_u64(r);
	l->inodes = codec_get_u64(r);
	l->processes = codec_get_u64(r);
	l->open_files = codec_get_u64(r);
	l->output = codec_get_u64(r);
	l->cpu_time_ms = codec_get_u64(r);
	l->wall_ms = codec_get_u64(r);
	l->idle_ms = codec_get_u64(r);
	enforce = codec_get_u64(r);
	if (enforce > ENFORCE_HARD)
		r->failed = -EPROTO;
	l->enforce = (enum policy_enforce)enforce;
}

int spec_put(struct buf *b, const struct sandbox_spec *s)
{
	const struct hide none = {0};

	codec_put_str(b, s->id);
	codec_put_u32(b, s->tier);
	codec_put_u32(b, s->identity);
	codec_put_u32(b, s->workspace);
	codec_put_u32(b, s->nesting);
	codec_put_u32(b, s->root_caller);
	codec_put_u32(b, s->inner_uid);
	codec_put_u32(b, s->inner_gid);
	codec_put_u32(b, s->outer_uid);
	codec_put_u32(b, s->outer_gid);
	codec_put_u32(b, s->owner_uid);
	codec_put_u32(b, s->owner_gid);
	put_map(b, &s->keeper_uids);
	put_map(b, &s->keeper_gids);
	put_map(b, &s->uids);
	put_map(b, &s->gids);
	codec_put_str(b, s->user);
	codec_put_str(b, s->home);
	codec_put_str(b, s->git_name);
	codec_put_str(b, s->git_email);
	codec_put_str(b, s->source);
	codec_put_u64(b, s->source_dev);
	codec_put_u64(b, s->source_ino);
	codec_put_list(b, &s->read);
	codec_put_list(b, &s->write);
	codec_put_list(b, &s->tools);
	codec_put_list(b, &s->carried);
	codec_put_list(b, &s->carried_at);
	codec_put_list(b, &s->masked);
	codec_put_list(b, &s->sockets);
	codec_put_list(b, &s->seeds);
	codec_put_list(b, &s->seed_texts);
	codec_put_list(b, &s->tool_env);
	hide_put(b, s->hide_path ? &none : &s->hide);
	codec_put_str(b, s->hide_path);
	codec_put_list(b, &s->pinned);
	codec_put_list(b, &s->covered);
	codec_put_list(b, &s->anchors);
	put_limits(b, &s->limits);
	return b->failed;
}

/* A number of an enumeration that ends with last. */
static uint32_t get_choice(struct codec_reader *r, uint32_t last)
{
	uint32_t v = codec_get_u32(r);

	if (v > last)
		r->failed = -EPROTO;
	return v;
}

static char *get_copy(struct codec_reader *r, bool may_be_null)
{
	const char *s = codec_get_str(r);
	char *copy = s ? strdup(s) : NULL;

	if (!copy && (s || !may_be_null) && !r->failed)
		r->failed = s ? -ENOMEM : -EPROTO;
	return copy;
}

/* Host names and directory names are made of ids: nothing else may be one. */
static bool id_is_sound(const char *id)
{
	return id && strlen(id) > 0 && strlen(id) < 32 &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") ==
		       strlen(id);
}

int spec_get(struct codec_reader *r, struct sandbox_spec *s)
{
	s->id = get_copy(r, false);
	s->tier = (enum policy_tier)get_choice(r, TIER_WASM);
	s->identity = (enum policy_identity)get_choice(r, IDENTITY_RANGE);
	s->workspace = (enum policy_workspace)get_choice(r, WORKSPACE_DIRECT);
	s->nesting = get_choice(r, 1);
	s->root_caller = get_choice(r, 1);
	s->inner_uid = codec_get_u32(r);
	s->inner_gid = codec_get_u32(r);
	s->outer_uid = codec_get_u32(r);
	s->outer_gid = codec_get_u32(r);
	s->owner_uid = codec_get_u32(r);
	s->owner_gid = codec_get_u32(r);
	get_map(r, &s->keeper_uids);
	get_map(r, &s->keeper_gids);
	get_map(r, &s->uids);
	get_map(r, &s->gids);
	s->user = get_copy(r, false);
	s->home = get_copy(r, false);
	s->git_name = get_copy(r, true);
	s->git_email = get_copy(r, true);
	s->source = get_copy(r, true);
	s->source_dev = codec_get_u64(r);
	s->source_ino = codec_get_u64(r);
	codec_get_list(r, POLICY_LIST_MAX, &s->read);
	codec_get_list(r, POLICY_LIST_MAX, &s->write);
	codec_get_list(r, POLICY_LIST_MAX, &s->tools);
	codec_get_list(r, POLICY_LIST_MAX, &s->carried);
	codec_get_list(r, POLICY_LIST_MAX, &s->carried_at);
	codec_get_list(r, HIDE_PATHS_MAX, &s->masked);
	codec_get_list(r, POLICY_LIST_MAX, &s->sockets);
	codec_get_list(r, POLICY_LIST_MAX, &s->seeds);
	codec_get_list(r, POLICY_LIST_MAX, &s->seed_texts);
	codec_get_list(r, POLICY_LIST_MAX, &s->tool_env);
	hide_get(r, &s->hide);
	s->hide_path = get_copy(r, true);
	codec_get_list(r, DIRECT_MOUNTS_MAX, &s->pinned);
	codec_get_list(r, DIRECT_MOUNTS_MAX, &s->covered);
	codec_get_list(r, DIRECT_MOUNTS_MAX, &s->anchors);
	get_limits(r, &s->limits);
	if (!r->failed && (!id_is_sound(s->id) ||
			   s->carried.n != s->carried_at.n ||
			   s->seeds.n != s->seed_texts.n))
		r->failed = -EPROTO;
	return r->failed;
}

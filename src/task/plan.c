#include "task/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x706e666cu

void plan_done(struct task_plan *p)
{
	spec_done(&p->spec);
	free(p->no_group);
	free(p->socket_path);
	free(p->task_path);
	strlist_done(&p->argv);
	strlist_done(&p->labels);
	free(p->workdir);
	free(p->policy_name);
	*p = (struct task_plan){0};
}

int plan_pack(const struct task_plan *p, struct buf *b)
{
	codec_put_u32(b, MAGIC);
	codec_put_u32(b, PLAN_VERSION);
	spec_put(b, &p->spec);
	codec_put_u32(b, p->stay);
	codec_put_u32(b, p->caller_uid);
	codec_put_u64(b, p->grace_ms);
	codec_put_u64(b, p->log_max);
	codec_put_str(b, p->socket_path);
	codec_put_str(b, p->task_path);
	codec_put_list(b, &p->argv);
	codec_put_list(b, &p->labels);
	codec_put_str(b, p->workdir);
	codec_put_str(b, p->policy_name);
	codec_put_str(b, p->policy_digest);
	codec_put_str(b, p->hidden_digest);
	codec_put_u64(b, p->started_us);
	codec_put_u32(b, p->delegated);
	codec_put_str(b, p->no_group);
	return b->failed;
}

static char *copy(const char *s, int *failed)
{
	char *c = s ? strdup(s) : NULL;

	if (s && !c)
		*failed = -ENOMEM;
	return c;
}

static void get_digest(struct codec_reader *r, bool optional,
		       char ret[SHA256_HEX_SIZE])
{
	const char *digest = codec_get_str(r);

	if (digest && (strlen(digest) == SHA256_HEX_SIZE - 1 ||
		       (optional && !digest[0])))
		memcpy(ret, digest, strlen(digest) + 1);
	else
		r->failed = r->failed ? r->failed : -EPROTO;
}

int plan_unpack(const char *data, size_t len, struct task_plan *ret,
		struct error *err)
{
	struct codec_reader r = {.data = data, .len = len};
	int bad;

	*ret = (struct task_plan){0};
	if (codec_get_u32(&r) != MAGIC || codec_get_u32(&r) != PLAN_VERSION)
		r.failed = -EPROTO;
	spec_get(&r, &ret->spec);
	ret->stay = codec_get_u32(&r) != 0;
	ret->caller_uid = codec_get_u32(&r);
	ret->grace_ms = codec_get_u64(&r);
	ret->log_max = codec_get_u64(&r);
	ret->socket_path = copy(codec_get_str(&r), &r.failed);
	ret->task_path = copy(codec_get_str(&r), &r.failed);
	codec_get_list(&r, UINT32_MAX, &ret->argv);
	codec_get_list(&r, POLICY_LIST_MAX, &ret->labels);
	ret->workdir = copy(codec_get_str(&r), &r.failed);
	ret->policy_name = copy(codec_get_str(&r), &r.failed);
	get_digest(&r, false, ret->policy_digest);
	get_digest(&r, true, ret->hidden_digest);
	ret->started_us = codec_get_u64(&r);
	ret->delegated = codec_get_u32(&r) != 0;
	ret->no_group = copy(codec_get_str(&r), &r.failed);
	bad = codec_end(&r);
	if (bad == 0 && (!ret->task_path || !ret->workdir))
		bad = -EPROTO;
	if (bad < 0) {
		plan_done(ret);
		return error_set(err, bad, "the task's plan is malformed");
	}
	return 0;
}

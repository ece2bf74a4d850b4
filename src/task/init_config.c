#include "ipc/codec.h"
#include "policy/policy.h"
#include "task/init.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int init_config_pack(const struct init_config *c, struct buf *b)
{
	codec_put_str(b, c->hostname);
	codec_put_u32(b, c->nesting);
	codec_put_u32(b, c->uid);
	codec_put_u32(b, c->gid);
	codec_put_u64(b, c->processes);
	codec_put_u64(b, c->open_files);
	codec_put_u64(b, c->file_size);
	codec_put_u32(b, c->cpus);
	codec_put_list(b, &c->write_paths);
	return b->failed;
}

int init_config_unpack(const void *data, size_t len, struct init_config *ret)
{
	struct codec_reader r = {.data = data, .len = len};
	const char *hostname;
	int bad;

	*ret = (struct init_config){0};
	hostname = codec_get_str(&r);
	ret->hostname = hostname ? strdup(hostname) : NULL;
	ret->nesting = codec_get_u32(&r) != 0;
	ret->uid = codec_get_u32(&r);
	ret->gid = codec_get_u32(&r);
	ret->processes = codec_get_u64(&r);
	ret->open_files = codec_get_u64(&r);
	ret->file_size = codec_get_u64(&r);
	ret->cpus = codec_get_u32(&r);
	codec_get_list(&r, POLICY_LIST_MAX, &ret->write_paths);
	bad = codec_end(&r);
	if (bad == 0 && !ret->hostname)
		bad = hostname ? -ENOMEM : -EPROTO;
	if (bad < 0)
		init_config_done(ret);
	return bad;
}

void init_config_done(struct init_config *c)
{
	free(c->hostname);
	strlist_done(&c->write_paths);
	*c = (struct init_config){0};
}

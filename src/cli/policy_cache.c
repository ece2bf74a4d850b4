#include "cli/policy_cache.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "policy/compile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRY_MAX (COMPILE_ANSWER_MAX * 2)
/* When a directory holds more entries than this, it is emptied. */
#define ENTRIES_MAX 64
#define DIGEST_LEN (SHA256_HEX_SIZE - 1)

void cache_inputs_done(struct cache_inputs *i)
{
	strlist_done(&i->paths);
	strlist_done(&i->digests);
}

static bool is_own(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type &&
	       st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static int open_dir(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (!is_own(fd, S_IFDIR))
		return -EPERM;
	return steal_fd(&fd);
}

static int make_dirs(const char *path)
{
	AUTO_FREE char *part = strdup(path);

	if (!part)
		return -ENOMEM;
	for (char *p = strchr(part + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(part, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int take_inputs(const struct json_value *list, struct cache_inputs *ret)
{
	int r = list ? 0 : -EPROTO;

	for (const struct json_value *v = list ? list->first : NULL;
	     v && r == 0; v = v->next) {
		const char *path = json_get_string(v, "path");
		const char *digest = json_get_string(v, "sha256");

		if (!path || !digest)
			return -EPROTO;
		r = strlist_add(&ret->paths, path);
		if (r == 0)
			r = strlist_add(&ret->digests, digest);
	}
	return r;
}

static int read_entry(const struct buf *entry, struct buf *ret_answer,
		      struct cache_inputs *ret_inputs)
{
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(ENTRY_MAX * 2, 64);
	const struct json_value *root, *answer;
	char digest[SHA256_HEX_SIZE];
	const char *json = entry->data + SHA256_HEX_SIZE;
	int r;

	if (entry->len <= SHA256_HEX_SIZE || entry->data[DIGEST_LEN] != '\n')
		return -EPROTO;
	sha256_hex(json, entry->len - SHA256_HEX_SIZE, digest);
	if (memcmp(digest, entry->data, DIGEST_LEN) != 0)
		return -EPROTO;
	r = json_parse(json, entry->len - SHA256_HEX_SIZE, JSON_INTEGERS_ONLY,
		       &doc, &root, NULL, NULL);
	if (r < 0)
		return r;
	answer = json_get_typed(root, "answer", JSON_STRING);
	if (!answer)
		return -EPROTO;
	r = take_inputs(json_get_typed(root, "inputs", JSON_ARRAY),
			ret_inputs);
	return r < 0 ? r : buf_add(ret_answer, answer->text, answer->len);
}

int policy_cache_get(const char *dir, const char key[SHA256_HEX_SIZE],
		     struct buf *ret_answer, struct cache_inputs *ret_inputs)
{
	AUTO_BUF struct buf entry = BUF_INIT(ENTRY_MAX);
	AUTO_CLOSE int dir_fd = open_dir(dir);
	AUTO_CLOSE int fd = -1;
	int r;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, key,
		    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (!is_own(fd, S_IFREG))
		return -EPERM;
	r = io_read_all(fd, &entry);
	return r < 0 ? r : read_entry(&entry, ret_answer, ret_inputs);
}

static void drop_many(int dir_fd)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	size_t n = 0;

	if (io_open_dir(dir_fd, ".", &dir) < 0)
		return;
	while ((e = readdir(dir)))
		n += strlen(e->d_name) == DIGEST_LEN;
	if (n < ENTRIES_MAX)
		return;
	rewinddir(dir);
	while ((e = readdir(dir))) {
		if (strlen(e->d_name) == DIGEST_LEN)
			unlinkat(dir_fd, e->d_name, 0);
	}
}

static int write_entry(const struct buf *answer,
		       const struct cache_inputs *inputs, struct buf *entry)
{
	AUTO_BUF struct buf json = BUF_INIT(ENTRY_MAX);
	char digest[SHA256_HEX_SIZE];
	struct json_writer w;
	int r;

	json_begin(&w, &json);
	json_object(&w);
	json_key(&w, "answer");
	json_string_bytes(&w, answer->data, answer->len);
	json_key(&w, "inputs");
	json_array(&w);
	for (size_t i = 0; i < inputs->paths.n; i++) {
		json_object(&w);
		json_put_string(&w, "path", inputs->paths.items[i]);
		json_put_string(&w, "sha256", inputs->digests.items[i]);
		json_object_end(&w);
	}
	json_array_end(&w);
	json_object_end(&w);
	r = json_finish(&w);
	if (r < 0)
		return r;
	sha256_hex(json.data, json.len, digest);
	buf_addf(entry, "%s\n", digest);
	return buf_add(entry, json.data, json.len);
}

void policy_cache_put(const char *dir, const char key[SHA256_HEX_SIZE],
		      const struct buf *answer,
		      const struct cache_inputs *inputs)
{
	AUTO_BUF struct buf entry = BUF_INIT(ENTRY_MAX);
	AUTO_CLOSE int dir_fd = -1;

	if (write_entry(answer, inputs, &entry) < 0 || make_dirs(dir) < 0)
		return;
	dir_fd = open_dir(dir);
	if (dir_fd < 0)
		return;
	drop_many(dir_fd);
	(void)io_replace_file(dir_fd, key, entry.data, entry.len, 0600);
}

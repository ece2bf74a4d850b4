/*
 * The settings of coding agents (files.agents). A directory is carried in with
 * everything hidden that the table does not list; a file is copied into the
 * sandbox's home. What holds a token is kept back and told.
 */
#include "base/cleanup.h"
#include "base/io.h"
#include "cli/agent_table.h"
#include "cli/tools.h"
#include "schema/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 1024
#define FILE_MAX (256u << 10)
#define CLAUDE_MAX (4u << 20)
#define CLAUDE_MEMORY (64u << 20)
#define CLAUDE_VALUES 400000

static bool lists(const char *const *names, const char *name)
{
	for (; *names; names++) {
		if (str_eq(*names, name))
			return true;
	}
	return false;
}

static int withhold(struct tools *t, const char *path)
{
	return strlist_add(&t->withheld, path);
}

/* A regular file of the caller's or root's, of at most b->max bytes of text. */
static int read_settings(int dir_fd, const char *name, struct buf *b)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC |
				   O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()))
		return -EPERM;
	r = io_read_all(fd, b);
	if (r < 0)
		return r;
	return strlen(buf_str(b)) == b->len ? 0 : -EILSEQ;
}

/* Hides what is not listed, or holds a token. 1: too much to understand. */
static int mask_names(struct tools *t, const struct agent_part *part,
		      const char *root)
{
	AUTO_DIR DIR *d = opendir(root);
	const struct dirent *e;
	size_t n = 0;
	int r = 0;

	if (!d)
		return 1;
	while (r == 0 && (e = readdir(d))) {
		if (n++ == NAMES_MAX)
			return 1;
		if (lists(part->show, e->d_name) || str_eq(e->d_name, ".") ||
		    str_eq(e->d_name, ".."))
			continue;
		r = strlist_take(&t->masked,
				 str_format("%s/%s", root, e->d_name));
	}
	return r;
}

static int mask_tokens(struct tools *t, const struct agent_part *part,
		       const char *root)
{
	AUTO_CLOSE int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	for (size_t i = 0; part->scan[i] && r == 0; i++) {
		AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
		AUTO_FREE char *path = NULL;
		int bad = read_settings(fd, part->scan[i], &text);

		if (bad == -ENOENT ||
		    (bad == 0 && !agent_holds_token(buf_str(&text))))
			continue;
		path = str_format("%s/%s", root, part->scan[i]);
		r = path ? strlist_add(&t->masked, path) : -ENOMEM;
		if (r == 0)
			r = withhold(t, path);
	}
	return r;
}

static int mask_all(struct tools *t, const struct agent_part *part,
		    const char *root)
{
	int r = tools_expand_masks(t, root, part->mask);

	if (r == 0)
		r = mask_names(t, part, root);
	return r == 0 ? mask_tokens(t, part, root) : r;
}

static int take_directory(const struct tools_where *w, struct tools *t,
			  const char *agent, const struct agent_part *part)
{
	AUTO_FREE char *path = str_format("%s/%s", w->home, part->path);
	AUTO_FREE char *at = str_format("%s/%s", w->inside, part->path);
	AUTO_FREE char *root = path ? realpath(path, NULL) : NULL;
	int r;

	if (!path || !at)
		return -ENOMEM;
	if (!root || !tools_fit(w, root) || tools_visible(w, t, at))
		return 0;
	r = mask_all(t, part, root);
	if (r == 0)
		r = tools_carry(t, root, at, agent);
	return r > 0 || r == -E2BIG ? withhold(t, root) : r;
}

static int add_seed(struct tools *t, const char *name, const char *text)
{
	int r = strlist_add(&t->seeds, name);

	return r < 0 ? r : strlist_add(&t->seed_texts, text);
}

static int take_file(const struct tools_where *w, struct tools *t,
		     const struct agent_part *part)
{
	AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
	AUTO_FREE char *path = str_format("%s/%s", w->home, part->path);
	int r = path ? read_settings(AT_FDCWD, path, &text) : -ENOMEM;

	if (r == -ENOENT || r == -ENOMEM)
		return r == -ENOMEM ? r : 0;
	if (r < 0 || agent_holds_token(buf_str(&text)))
		return withhold(t, path);
	return add_seed(t, part->path, buf_str(&text));
}

/* What of ~/.claude.json is no account, no history and no token. */
static void write_claude(const struct json_value *root, const char *source,
			 struct json_writer *w)
{
	static const char *const kept[] = {
		"autoUpdates", "editorMode", "hasCompletedOnboarding",
		"installMethod", "lastOnboardingVersion", "numStartups"};
	const char *theme = json_get_string(root, "theme");
	const struct json_value *projects = json_get(root, "projects");
	const struct json_value *trusted = json_get_typed(
		source ? json_get(projects, source) : NULL,
		"hasTrustDialogAccepted", JSON_BOOL);

	json_object(w);
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		const struct json_value *v = json_get(root, kept[i]);

		if (v && v->type == JSON_BOOL)
			json_put_bool(w, kept[i], v->boolean);
		else if (v && v->type == JSON_INT)
			json_put_int(w, kept[i], v->integer);
		else if (v && v->type == JSON_STRING)
			json_put_text(w, kept[i], v->text);
	}
	if (trusted) {
		json_key(w, "projects");
		json_object(w);
		json_key(w, source);
		json_object(w);
		json_put_bool(w, "hasTrustDialogAccepted", trusted->boolean);
		json_object_end(w);
		json_object_end(w);
	}
	if (theme)
		json_put_text(w, "theme", theme);
	json_object_end(w);
}

static int take_claude(const struct tools_where *w, struct tools *t,
		       const struct agent_part *part)
{
	AUTO_BUF struct buf text = BUF_INIT(CLAUDE_MAX);
	AUTO_BUF struct buf out = BUF_INIT(FILE_MAX);
	AUTO_JSON struct json_doc doc = JSON_DOC_INIT(CLAUDE_MEMORY,
						      CLAUDE_VALUES);
	AUTO_FREE char *path = str_format("%s/%s", w->home, part->path);
	int r = path ? read_settings(AT_FDCWD, path, &text) : -ENOMEM;
	const struct json_value *root;
	struct json_writer writer;
	struct error ignored;

	if (r == -ENOENT || r == -ENOMEM)
		return r == -ENOMEM ? r : 0;
	if (r == 0)
		r = json_parse(buf_str(&text), text.len, 0, &doc, &root, NULL,
			       &ignored);
	if (r < 0 || root->type != JSON_OBJECT)
		return withhold(t, path);
	json_begin(&writer, &out);
	write_claude(root, w->source, &writer);
	return json_finish(&writer) < 0
		       ? withhold(t, path)
		       : add_seed(t, part->path, buf_str(&out));
}

static int take_part(const struct tools_where *w, struct tools *t,
		     const char *agent, const struct agent_part *part)
{
	switch (part->kind) {
	case AGENT_DIRECTORY:
		return take_directory(w, t, agent, part);
	case AGENT_FILE:
		return take_file(w, t, part);
	case AGENT_CLAUDE:
		return take_claude(w, t, part);
	}
	return -EINVAL;
}

int tools_add_agents(const struct tools_where *w, struct tools *t)
{
	const struct strlist *wanted = &w->policy->agents;
	int r = 0;

	for (size_t i = 0; i < n_agents && r == 0; i++) {
		if (!strlist_has(wanted, agents[i].name))
			continue;
		for (size_t k = 0; k < agents[i].n && r == 0; k++)
			r = take_part(w, t, agents[i].name,
				      &agents[i].parts[k]);
	}
	return r;
}

#include "workspace/git_name.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

bool git_is_id(const char *text, size_t len)
{
	size_t n = strspn(text, "0123456789abcdef");

	return n == len && (text[n] == '\0' || text[n] == '\n');
}

static bool is_component(const char *name, size_t n)
{
	static const char lock[] = ".lock";

	if (n == 0 || name[0] == '.' || name[n - 1] == '.')
		return false;
	return n < sizeof(lock) - 1 ||
	       memcmp(name + n - (sizeof(lock) - 1), lock, sizeof(lock) - 1) !=
		       0;
}

static bool has_forbidden(const char *name)
{
	for (const unsigned char *at = (const void *)name; *at; at++) {
		if (*at < 0x20 || *at == 0x7f || strchr(" ~^:?*[\\", *at))
			return true;
	}
	return strstr(name, "..") || strstr(name, "@{");
}

/* What git keeps in .git by itself: HEAD, FETCH_HEAD and the like. */
static bool is_of_git(const char *name)
{
	return str_ends(name, "HEAD") &&
	       name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")] == '\0';
}

/* What git itself does not make: options to those who write scripts, HEAD. */
static bool is_misleading(const char *name)
{
	const char *shorter = str_starts(name, "refs/heads/")  ? name + 11
			      : str_starts(name, "refs/tags/") ? name + 10
							       : NULL;

	return shorter && (shorter[0] == '-' || is_of_git(shorter));
}

const char *git_name_fault(const char *name)
{
	if (strlen(name) >= GIT_NAME_MAX - 64)
		return "its name is too long";
	if (!str_starts(name, "refs/") || has_forbidden(name) ||
	    is_misleading(name))
		return "git knows no reference by such a name";
	for (const char *at = name;;) {
		size_t n = strcspn(at, "/");

		if (!is_component(at, n))
			return "git knows no reference by such a name";
		if (at[n] == '\0')
			return NULL;
		at += n + 1;
	}
}

const char *git_name_kind(const char *name)
{
	static const char *const taken[] = {"refs/heads/", "refs/tags/",
					    "refs/notes/"};

	if (str_eq(name, "refs/stash"))
		return NULL;
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		if (str_starts(name, taken[i]))
			return NULL;
	}
	if (str_starts(name, "refs/replace/"))
		return "git would read other objects in the place of its own";
	if (str_starts(name, "refs/remotes/"))
		return "it tells what another repository has, and the task "
		       "could not know that";
	return "neither a branch nor a tag, a note or the stash";
}

const char *git_name_short(const char *name, char buf[GIT_NAME_MAX])
{
	if (str_starts(name, "refs/heads/"))
		return name + 11;
	if (!str_starts(name, "refs/tags/"))
		return str_eq(name, "refs/stash") ? name + 5 : name;
	snprintf(buf, GIT_NAME_MAX, "tag %s", name + 10);
	return buf;
}

/* How git completes what it is given: the first that exists is meant. */
static const struct rule {
	const char *before, *after;
} rules[] = {
	{"", ""},
	{"refs/", ""},
	{"refs/tags/", ""},
	{"refs/heads/", ""},
	{"refs/remotes/", ""},
	{"refs/remotes/", "/HEAD"},
};

/* Is name what the rule makes of some form? */
static bool find_form(const struct rule *rule, const char *name,
		      char form[GIT_NAME_MAX])
{
	size_t n = strlen(name), before = strlen(rule->before),
	       after = strlen(rule->after);

	if (n <= before + after || n >= GIT_NAME_MAX ||
	    !str_starts(name, rule->before) || !str_ends(name, rule->after))
		return false;
	n -= before + after;
	memcpy(form, name + before, n);
	form[n] = '\0';
	return true;
}

int git_name_each_rival(const char *name,
			int (*fn)(void *arg, const char *form,
				  const char *rival),
			void *arg)
{
	char form[GIT_NAME_MAX], rival[GIT_NAME_MAX + 32];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (!find_form(&rules[i], name, form))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(rules) && r == 0; k++) {
			snprintf(rival, sizeof(rival), "%s%s%s",
				 rules[k].before, form, rules[k].after);
			if (str_starts(rival, "refs/") && !str_eq(rival, name))
				r = fn(arg, form, rival);
		}
	}
	return r;
}

bool git_names_clash(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	if (n == m)
		return false;
	return n < m ? !memcmp(a, b, n) && b[n] == '/'
		     : !memcmp(a, b, m) && a[m] == '/';
}

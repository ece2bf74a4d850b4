/* "Did you mean" for fields of the table and for words of a list. */
#include "base/near.h"
#include "policy/field.h"

#include <string.h>

const char *name_nearest(const char *const *names, const char *word)
{
	const char *best = NULL;

	for (size_t i = 0; names[i]; i++)
		near_consider(word, names[i], &best);
	return best;
}

/* The part of a field's name below section, NULL if it is not directly there. */
static const char *part_below(const char *name, const char *section)
{
	size_t n = strlen(section);

	if (n > 0) {
		if (strncmp(name, section, n) != 0 || name[n] != '.')
			return NULL;
		name += n + 1;
	}
	return strchr(name, '.') ? NULL : name;
}

/* The right name in the wrong place. */
static const char *elsewhere(const char *word)
{
	for (size_t i = 0; i < n_policy_fields; i++) {
		const char *name = policy_fields[i].name;
		const char *dot = strrchr(name, '.');

		if (!strcmp(dot ? dot + 1 : name, word))
			return name;
	}
	return NULL;
}

const char *field_nearest(const char *section, const char *word)
{
	const char *best = NULL, *best_name = NULL;

	for (size_t i = 0; i < n_policy_fields; i++) {
		const char *part = part_below(policy_fields[i].name, section);
		const char *before = best;

		if (!part)
			continue;
		near_consider(word, part, &best);
		if (best != before)
			best_name = policy_fields[i].name;
	}
	if (best_name)
		return best_name;
	for (size_t i = 0; !*section && strchr(word, '.') &&
			   i < n_policy_fields; i++) {
		near_consider(word, policy_fields[i].name, &best);
	}
	return best ? best : elsewhere(word);
}

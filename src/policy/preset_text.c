/* The texts of the presets, taken from profiles/ when pinfold is built. */
#include "base/str.h"
#include "policy/load.h"

#include <string.h>

static const struct {
	const char *name;
	const char *text;
} presets[] = {
#include "policy/presets.inc"
};

const char *preset_text(const char *name)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(*presets); i++) {
		if (str_eq(presets[i].name, name))
			return presets[i].text;
	}
	return NULL;
}

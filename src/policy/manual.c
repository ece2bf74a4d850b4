/* The manual page pinfold-policy(5) from the table of fields. */
#include "base/cleanup.h"
#include "base/str.h"
#include "policy/field.h"
#include "policy/load.h"

#include <string.h>

static const char head[] =
".Dd November 29, 2026\n"
".Dt PINFOLD-POLICY 5\n"
".Os pinfold\n"
".Sh NAME\n"
".Nm pinfold-policy\n"
".Nd what a task of pinfold may do\n"
".Sh DESCRIPTION\n"
"A policy says what one task may see, change and use up.\n"
"Everything is denied that is not permitted, a denial beats every permission,\n"
"and a rule that can never take effect is an error.\n"
".Pp\n"
"The policy in force is the file given by\n"
".Fl -policy ,\n"
"or the preset given by\n"
".Fl -preset ,\n"
"or else\n"
".Pa ~/.config/pinfold/policy.yaml\n"
"if that exists, or else the built-in one, which is the preset\n"
".Cm offline .\n"
"Options of the command line come on top.\n"
".Pa /etc/pinfold/policy.yaml\n"
"is a ceiling for all of them: a field that it states can only be narrowed.\n"
"What a policy does not state itself is lowered to the ceiling, what it\n"
"states beyond it is an error, and denials of the ceiling are added.\n"
"In a ceiling, paths may be as broad as one likes.\n"
".Pp\n"
"A policy is YAML or JSON, at most 1 MiB of UTF-8.\n"
"One document; anchors, aliases, tags, merge keys, directives and keys that\n"
"occur twice are errors, as are unknown fields: nothing is ignored.\n"
"Only\n"
".Li true\n"
"and\n"
".Li false\n"
"are flags;\n"
".Li yes , no , on\n"
"and\n"
".Li off\n"
"are texts.\n"
"Texts that look like numbers are put in quotes.\n"
"Sizes are bytes or carry a unit (kB, MB, GB, TB of 1000; KiB, MiB, GiB, TiB\n"
"of 1024).\n"
"Durations carry units: ms, s, m, h, d, as in\n"
".Li 1m30s .\n"
".Pp\n"
".Ql pinfold policy check FILE\n"
"names every fault with its line and column;\n"
".Ql pinfold policy show\n"
"prints the policy in force with every implicit rule.\n"
".Sh FIELDS\n"
".Bl -tag -width Ds\n";

static const char middle[] =
".El\n"
".Sh FIELDS OF LATER VERSIONS\n"
"These names are known and refused: a policy that uses them would promise\n"
"what this version does not enforce.\n"
".Bl -tag -width Ds\n";

static const char tail[] =
".El\n"
".Sh TIERS\n"
"The least tier by data (rows), code and impact (columns, impact low, medium,\n"
"high):\n"
".Bd -literal\n";

static const char example[] =
".Ed\n"
".Sh EXAMPLES\n"
".Bd -literal\n"
"version: 1\n"
"extends: offline\n"
"classify: {data: internal, code: untrusted, impact: medium}\n"
"files:\n"
"  read: [/opt/models]\n"
"  deny: [.env]\n"
"limits:\n"
"  memory: 4GiB\n"
"  wall: 30m\n"
"env:\n"
"  set: {CI: \"1\"}\n"
".Ed\n"
".Sh SEE ALSO\n"
".Xr pinfold 1\n";

/* Text as roff: backslashes and leading dots are no commands. */
static void add_text(struct buf *out, const char *text)
{
	bool start = true;

	for (; *text; text++) {
		if (start && (*text == '.' || *text == '\''))
			buf_add_str(out, "\\&");
		if (*text == '\\')
			buf_add_str(out, "\\e");
		else
			buf_add_char(out, *text);
		start = *text == '\n';
	}
	buf_add_char(out, '\n');
}

static void add_field(struct buf *out, const struct policy_field *f)
{
	AUTO_BUF struct buf want = BUF_INIT(512), value = BUF_INIT(512);

	buf_addf(out, ".It Cm %s\n", f->name);
	add_text(out, f->help);
	if (f->type == FIELD_REFUSED)
		return;
	field_expected(f, &want);
	buf_addf(out, "(%s", buf_str(&want));
	if (field_is_scalar(f)) {
		field_format(f, f->fallback, &value);
		buf_addf(out, "; default %s", buf_str(&value));
		if (f->max > 0) {
			buf_add_str(out, "; ");
			field_format(f, f->min, out);
			buf_add_str(out, " to ");
			field_format(f, f->max, out);
		}
	}
	buf_add_str(out, ").\n");
	if (f->manual) {
		buf_add_str(out, ".Pp\n");
		add_text(out, f->manual);
	}
}

static void add_tiers(struct buf *out)
{
	const struct policy_field *data = field_find("classify.data");
	const struct policy_field *code = field_find("classify.code");

	for (unsigned c = 0; code->values[c]; c++) {
		buf_addf(out, "code %s:\n", code->values[c]);
		for (unsigned d = 0; data->values[d]; d++) {
			struct policy p = {.data = d, .code = c};

			buf_addf(out, "  %-13s", data->values[d]);
			for (p.impact = 0; p.impact < 3; p.impact++)
				buf_addf(out, " %-10s",
					 policy_tier_name(
						 policy_least_tier(&p, NULL)));
			buf_add_char(out, '\n');
		}
	}
}

int policy_write_manual(struct buf *out)
{
	buf_add_str(out, head);
	for (size_t i = 0; i < n_policy_fields; i++) {
		if (policy_fields[i].type != FIELD_REFUSED)
			add_field(out, &policy_fields[i]);
	}
	buf_add_str(out, middle);
	for (size_t i = 0; i < n_policy_fields; i++) {
		if (policy_fields[i].type == FIELD_REFUSED)
			add_field(out, &policy_fields[i]);
	}
	buf_add_str(out, tail);
	add_tiers(out);
	return buf_add_str(out, example);
}

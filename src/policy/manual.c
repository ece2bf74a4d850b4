/* The manual page pinfold-policy(5) from the table of fields. */
#include "base/cleanup.h"
#include "base/roff.h"
#include "base/str.h"
#include "policy/field.h"
#include "policy/load.h"

#include <stdbool.h>
#include <string.h>

static const char title[] =
".\\\" Written from pinfold's table of policy fields.\n"
".TH PINFOLD\\-POLICY 5 \"" ROFF_DATE "\" \"pinfold " PINFOLD_VERSION
"\" \"pinfold manual\"\n"
".SH NAME\n"
"pinfold\\-policy \\- what a task of pinfold may do\n"
".SH DESCRIPTION\n";

/* Paragraphs of the description. */
static const char *const description[] = {
"A policy says what one task may see, change and use up. Everything is denied "
"that is not permitted, a denial beats every permission, and a rule that can "
"never take effect is an error.",
"The policy in force is the file given by --policy, or the preset given by "
"--preset, or else ~/.config/pinfold/policy.yaml if that exists, or else the "
"built-in one, which is the preset offline. Options of the command line come on "
"top. /etc/pinfold/policy.yaml is a ceiling for all of them: a field that it "
"states can only be narrowed. What a policy does not state itself is lowered to "
"the ceiling, what it states beyond it is an error, and denials of the ceiling "
"are added. In a ceiling, paths may be as broad as one likes.",
"A policy is YAML or JSON, at most 1 MiB of UTF-8: one document. Anchors, "
"aliases, tags, merge keys, directives and keys that occur twice are errors, as "
"are unknown fields: nothing is ignored. Only true and false are flags; yes, "
"no, on and off are texts. Texts that look like numbers are put in quotes. "
"Sizes are bytes or carry a unit (kB, MB, GB, TB of 1000; KiB, MiB, GiB, TiB of "
"1024). Durations carry units: ms, s, m, h, d, as in 1m30s.",
("pinfold policy check FILE names every fault with its line and column; pinfold "
 "policy show prints the policy in force with every implicit rule."),
};

static const char later[] =
"These names are known and refused: a policy that uses them would promise what "
"this version does not enforce.";

static const char example[] =
".SH EXAMPLES\n"
".nf\n"
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
"  set: {CI: \\(dq1\\(dq}\n"
".fi\n"
".SH SEE ALSO\n"
".BR pinfold (1)\n";

static void add_description(struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(description); i++) {
		if (i > 0)
			buf_add_str(out, ".PP\n");
		roff_text(out, description[i]);
	}
}

static void add_field(struct buf *out, const struct policy_field *f)
{
	AUTO_BUF struct buf text = BUF_INIT(8192);

	buf_add_str(out, ".TP\n.B ");
	roff_literal(out, f->name, strlen(f->name));
	buf_addf(&text, "\n%s.", f->help);
	if (f->type != FIELD_REFUSED) {
		buf_add_str(&text, " (");
		field_expected(f, &text);
		if (field_is_scalar(f)) {
			buf_add_str(&text, "; default ");
			field_format(f, f->fallback, &text);
		}
		if (field_is_scalar(f) && f->max > 0) {
			buf_add_str(&text, "; ");
			field_format(f, f->min, &text);
			buf_add_str(&text, " to ");
			field_format(f, f->max, &text);
		}
		buf_add_str(&text, ")");
	}
	buf_add_char(out, '\n');
	roff_text(out, buf_str(&text));
	if (f->type != FIELD_REFUSED && f->manual) {
		buf_add_str(out, ".IP\n");
		roff_text(out, f->manual);
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

/* Fields of this version, or those that are only known by name. */
static void add_fields(struct buf *out, bool refused)
{
	for (size_t i = 0; i < n_policy_fields; i++) {
		if ((policy_fields[i].type == FIELD_REFUSED) == refused)
			add_field(out, &policy_fields[i]);
	}
}

int policy_write_manual(struct buf *out)
{
	buf_add_str(out, title);
	add_description(out);
	buf_add_str(out, ".SH FIELDS\n");
	add_fields(out, false);
	buf_add_str(out, ".SH FIELDS OF LATER VERSIONS\n");
	roff_text(out, later);
	add_fields(out, true);
	buf_add_str(out, ".SH TIERS\nThe least tier by data (rows), code and "
			 "impact (columns: low, medium, high):\n.PP\n.nf\n");
	add_tiers(out);
	buf_add_str(out, ".fi\n");
	return buf_add_str(out, example);
}

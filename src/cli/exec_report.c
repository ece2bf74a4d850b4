#include "cli/exec_report.h"

#include "base/cleanup.h"
#include "base/io.h"
#include "cli/report.h"
#include "schema/json.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCHEMA "pinfold-exec-1"

static const char *reason(const struct exec_report *r)
{
	const struct front_outcome *o = r->outcome;

	if (!o)
		return r->signal ? "stopped" : "refused";
	if (o->timed_out || o->done.limit[0])
		return "limit";
	if (!o->done_known)
		return "lost";
	if (o->done.status < 0)
		return "refused";
	return WIFSIGNALED(o->done.status) ? "signal" : "exit";
}

static void put_object(struct json_writer *w, const struct exec_report *r)
{
	const struct front_outcome *o = r->outcome;
	struct exec_done done = {0};

	if (o && o->done_known)
		done = o->done;
	json_object(w);
	json_key(w, "argv");
	json_array(w);
	for (size_t i = 0; r->argv[i]; i++)
		json_text(w, r->argv[i]);
	json_array_end(w);
	json_put_uint(w, "cpu_us", done.cpu_us);
	json_put_text(w, "error", r->error);
	json_put_int(w, "exit_status", r->status);
	done.limit[sizeof(done.limit) - 1] = '\0';
	json_put_text(w, "limit", o && o->timed_out ? "wall"
				  : done.limit[0]   ? done.limit
						    : NULL);
	json_put_uint(w, "output_bytes", done.output_bytes);
	json_put_string(w, "reason", reason(r));
	json_put_uint(w, "refusals", done.refusals);
	json_put_string(w, "schema", SCHEMA);
	json_put_int(w, "signal",
		     done.status >= 0 && WIFSIGNALED(done.status)
			     ? WTERMSIG(done.status)
			     : r->signal);
	json_put_text(w, "task", r->task);
	json_object_end(w);
}

int exec_report(const struct options *o, const struct exec_report *r)
{
	AUTO_REPORT struct report out = {0};
	struct json_writer w;
	int bad;

	if (!options_has(o, OPT_JSON))
		return r->status;
	bad = report_init(&out, o);
	if (bad != 0)
		return bad;
	if (!out.opened) {
		out.fd = STDERR_FILENO;
		/* The object is to be a line of its own. */
		if (r->outcome && r->outcome->open_line)
			buf_add_char(&out.out, '\n');
	}
	json_begin(&w, &out.out);
	put_object(&w, r);
	buf_add_char(&out.out, '\n');
	if (json_finish(&w) < 0)
		return report_refuse("the report is too large");
	bad = report_end(&out);
	return bad ? bad : r->status;
}

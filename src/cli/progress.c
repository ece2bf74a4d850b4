#include "cli/progress.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "base/time.h"
#include "task/front.h"

#include <stdlib.h>
#include <unistd.h>

/* What is done by then needs no word. */
#define FIRST_US 1000000u
#define EVERY_US 200000u

void progress_begin(struct progress *p, const char *what, uint64_t files)
{
	const char *term = getenv("TERM");

	*p = (struct progress){
		.what = what,
		.files = files,
		.on = isatty(STDERR_FILENO) && !(term && str_eq(term, "dumb")),
		.started_us = time_mono_us(),
	};
	p->next_us = p->started_us + FIRST_US;
}

int progress_step(void *arg, uint64_t files, uint64_t bytes)
{
	struct progress *p = arg;
	AUTO_BUF struct buf line = BUF_INIT(512);
	uint64_t now;

	if (front_signal())
		return 1;
	if (!p->on)
		return 0;
	now = time_mono_us();
	if (now < p->next_us)
		return 0;
	p->next_us = now + EVERY_US;
	buf_addf(&line, "\rpinfold: %s: %ju", p->what, (uintmax_t)files);
	if (p->files > 0)
		buf_addf(&line, " of %ju", (uintmax_t)p->files);
	buf_add_str(&line, " files, ");
	num_human_size(&line, bytes);
	buf_addf(&line, ", %ju s\033[K",
		 (uintmax_t)((now - p->started_us) / 1000000u));
	io_write_all(STDERR_FILENO, buf_str(&line), line.len);
	p->shown = true;
	return 0;
}

void progress_end(struct progress *p)
{
	static const char gone[] = "\r\033[K";

	if (p->shown)
		io_write_all(STDERR_FILENO, gone, sizeof(gone) - 1);
	p->shown = false;
}

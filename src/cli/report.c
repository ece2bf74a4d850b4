#include "cli/report.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/str.h"
#include "cli/colour.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUT_MAX (64u << 20)

void report_note(const char *text)
{
	AUTO_BUF struct buf line = BUF_INIT(2 * ERROR_TEXT_MAX);

	buf_addf(&line, "pinfold: %s\n", text);
	io_write_all(STDERR_FILENO, buf_str(&line), line.len);
}

int report_refuse(const char *text)
{
	report_note(text);
	return STATUS_REFUSED;
}

int report_may_ask(const char *doing, struct error *err)
{
	if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
		return 0;
	return error_set(err, -EINVAL,
			 "%s needs --yes where there is no terminal to ask on",
			 doing);
}

bool report_ask(const struct buf *question)
{
	char answer[8] = "";

	io_write_all(STDERR_FILENO, question->data, question->len);
	io_write_all(STDERR_FILENO, " [y/N] ", 7);
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

int report_init(struct report *r, const struct options *o)
{
	const char *path = options_get(o, OPT_JSON);
	struct error err;

	*r = (struct report){
		.out = BUF_INIT(OUT_MAX),
		.fd = STDOUT_FILENO,
		.json = options_has(o, OPT_JSON),
	};
	r->colour = !r->json && colour_wanted(STDOUT_FILENO);
	if (!path || !*path)
		return 0;
	r->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY,
		     0666);
	if (r->fd < 0) {
		AUTO_BUF struct buf quoted = BUF_INIT(4096);
		int saved = errno;

		str_quote(&quoted, path, 500);
		error_set(&err, -saved, "cannot write to %s: %s",
			  buf_str(&quoted), strerror(saved));
		return report_refuse(err.text);
	}
	r->opened = true;
	return 0;
}

void report_done(struct report *r)
{
	buf_done(&r->out);
	if (r->opened)
		close_fd(r->fd);
	r->opened = false;
}

static int write_out(struct report *r)
{
	if (r->failed == 0 && r->out.failed)
		r->failed = r->out.failed;
	if (r->failed == 0)
		r->failed = io_write_all(r->fd, buf_str(&r->out), r->out.len);
	buf_reset(&r->out);
	return r->failed;
}

int report_flush(struct report *r)
{
	return r->out.len < REPORT_PIECE ? r->failed : write_out(r);
}

int report_end(struct report *r)
{
	struct error err;

	if (write_out(r) == 0)
		return 0;
	error_set(&err, r->failed, "cannot write the report: %s",
		  strerror(-r->failed));
	return report_refuse(err.text);
}

int report_path(struct buf *out, const char *path)
{
	return str_quote_odd(out, path, SIZE_MAX);
}

void report_command(struct buf *out, const struct strlist *argv, size_t max)
{
	AUTO_BUF struct buf text = BUF_INIT(1u << 20);

	for (size_t i = 0; i < argv->n; i++) {
		const char *word = argv->items[i];

		if (i > 0)
			buf_add_char(&text, ' ');
		if (strchr(word, ' ') || !*word)
			str_quote(&text, word, strlen(word));
		else
			report_path(&text, word);
	}
	if (max == 0 || text.len <= max) {
		buf_add_str(out, buf_str(&text));
		return;
	}
	while (max > 0 && ((unsigned char)text.data[max] & 0xc0) == 0x80)
		max--;
	buf_add(out, text.data, max);
	buf_add_str(out, "...");
}

void report_files(struct buf *out, uint64_t n)
{
	buf_addf(out, ": %llu file%s", (unsigned long long)n,
		 n == 1 ? "" : "s");
}

void report_target(struct buf *out, const char *target, bool leaves)
{
	buf_add_str(out, " -> ");
	report_path(out, target);
	if (leaves)
		buf_add_str(out, "  leads out of the source");
}

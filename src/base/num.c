#include "base/num.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{"TiB", 1ull << 40}, {"GiB", 1ull << 30},    {"MiB", 1ull << 20},
	{"KiB", 1ull << 10}, {"TB", 1000000000000u}, {"GB", 1000000000u},
	{"MB", 1000000u},    {"kB", 1000u},          {"B", 1},
	{"", 1},
};

static const struct unit duration_units[] = {
	{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
};

/* Reads digits at *s; moves *s behind them. */
static int read_digits(const char **s, uint64_t *ret)
{
	uint64_t v = 0;

	if (**s < '0' || **s > '9')
		return -EINVAL;
	for (; **s >= '0' && **s <= '9'; (*s)++) {
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(**s - '0'), &v))
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

int num_parse_u64(const char *s, uint64_t *ret)
{
	uint64_t v;
	int r = read_digits(&s, &v);

	if (r < 0)
		return r;
	if (*s)
		return -EINVAL;
	*ret = v;
	return 0;
}

int num_parse_size(const char *s, uint64_t *ret)
{
	uint64_t v;
	int r = read_digits(&s, &v);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(size_units) / sizeof(*size_units); i++) {
		if (strcmp(s, size_units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(v, size_units[i].factor, &v))
			return -ERANGE;
		*ret = v;
		return 0;
	}
	return -EINVAL;
}

static const struct unit *duration_unit(const char *s, size_t len)
{
	for (size_t i = 0; i < sizeof(duration_units) / sizeof(*duration_units);
	     i++) {
		const struct unit *u = &duration_units[i];

		if (strlen(u->name) == len && !memcmp(u->name, s, len))
			return u;
	}
	return NULL;
}

int num_parse_duration(const char *s, uint64_t *ret_ms)
{
	uint64_t total = 0;

	if (!*s)
		return -EINVAL;
	while (*s) {
		const struct unit *u;
		uint64_t v;
		size_t n;
		int r = read_digits(&s, &v);

		if (r < 0)
			return r;
		n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
		u = duration_unit(s, n);
		if (!u)
			return -EINVAL;
		if (__builtin_mul_overflow(v, u->factor, &v) ||
		    __builtin_add_overflow(total, v, &total))
			return -ERANGE;
		s += n;
	}
	*ret_ms = total;
	return 0;
}

int num_parse_milli(const char *s, uint64_t *ret_milli)
{
	uint64_t v, scale = 100;
	int r = read_digits(&s, &v);

	if (r < 0)
		return r;
	if (__builtin_mul_overflow(v, 1000u, &v))
		return -ERANGE;
	if (*s == '.') {
		if (s[1] == '\0')
			return -EINVAL;
		for (s++; *s >= '0' && *s <= '9' && scale > 0; s++) {
			if (__builtin_add_overflow(
				    v, (uint64_t)(*s - '0') * scale, &v))
				return -ERANGE;
			scale /= 10;
		}
	}
	if (*s)
		return -EINVAL;
	*ret_milli = v;
	return 0;
}

int num_format_size(struct buf *b, uint64_t bytes)
{
	for (size_t i = 0; i < 4; i++) {
		uint64_t f = size_units[i].factor;

		if (bytes >= f && bytes % f == 0)
			return buf_addf(b, "%ju%s", (uintmax_t)(bytes / f),
					size_units[i].name);
	}
	return buf_addf(b, "%ju", (uintmax_t)bytes);
}

int num_format_duration(struct buf *b, uint64_t ms)
{
	for (size_t i = 4; i > 0; i--) {
		uint64_t f = duration_units[i].factor;

		if (ms >= f && ms % f == 0)
			return buf_addf(b, "%ju%s", (uintmax_t)(ms / f),
					duration_units[i].name);
	}
	return buf_addf(b, "%jums", (uintmax_t)ms);
}

int num_format_milli(struct buf *b, uint64_t milli)
{
	char text[32];
	size_t n;

	if (milli % 1000 == 0)
		return buf_addf(b, "%ju", (uintmax_t)(milli / 1000));
	n = (size_t)snprintf(text, sizeof(text), "%ju.%03ju",
			     (uintmax_t)(milli / 1000),
			     (uintmax_t)(milli % 1000));
	while (text[n - 1] == '0')
		n--;
	return buf_add(b, text, n);
}

int num_human_size(struct buf *b, uint64_t bytes)
{
	if (bytes < 1024)
		return buf_addf(b, "%ju bytes", (uintmax_t)bytes);
	for (size_t i = 0; i < 4; i++) {
		uint64_t f = size_units[i].factor;

		if (bytes < f)
			continue;
		return buf_addf(b, "%ju.%ju %s", (uintmax_t)(bytes / f),
				(uintmax_t)(bytes % f * 10 / f),
				size_units[i].name);
	}
	return 0;
}

int num_human_duration(struct buf *b, uint64_t us)
{
	uint64_t ms = us / 1000;

	if (ms < 1)
		return buf_addf(b, "%ju us", (uintmax_t)us);
	if (ms < 1000)
		return buf_addf(b, "%ju ms", (uintmax_t)ms);
	if (ms < 60000)
		return buf_addf(b, "%ju.%ju s", (uintmax_t)(ms / 1000),
				(uintmax_t)(ms % 1000 / 100));
	return buf_addf(b, "%ju min %ju s", (uintmax_t)(ms / 60000),
			(uintmax_t)(ms % 60000 / 1000));
}

/*
 * Every unit test is linked with --wrap for the allocating functions, so that
 * these stand between pinfold's objects and the C library.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_vasprintf(char **ret, const char *format, va_list args);
int __real___vasprintf_chk(char **ret, int flag, const char *format,
			   va_list args);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_vasprintf(char **ret, const char *format, va_list args);
int __wrap___vasprintf_chk(char **ret, int flag, const char *format,
			   va_list args);

static bool armed;
static bool failed;
static size_t countdown;

void heap_fail_at(size_t n)
{
	armed = true;
	failed = false;
	countdown = n;
}

bool heap_restore(void)
{
	armed = false;
	return failed;
}

static bool fails_now(void)
{
	if (!armed || failed)
		return false;
	if (countdown > 0) {
		countdown--;
		return false;
	}
	failed = true;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails_now() ? NULL : __real_realloc(p, size);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return fails_now() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
	return fails_now() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails_now() ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **ret, const char *format, va_list args)
{
	return fails_now() ? -1 : __real_vasprintf(ret, format, args);
}

/* What vasprintf is called under _FORTIFY_SOURCE. */
int __wrap___vasprintf_chk(char **ret, int flag, const char *format,
			   va_list args)
{
	return fails_now() ? -1
			   : __real___vasprintf_chk(ret, flag, format, args);
}

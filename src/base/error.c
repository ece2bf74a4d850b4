#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}

int error_errno(struct error *err, const char *format, ...)
{
	int saved = errno ? errno : EIO;
	size_t used;
	va_list args;

	if (!err)
		return -saved;
	err->code = -saved;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s",
		 strerror(saved));
	return -saved;
}

int error_prefix(struct error *err, const char *format, ...)
{
	char inner[ERROR_TEXT_MAX];
	size_t used;
	va_list args;

	if (!err)
		return -EIO;
	memcpy(inner, err->text, sizeof(inner));
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner);
	return err->code;
}

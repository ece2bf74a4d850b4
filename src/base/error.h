/*
 * The error object that travels up from where something failed. It has a fixed
 * size, is filled only on failure, and names the object that failed.
 */
#ifndef PINFOLD_BASE_ERROR_H
#define PINFOLD_BASE_ERROR_H

#include <stdarg.h>

#define ERROR_TEXT_MAX 1024

struct error {
	int code; /* negative errno; 0 when nothing failed */
	char text[ERROR_TEXT_MAX];
};

/*
 * Fills err (which may be NULL) and returns code, so that a function can end
 * with "return error_set(err, -EINVAL, ...)". A text that is too long is cut.
 */
int error_set(struct error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As error_set with -errno, and appends ": " and errno's text. */
int error_errno(struct error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Puts "format: " in front of the text that err already holds. */
int error_prefix(struct error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif

/*
 * What every unit test needs: cmocka with the headers it wants, and a heap
 * that fails on demand.
 */
#ifndef PINFOLD_TESTS_UNIT_H
#define PINFOLD_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 * The nth allocation from now (0: the next) that pinfold's code makes fails,
 * once. heap_restore ends this and tells whether it came to that. So
 *
 *	size_t n = 0;
 *	do {
 *		heap_fail_at(n++);
 *		r = thing_new(...);
 *		failed = heap_restore();
 *		... r is -ENOMEM if failed ...
 *	} while (failed);
 *
 * fails every allocation once.
 */
void heap_fail_at(size_t n);
bool heap_restore(void);

#endif

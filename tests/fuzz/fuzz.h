/* What a harness gives: libFuzzer's entry, called by tests/fuzz/replay.c too. */
#ifndef PINFOLD_TESTS_FUZZ_H
#define PINFOLD_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Returns 0; whatever must not happen aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

/* SHA-256 (FIPS 180-4), for digests in programs that link the C library alone. */
#ifndef PINFOLD_BASE_SHA256_H
#define PINFOLD_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_HEX_SIZE 65

struct sha256 {
	uint32_t state[8];
	uint64_t len;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_done(struct sha256 *s, uint8_t digest[SHA256_SIZE]);
/* Digest of data as 64 lower-case hexadecimal digits and a NUL. */
void sha256_hex(const void *data, size_t len, char hex[SHA256_HEX_SIZE]);

#endif

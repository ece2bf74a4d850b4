/*
 * FIPS 180-4's own examples, and lengths around the block's boundaries whose
 * digests come from another implementation.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

static void the_examples_of_the_standard_are_met(void **state)
{
	static const struct {
		const char *text, *hex;
	} examples[] = {
		{"",
		 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc",
		 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		{"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		 "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		 "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
	};
	char hex[SHA256_HEX_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		sha256_hex(examples[i].text, strlen(examples[i].text), hex);
		assert_string_equal(hex, examples[i].hex);
	}
}

static void a_million_letters_have_the_known_digest(void **state)
{
	uint8_t digest[SHA256_SIZE];
	struct sha256 s;
	char part[1000];

	(void)state;
	memset(part, 'a', sizeof(part));
	sha256_init(&s);
	for (int i = 0; i < 1000; i++)
		sha256_add(&s, part, sizeof(part));
	sha256_done(&s, digest);
	assert_memory_equal(digest, "\xcd\xc7\x6e\x5c\x99\x14\xfb\x92\x81\xa1"
			    "\xc7\xe2\x84\xd7\x3e\x67\xf1\x80\x9a\x48\xa4\x97"
			    "\x20\x0e\x04\x6d\x39\xcc\xc7\x11\x2c\xd0", 32);
}

/* Byte i of the message is i modulo 251. */
static const struct {
	size_t len;
	const char *hex;
} boundaries[] = {
	{55, "463eb28e72f82e0a96c0a4cc53690c571281131f672aa229e0d45ae59b598b59"},
	{56, "da2ae4d6b36748f2a318f23e7ab1dfdf45acdc9d049bd80e59de82a60895f562"},
	{57, "2fe741af801cc238602ac0ec6a7b0c3a8a87c7fc7d7f02a3fe03d1c12eac4d8f"},
	{63, "29af2686fd53374a36b0846694cc342177e428d1647515f078784d69cdb9e488"},
	{64, "fdeab9acf3710362bd2658cdc9a29e8f9c757fcf9811603a8c447cd1d9151108"},
	{65, "4bfd2c8b6f1eec7a2afeb48b934ee4b2694182027e6d0fc075074f2fabb31781"},
	{119, "da18797ed7c3a777f0847f429724a2d8cd5138e6ed2895c3fa1a6d39d18f7ec6"},
	{120, "f52b23db1fbb6ded89ef42a23ce0c8922c45f25c50b568a93bf1c075420bbb7c"},
	{127, "92ca0fa6651ee2f97b884b7246a562fa71250fedefe5ebf270d31c546bfea976"},
	{128, "471fb943aa23c511f6f72f8d1652d9c880cfa392ad80503120547703e56a2be5"},
	{1000, "4e4c294b331f7a2099a379bec34b9f9fc03dc46ab465d998f4d683da53487e6d"},
};

static void lengths_around_a_block_are_padded_rightly(void **state)
{
	uint8_t message[1000];
	char hex[SHA256_HEX_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)(i % 251);
	for (size_t i = 0; i < ARRAY_SIZE(boundaries); i++) {
		sha256_hex(message, boundaries[i].len, hex);
		assert_string_equal(hex, boundaries[i].hex);
	}
}

static void pieces_give_the_digest_of_the_whole(void **state)
{
	uint8_t message[200], whole[SHA256_SIZE], pieces[SHA256_SIZE];
	struct sha256 s;

	(void)state;
	memset(message, 'x', sizeof(message));
	sha256_init(&s);
	sha256_add(&s, message, sizeof(message));
	sha256_done(&s, whole);
	for (size_t cut = 0; cut <= sizeof(message); cut++) {
		sha256_init(&s);
		sha256_add(&s, message, cut);
		sha256_add(&s, message + cut, sizeof(message) - cut);
		sha256_done(&s, pieces);
		assert_memory_equal(pieces, whole, SHA256_SIZE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_examples_of_the_standard_are_met),
		cmocka_unit_test(a_million_letters_have_the_known_digest),
		cmocka_unit_test(lengths_around_a_block_are_padded_rightly),
		cmocka_unit_test(pieces_give_the_digest_of_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

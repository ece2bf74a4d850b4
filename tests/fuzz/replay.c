/*
 * Runs a harness without a fuzzer: over each file of its corpus, over each
 * beginning of it, and over copies in which bytes were changed. The changes
 * are the same every time.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#define INPUT_MAX (1u << 20)
/* Beginnings and changed copies of one file: at most so many of each. */
#define VARIANTS 400

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* A copy of its own, so that a sanitizer sees a read beyond the end. */
static void run_copy(const char *data, size_t len)
{
	AUTO_FREE uint8_t *copy = malloc(len > 0 ? len : 1);

	if (!copy)
		abort();
	memcpy(copy, data, len);
	LLVMFuzzerTestOneInput(copy, len);
}

static size_t run_variants(struct buf *input)
{
	size_t step = input->len / VARIANTS + 1;
	uint64_t random = input->len;
	size_t n = 0;

	for (size_t len = 0; len <= input->len; len += step, n++)
		run_copy(buf_str(input), len);
	for (size_t i = 0; i < VARIANTS && input->len > 0; i++, n++) {
		size_t at = next_random(&random) % input->len;
		char saved = input->data[at];

		input->data[at] = (char)next_random(&random);
		run_copy(input->data, input->len);
		/* Every other change stays for the next ones. */
		if (i % 2)
			input->data[at] = saved;
	}
	return n;
}

int main(void)
{
	const char *top = getenv("PINFOLD_TOP");
	AUTO_DIR DIR *dir = NULL;
	size_t files = 0, variants = 0;
	struct dirent *entry;
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s",
		 top ? top : ".", HARNESS);
	dir = opendir(path);
	if (!dir) {
		printf("not ok - the %s corpus is there: no %s\n", HARNESS,
		       path);
		return 1;
	}
	while ((entry = readdir(dir))) {
		AUTO_BUF struct buf input = BUF_INIT(INPUT_MAX);

		if (entry->d_name[0] == '.')
			continue;
		if (io_read_file(dirfd(dir), entry->d_name, &input) < 0) {
			printf("not ok - %s can be read\n", entry->d_name);
			return 1;
		}
		run_copy(buf_str(&input), input.len);
		variants += run_variants(&input);
		files++;
	}
	printf("%s - the %s harness holds for %zu files and %zu variants\n",
	       files > 0 ? "ok" : "not ok", HARNESS, files, variants);
	return files == 0;
}

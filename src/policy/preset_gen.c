/*
 * Writes the presets of profiles/ as a C table, when pinfold is built: nothing
 * of them is needed as a file at run time. Arguments: the YAML files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int write_file(const char *path)
{
	FILE *file = fopen(path, "re");
	int c;

	if (!file) {
		perror(path);
		return -1;
	}
	while ((c = fgetc(file)) != EOF) {
		if (c == '\n')
			fputs("\\n\"\n\t \"", stdout);
		else if (c == '"' || c == '\\' || c < 0x20 || c > 0x7e)
			printf("\\%03o", (unsigned)c);
		else
			putchar(c);
	}
	c = ferror(file);
	fclose(file);
	return c ? -1 : 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *slash = strrchr(argv[i], '/');
		const char *name = slash ? slash + 1 : argv[i];

		printf("\t{\"%.*s\",\n\t \"", (int)strcspn(name, "."), name);
		if (write_file(argv[i]) < 0)
			return EXIT_FAILURE;
		puts("\"},");
	}
	return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

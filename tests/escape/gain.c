/*
 * The program that carries set-uid bits and capabilities in the devices attacks:
 * it exits with 0 when it has more rights than the uid that started it
 * (argument before=UID), and with 1 when it has not.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int has_capability(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	int found = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "CapEff:", 7) || !strncmp(line, "CapPrm:", 7))
			found |= strtoull(line + 7, NULL, 16) != 0;
	if (file)
		fclose(file);
	return found;
}

int main(int argc, char **argv)
{
	long before = argc > 1 ? strtol(argv[1] + 7, NULL, 10) : -1;
	int gained = geteuid() != getuid() || getegid() != getgid();

	gained |= has_capability();
	gained |= (long)getuid() != before;
	gained |= open("/etc/shadow", O_RDONLY | O_CLOEXEC) >= 0;
	return gained ? 0 : 1;
}

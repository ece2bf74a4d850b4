#include "cli/launch.h"
#include "cli/option.h"

#include <fcntl.h>
#include <unistd.h>

/* A caller may have closed its streams: nothing of ours takes their place. */
static void fill_streams(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
			_exit(EXIT_REFUSED);
	}
}

int main(int argc, char **argv)
{
	struct options o;
	struct error err = {0};
	int status;

	fill_streams();
	if (options_parse(argc, argv, &o, &err) < 0)
		return launch_refuse(&err);
	status = options_dispatch(&o);
	options_done(&o);
	return status;
}

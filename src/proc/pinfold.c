#include "cli/launch.h"
#include "cli/option.h"

int main(int argc, char **argv)
{
	struct options o;
	struct error err = {0};
	int status;

	if (options_parse(argc, argv, &o, &err) < 0)
		return launch_refuse(&err);
	status = options_dispatch(&o);
	options_done(&o);
	return status;
}

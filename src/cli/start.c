#include "base/cleanup.h"
#include "cli/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int verb_start(const struct options *o)
{
	struct error err = {0};
	struct launch l;
	int r, status = 0;

	front_catch_signals();
	launch_init(&l);
	r = launch_start(&l, o, true, &err);
	if (r == 0)
		r = front_wait_ready(&l.front, &err);
	if (front_signal()) {
		launch_abandon(&l);
		status = 128 + front_signal();
	} else if (r < 0) {
		launch_abandon(&l);
		status = launch_refuse(&err);
	} else {
		launch_say_hidden(&l);
		launch_say_mounts(&l);
		launch_say_git_link(&l);
		/* It is nobody's child from here on. */
		l.front.keeper = 0;
		if (options_has(o, OPT_JSON))
			printf("{\"id\":\"%s\",\"schema\":\"pinfold-start-1\"}"
			       "\n", l.id);
		else
			printf("%s\n", l.id);
	}
	launch_done(&l);
	return status;
}
